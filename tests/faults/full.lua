-- full.lua - a disk that is full from some write on, in each command and each recipe: one line.
--
--     [COUNT=N|all] [SEED=N] [ONLY=TEXT] build/seqrun tests/faults/full.lua
--
-- Of the calls that want space (write, fallocate, mkdir, a new file), COUNT are chosen for each victim; from each on,
-- all fail with ENOSPC.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local inject = require("tests.faults.support.inject")
local judge = require("tests.faults.support.judge")
local victims = require("tests.faults.support.victims")

local trial = frame.open("full", { short = 3, long = math.huge, sanitized = 1 })
local tried, calls, names = 0, 0, 0
for _, victim in ipairs(victims.chosen(trial)) do
  local one = judge.new(trial, victim)
  local numbers = {}
  for i = 1, inject.report(one, "full 1000000000").space do numbers[i] = i end
  names, calls = names + (#numbers > 0 and 1 or 0), calls + #numbers
  for _, number in ipairs(trial:choose(numbers)) do
    tried = tried + 1
    one:try(trial, inject.before("full " .. number), "full from call " .. number)
  end
end
trial:done("the disk full from %d of %d calls in %d commands and recipes that write", tried, calls, names)
