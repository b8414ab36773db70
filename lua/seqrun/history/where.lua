-- where.lua - conditions on runs: "rate.peak<1e-4 and best.f1>0.8", and the values of their names.
--
--     names     run, state, step, steps, loss, held, seconds, age, ... as of seqrun.RunOverview; last.NAME, a metric
--               of the last evaluation; best.NAME, the best of all evaluations; others are keys of the config
--
-- What else they consist of is in base/condition.lua.

local condition = require("seqrun.base.condition")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local sorted = require("seqrun.base.sorted")
local types = require("seqrun.config.types")

local where = {}

local ALIASES = { run = "path", name = "path", tokens_per_s = "real_tokens_per_s", tokens = "real_tokens" }
local OWN = {
  path = true, state = true, reason = true, step = true, steps = true, loss = true, efficiency = true,
  real_tokens_per_s = true, sequences = true, real_tokens = true, seconds = true, age = true, checkpoint = true,
  bytes = true,
}

---The value of a name in a run; nil if it has none.
---@param row seqrun.RunRow
---@param name string
---@return any
function where.value(row, name)
  name = ALIASES[name] or name
  if name == "held" then return row.overview.held and row.overview.held.value end
  if OWN[name] then return row.overview[name] end
  local kind, metric = name:match("^(%a+)%.(.*)$")
  if kind == "best" or kind == "last" then return row[kind][metric] end
  return row.config[name]
end

---Raises if a name has no value in any of the runs.
---@param rows seqrun.RunRow[]
---@param name string
---@param option string "--where"
function where.check_name(rows, name, option)
  if #rows == 0 or OWN[ALIASES[name] or name] or name == "held" then return end
  local known = {}
  for _, row in ipairs(rows) do
    if where.value(row, name) ~= nil then return end
  end
  for i = 1, math.min(#rows, 200) do
    for key in pairs(rows[i].config) do known[key] = true end
    for metric in pairs(rows[i].best) do known["best." .. metric], known["last." .. metric] = true, true end
  end
  for own in pairs(OWN) do known[own] = true end
  failure.raise("config", "%s: no run has '%s'%s", option, name, guess.hint(name, sorted(known)))
end

---Names of texts, and of numbers of seconds; all others of OWN are numbers.
local TEXTS = { path = true, state = true, reason = true, checkpoint = true }
local SECONDS = { age = true, seconds = true }
local ORDER = { ["<"] = true, ["<="] = true, [">"] = true, [">="] = true }

local function is_number(name)
  return name == "held" or OWN[name] and not TEXTS[name] or name:find("^best%.") or name:find("^last%.")
end

---Reads times such as 7d, and raises where a number is compared with something else.
local function read_values(tree)
  local kind, name = tree[1], ALIASES[tree[2]] or tree[2]
  if kind == "compare" then
    if SECONDS[name] and not tree[5] then tree[5] = types.duration():parse(tree[4]) end
    if is_number(name) and ORDER[tree[3]] and not tree[5] then
      failure.raise("config", "--where: %s is a number%s, not '%s'", tree[2],
        SECONDS[name] and " of seconds or a time such as 7d" or "", tree[4])
    end
  elseif kind ~= "has" then
    for i = 2, #tree do read_values(tree[i]) end
  end
end

---A condition as a function of a run, and the names in it.
---@param text string
---@return fun(row: seqrun.RunRow): boolean
---@return string[] names
function where.parse(text)
  local tree, names = condition.parse(text, "--where")
  read_values(tree)
  return function(row)
    return condition.holds(tree, function(name) return where.value(row, name) end)
  end, names
end

return where
