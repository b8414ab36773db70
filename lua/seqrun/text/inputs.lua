-- inputs.lua - what files of text are: text, records of JSONL, or token ids of other programs.
--
-- Directories and patterns are taken apart here, so that a file that is none of these is refused before any work.

local condition = require("seqrun.base.condition")
local failure = require("seqrun.base.failure")
local packed = require("seqrun.base.packed")
local sys = require("seqrun.core.sys")
local text = require("seqrun.core.text")

local TABLES = { json = true, csv = true, tsv = true, parquet = true }
local RECORDS = { jsonl = true, ndjson = true }
local IDS = { idx = true, bin = true }
local HDF5 = { h5 = true, hdf5 = true }

---The ending of a file's name, without that of its compression.
local function ending_of(path)
  return packed.bare(path):lower():match("%.(%w+)$") or ""
end

---@class seqrun.PrepareInputs
---@field files string[] in the order in which they are read
---@field kind "text"|"ids" text: of JSONL too; ids: Megatron's indexed sets
---@field records boolean some of the files are of JSONL

local inputs = {}

local function refuse_table(path, given)
  local inside = sys.is_dir(given) and "move it out of the directory of texts, " or ""
  failure.raise("config", "%s: a table of records, not text; %sextract its texts into a file with a blank line after "
    .. "each document or a .jsonl with a text in each line, or fine-tune on it with recipes/finetune.lua "
    .. "data.train=%s", path, inside, path)
end

---Adds the files of one input; all of a kind, but for text and JSONL.
local function add(found, given)
  given = given:gsub("(.)/+$", "%1")
  if TABLES[ending_of(given)] then refuse_table(given, given) end
  for _, path in ipairs((failure.must(text.files(given)))) do
    local ending = ending_of(path)
    if TABLES[ending] then refuse_table(path, given) end
    if HDF5[ending] then
      failure.raise("config", "%s: HDF5 is not supported; docs/reference/formats.md shows how h5py and sr.data.write "
        .. "make a data set of it", path)
    end
    local kind = IDS[ending] and "ids" or "text"
    found.records = found.records or RECORDS[ending] or false
    if found.kind and found.kind ~= kind then
      failure.raise("config", "%s and %s: token ids and text cannot be mixed; prepare them separately, each with its "
        .. "own out", found.files[#found.files], path)
    end
    found.kind = kind
    found.files[#found.files + 1] = path
  end
end

---Fails for a file listed twice: by name, through a directory, a pattern or a link.
local function check_once(files)
  local seen = {}
  for _, path in ipairs(files) do
    local real = sys.real_path(path) or path
    if seen[real] == path then failure.raise("config", "%s is listed twice; list it once", path) end
    if seen[real] then failure.raise("config", "%s and %s are the same file; leave one out", seen[real], path) end
    seen[real] = path
  end
end

---Takes the inputs apart; raises a failure, as the functions below.
---@param given string[] files, directories, patterns, "-"
---@return seqrun.PrepareInputs
function inputs.find(given)
  local found = { files = {}, records = false }
  for _, path in ipairs(given) do add(found, path) end
  check_once(found.files)
  return found
end

---How records are read, for the core; nil if none of the inputs has any.
---@param found seqrun.PrepareInputs
---@param options { format?: string, where?: string, columns?: { text?: string }, document_start?: string }
---@param what string that messages begin with
---@return table|nil records
function inputs.records(found, options, what)
  local all = options.format == "jsonl"
  if not all and not found.records then
    if not options.where then return nil end
    failure.raise("config", "%s: where chooses among records, but no input is a .jsonl; leave it out%s", what,
      what == "prepare" and ", or set text.format=jsonl" or ", or name the file .jsonl")
  end
  if options.document_start then
    failure.raise("config", "%s: a record of JSONL is a document; leave out text.document_start", what)
  end
  local where = options.where and condition.parse(options.where, "where") or nil
  return { field = (options.columns or {}).text or "text", where = where, all = all }
end

---How the records among some files are read, for what reads text alone.
---@param given string|string[] files, directories, patterns, "-"
---@param options { where?: string, columns?: { text?: string } }
---@param what string that messages begin with
---@return table|nil records nil: none of the files has any
function inputs.texts(given, options, what)
  local found = inputs.find(type(given) == "table" and given or { given })
  if found.kind ~= "text" then
    failure.raise("config", "%s: %s has token ids, not text", what, found.files[1])
  end
  return inputs.records(found, options, what)
end

return inputs
