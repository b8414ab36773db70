-- flips.lua - single bits turned over while a small model is trained with verify.every=1: one line.
--
--     [COUNT=N] [CLEAN=N] [SEED=N] [SEQUENCES=6] build/seqrun tests/faults/flips.lua
--
-- COUNT steps have one flipped bit each, in an activation, a gradient, a weight or a moment, in the first or in the
-- second computation; CLEAN steps have none, so that a report is a false alarm.  The truth about a flip is
-- told by the bytes of weights and moments, apart from the hashes and comparisons that are tested: a step whose bytes
-- differ must be reported.

package.path = "./?.lua;" .. package.path
local checked = require("tests.support.checked_run")
local coarse = require("seqrun.core.ops").coarse
local fault = require("tests.support.fault")
local frame = require("tests.faults.support.frame")
local sys = require("seqrun.core.sys")

local trial = frame.open("flips", { short = 100, long = 10000, sanitized = 20 })
local CLEAN = math.tointeger(tonumber(os.getenv("CLEAN") or 2 * trial.count))
local KINDS = { "activation", "gradient", "weight", "m", "v" }

local function random(n) return trial:random(n) end

local function flip(t) fault.flip(t, random(32 * t:numel())) end

-- Activations: what the ops return.  `calls` counts them in a step; the result of number `target` is flipped.
local calls, target, usual = 0, nil, nil
for name, op in pairs(coarse) do
  coarse[name] = function(...)
    local results = table.pack(op(...))
    calls = calls + 1
    if calls == target and type(results[1]) == "userdata" then flip(results[1]) end
    return table.unpack(results, 1, results.n)
  end
end

---A hash of weights and moments.
local function state_of(c)
  local list, params = {}, c.model.params
  for i, name in ipairs(params:names()) do
    local m, v = c.optimizer:moments(name)
    list[i] = params:master(name):tostring_bytes() .. m:tostring_bytes() .. v:tostring_bytes()
  end
  return sys.hash(table.concat(list))
end

---A bit in one of the tensors of a kind.
local function flip_one(kind, c)
  local params = c.model.params
  local names = params:names()
  local name = names[1 + random(#names)]
  local m, v = c.optimizer:moments(name)
  flip(({ gradient = params:get(name):grad(), weight = params:master(name), m = m, v = v })[kind])
end

local found = { clean = 0, alarms = 0, flips = 0, changed = 0, missed = 0, by = {} }
local reported, kind, when, states = false, nil, nil, {}

---Compares what was reported of the last step with the truth.
local function account()
  if not kind then
    found.clean, found.alarms = found.clean + 1, found.alarms + (reported and 1 or 0)
  else
    local differ = states[1] ~= states[2]
    found.flips, found.changed = found.flips + 1, found.changed + (differ and 1 or 0)
    found.by[kind] = (found.by[kind] or 0) + (differ and 1 or 0)
    found.missed = found.missed + (differ and not reported and 1 or 0)
  end
end

local function start(c)
  if c.number == 1 then
    if c.step > 1 then account() end
    reported, states = false, {}
    kind, when = c.step > CLEAN and KINDS[1 + random(#KINDS)] or nil, 1 + random(2)
  end
  calls, target = 0, nil
  if c.number ~= when then return end
  if kind == "activation" then target = 1 + random(usual or 20) end
  if kind == "weight" or kind == "m" or kind == "v" then flip_one(kind, c) end
end

local function gradient(c)
  usual = usual or calls
  if c.number == when and kind == "gradient" then flip_one(kind, c) end
end

checked.save_nothing()
local good, problem = checked.train(trial.folder, {
  "verify.every=1", "verify.action=retry", "log.every=1000", "threads=1", -- a step is kept until it is logged
  "batch.sequences=" .. (os.getenv("SEQUENCES") or 6), ("--max-steps=%d"):format(CLEAN + trial.count),
}, {
  start = start, gradient = gradient, done = function(c) states[c.number] = kind and state_of(c) end,
  warn = function(text) reported = reported or text:find("differs", 1, true) ~= nil end,
})
account()
if not good then trial:fail("the run ended: %s", tostring(problem)) end
if found.missed > 0 or found.alarms > 0 or found.flips ~= trial.count then
  trial:fail("%d flips missed, %d alarms without a flip, %d flips made", found.missed, found.alarms, found.flips)
end
local by = {}
for _, name in ipairs(KINDS) do by[#by + 1] = ("%s %d"):format(name, found.by[name] or 0) end
trial:done("%d flips, %d changed the state (%s), %d of them missed, %d clean checks, %d alarms", found.flips,
  found.changed, table.concat(by, ", "), found.missed, found.clean, found.alarms)
