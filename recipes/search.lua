-- search.lua - the lines of a file that are nearest to a question, by vectors of an embedding model.
--
--     seqrun recipes/search.lua model=runs/embed texts=texts.txt "a question" [top=5]
--     seqrun encode runs/embed texts.txt --out v.safetensors            keeps the vectors, with their texts
--     seqrun recipes/search.lua model=runs/embed vectors=v.safetensors "a question" --json
--     seqrun recipes/search.lua model=runs/embed vectors=[a.safetensors,b.safetensors] < questions.txt
--
-- Without a question, each line of standard input is one.  The search is exact: each vector is compared.

local encoding = require "seqrun.predict.encoding"
local guess = require "seqrun.base.guess"
local json = require "seqrun.core.json"
local scratch = require "seqrun.base.scratch"
local sr = require "seqrun"
local vector_file = require "seqrun.predict.vector_file"
local vector_search = require "seqrun.predict.vector_search"

local USAGE = 'usage: seqrun recipes/search.lua model=DIR texts=FILE|vectors=FILE [top=5] [dimensions=N] [--json] '
  .. '["question"]'
local TOGETHER = 64 -- questions that share a pass over the vectors

local function refuse(format, ...) sr.must(nil, ("search: " .. format):format(...) .. "\n" .. USAGE, "config") end

if #arg == 0 or arg[1] == "--help" then
  print(USAGE)
  os.exit(0)
end

local options, question, as_json = { model = false, texts = false, vectors = false, top = "5", dimensions = false }, nil
local keys = { "model", "texts", "vectors", "top", "dimensions" }
for _, word in ipairs(arg) do
  local key, value = word:match("^([%w_.]+)=(.*)$")
  if key and options[key] ~= nil then
    options[key] = value
  elseif word == "--json" then
    as_json = true
  elseif word:find("^%-%-") or key and (question or guess.nearest(key, keys)) then
    refuse("unknown key '%s'; choose model, texts, vectors, top or dimensions", key or word)
  elseif question then
    refuse("two questions, '%s' and '%s'; put one in quotes", question, word)
  else
    question = word
  end
end
local function whole(key)
  local number = math.tointeger(tonumber(options[key]))
  if options[key] and (not number or number < 1) then refuse("%s=%s is not a number from 1", key, options[key]) end
  return number
end
local top, dimensions = whole "top", whole "dimensions"
if not options.model then refuse("model is missing") end
if not options.texts == not options.vectors then refuse("give texts, or vectors of `seqrun encode --out`") end

---The sources of the vectors: files of them, or one that is made for now.
local sources, made <close> = {}, scratch()
local pool
for path in (options.vectors or ""):gsub("^%[(.*)%]$", "%1"):gmatch("[^,]+") do
  sources[#sources + 1] = vector_search.open(path)
  pool = pool or sources[1].metadata.pool
end
local encode = sr.must(sr.encode.open(options.model, { normalise = true, pool = pool })) -- cosines
local facts = vector_file.facts(sr.must(sr.checkpoint.resolve(options.model)), encode)
for _, source in ipairs(sources) do
  if source.metadata.model ~= facts.model or source.metadata.pool ~= pool then
    sr.must(nil, ("%s: the vectors are of another model than %s; encode the texts again"):format(source.path,
      options.model), "data")
  end
  if (dimensions or 1) > source.size then refuse("dimensions=%d, but a vector has %d", dimensions, source.size) end
  if not dimensions and source.size ~= sources[1].size then
    refuse("vectors of %s have %d numbers, of %s %d, so cosines cannot be compared; add dimensions=%d",
      sources[1].path, sources[1].size, source.path, source.size, math.min(source.size, sources[1].size))
  end
end
if options.texts then
  if (dimensions or 1) > encode.size then refuse("dimensions=%d, but a vector has %d", dimensions, encode.size) end
  local out = sr.must(vector_file.open(made.path .. "/vectors", encode.size, facts))
  local next_line = sr.must(sr.text.sentences { files = options.texts, format = "lines" })
  local how = setmetatable({ bytes = true }, { __index = encode:as("document") })
  for item in encoding.each(function()
    local line = next_line()
    return line and { text = line }
  end, how) do
    sr.must(out:add(item.vector, item.text))
  end
  if out.count == 0 then sr.must(nil, options.texts .. ": no lines to search", "data") end
  sr.must(out:commit())
  sources[1] = vector_search.open(made.path .. "/vectors")
end

local function answer(asked)
  local vectors = {}
  for vector in encode:each(asked, "query") do vectors[#vectors + 1] = vector end
  for q, found in ipairs(vector_search.nearest(sources, vectors, { top = top, dimensions = dimensions })) do
    local results = json.array()
    if not as_json and not question then print(asked[q]) end
    for i, one in ipairs(found) do
      results[i] = { score = one.score, text = one.source:text(one.row), row = one.row + 1,
        file = options.vectors and one.source.path or options.texts }
      if not as_json then print(("%.3f  %s"):format(one.score, results[i].text)) end
    end
    if as_json then print(json.encode { question = asked[q], results = results }) end
  end
end

if question then return answer { question } end
local waiting = {}
local most = require("seqrun.core.sys").is_terminal(0) and 1 or TOGETHER
for line in io.lines() do
  waiting[#waiting + 1] = line
  if #waiting == most then
    answer(waiting)
    waiting = {}
  end
end
if #waiting > 0 then answer(waiting) end
