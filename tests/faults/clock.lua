-- clock.lua - runs whose clocks jump backwards and forwards all the time: one line.
--
--     [COUNT=N] [SEED=N] build/seqrun tests/faults/clock.lua
--
-- COUNT runs, each stopped and resumed once, end with the bits of a run with a right clock; their metrics have times
-- that never run backwards; the commands that read runs read them; a sweep with a budget is not cut short.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")

if frame.SANITIZED then frame.skip("sanitizers must be the first library of a program") end

local trial = frame.open("clock", { short = 2, long = 50 })
local STEPS = 6
local plugin = program.path:gsub("[^/]*$", "tests/clock.so")
local corpus = small.corpus(trial.folder, 40)

---Runs the program with jumping clocks; a failure is reported.
local function run(words, seed)
  local before = seed and ("LD_PRELOAD='%s' CLOCK_SEED=%d"):format(plugin, seed) or ""
  local code, out, err = program.run(words, { before = "env " .. before .. " timeout -s KILL 120" })
  if code ~= 0 then trial:fail("%s: exit %d: %s", table.concat(words, " "), code, out .. err) end
  return code == 0
end

local function words(out, steps, ...)
  return small.words(corpus, "--out", out, "--max-steps", tostring(steps), "save.every=2", "save.keep=4",
    "save.minutes=10", "verify.every=3", ...)
end

---Whether two plain values are the same.
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

---The times of a run: none negative, none before that of an earlier line.
local function check_times(out)
  local last = 0
  for _, line in ipairs(sr.must(sr.metrics.read(out))) do
    if line.type == "train" then
      if not (line.seconds >= last) then trial:fail("step %d: %g s after %g s", line.step, line.seconds, last) end
      last = line.seconds
      for _, key in ipairs { "data_wait_ms", "cpu_ms", "real_tokens_per_s" } do
        if line[key] and line[key] < 0 then trial:fail("step %d: %s is %g", line.step, key, line[key]) end
      end
    end
  end
end

local whole = trial.folder .. "/whole"
assert(run(words(whole, STEPS)))
for i = 1, trial.count do
  local out, seed = ("%s/run%d"):format(trial.folder, i), trial.seed + i
  local good = run(words(out, 1 + trial:random(STEPS - 1)), seed) and run(words(out, STEPS, "--resume"), seed + 1)
  if good and not (same(small.weights(whole, STEPS), small.weights(out, STEPS))
      and same(small.metrics(whole), small.metrics(out))) then
    trial:fail("run %d (CLOCK_SEED=%d) differs from one with a right clock", i, seed)
  end
  if good then check_times(out) end
  for _, verb in ipairs { "info", "verify" } do run({ verb, out }, seed + 2) end
  run({ "runs", trial.folder }, seed + 3)
  run({ "compare", whole, out }, seed + 4)
end

local sweep = { "sweep", "--budget", "1h" }
for _, word in ipairs(small.words(corpus, "--out", trial.folder .. "/sweep", "--max-steps", "1", "rate.peak=1e-3,1e-2",
  "attach=false")) do
  if word ~= "--quiet" and word ~= "rate.peak=3e-3" then sweep[#sweep + 1] = word end
end
run(sweep, trial.seed)
trial:done("%d runs with jumping clocks, each stopped and resumed, and a sweep", trial.count)
