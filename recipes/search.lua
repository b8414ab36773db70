-- search.lua - the lines of a file that are nearest to a question, by vectors of an embedding model.
--
--     seqrun recipes/search.lua model=runs/embed texts=texts.txt "a question" [top=5]
--
-- The vectors of the lines are made anew each time; `seqrun encode --out` keeps them in a file.

local sr = require "seqrun"

local options, question = { top = "5" }, nil
for _, word in ipairs(arg) do
  local key, value = word:match("^(%l+)=(.*)$")
  if key and (key == "model" or key == "texts" or key == "top") then options[key] = value else question = word end
end
local top = math.tointeger(tonumber(options.top))
if not (options.model and options.texts and question and top and top > 0) then
  print('usage: seqrun recipes/search.lua model=DIR texts=FILE "question" [top=5]')
  os.exit(#arg == 0 and 0 or 2)
end

local encode = sr.must(sr.encode.open(options.model))
local lines, vectors = {}, {}
for line in sr.must(io.open(options.texts)):lines() do
  if line:find("%S") then lines[#lines + 1] = line end
end
if #lines == 0 then sr.must(nil, options.texts .. ": no lines to search", "data") end
for vector in encode:each(lines) do vectors[#vectors + 1] = sr.tensor(vector) end

local cosines = sr.stack(vectors):matmul(sr.tensor(encode:one(question)):reshape(-1, 1)):reshape(-1)
local values, places = cosines:topk(math.min(top, #lines))
for i, place in ipairs(places:totable()) do print(("%.3f  %s"):format(values:totable()[i], lines[place + 1])) end
