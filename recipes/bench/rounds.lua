-- rounds.lua - when the blocks of attention's backward pass are done: sequences that one block owns, and those that
-- are split into blocks of keys and of queries, in the order of sr_split (core/batch/tiles.h).

local rounds = {}

local TILE = 64 -- rows
local START = 1.5 -- visits that a block costs besides its own
local KEYS = 0.5 -- and each block of keys
local VISIT_KEYS, VISIT_QUERIES = 4 / 5, 3 / 5 -- of a visit's 5 products, where a sequence is split
local OF_KEYS, OF_QUERIES = 2 / 3, 1 / 3 -- of the sums for a bias

---What a block costs that owns a sequence of `blocks` blocks of rows, in visits of a block of keys to one of queries.
---@param blocks integer
---@param sums number what sums for a bias cost a block of rows
function rounds.visits(blocks, sums) return blocks * blocks + START + (KEYS + sums) * blocks end

---When the last of `slots` workers is done that take these jobs in order.
---@param jobs { seconds: number, count: integer }[]
local function last_of(jobs, slots)
  local load, latest = {}, 0
  for s = 1, slots do load[s] = 0 end
  for _, job in ipairs(jobs) do
    for _ = 1, job.count do
      local free = 1
      for s = 2, slots do
        if load[s] < load[free] then free = s end
      end
      load[free] = load[free] + job.seconds
      latest = math.max(latest, load[free])
    end
  end
  return latest
end

---The blocks of one sequence, if it is split; `seconds` if it is whole.
local function parts_of(length, seconds, heads, sums)
  local blocks = math.ceil(length / TILE)
  local visit = seconds / rounds.visits(blocks, sums)
  return {
    keys = { seconds = visit * (VISIT_KEYS * blocks + START + KEYS + OF_KEYS * sums), count = heads * blocks },
    queries = { seconds = visit * (VISIT_QUERIES * blocks + START + OF_QUERIES * sums), count = heads * blocks },
  }
end

---Jobs where the first `split` sequences are split.
---@param whole { length: integer, seconds: number }[] of a block each, longest first
local function jobs_of(whole, split, heads, sums)
  local jobs, queries, at = {}, {}, split + 1
  local keys = split > 0 and parts_of(whole[1].length, whole[1].seconds, heads, sums).keys.seconds or math.huge
  while whole[at] and whole[at].seconds > keys do
    jobs[#jobs + 1], at = { seconds = whole[at].seconds, count = heads }, at + 1
  end
  for i = 1, split do
    local parts = parts_of(whole[i].length, whole[i].seconds, heads, sums)
    jobs[#jobs + 1], queries[i] = parts.keys, parts.queries
  end
  table.move(queries, 1, split, #jobs + 1, jobs)
  for i = at, #whole do jobs[#jobs + 1] = { seconds = whole[i].seconds, count = heads } end
  return jobs
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
    local jobs, all = jobs_of(whole, number, heads, sums), 0
    for _, job in ipairs(jobs) do all = all + job.seconds * job.count end
    if all / slots >= best then break end
    local last = last_of(jobs, slots)
    if last < best then best, split = last, number end
  end
  return best, split
end

return rounds
