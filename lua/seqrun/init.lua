-- seqrun - the whole library under one name: `local sr = require "seqrun"`.
--
-- Parts are loaded on first use.  A part is `sr.NAME` (sr.data, sr.nn, sr.run, ...); the functions
-- that create and manage tensors (sr.zeros, sr.scope, ...) are those of seqrun.tensor.

local failure = require("seqrun.failure")

local sr = { version = require("seqrun.core.sys").build().version, must = failure.must }

---The parts, each a file or directory of lua/seqrun.
local PARTS = {
  "advise", "checkpoint", "config", "curriculum", "data", "encode", "fill", "gradcheck", "metrics", "nn", "ops",
  "optim", "pack", "params", "predict", "run", "schedule", "scores", "tasks", "text",
}

local is_part = {}
for _, name in ipairs(PARTS) do is_part[name] = true end

---The names in `sr`, for completion and for hints.
---@return string[]
local function names()
  local list = { "must", "version" }
  table.move(PARTS, 1, #PARTS, 3, list)
  for name in pairs(require("seqrun.tensor")) do list[#list + 1] = name end
  table.sort(list)
  return list
end

return setmetatable(sr, {
  __index = function(self, key)
    local value
    if is_part[key] then
      value = require("seqrun." .. key)
      if type(value) == "table" then require("seqrun.strict").module(value, "sr." .. key) end
    else
      value = require("seqrun.tensor")[key]
    end
    if value == nil then
      local hint = require("seqrun.habits").hint(tostring(key), names())
      error(("sr has no '%s'%s"):format(tostring(key), hint), 2)
    end
    rawset(self, key, value)
    return value
  end,
  __names = names,
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
