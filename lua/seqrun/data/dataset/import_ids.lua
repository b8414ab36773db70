-- import_ids.lua - token ids to a data set: Megatron's indexed sets.

local commas = require("seqrun.base.format").commas
local core = require("seqrun.core.data")
local counted = require("seqrun.base.format").counted
local packed = require("seqrun.base.packed")
local replace = require("seqrun.data.dataset.replace")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")

---Options that are about text.
local TEXT = { "document_start", "where", "columns" }

local function refuse(format, ...) return nil, ("prepare: " .. format):format(...), "config" end

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
  local writer, message, code = core.writer(options.out)
  if not writer then return nil, message, code end
  local guard <close> = writer
  local began = sys.now()
  local counts, problem, why = writer:import(indexes(found.files), tokenizer)
  if not counts then return nil, problem, why end
  local done
  done, message, code = writer:meta("kind", "text")
  if done then done, message, code = writer:tokenizer(tokenizer) end
  if done then done, message, code = writer:meta("source", source) end
  if done then done, message, code = writer:commit() end
  if not done then return nil, message, code end
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
---@return table<string, number>? counts
---@return string? message
---@return string? code
return function(options, found, source)
  local problem = problem_of(options, found)
  if problem then return refuse("%s", problem) end
  local tokenizer, message, code = stored.tokenizer(options.vocab, {
    lowercase = options.lowercase, keep_accents = options.keep_accents, literal = true,
  })
  if not tokenizer then return nil, message, code end
  local done, counts
  done, message, code = replace.make_place(options.out)
  if not done then return nil, message, code end
  counts, message, code = write(options, found, tokenizer, source)
  if not counts then return nil, message, code end
  report(options, counts)
  return counts
end
