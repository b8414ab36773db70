-- schedule.lua - what 2 to 64 threads would make of a training step, op by op, by simulation.
--
--   build/seqrun recipes/papers/schedule.lua [op=NAME] [T=2048] [hidden=768] [len=512] [layers=12] [repeats=3]
--       [precision=f32|bf16] [handoff=5] [threads=4,8,16,32,64]
--
-- Each op runs on one thread, and the processor time of every task of every job is recorded.  Then its jobs are run in
-- simulation on more threads, as core/base/thread.c does: a thread that is free takes the next task; a job begins when
-- the one before has ended; handing out a job takes `handoff` microseconds; what is not in tasks runs alone.
--
-- tasks      of the largest job
-- longest %  the longest task of each job (and what runs alone) over all work: the critical path, which no number of
--            threads can beat
-- N: x       speed-up on N threads; (i) imbalance, the busiest thread over the mean
--
-- The last line is a step: every op as often as a step runs it (ops_cases.lua).  Threads do not share caches and memory
-- in this simulation: an op at the copy rate (residual_norm, optimizer) will not go faster than memory lets it.

package.path = arg[0]:gsub("[^/]*$", "../bench/?.lua;") .. package.path

local sr = require("seqrun")
local cases = require("ops_cases")
local common = require("common")
local core = require("seqrun.core.tensor")
local list_schedule = require("list_schedule")

local options = cases.options({ repeats = 3, threads = "4,8,16,32,64", handoff = 5 }, arg)
sr.use("cpu", { threads = 1 })

local counts = {}
for word in options.threads:gmatch("[^,]+") do
  counts[#counts + 1] = math.tointeger(tonumber(word)) or common.refuse("threads has '%s'", word)
  if counts[#counts] < 1 then common.refuse("threads must be at least 1") end
end

---The jobs of a call, each task with the least time of several calls, and the seconds outside of tasks.
local function record(prepare)
  local best, alone
  for turn = 0, options.repeats do
    local scope <close> = sr.scope()
    local fn = prepare()
    local began = os.clock()
    local jobs = sr.must(core.jobs(fn))
    local outside = os.clock() - began
    for j, tasks in ipairs(jobs) do
      outside = outside - tasks.whole
      for i, seconds in ipairs(best and best[j] or {}) do tasks[i] = math.min(tasks[i], seconds) end
    end
    if turn > 0 then best, alone = jobs, math.min(alone or math.huge, math.max(0, outside)) end
  end
  return best, alone
end

local rows, step = { { "op", "tasks", "ms", "longest %" } }, { work = 0, longest = 0, seconds = {} }
for i, n in ipairs(counts) do rows[1][4 + i], step.seconds[i] = ("%d: x"):format(n), 0 end

local function row_of(name, tasks, work, longest)
  return { name, tasks, ("%.2f"):format(work * 1e3), ("%.1f"):format(100 * longest / work) }
end

---Seconds of jobs one after another on some threads, and the imbalance: the busiest thread over the mean, over all.
local function simulate(jobs, threads)
  local seconds, busiest, mean = 0, 0, 0
  for _, tasks in ipairs(jobs) do
    local most = list_schedule(tasks, threads)
    busiest, mean = busiest + most, mean + common.sum(tasks) / threads
    seconds = seconds + most + (threads > 1 and #tasks > 1 and options.handoff * 1e-6 or 0)
  end
  return seconds, mean > 0 and busiest / mean or 1
end

---Adds a row, and `calls` of the op to the step.
local function show(name, calls, jobs, alone)
  local work, longest, most = alone, alone, 0
  for _, tasks in ipairs(jobs) do
    work, longest = work + common.sum(tasks), longest + math.max(0, table.unpack(tasks))
    most = math.max(most, #tasks)
  end
  local row = row_of(name, most, work, longest)
  for i, n in ipairs(counts) do
    local seconds, imbalance = simulate(jobs, n)
    row[4 + i] = ("%.1f (%.2f)"):format(work / (seconds + alone), imbalance)
    step.seconds[i] = step.seconds[i] + calls * (seconds + alone)
  end
  step.work, step.longest = step.work + calls * work, step.longest + calls * longest
  rows[#rows + 1] = row
end

cases.each(options, function(name, forward, work)
  show(name, work.calls or 0, record(function()
    return function()
      local quiet <close> = sr.no_grad()
      forward()
    end
  end))
  if not work.back_flops and not work.back_bytes then return end
  show(name .. " back", work.calls or 0, record(function()
    local y = forward()
    local dy = y:dim() > 0 and sr.ones(table.unpack(y:shape())):to(y:dtype()) or nil
    return function() y:backward(dy) end
  end))
end)

if step.work > 0 then
  rows[#rows + 1] = row_of(("step of %d layers"):format(options.layers), "", step.work, step.longest)
  for i in ipairs(counts) do rows[#rows][4 + i] = ("%.1f"):format(step.work / step.seconds[i]) end
end
print(cases.title(options))
print(("simulated: x faster than one thread (busiest thread over the mean); %g us to hand out a job"):format(
  options.handoff))
common.print_table(rows)
