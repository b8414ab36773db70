-- keys.lua - config keys for schedules: every key that takes a schedule has these fields.
--
--     { "rate", schedule.keys { kind = "fraction", doc = "fraction of the tokens to mask" } }
--
-- takes `mask.rate: 0.15` and `mask.rate: { min: 0.15, max: 0.3, total: 1000, down: true }`.

local c = require("seqrun.config")
local counters = require("seqrun.schedule.counters")
local new = require("seqrun.schedule.value")

local keys = {}

---The quantum of each kind, if none is given.
local QUANTA = { length = 8, percentile = 1, count = 1 }

---A map of keys that describes a schedule; none if it is not given.  `more`: further keys { name, type }.
---@param t { kind?: string, doc: string, more?: table[] }
---@return table type
function keys.keys(t)
  local unit = t.kind == "length" and " (lengths: 8)" or ""
  local fields = {
    { "type", c.enum({ "linear", "root", "proportional", "discrete", "custom" }, { default = "linear",
      doc = "shape of the schedule; proportional: each value holds for a share of total in proportion to it, so that "
        .. "by tokens each batch size has equally many updates" }) },
    { "value", c.number { optional = true, doc = "a constant, instead of a schedule" } },
    { "min", c.number { optional = true, doc = "value at the start" } },
    { "max", c.number { optional = true, doc = "value from total on" } },
    { "total", c.number { optional = true, min = 0,
      doc = "where max is reached, in units of by; at most 1: a fraction of the run's steps" } },
    { "quantum", c.number { optional = true, doc = "values are multiples of this" .. unit } },
    { "degree", c.number { optional = true, doc = "type root: 2 is the square root" } },
    { "values", c.list(c.number {}, { optional = true, min = 1, doc = "type discrete: the values" }) },
    { "upto", c.list(c.number {}, { optional = true, doc = "type discrete: where each value but the last ends" }) },
    { "fn", c.path { optional = true, runs = true,
      doc = "type custom: Lua file that returns a function of the counters" } },
    { "by", c.enum(counters.NAMES, { default = "step", doc = "counter that the schedule is a function of" }) },
    { "down", c.boolean { default = false, doc = "from max down to min" } },
    { "faithful", c.boolean { default = false,
      doc = "as in the published implementation, which may start below min or miss max" } },
  }
  table.move(t.more or {}, 1, #(t.more or {}), #fields + 1, fields)
  return c.map(fields, { optional = true, scalar = "value", doc = t.doc })
end

local FIELDS = { "type", "min", "max", "total", "quantum", "degree", "values", "upto", "by", "value" }

---The function of a file.  It always gets counters, also where only the one that it depends on is known.
local function loaded(name, path, by)
  local chunk, message = loadfile(path, "t")
  if not chunk then error(("%s.fn: %s"):format(name, message), 0) end
  local fn = chunk()
  if type(fn) ~= "function" then
    error(("%s.fn: %s returned a %s; it must return a function"):format(name, path, type(fn)), 0)
  end
  return function(at)
    if type(at) ~= "table" then at = { step = at, schedule_step = at, [counters.FIELDS[by]] = at } end
    return fn(at)
  end
end

---Stands for the function of a file where a schedule is only judged: a config may be somebody else's.
local function unread() error("a judged schedule has no values", 0) end

---The schedule that a config has under a key; nil if it has none.
---@param group table|nil values of the keys
---@param t { name: string, kind?: string, steps?: number, judged?: boolean } name: the key; steps: those that a
---  fraction in `total` is of; judged: its values will not be asked for, and `fn` is not run
---@return seqrun.ValueSchedule|nil
function keys.read(group, t)
  if not group then return nil end
  local options = { name = t.name, kind = t.kind }
  for _, key in ipairs(FIELDS) do options[key] = group[key] end
  if group.value then options.type = "constant" end
  if group.fn then options.fn = t.judged and unread or loaded(t.name, group.fn, options.by or "step") end
  options.down, options.faithful = group.down or nil, group.faithful or nil
  local graded = options.type == "linear" or options.type == "root"
  if graded and not options.quantum then options.quantum = QUANTA[t.kind] end
  if options.total and options.total > 0 and options.total <= 1 then
    if options.by ~= "step" or not t.steps then
      error(("%s: total is %g, a fraction of the steps of the run, which are not known; give it in units of %s"):format(
        t.name, options.total, options.by), 0)
    end
    options.total = math.max(1, math.floor(options.total * t.steps + 0.5))
  end
  return new(options)
end

---A rule for config.load that refuses an impossible schedule under a key.
---@param path string
---@param kind? string
---@return table
function keys.rule(path, kind)
  return {
    keys = { path },
    check = function(group)
      local ok, message = pcall(keys.read, group, { name = path, kind = kind, steps = 1000, judged = true })
      return not ok and tostring(message):gsub("^%S-:%d+: ", "") or nil
    end,
  }
end

return keys
