-- vector_search.lua - the texts whose vectors are nearest to those of questions: exact, a block of vectors at a time.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local tensor = require("seqrun.tensor")

local search = {}

local BLOCK = 16 << 20 -- bytes of vectors in memory
local HEADER_MOST = 1 << 20

---@class seqrun.VectorSource
---@field path string
---@field metadata table<string, string>
---@field count integer vectors
---@field size integer numbers of a vector
---@field unit boolean the vectors have length 1

local Source = {}
Source.__index = Source

---Opens a file of `seqrun encode --out`; fails if it is none, or an older one without texts.
---@param path string
---@return seqrun.VectorSource
function search.open(path)
  local file, message = io.open(path, "rb")
  if not file then failure.raise("missing", "%s", message) end
  local self = setmetatable({ path = path, file = file }, Source)
  local length = file:read(8)
  length = length and #length == 8 and string.unpack("<I8", length) or 0
  local header = length > 0 and length <= HEADER_MOST and json.decode(file:read(length) or "")
  local found = type(header) == "table" and header or {}
  if not found.embeddings or not found.offsets or not found.texts then
    failure.raise("data", "%s: no vectors with their texts; `seqrun encode MODEL TEXTS --out VECTORS.safetensors` "
      .. "writes them", path)
  end
  self.metadata, self.base = found.__metadata__ or {}, 8 + length
  self.count, self.size = found.embeddings.shape[1], found.embeddings.shape[2]
  self.unit = self.metadata.normalised == "true"
  self.vectors, self.places, self.texts = found.embeddings.data_offsets[1], found.offsets.data_offsets[1],
    found.texts.data_offsets[1]
  return self
end

local function read(self, at, bytes)
  local good, message = self.file:seek("set", self.base + at)
  local data = good and self.file:read(bytes) or bytes == 0 and "" or nil
  if not data or #data < bytes then
    failure.raise("storage", "%s: cannot be read: %s", self.path, message or "it is shorter than its header says")
  end
  return data
end

---The text of vector `i`, from 0.
function Source:text(i)
  local first, last = string.unpack("<i8i8", read(self, self.places + 8 * i, 16))
  return read(self, self.texts + first, last - first)
end

---Blocks of vectors (n, H) f32 and the number of vectors before.
function Source:blocks()
  local rows, at = math.max(1, BLOCK // (4 * self.size)), 0
  return function()
    local n = math.min(rows, self.count - at)
    if n <= 0 then return nil end
    local bytes = read(self, self.vectors + 4 * self.size * at, 4 * self.size * n)
    at = at + n
    return tensor.from_string(bytes, { n, self.size }, "f32"), at - n
  end
end

function Source:close() self.file:close() end
Source.__close = Source.close

---Vectors of length 1, of their first `count` numbers.
local function unit(x, count)
  if count < x:size(2) then x = x:narrow(2, 1, count):contiguous() end
  return x / x:square():sum(2, true):sqrt():maximum(1e-12)
end

---Keeps the best of a list, which stays sorted.
local function insert(list, found, top)
  local place = #list + 1
  while place > 1 and list[place - 1].score < found.score do place = place - 1 end
  table.insert(list, place, found)
  list[top + 1] = nil
end

---The texts nearest to each question by cosine; of vectors that were cut the first numbers of the questions' count.
---@param sources seqrun.VectorSource[]
---@param questions number[][] vectors
---@param t { top: integer, dimensions?: integer }
---@return { score: number, source: seqrun.VectorSource, row: integer }[][] # the best first; row from 0
function search.nearest(sources, questions, t)
  local best = {}
  for q in ipairs(questions) do best[q] = {} end
  for _, source in ipairs(sources) do
    local count = math.min(t.dimensions or source.size, source.size)
    for block, before in source:blocks() do
      local scope <close> = tensor.scope()
      local asked = unit(tensor.tensor(questions), count):transpose(1, 2):contiguous()
      if not source.unit or count < source.size then block = unit(block, count) end
      local cosines = block:matmul(asked):transpose(1, 2):contiguous()
      local values, rows = cosines:topk(math.min(t.top, block:size(1)), 2)
      values, rows = values:totable(), rows:totable()
      for q, list in ipairs(best) do
        for k, score in ipairs(values[q]) do
          insert(list, { score = score, source = source, row = before + rows[q][k] }, t.top)
        end
      end
    end
  end
  return best
end

return search
