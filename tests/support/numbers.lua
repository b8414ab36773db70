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

---All that a model sees of the batches of an update, as one string.
---@param update seqrun.Update
---@return string
function numbers.contents(update)
  local parts = {}
  for batch in update:batches() do
    local scope <close> = sr.scope()
    parts[#parts + 1] = batch.ids:tostring_bytes() .. batch.types:tostring_bytes()
    for _, head in ipairs { "mlm", "nsp" } do
      local target = batch.targets[head] or {}
      for _, tensor in ipairs { target.rows, target.labels, target.weights } do
        parts[#parts + 1] = tensor:tostring_bytes()
      end
      parts[#parts + 1] = ("%.17g"):format(target.denominator or 0)
    end
    parts[#parts + 1] = batch.share .. " " .. table.concat(batch.layout:uids(), " ")
  end
  return table.concat(parts, "|")
end

return numbers
