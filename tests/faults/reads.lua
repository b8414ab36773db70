-- reads.lua - full runs in which 1 % of all reads of data take longer: one line.
--
--     [COUNT=N] [SEED=N] build/seqrun tests/faults/reads.lua
--
-- COUNT runs whose data sets keep almost nothing in memory, so that each sequence is read; 10 of 1,000 reads, others
-- in each run, take 20 ms longer.  They end with the bits of a run without delays.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local inject = require("tests.faults.support.inject")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local trial = frame.open("reads", { short = 1, long = 20, sanitized = 1 })
local STEPS = frame.SANITIZED and 20 or 60
local recipe = program.write(trial.folder, "uncached.lua", [[
  local sr = require("seqrun")
  local open = sr.data.open
  sr.data.open = function(path, options)
    local all = { cache = 1 }
    for key, value in pairs(options or {}) do all[key] = value end
    return open(path, all)
  end
  arg[0] = "recipes/pretrain.lua"
  dofile(arg[0])
]])
local corpus = small.corpus(trial.folder, frame.SANITIZED and 500 or 15000)

local function run(out, before)
  local words = small.words(corpus, "--out", out, "--max-steps", tostring(STEPS), "eval.updates=0", "data.held=0.001",
    "attach=false", "log.every=20", "rate.total=100000")
  words[1] = recipe
  local code, text, err = program.run(words, { before = before })
  if code ~= 0 then trial:fail("exit %d: %s", code, text .. err) end
end

local whole, report, late = trial.folder .. "/whole", trial.folder .. "/report", 0
run(whole)
local wanted = small.weights(whole, STEPS)
for i = 1, trial.count do
  local out = trial.folder .. "/late"
  sys.remove(out)
  local more = ("INJECT_SEED=%d INJECT_MS=20 INJECT_REPORT='%s'"):format(trial.seed + i, report)
  run(out, inject.before("late 10", more))
  late = late + inject.read(report).late
  for name, sum in pairs(small.weights(out, STEPS)) do
    if wanted[name] ~= sum then trial:fail("run %d: %s differs from that of a run without delays", i, name) end
  end
end
if late == 0 then trial:fail("no read was late") end
trial:done("%d runs of %d steps, %d reads late", trial.count, STEPS, late)
