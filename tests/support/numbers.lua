-- numbers.lua - a data set of text with sentences of many lengths, for specs of loaders and losses.

local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local numbers = {}

---Makes FOLDER/x.sqr from `count` sentences, five per document, and opens it.
---@param folder string an existing directory
---@param count integer
---@param held number fraction held out
---@return seqrun.Corpus
function numbers.corpus(folder, count, held)
  local lines = {}
  for i = 1, count do
    lines[i] = ("Number %d came %s to the house of number %d."):format(i, ("very "):rep(i % 11), i % 37)
    if i % 5 == 0 then lines[i] = lines[i] .. "\n" end
  end
  assert(sys.write_file(folder .. "/text.txt", table.concat(lines, "\n")))
  assert(sr.data.prepare {
    inputs = folder .. "/text.txt", out = folder .. "/x.sqr", vocab = { size = 300 }, threads = 1,
  })
  return assert(sr.data.open(folder .. "/x.sqr", { held = held }))
end

return numbers
