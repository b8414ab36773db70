-- search.lua - the lines of a file that are nearest to a question, by vectors of an embedding model.
--
--     seqrun recipes/search.lua model=runs/embed texts=texts.txt "a question" [top=5]
--
-- The vectors of the lines are computed each time; `seqrun encode --out` keeps them in a file.

local guess = require "seqrun.base.guess"
local sr = require "seqrun"

local USAGE = 'usage: seqrun recipes/search.lua model=DIR texts=FILE "question" [top=5]'

local function refuse(format, ...) sr.must(nil, ("search: " .. format):format(...) .. "\n" .. USAGE, "config") end

if #arg == 0 or arg[1] == "--help" then
  print(USAGE)
  os.exit(0)
end

local options, question = { model = false, texts = false, top = "5" }, nil
for _, word in ipairs(arg) do
  local key, value = word:match("^([%w_.]+)=(.*)$")
  if key and options[key] ~= nil then
    options[key] = value
  elseif word:find("^%-%-") or key and (question or guess.nearest(key, { "model", "texts", "top" })) then
    refuse("unknown key '%s'; choose model, texts or top", key or word)
  elseif question then
    refuse("two questions, '%s' and '%s'; put one in quotes", question, word)
  else
    question = word
  end
end
for _, key in ipairs { "model", "texts" } do
  if not options[key] then refuse("%s is missing", key) end
end
local top = math.tointeger(tonumber(options.top))
if not top or top < 1 then refuse("top=%s is not a number of lines", options.top) end
if not question then refuse("the question is missing") end

local encode = sr.must(sr.encode.open(options.model, { normalise = true })) -- cosines
local lines, vectors = {}, {}
for line in sr.must(sr.text.sentences { files = options.texts, format = "lines" }) do lines[#lines + 1] = line end
if #lines == 0 then sr.must(nil, options.texts .. ": no lines to search", "data") end
for vector in encode:each(lines, "document") do vectors[#vectors + 1] = sr.tensor(vector) end

local cosines = sr.stack(vectors):matmul(sr.tensor(encode:one(question, "query")):reshape(-1, 1)):reshape(-1)
local values, places = cosines:topk(math.min(top, #lines))
local best = values:totable()
for i, place in ipairs(places:totable()) do print(("%.3f  %s"):format(best[i], lines[place + 1])) end
