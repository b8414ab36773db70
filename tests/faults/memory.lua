-- memory.lua - allocations that fail, in each command and each recipe: one line.
--
--     [COUNT=N|all|new] [SEED=N] [ONLY=TEXT] [PART=I/N] build/seqrun tests/faults/memory.lua
--
-- A run without a fault notes the first allocation of each path of calls (16 frames); COUNT of these fail for each
-- victim, one a run, every second time with all that come after it.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local inject = require("tests.faults.support.inject")
local judge = require("tests.faults.support.judge")
local victims = require("tests.faults.support.victims")

local trial = frame.open("memory", { short = 3, long = "new", sanitized = 1 })
local tried, paths, passed, names = 0, 0, 0, 0
for _, victim in ipairs(victims.chosen(trial)) do
  local one = judge.new(trial, victim)
  local found = inject.report(one, "none 0").memory
  names, paths = names + 1, paths + #found
  for i, path in ipairs(trial:due(found)) do
    local fault = ("%s %d"):format(i % 2 == 0 and "starve" or "memory", path.number)
    tried = tried + 1
    passed = passed + (one:try(trial, inject.before(fault), fault) and 1 or 0)
  end
end
trial:done("%d of %d paths to an allocation in %d commands and recipes failed, %d of them passed over", tried, paths,
  names, passed)
