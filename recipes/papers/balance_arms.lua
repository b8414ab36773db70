-- balance_arms.lua - what ranks have to compute in an update, by counting: draws of updates, ways to assign them to
-- ranks, and ways to lay out rows and attention.
--
-- An item is a list of lengths that stay together: one sequence, or the sequences of a pack.  Its cost is
-- tokens + sum len^2 / (6 H): FLOP of a layer, in those of a token's products.

local sr = require("seqrun")
local core = require("seqrun.core.pack")

local arms = {}

---Lengths of all sequences of a histogram in random order.
---@param histogram seqrun.core.pack.Histogram
---@param seed integer
---@return fun(uid: integer): integer length of a sequence, from 0
---@return string all of them
function arms.lengths(histogram, seed)
  local all = histogram:shuffled(seed)
  return function(uid) return (string.unpack("=I2", all, 2 * uid + 1)) end, all
end

---Update number `u` (from 0) of `n` sequences that are not packed.
function arms.unpacked(length, n, u)
  local items = {}
  for i = 1, n do items[i] = { length(u * n + i - 1) } end
  return items
end

---Update number `u` of `n` packs of an epoch.
function arms.packed(packing, length, n, u)
  local items = {}
  for i = 1, n do
    items[i] = packing:at(0, u * n + i)
    for k, uid in ipairs(items[i]) do items[i][k] = length(uid) end
  end
  return items
end

---Update number `u` of `n` sequences, packed among themselves.
function arms.packed_inside(length, n, u)
  local list, items = {}, {}
  for i = 1, n do list[i] = length(u * n + i - 1) end
  local plan = sr.must(sr.pack(list, { max_len = 512 }))
  for _, pattern in ipairs(plan:patterns()) do
    for _ = 1, pattern.count do items[#items + 1] = table.move(pattern, 1, #pattern, 1, {}) end
  end
  return items
end

---The packs of an epoch.
function arms.packing(histogram, all, seed)
  local plan = sr.must(core.solve(histogram, { solver = "optimal" }))
  return sr.must(core.packing(plan, all, seed)), plan
end

---Ways that seqrun lacks, for comparison: a function that gives the groups of packs in falling order of cost.
---@type table<string, fun(costs: number[], groups: integer): integer[]>
arms.others = {}

---Assigned in rounds.
function arms.others.strided(costs, groups)
  local group = {}
  for i = 1, #costs do group[i] = (i - 1) % groups + 1 end
  return group
end

---In rounds, every second of them in reverse.
function arms.others.snake(costs, groups)
  local group = arms.others.strided(costs, groups)
  for i = 1, #costs do
    if (i - 1) // groups % 2 == 1 then group[i] = groups + 1 - group[i] end
  end
  return group
end

---Each to the cheapest group with room, as "cost" before its swaps.
function arms.others.lpt(costs, groups)
  local group, load, count, each, more = {}, {}, {}, #costs // groups, #costs % groups
  for g = 1, groups do load[g], count[g] = 0, 0 end
  for i, cost in ipairs(costs) do
    local best
    for g = 1, groups do
      local room = count[g] < each or count[g] == each and more > 0
      if room and (not best or load[g] < load[best]) then best = g end
    end
    if count[best] == each then more = more - 1 end
    group[i], load[best], count[best] = best, load[best] + cost, count[best] + 1
  end
  return group
end

---The group of each item by one of these ways.
local function group_by(way, items, groups, per_square)
  local costs, order, sorted, group = {}, {}, {}, {}
  for i, item in ipairs(items) do
    costs[i], order[i] = 0, i
    for _, length in ipairs(item) do costs[i] = costs[i] + length + per_square * length * length end
  end
  table.sort(order, function(a, b)
    if costs[a] ~= costs[b] then return costs[a] > costs[b] end
    return a < b
  end)
  for i, item in ipairs(order) do sorted[i] = costs[item] end
  for i, g in ipairs(arms.others[way](sorted, groups)) do group[order[i]] = g end
  return group
end

---Items by rank, assigned to `batches` batches of each by a value of the key `balance`, or by one of arms.others.
---@return integer[][][] # lists of items by rank
function arms.assign(items, ranks, batches, way, per_square)
  local group
  local groups = ranks * batches
  if arms.others[way] then
    group = group_by(way, items, groups, per_square)
  else
    group = sr.pack.assign(items, groups, { per_token = 1, per_square = per_square }, way)
  end
  local lists = {}
  for r = 1, ranks do lists[r] = {} end
  for i, item in ipairs(items) do
    local list = lists[(group[i] - 1) // batches + 1]
    list[#list + 1] = item
  end
  return lists
end

---Rows and squares of attention of a rank's items.
---@alias seqrun.bench.Layout fun(items: integer[][]): integer, integer

---@type table<string, seqrun.bench.Layout>
arms.layouts = {}

---No padding; attention of a sequence is computed at its length, rounded up to a multiple of `step`.
function arms.layouts.exact(items, step)
  local rows, squares = 0, 0
  for _, item in ipairs(items) do
    for _, length in ipairs(item) do
      local side = step and (length + step - 1) // step * step or length
      rows, squares = rows + length, squares + side * side
    end
  end
  return rows, squares
end

function arms.layouts.bucketed(items) return arms.layouts.exact(items, 128) end
function arms.layouts.stepped(items) return arms.layouts.exact(items, 64) end
function arms.layouts.longest(items) return arms.layouts.exact(items, 512) end

---Every item is a row of 512, all of which attention computes.
function arms.layouts.dense(items) return 512 * #items, 512 * 512 * #items end

---Sequences are padded to the longest of the rank.
function arms.layouts.padded(items)
  local longest = 0
  for _, item in ipairs(items) do longest = math.max(longest, item[1]) end
  return longest * #items, longest * longest * #items
end

---Rows of 512, of which attention computes what belongs together.
function arms.layouts.packs(items)
  local _, squares = arms.layouts.exact(items)
  return 512 * #items, squares
end

---What an update of these lists costs: the most expensive rank and the mean, and what is needed at least.
function arms.count(lists, layout, per_square)
  local most, sum, least, rows, squares = 0, 0, 0, 0, { 0, 0 }
  for _, items in ipairs(lists) do
    local r, s = layout(items)
    local tokens, exact = arms.layouts.exact(items)
    local cost = r + per_square * s
    most, sum, least = math.max(most, cost), sum + cost, least + tokens + per_square * exact
    rows, squares[1], squares[2] = rows + r, squares[1] + s, squares[2] + exact
  end
  return { most = most, mean = sum / #lists, least = least / #lists, rows = rows, squares = squares }
end

---Cuts a window of updates into batches of sequences of nearly equal length, in random order: one per rank and update.
---@return fun(u: integer): integer[][][] # lists by rank
function arms.sorted_window(length, ranks, sequences, updates)
  local n, cache = ranks * sequences * updates, {}
  local function sort(window)
    local list = {}
    for i = 1, n do list[i] = length(window * n + i - 1) end
    table.sort(list)
    local batches = {}
    for b = 1, ranks * updates do
      batches[b] = {}
      for i = 1, sequences do batches[b][i] = { list[(b - 1) * sequences + i] } end
    end
    local order = require("seqrun.core.batch").permuted
    cache = { window = window }
    for b, batch in ipairs(batches) do cache[order(b - 1, #batches, 1, window) + 1] = batch end
  end
  return function(u)
    if cache.window ~= u // updates then sort(u // updates) end
    return table.move(cache, u % updates * ranks + 1, (u % updates + 1) * ranks, 1, {})
  end
end

---One update sorted by length and cut in pieces: a piece per rank.
function arms.sorted_update(items, ranks)
  local sorted, lists = table.move(items, 1, #items, 1, {}), {}
  table.sort(sorted, function(a, b) return a[1] < b[1] end)
  local each = #items // ranks
  for r = 1, ranks do lists[r] = table.move(sorted, (r - 1) * each + 1, r * each, 1, {}) end
  return lists
end

return arms
