-- moments.lua - the optimizer's moments, and the average of the weights, in one file or split over several.
--
-- A file trainer/optim*.safetensors has whole tensors ("m.NAME", "v.NAME", "average.NAME") or pieces of them
-- ("m.NAME[first:last]": elements from 0, `last` excluded).  An optimizer loads what it owns from
-- any set of files that has it, however they were cut.  Of a sharded optimizer each rank writes
-- optim-rankR-of-N.safetensors.

local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local train = require("seqrun.core.train")

local moments = {}

---The first file that a rank has written and that is not among these; nil if none is missing.
local function lost_rank(path, files)
  local found, count = {}, 0
  for _, file in ipairs(files) do
    local rank, ranks = file:match("/optim%-rank(%d+)%-of%-(%d+)%.safetensors$")
    if rank then found[tonumber(rank)], count = true, tonumber(ranks) end
  end
  for rank = 0, count - 1 do
    local name = ("optim-rank%d-of-%d.safetensors"):format(rank, count)
    if not found[rank] then
      return ("%s: trainer/%s is missing: the moments of rank %d of %d"):format(path, name, rank, count)
    end
  end
end

local function moment_files(path, names)
  local files = {}
  for _, name in ipairs(names) do
    if name:find("^optim.*%.safetensors$") then files[#files + 1] = path .. "/trainer/" .. name end
  end
  table.sort(files)
  return files
end

---The files of a checkpoint that hold moments, sorted.
local function files_of(path)
  local names, message, code = sys.list(path .. "/trainer")
  if not names then return nil, message, code end
  local files = moment_files(path, names)
  if #files == 0 then return nil, ("%s: has no trainer/optim.safetensors"):format(path), "data" end
  local lost = lost_rank(path, files)
  if lost then return nil, lost, "data" end
  return files
end

---Name of the moments and range of an entry; nil when its size does not agree with its name.
local function range_of(entry)
  local name, first, last = entry.name:match("^(.*)%[(%d+):(%d+)%]$")
  if not name then return entry.name, 0, entry.count, true end
  first, last = math.tointeger(first), math.tointeger(last)
  if last - first ~= entry.count then return nil end
  return name, first, last, false
end

---Copies elements [from, upto) of the moments into a piece; the entry holds [first, last).
local function copy(file, entry, first, last, piece, from, upto)
  local function part(of, start) return of:narrow(1, from - start + 1, upto - from) end
  if from == first and upto == last then return file:read_into(part(piece.tensor, piece.first), entry.name) end
  local whole = tensor.zeros(entry.count, { device = piece.tensor:device(), dtype = piece.tensor:dtype() })
  local ok, message, code = file:read_into(whole, entry.name)
  if not ok then return nil, message, code end
  part(piece.tensor, piece.first):copy_(part(whole, first))
  return true
end

---Loads the parts of the pieces that one file has.
local function load_file(path, pieces)
  local file, message, code = train.safetensors(path)
  if not file then return nil, message, code end
  local guard <close> = file
  local scope <close> = tensor.scope()
  for _, entry in ipairs(file:entries()) do
    local name, first, last, whole = range_of(entry)
    local piece = pieces[name]
    local more = piece and piece.longer and entry.count > piece.size
    if not name or piece and whole and entry.count ~= piece.size and not more then
      return nil, ("%s: '%s' has %d elements, which does not fit this model"):format(path, entry.name, entry.count),
        "data"
    end
    local from, upto = piece and math.max(first, piece.first), piece and math.min(last, piece.last)
    if piece and from < upto then
      local ok
      ok, message, code = copy(file, entry, first, last, piece, from, upto)
      if not ok then return nil, message, code end
      piece.found[#piece.found + 1] = { from, upto }
    end
  end
  return true
end

---The first element of a piece that is missing or duplicated; nil if each was found once.
local function gap_of(piece)
  table.sort(piece.found, function(a, b) return a[1] < b[1] end)
  local at = piece.first
  for _, range in ipairs(piece.found) do
    if range[1] ~= at then return math.min(at, range[1]) end
    at = range[2]
  end
  return at < piece.last and at or nil
end

---Fills pieces from the files of a checkpoint.
---@param path string
---@param list seqrun.MomentPiece[]
---@param optional? boolean pieces of which the checkpoint has nothing are left as they are
---@return table<string, seqrun.MomentPiece>|nil # by name, with what was `found`
---@return string? message
---@return string? code
local function fill(path, list, optional)
  local files, message, code = files_of(path)
  if not files then return nil, message, code end
  local pieces = {}
  for _, piece in ipairs(list) do
    piece.found = {}
    pieces[piece.name] = piece
  end
  for _, file in ipairs(files) do
    local ok
    ok, message, code = load_file(file, pieces)
    if not ok then return nil, message, code end
  end
  for name, piece in pairs(pieces) do
    local gap = not (optional and #piece.found == 0) and gap_of(piece)
    if gap then
      return nil, ("%s: element %d of '%s' is missing or duplicated; all files of the optimizer are needed"):format(
        path, gap, name), "data"
    end
  end
  return pieces
end

---Fills the moments that an optimizer owns from a checkpoint, all of them, or returns an error.
---@param path string the checkpoint
---@param opt seqrun.Optimizer
---@param averaged boolean its average as well
---@return true|nil
---@return string? message
---@return string? code
function moments.load(path, opt, averaged)
  local pieces, message, code = fill(path, opt:pieces(averaged))
  if not pieces then return nil, message, code end
  return true
end

---Replaces weights by their average.
---@param path string the checkpoint
---@param weights table<string, { tensor: seqrun.Tensor, longer?: boolean }> by the name that the checkpoint has for
---  them; longer: the checkpoint may have more rows.  What was frozen has no average, and is left as it is
---@return true|nil
---@return string? message
---@return string? code
function moments.load_average(path, weights)
  local list, none = {}, ("%s: has no moving average of the weights: it is not a checkpoint of a run with "
    .. "optimizer.average, or averaging had not begun (optimizer.average_from)"):format(path)
  for name, weight in pairs(weights) do
    local size = weight.tensor:numel()
    list[#list + 1] = {
      name = "average." .. name, tensor = weight.tensor:view { size }, first = 0, last = size, size = size,
      longer = weight.longer,
    }
  end
  local names, why, kind = sys.list(path .. "/trainer")
  if not names and kind ~= "missing" then return nil, why, kind end
  if #moment_files(path, names or {}) == 0 then return nil, none, "data" end
  local pieces, message, code = fill(path, list, true)
  if not pieces then return nil, message, code end
  for _, piece in pairs(pieces) do
    if #piece.found > 0 then return true end
  end
  return nil, none, "data"
end

return moments
