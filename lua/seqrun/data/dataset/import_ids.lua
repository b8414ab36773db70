-- import_ids.lua - token ids to a data set: Megatron's indexed sets.

local commas = require("seqrun.base.format").commas
local core = require("seqrun.core.data")
local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local packed = require("seqrun.base.packed")
local replace = require("seqrun.data.dataset.replace")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")

---Options that are about text.
local TEXT = { "document_start", "where", "columns" }

local must = failure.must

---Why ids cannot be read with these options; nil if they can.
local function problem_of(options, found)
  local first = found.files[1]
  for _, path in ipairs(found.files) do
    if packed.bare(path) ~= path then
      return ("%s: Megatron's indexed sets are read as they are; decompress it"):format(path)
    end
  end
  if type(options.vocab) == "table" and getmetatable(options.vocab) == nil then
    return ("%s: token ids need the vocabulary that they were made with; give it (vocab.file=FILE)"):format(first)
  end
  for _, key in ipairs(TEXT) do
    if options[key] and not (key == "columns" and options.columns.text == "text") then
      return ("%s has token ids, not text; leave out %s"):format(first, key)
    end
  end
  if sys.exists(options.out) and not options.overwrite then
    return ("%s exists; choose another file with out=, or replace it with overwrite=true"):format(options.out)
  end
end

---The indexes among the files of indexed sets: each has a .bin beside it.
local function indexes(files)
  local list, seen = {}, {}
  for _, path in ipairs(files) do
    local index = path:gsub("%.%w+$", ".idx")
    if not seen[index] then
      seen[index], list[#list + 1] = true, index
    end
  end
  return list
end

---Writes the file.
local function write(options, found, tokenizer, source)
  local writer <close> = must(core.writer(options.out))
  local began = sys.now()
  local counts = must(writer:import(indexes(found.files), tokenizer))
  must(writer:meta("kind", "text"))
  must(writer:tokenizer(tokenizer))
  must(writer:meta("source", source))
  must(writer:commit())
  counts.seconds = sys.now() - began
  return counts
end

local function report(options, counts)
  if not options.progress then return end
  options.progress(("%s: %s tokens in %s of %s, from %s in %.1f s%s"):format(options.out, commas(counts.tokens),
    counted(counts.sentences, "sentence"), counted(counts.documents, "document"), counted(counts.files, "file"),
    counts.seconds, counts.left_out == 0 and ""
    or ("; %s at the ends of documents left out"):format(counted(counts.left_out, "special token"))))
end

---Makes the data set.
---@param options seqrun.PrepareOptions
---@param found seqrun.PrepareInputs
---@param source string for the metadata
---@return table<string, number> counts
return function(options, found, source)
  local problem = problem_of(options, found)
  if problem then failure.raise("config", "prepare: %s", problem) end
  local tokenizer = stored.literal(options)
  replace.make_place(options.out)
  local counts = write(options, found, tokenizer, source)
  report(options, counts)
  return counts
end
