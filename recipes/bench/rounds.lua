-- rounds.lua - when the blocks of attention's backward pass are done: sequences that one block owns, longest first, and
-- those that are split, as sr_tiles_split() (core/batch/tiles.c) chooses them.

local rounds = {}

local STRIP, TILE = 16, 64 -- rows
local MORE = 1.4 -- a split sequence has 7 products instead of 5
local LAUNCHES = 3 -- of the split ones

local function cost_of(n) return math.ceil(n / STRIP) ^ 2 end

---@param cost number[] falling
local function finish_of(cost, from, rest, heads, slots)
  local latest, begun, round = rest * heads, 0, 1
  while begun < (#cost - from) * heads do
    latest = math.max(latest, round * cost[from + begun // heads + 1] * slots)
    begun, round = begun + slots, round + 1
  end
  return latest
end

---How many of the longest sequences are split.
---@param lengths integer[] falling
---@param heads integer
---@param slots integer blocks at a time
---@return integer
function rounds.split(lengths, heads, slots)
  local cost, rest = {}, 0
  for i, n in ipairs(lengths) do
    cost[i] = cost_of(n)
    rest = rest + cost[i]
  end
  local best, split, parts = math.huge, 0, 0
  for i = 0, #lengths do
    local tail = i > 0 and cost[1] / math.ceil(lengths[1] / TILE) or 0
    local time = (2 * parts * heads + tail * slots) * MORE / 2 + finish_of(cost, i, rest, heads, slots)
    if time < best then best, split = time, i end
    if i == #lengths or lengths[i + 1] <= TILE then break end
    parts, rest = parts + cost[i + 1], rest - cost[i + 1]
  end
  return split
end

---When the last of `slots` workers is done that take these jobs in order, each for every head.
local function last_of(jobs, first, heads, slots)
  local load, latest = {}, 0
  for s = 1, slots do load[s] = 0 end
  for i = first, #jobs do
    for _ = 1, heads do
      local free = 1
      for s = 2, slots do
        if load[s] < load[free] then free = s end
      end
      load[free] = load[free] + jobs[i] * slots / heads
      latest = math.max(latest, load[free])
    end
  end
  return latest
end

---@param lengths integer[]
---@param seconds number[] of each sequence, all heads, on a chip whose blocks are all busy
---@param heads integer
---@param slots integer
---@return number seconds until the last block is done
---@return integer launches besides the one of whole sequences
function rounds.seconds(lengths, seconds, heads, slots)
  local order, sorted, jobs, split = {}, {}, {}, 0
  for i = 1, #lengths do order[i] = i end
  table.sort(order, function(a, b)
    if lengths[a] ~= lengths[b] then return lengths[a] > lengths[b] end
    return a < b
  end)
  for k, i in ipairs(order) do sorted[k], jobs[k] = lengths[i], seconds[i] end
  local number = rounds.split(sorted, heads, slots)
  for i = 1, number do split = split + MORE * jobs[i] end
  if number > 0 then split = split + MORE / 2 * jobs[1] * slots / heads / math.ceil(sorted[1] / TILE) end
  return split + last_of(jobs, number + 1, heads, slots), number > 0 and LAUNCHES or 0
end

return rounds
