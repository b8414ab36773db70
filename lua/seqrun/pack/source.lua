-- source.lua - from what can be packed to the histogram of its lengths.
--
-- A source is a list of lengths, a data set (anything with :lengths()), a histogram, or the path of a .hist file
-- or a data set.

local check = require("seqrun.base.check")
local core = require("seqrun.core.pack")
local hook = require("seqrun.base.hook")
local sys = require("seqrun.core.sys")

---@type fun(path: string): table?, string?, string?
local open_data_set = hook "open_data_set"

local sources = {}

local function is_histogram(source)
  return type(source) == "userdata" and (getmetatable(source) or {}).__name == "seqrun.core.Histogram"
end

local function needs_max_len(max_len)
  if not max_len then check.fail("pack: option 'max_len' is missing: the number of tokens in a pack") end
  return max_len
end

local function from_lengths(lengths, options)
  return core.count(lengths, needs_max_len(options.max_len), options.too_long)
end

local function from_dataset(dataset, options)
  local max_len = needs_max_len(options.max_len)
  local lengths, message, code = dataset:lengths(options.part or "train", options.epoch or 0, max_len,
    options.nsp ~= nil and { nsp = options.nsp } or nil)
  if not lengths then return nil, message, code end
  return from_lengths(lengths, options)
end

local function from_path(path, options)
  if path:find("%.sqr$") or sys.exists(path .. "/data.sqr") then
    local dataset, message, code = open_data_set(path)
    if not dataset then return nil, message, code end
    return from_dataset(dataset, options)
  end
  return core.load_histogram(path, options.max_len, options.too_long)
end

---The histogram of a source.
---@param source any a list of lengths, a data set, a histogram, or a path
---@param options? seqrun.PackSourceOptions
---@return seqrun.core.pack.pack_histogram? histogram
---@return string? message
---@return string? code
function sources.lengths(source, options)
  options = options or {}
  if type(source) == "string" then return from_path(source, options) end
  if is_histogram(source) then
    if not options.max_len then return source end
    return source:fit(options.max_len, options.too_long)
  end
  if type(source) == "table" and source.lengths then return from_dataset(source, options) end
  if type(source) == "table" then return from_lengths(source, options) end
  check.fail("pack: cannot pack a %s; give a list of lengths, a data set, a histogram or a path", type(source))
end

---A histogram from counts: counts[l] sequences of l tokens.
---@param counts integer[]
---@param max_len? integer the number of counts when nil
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.pack_histogram? histogram
---@return string? message
---@return string? code
function sources.histogram(counts, max_len, too_long) return core.histogram(counts, max_len or #counts, too_long) end

---The pieces that too_long = "split" cuts these lengths into: a list of examples for Plan:packing().
---@param lengths integer[]
---@param max_len integer
---@return integer[]? pieces their lengths
---@return integer[]|string uids of the sequences that they are from
---@return integer[]|string starts the first token of each, from 0
function sources.split(lengths, max_len) return core.split(lengths, max_len) end

return sources
