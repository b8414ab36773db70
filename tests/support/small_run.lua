-- small_run.lua - small.lua for shell scripts.
--
--     build/seqrun tests/support/small_run.lua words FOLDER     writes a corpus, prints a command line
--     build/seqrun tests/support/small_run.lua same A B STEP    exits with 0 if two runs have the same bits

local arguments = arg
package.path = "./?.lua;" .. package.path
local small = require("tests.support.small")

---Compares two plain values; returns the path of the first difference.
local function differ(a, b, where)
  if type(a) ~= "table" or type(b) ~= "table" then return a ~= b and where or nil end
  for key in pairs(a) do
    local found = differ(a[key], b[key], where .. "." .. tostring(key))
    if found then return found end
  end
  for key in pairs(b) do
    if a[key] == nil then return where .. "." .. tostring(key) end
  end
end

local what, a, b, step = table.unpack(arguments)
if what == "words" then
  print(table.concat(small.words(small.corpus(a)), " "))
else
  local left = { weights = small.weights(a, tonumber(step)), metrics = small.metrics(a) }
  local right = { weights = small.weights(b, tonumber(step)), metrics = small.metrics(b) }
  local found = differ(left, right, "run")
  if found then print("the runs differ at " .. found) end
  os.exit(found and 1 or 0)
end
