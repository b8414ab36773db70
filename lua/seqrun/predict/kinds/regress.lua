-- regress.lua - {"value": 3.42}, or {"values": [3.42, 0.1]}

local json = require("seqrun.core.json")

local regress = { input = { keys = { "text", "pair" }, optional = { pair = true } }, reads = "sequences" }

function regress.result(item)
  local values = item.sequences[1].output
  for i, x in ipairs(values) do values[i] = tonumber(("%.7g"):format(x)) end
  if #values == 1 then return { value = values[1] } end
  return { values = json.array(values) }
end

return regress
