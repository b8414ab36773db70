-- calls.lua - system calls that fail, in each command and each recipe: one line.
--
--     [COUNT=N|all|new] [SEED=N] [ONLY=TEXT] [PART=I/N] build/seqrun tests/faults/calls.lua
--
-- strace notes the calls of a run without a fault, from where the program reads its command line; COUNT of them fail
-- for each victim, one a run, as trace.ERRORS says.  With COUNT=new calls are the same that have the same file, without
-- its numbers and directories, and the same path of calls in C.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local judge = require("tests.faults.support.judge")
local trace = require("tests.faults.support.trace")
local victims = require("tests.faults.support.victims")

if trace.missing() then frame.skip(trace.missing()) end
if frame.SANITIZED then frame.skip("sanitizers end a program whose own calls fail") end

local trial = frame.open("calls", { short = 3, long = 100 })
local tried, calls, passed, names = 0, 0, 0, 0
local record = trial.folder .. "/trace"
local RECORDING = 1200 -- seconds that it may take: with the functions of each call, it is slow
for _, victim in ipairs(victims.chosen(trial)) do
  local one = judge.new(trial, victim)
  local got = one:run(trace.record(record, trial.seen ~= nil), RECORDING)
  assert(got.code == 0, victim.name .. ": " .. got.err)
  local points = trace.points(record, "/lua/seqrun/cli/init.lua")
  names, calls = names + 1, calls + #points
  for _, point in ipairs(trial:due(points)) do
    tried = tried + 1
    local fault = ("%s number %d: %s"):format(point.name, point.number, trace.ERRORS[point.name])
    passed = passed + (one:try(trial, trace.fail(point), fault) and 1 or 0)
  end
end
trial:done("%d of %d system calls in %d commands and recipes failed, %d of them passed over", tried, calls, names,
  passed)
