-- writers.lua - two programs that write the same files at once: one line.
--
--     [COUNT=N] [SEED=N] [ONLY=TEXT] build/seqrun tests/faults/writers.lua
--
-- COUNT times for each command and recipe that writes, one starts up to half its time after the other.  In the end the
-- files are those of one alone; who could not write says so in a sentence; one at least succeeds.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local judge = require("tests.faults.support.judge")
local sys = require("seqrun.core.sys")
local victims = require("tests.faults.support.victims")

local trial = frame.open("writers", { short = 1, long = 20 })
local rounds, refused, names = 0, 0, 0

---One round; `seconds`: after which the second starts.
local function compete(one, seconds)
  local results = one:twins(seconds)
  rounds = rounds + 1
  local good = 0
  for i, got in ipairs(results) do
    good = good + (got.code == 0 and 1 or 0)
    refused = refused + (got.code == 0 and 0 or 1)
    local problem = one:problem(got)
    if problem then
      trial:fail("%s, writer %d, the second after %.3f s: %s (exit %d)\n    %s", one.victim.name, i, seconds, problem,
        got.code, got.err)
    end
  end
  if good == 0 then trial:fail("%s: neither of two writers succeeded: %s", one.victim.name, results[1].err) end
end

for _, victim in ipairs(victims.chosen(trial)) do
  local began = sys.now()
  local one = judge.new(trial, victim)
  local span = (sys.now() - began) / 3
  if next(one.wanted.files) and victim.name ~= "sweep" then
    one.wanted.out = nil -- it tells what was there before
    names = names + 1
    for _ = 1, trial.count do compete(one, span * trial:random(500) / 1000) end
  end
end
trial:done("%d rounds of two writers in %d commands and recipes, %d of the writers refused", rounds, names, refused)
