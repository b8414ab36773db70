-- lengths.lua - packs of sequences with realistic lengths, for the step benchmark.
--
-- Lengths are sampled from a histogram with a fixed seed and packed by best-fit decreasing.  The
-- histogram of Wikipedia at 512 tokens was published with the packing paper (Krell et al. 2021,
-- arXiv:2107.02027): line l has the number of sequences of l tokens.

local lengths = {}

local SLOTS = 512 -- least capacity of a pack, for lengths that do not come from a file

---@param path string a file, or "8-64": from 8 to 64, all equally often
---@return integer[] # count by length
local function read_histogram(path)
  local first, last = path:match("^(%d+)%-(%d+)$")
  if first then
    local counts = {}
    first, last = tonumber(first), tonumber(last)
    for length = 1, math.max(SLOTS, last) do counts[length] = length >= first and length <= last and 1 or 0 end
    return counts
  end
  local counts = {}
  for line in assert(io.open(path)):lines() do counts[#counts + 1] = assert(math.tointeger(tonumber(line))) end
  return counts
end

---A self-contained generator, so that the sample is the same on every platform.
local function generator(seed)
  local state = seed
  return function()
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) / (1 << 31)
  end
end

---Lengths drawn from counts.
local function draw(counts, number, seed)
  local total, random, drawn = 0, generator(seed), {}
  for _, count in ipairs(counts) do total = total + count end
  for i = 1, number do
    local left = random() * total
    for length, count in ipairs(counts) do
      left = left - count
      if left < 0 then
        drawn[i] = length
        break
      end
    end
  end
  return drawn
end

---@param path string
---@param number integer
---@param seed integer
---@return integer[]
function lengths.draw(path, number, seed) return draw(read_histogram(path), number, seed) end

---Best-fit decreasing: each sequence goes into the fullest pack that has room for it.
local function pack(drawn, capacity)
  table.sort(drawn, function(a, b) return a > b end)
  local packs = {}
  for _, length in ipairs(drawn) do
    local best
    for _, candidate in ipairs(packs) do
      if candidate.room >= length and (not best or candidate.room < best.room) then best = candidate end
    end
    if not best then
      best = { room = capacity }
      packs[#packs + 1] = best
    end
    best[#best + 1] = length
    best.room = best.room - length
  end
  return packs
end

---Shuffles in place, so that neighbouring packs are not similar.
local function shuffle(list, seed)
  local random = generator(seed)
  for i = #list, 2, -1 do
    local j = 1 + math.floor(random() * i)
    list[i], list[j] = list[j], list[i]
  end
end

---Samples `number` packs, each a list of lengths whose sum is at most the histogram's capacity.
---@param path string
---@param number integer
---@param seed integer
---@param longest? integer longer sequences are cut to it
---@return integer[][] packs
---@return number factor sequences per pack over the whole sample
---@return integer capacity
function lengths.packs(path, number, seed, longest)
  local counts = read_histogram(path)
  local drawn = draw(counts, 2000, seed)
  for i, length in ipairs(drawn) do drawn[i] = math.min(length, longest or length) end
  local packs = pack(drawn, #counts)
  shuffle(packs, seed)
  return table.move(packs, 1, number, 1, {}), #drawn / #packs, #counts
end

return lengths
