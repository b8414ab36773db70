-- vector_file.lua - vectors written one by one to a safetensors file, as the tensor `embeddings` of (N, H), with their
-- texts: `texts`, the bytes of all, and `offsets`, where each begins; and with digests of the texts.
--
-- The number of vectors is known only at the end: the header has a fixed size and is written last.  The file appears
-- under its name when it is whole.

local draft = require("seqrun.base.draft")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local text_order = require("seqrun.data.text_order")

local VectorFile = {}
VectorFile.__index = VectorFile

local HEADER = 1016 -- bytes, with 8 before it
local PIECE = 1 << 20

local function discard(self)
  for _, name in ipairs { "file", "texts" } do
    if self[name] then self[name]:close() end
    self[name] = nil
  end
  os.remove(self.temporary)
  os.remove(self.temporary .. ".texts")
end

local function fail(self, message)
  discard(self)
  return nil, ("%s: %s"):format(self.path, message), "storage"
end

---@param path string
---@param size integer H
---@param facts? table<string, string> kept in the metadata, see vector_file.facts
---@return table? file
---@return string? message
---@return string? code
local function open(path, size, facts)
  local writable, message, code = sys.check_writable(path)
  if not writable then return nil, message, code end
  local self = setmetatable({ path = path, temporary = draft(path), size = size, count = 0, facts = facts or {},
    offsets = {}, bytes = 0, order = text_order() }, VectorFile)
  self.file, message = io.open(self.temporary, "wb")
  if self.file then self.texts, message = io.open(self.temporary .. ".texts", "w+b") end
  local good = self.texts ~= nil
  if good then good, message = self.file:write((" "):rep(8 + HEADER)) end
  if not good then return fail(self, message) end
  return self
end

---Appends the vector of a text, as bytes of little-endian f32.
function VectorFile:add(bytes, text)
  local good, message = self.file:write(bytes)
  if good then good, message = self.texts:write(text) end
  if not good then return fail(self, message) end
  self.count = self.count + 1
  self.offsets[self.count], self.bytes = self.bytes, self.bytes + #text
  self.order:add(text)
  return true
end

---Appends the offsets and the texts to the vectors.
local function append_texts(self)
  self.offsets[self.count + 1] = self.bytes
  for first = 1, self.count + 1, 128 do
    local some = table.move(self.offsets, first, math.min(first + 127, self.count + 1), 1, {})
    local good, message = self.file:write(string.pack(("<" .. ("i8"):rep(#some)), table.unpack(some)))
    if not good then return nil, message end
  end
  local good, message = self.texts:seek("set", 0)
  for _ = 1, good and (self.bytes + PIECE - 1) // PIECE or 0 do
    local piece
    piece, message = self.texts:read(PIECE)
    good = piece
    if good then good, message = self.file:write(piece) end
    if not good then break end
  end
  return good, message
end

local function header_of(self)
  local vectors = 4 * self.count * self.size
  local places = vectors + 8 * (self.count + 1)
  local metadata = self.order:digests()
  for key, value in pairs(self.facts) do metadata[key] = value end
  return json.encode {
    __metadata__ = metadata,
    embeddings = { dtype = "F32", shape = { self.count, self.size }, data_offsets = { 0, vectors } },
    offsets = { dtype = "I64", shape = { self.count + 1 }, data_offsets = { vectors, places } },
    texts = { dtype = "U8", shape = { self.bytes }, data_offsets = { places, places + self.bytes } },
  }
end

---Writes the header and gives the file its name.
function VectorFile:commit()
  local header = header_of(self)
  if #header > HEADER then return fail(self, "the prompt is too long to be kept") end
  local file = self.file
  local good, message = append_texts(self)
  if good then good, message = file:seek("set", 0) end
  if good then good, message = file:write(string.pack("<I8", HEADER), header, (" "):rep(HEADER - #header)) end
  if not good then return fail(self, message) end
  self.file = nil -- closed, even if that fails
  good, message = file:close()
  if not good then message = ("%s: %s"):format(self.path, message) else
    good, message = os.rename(self.temporary, self.path)
  end
  discard(self)
  if good then return true end
  return nil, message, "storage"
end

---Removes what is not committed.
function VectorFile:close()
  if self.file then discard(self) end
end

VectorFile.__close = VectorFile.close

---What identifies the vectors of a model: its weights, and how a vector is made of its states.
---@param folder string of the model
---@param options { pool: string, normalise: boolean, prompt?: string }
---@return table<string, string>
local function facts_of(folder, options)
  local hashes = {}
  for i, path in ipairs(require("seqrun.checkpoint.model").files(folder)) do
    hashes[i] = failure.must(sys.hash_file(path))
  end
  return {
    model = sys.hash(table.concat(hashes, " ")), pool = options.pool, normalised = tostring(options.normalise == true),
    prompt = options.prompt or "",
  }
end

return { open = open, facts = facts_of }
