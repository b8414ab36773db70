-- keys - the config keys that every training run has, with types, defaults and purposes: each group is declared in the
-- room that uses it, or in keys/run.lua.
--
--     local schema, rules = sr.run.schema(sr.tasks.pretraining, { keys = { { "top_k", c.integer { default = 3 } } } })
--
-- A task adds its own (seqrun/tasks), a recipe adds its own to both: see run.open.  `changeable` keys may
-- differ between a run and its resumption; all others are part of what makes a resumed run the same run.  Keys of
-- `same_bits` change no bit of a training.

local c = require("seqrun.config")
local check = require("seqrun.base.check")

---The rooms that declare keys; rules are checked in this order.
local ROOMS = {
  require("seqrun.tensor.keys"), require("seqrun.pack.keys"), require("seqrun.data.loader.keys"),
  require("seqrun.keys.run"), require("seqrun.schedule.rate_keys"), (require("seqrun.optim.keys")),
}

---The order in which keys are shown; those that are not named follow.
local ORDER = {
  "steps", "seed", "seeds", "phases", "device", "precision", "instructions", "tf32", "threads",
  "balance", "attach", "budget", "peak_flops", "data", "pack", "batch", "optimizer", "rate", "stop",
}

---@class seqrun.Keys
---@field keys? table[] { name, type }, as for config.map
---@field rules? table[] as for config.load
---@field settings? table other defaults of keys, as { batch = { sequences = 16 } }
---@field without? string[] keys of every run that a task does not have, or has with another type

---All keys in their order.
local function all_keys()
  local found, list = {}, {}
  for _, room in ipairs(ROOMS) do
    for _, field in ipairs(room.keys) do found[field[1]] = { field[1], field[2] } end
  end
  for _, name in ipairs(ORDER) do
    list[#list + 1], found[name] = found[name], nil
  end
  for _, room in ipairs(ROOMS) do
    for _, field in ipairs(room.keys) do list[#list + 1] = found[field[1]] end
  end
  return list
end

---Rules of every run, without those about keys that a task leaves out.
local function remaining(without)
  local gone, list = {}, {}
  for _, path in ipairs(without) do gone[path] = true end
  for _, room in ipairs(ROOMS) do
    for _, rule in ipairs(room.rules) do
      local good = true
      for _, path in ipairs(rule.keys) do good = good and not gone[path] end
      if good then list[#list + 1] = rule end
    end
  end
  return list
end

---The keys of a run: those of every run, and those of each part.
---@param ... seqrun.Keys of a task, of a recipe
---@return table schema
---@return table[] rules
return function(...)
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    if part ~= nil then check.value(("run.schema: argument %d"):format(i), part, "table") end
  end
  local without = (... or {}).without or {}
  local schema, all = c.without(c.map(all_keys()), without), remaining(without)
  for i = 1, select("#", ...) do
    local part = select(i, ...) or {}
    schema = c.merge(schema, c.map(part.keys or {}))
    table.move(part.rules or {}, 1, #(part.rules or {}), #all + 1, all)
    if part.settings then schema = c.defaults(schema, part.settings) end
  end
  schema.idle = require("seqrun.tensor.keys").idle
  return schema, all
end
