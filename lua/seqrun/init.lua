-- seqrun - the whole library under one name: `local sr = require "seqrun"`.
--
-- Parts are loaded on first use.  A part is `sr.NAME` (sr.data, sr.nn, sr.run, ...); the functions
-- that create and manage tensors (sr.zeros, sr.scope, ...) are those of seqrun.tensor.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local merged = require("seqrun.base.merged")
local sorted = require("seqrun.base.sorted")

local sr = { version = require("seqrun.core.sys").build().version, must = failure.must }

---The parts: the module of each, and functions of rooms above it that belong to it.
local PARTS = {
  advise = { "seqrun.advise" },
  checkpoint = { "seqrun.checkpoint", describe = "seqrun.history.describe" },
  config = { "seqrun.config" },
  continue = { "seqrun.predict.continue" },
  curriculum = { "seqrun.curriculum" },
  data = { "seqrun.data", analyze = "seqrun.analysis" },
  encode = { "seqrun.predict.encode" },
  fill = { "seqrun.predict.fill" },
  gradcheck = { "seqrun.tensor.gradcheck" },
  metrics = { "seqrun.history.metrics" },
  nn = { "seqrun.nn", pretrained = "seqrun.checkpoint.bert" },
  ops = { "seqrun.tensor.ops" },
  optim = { "seqrun.optim" },
  pack = { "seqrun.pack" },
  params = { "seqrun.tensor.params" },
  predict = { "seqrun.predict" },
  run = { "seqrun.run" },
  schedule = { "seqrun.schedule" },
  score = { "seqrun.predict.score" },
  scores = { "seqrun.scores" },
  tasks = { "seqrun.tasks" },
  text = { "seqrun.text" },
}

---The names in `sr`, for completion and for hints.
---@return string[]
local function names()
  return sorted(merged({ must = true, version = true }, PARTS, (require("seqrun.tensor"))))
end

---The module of a part, with the functions from above.
local function part_of(list)
  local module, part = require(list[1]), {}
  if next(list, 1) == nil then return module end
  for name, value in next, module do part[name] = value end
  for name, path in pairs(list) do
    local above = name ~= 1 and require(path) or nil
    if above then part[name] = type(above) == "table" and above[name] or above end
  end
  return setmetatable(part, getmetatable(module))
end

local modules = {}
for name, list in pairs(PARTS) do modules[name] = list[1] end

return setmetatable(sr, {
  __index = function(self, key)
    local value
    if PARTS[key] then
      value = part_of(PARTS[key])
      if type(value) == "table" then require("seqrun.base.strict").module(value, "sr." .. key) end
    else
      value = require("seqrun.tensor")[key]
    end
    if value == nil then
      local hint = require("seqrun.base.habits").hint(tostring(key), names())
      check.fail("sr has no '%s'%s", tostring(key), hint)
    end
    rawset(self, key, value)
    return value
  end,
  __newindex = require("seqrun.base.strict").setter("sr", names),
  __names = names,
  __modules = modules,
  __tostring = function()
    local list = names()
    for i, name in ipairs(list) do list[i] = "sr." .. name end
    return (table.concat(list, "  "):gsub("(" .. ("."):rep(80) .. "%S*)%s+", "%1\n"))
  end,
  __pairs = function(self)
    local list, i = names(), 0
    return function()
      i = i + 1
      if list[i] then return list[i], self[list[i]] end
    end
  end,
})
