-- commands.lua - faults in each command and each recipe: one line for each kind of fault.
--
--     [KIND=K] [COUNT=N|all|new] [SEED=N] [ONLY=TEXT] [PART=I/N] build/seqrun tests/faults/commands.lua
--
--     calls    system calls that fail: strace notes those of a run without a fault, from where the program reads its
--              command line; COUNT of them fail for each victim, one a run, as trace.ERRORS says.  With COUNT=new
--              calls are the same that have the same file, without its numbers and directories, and the same path of
--              calls in C
--     memory   allocations that fail: a run without a fault notes the first of each path of calls (16 frames); COUNT of
--              these fail, one a run, every second time with all that come after it
--     full     a disk that is full from some call on that wants space (write, fallocate, mkdir, a new file)
--     writers  two programs that write the same files at once, the second up to half its time after the first; in
--              the end the files are those of one alone, who could not write says so in a sentence, and one at least
--              succeeds
--
-- Without KIND all of them, which share the runs without a fault.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local inject = require("tests.faults.support.inject")
local judge = require("tests.faults.support.judge")
local sys = require("seqrun.core.sys")
local trace = require("tests.faults.support.trace")
local victims = require("tests.faults.support.victims")

local RECORDING = 1200 -- seconds that it may take: with the functions of each call, it is slow

local COUNTS = {
  calls = { short = 3, long = 100 }, memory = { short = 3, long = "new", sanitized = 1 },
  full = { short = 3, long = math.huge, sanitized = 1 }, writers = { short = 1, long = 20 },
}

local faults = {}

function faults.calls(trial, one)
  local record = trial.folder .. "/trace"
  local got = one:run(trace.record(record, trial.seen ~= nil), RECORDING)
  assert(got.code == 0, one.victim.name .. ": " .. got.err)
  local points = trace.points(record, "/lua/seqrun/cli/init.lua")
  for _, point in ipairs(trial:due(points)) do
    local fault = ("%s number %d: %s"):format(point.name, point.number, trace.ERRORS[point.name])
    trial:tally(one:try(trial, trace.fail(point), fault))
  end
  return #points
end

function faults.memory(trial, one)
  local found = inject.report(one, "none 0").memory
  for i, path in ipairs(trial:due(found)) do
    local fault = ("%s %d"):format(i % 2 == 0 and "starve" or "memory", path.number)
    trial:tally(one:try(trial, inject.before(fault), fault))
  end
  return #found
end

function faults.full(trial, one)
  local numbers = {}
  for i = 1, inject.report(one, "full 1000000000").space do numbers[i] = i end
  for _, number in ipairs(trial:choose(numbers)) do
    trial:tally(one:try(trial, inject.before("full " .. number), "full from call " .. number))
  end
  return #numbers
end

---One round of two writers.
local function compete(trial, one, seconds)
  local results, good = one:twins(seconds), 0
  for i, got in ipairs(results) do
    good = good + (got.code == 0 and 1 or 0)
    local problem = one:problem(got)
    if problem then
      trial:fail("%s, writer %d, the second after %.3f s: %s (exit %d)\n    %s", one.victim.name, i, seconds, problem,
        got.code, got.err)
    end
  end
  if good == 0 then trial:fail("%s: neither of two writers succeeded: %s", one.victim.name, results[1].err) end
  trial:tally(good == 2)
end

function faults.writers(trial, one)
  if not next(one.wanted.files) or one.victim.name == "sweep" then return 0 end
  local out = one.wanted.out
  one.wanted.out = nil -- it tells what was there before
  for _ = 1, trial.count do compete(trial, one, one.seconds * trial:random(500) / 1000) end
  one.wanted.out = out
  return trial.count
end

local trials = {}
for _, kind in ipairs { "calls", "memory", "full", "writers" } do
  local wanted = os.getenv("KIND")
  local missing = kind == "calls"
    and (trace.missing() or frame.SANITIZED and "sanitizers end a program whose own calls fail")
  if missing then print("calls: left out: " .. missing) end
  if (not wanted or wanted == kind) and not missing then trials[#trials + 1] = frame.open(kind, COUNTS[kind]) end
end
if #trials == 0 then frame.skip("there is no fault to try") end

for _, victim in ipairs(victims.chosen(trials[1])) do
  local began = sys.now()
  local one = judge.new(trials[1], victim)
  one.seconds = (sys.now() - began) / 3
  for _, trial in ipairs(trials) do trial:count_of(faults[trial.name](trial, one)) end
end
for _, trial in ipairs(trials) do
  trial:line("%d of %d faults in %d commands and recipes, %d of them passed over", trial.tried, trial.possible,
    trial.names, trial.passed)
end
frame.finish(trials)
