-- rounds.lua - when the blocks of attention's backward pass are done: sequences that one block owns, and those that
-- are split into blocks of keys and of queries, in the order of sr_split (core/batch/tiles.h).

local rounds = {}

local TILE = 64 -- rows
local START = 1.5 -- further visits that a block costs
local KEYS = 0.5 -- and each block of keys
local VISIT_KEYS, VISIT_QUERIES = 4 / 5, 3 / 5 -- of a visit's 5 products, where a sequence is split
local OF_KEYS, OF_QUERIES = 2 / 3, 1 / 3 -- of the sums for a bias

---What a block costs that owns a sequence of `blocks` blocks of rows, in visits of a block of keys to one of queries.
---@param blocks integer
---@param sums number what sums for a bias cost a block of rows
function rounds.visits(blocks, sums) return blocks * blocks + START + (KEYS + sums) * blocks end

---When the last of `slots` workers is done: each takes the next task as soon as it is free.  So blocks run on the
---processors of a GPU, and the tasks of a job on threads (core/base/thread.c).
---@param tasks number[] seconds, in the order in which they are handed out
---@param slots integer
---@return number
function rounds.last(tasks, slots)
  local load, latest = {}, 0
  for s = 1, slots do load[s] = 0 end
  for _, seconds in ipairs(tasks) do
    local free = 1
    for s = 2, slots do
      if load[s] < load[free] then free = s end
    end
    load[free] = load[free] + seconds
    latest = math.max(latest, load[free])
  end
  return latest
end

---Seconds of a block of keys and of one of queries of a sequence that is split, and how many blocks it has;
---`seconds` if it is whole.
local function parts_of(one, sums)
  local blocks = math.ceil(one.length / TILE)
  local visit = one.seconds / rounds.visits(blocks, sums)
  return visit * (VISIT_KEYS * blocks + START + KEYS + OF_KEYS * sums),
    visit * (VISIT_QUERIES * blocks + START + OF_QUERIES * sums), blocks
end

---Tasks where the first `split` sequences are split.
---@param whole { length: integer, seconds: number }[] of a block each, longest first
local function tasks_of(whole, split, heads, sums)
  local tasks, at = {}, split + 1
  local function add(seconds, count)
    for _ = 1, count do tasks[#tasks + 1] = seconds end
  end
  local longest = split > 0 and parts_of(whole[1], sums) or math.huge
  while whole[at] and whole[at].seconds > longest do
    add(whole[at].seconds, heads)
    at = at + 1
  end
  for part = 1, 2 do
    for i = 1, split do
      local parts = { parts_of(whole[i], sums) }
      add(parts[part], heads * parts[3])
    end
  end
  for i = at, #whole do add(whole[i].seconds, heads) end
  return tasks
end

---@param lengths integer[]
---@param seconds number[] of each sequence, all heads, on a chip whose blocks are all busy
---@param heads integer
---@param slots integer blocks at a time
---@param sums number what sums for a bias cost a block of rows
---@return number seconds until the last block is done, if the best number of the longest sequences is split
---@return integer split
function rounds.seconds(lengths, seconds, heads, slots, sums)
  local whole, best, split = {}, math.huge, 0
  for i, n in ipairs(lengths) do whole[i] = { length = n, seconds = seconds[i] * slots / heads } end
  table.sort(whole, function(a, b) return a.length > b.length end)
  for number = 0, #whole do
    if number > 0 and whole[number].length <= TILE then break end
    local tasks, all = tasks_of(whole, number, heads, sums), 0
    for _, each in ipairs(tasks) do all = all + each end
    if all / slots >= best then break end
    local last = rounds.last(tasks, slots)
    if last < best then best, split = last, number end
  end
  return best, split
end

return rounds
