-- list_schedule.lua - when the last of some threads is done: each takes the next task as soon as it is free, as the
-- tasks of a job run (core/base/thread.c).  No model of time: the seconds of tasks are measured.

---@param tasks number[] seconds, in the order in which they are handed out
---@param threads integer
---@return number
return function(tasks, threads)
  local load, latest = {}, 0
  for s = 1, threads do load[s] = 0 end
  for _, seconds in ipairs(tasks) do
    local free = 1
    for s = 2, threads do
      if load[s] < load[free] then free = s end
    end
    load[free] = load[free] + seconds
    latest = math.max(latest, load[free])
  end
  return latest
end
