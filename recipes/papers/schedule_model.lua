-- schedule_model.lua - jobs of tasks on a number of threads, as core/base/thread.c runs them: in order, by who is free.

local schedule = {}

---The time that the busiest thread takes over the tasks of one job.
---@param tasks number[] seconds, in the order in which they are handed out
---@param threads integer
---@return number
function schedule.job(tasks, threads)
  local busy, most = {}, 0
  for t = 1, threads do busy[t] = 0 end
  for _, seconds in ipairs(tasks) do
    local free = 1
    for t = 2, threads do
      if busy[t] < busy[free] then free = t end
    end
    busy[free] = busy[free] + seconds
    most = math.max(most, busy[free])
  end
  return most
end

---Jobs one after another.  A job of several tasks on several threads is handed out, which takes `handoff` seconds.
---@param jobs number[][]
---@param threads integer
---@param handoff number
---@return number seconds
---@return number imbalance the busiest thread over the mean, over all jobs
function schedule.jobs(jobs, threads, handoff)
  local seconds, busiest, mean = 0, 0, 0
  for _, tasks in ipairs(jobs) do
    local most = schedule.job(tasks, threads)
    busiest = busiest + most
    for _, one in ipairs(tasks) do mean = mean + one / threads end
    seconds = seconds + most + (threads > 1 and #tasks > 1 and handoff or 0)
  end
  return seconds, mean > 0 and busiest / mean or 1
end

return schedule
