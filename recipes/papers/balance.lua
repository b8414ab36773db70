-- balance.lua - how evenly ways to assign updates to ranks share the work, by counting.
--
--     build/seqrun recipes/papers/balance.lua                     8 ranks of 56 sequences with the lengths of Wikipedia
--     build/seqrun recipes/papers/balance.lua ranks=64 sequences=48 draws=20
--
-- Imbalance is the cost of the most expensive rank over the mean: the factor by which ranks that wait for each other
-- are slower.  Cost is tokens + sum len^2 / (6 H).  The last table adds what padding and attention at rounded lengths
-- cost: `time` is the most expensive rank over what an even share of the tokens needs without padding.  Random and cost
-- are seqrun's; the other ways are in balance_arms.lua.

package.path = arg[0]:gsub("[^/]*$", "../bench/?.lua;") .. package.path

local arms = require("balance_arms")
local common = require("common")
local sr = require("seqrun")

local options = common.options({
  data = common.lengths, ranks = 8, sequences = 56, draws = 300, hidden = 1024, seed = 1,
  batches = 4,
}, arg)

local RANKS, PER_SQUARE = math.tointeger(options.ranks), 1 / (6 * options.hidden)
local DRAWS, N = math.tointeger(options.draws), math.tointeger(options.ranks * options.sequences)
local WAYS = { "random", "strided", "snake", "lpt", "cost" }

---Mean imbalance by ranks x sequences, in a study of the published codes (strided: Baidu's exchange padding).
local PUBLISHED = {
  ["8x56"] = { random = 1.146, strided = 1.0155, snake = 1.0014, lpt = 1.0002 },
  ["64x48"] = { random = 1.25, strided = 1.020, snake = 1.001, lpt = 1.0003 },
  ["8x8"] = { random = 1.38, strided = 1.106, snake = 1.026, lpt = 1.005 },
}

local histogram = sr.must(sr.pack.lengths(options.data))
local length, all = arms.lengths(histogram, math.tointeger(options.seed))
local packing, plan = arms.packing(histogram, all, math.tointeger(options.seed))
local factor = plan:info().factor
local PACKS = math.max(RANKS, math.floor(N / factor + 0.5))

---Mean, worst imbalance and mean time over draws.
---@param lists fun(u: integer): integer[][][]
local function measure(lists, layout)
  local total = { uneven = 0, worst = 0, time = 0, rows = 0, squares = 0 }
  for u = 0, DRAWS - 1 do
    local one = arms.count(lists(u), layout, PER_SQUARE)
    local uneven = one.most / one.mean
    total.uneven, total.worst = total.uneven + uneven / DRAWS, math.max(total.worst, uneven)
    total.time = total.time + one.most / one.least / DRAWS
    total.squares = total.squares + one.squares[1] / one.squares[2] / DRAWS
    total.rows = total.rows + one.rows / DRAWS
  end
  return total
end

local drawn = {
  unpacked = function(u) return arms.unpacked(length, N, u) end,
  packed = function(u) return arms.packed(packing, length, PACKS, u) end,
  inside = function(u) return arms.packed_inside(length, N, u) end,
}

local function balanced(draw, way, batches)
  return function(u) return arms.assign(draw(u), RANKS, batches or 1, way, PER_SQUARE) end
end

local function cells(m) return ("%.6f"):format(m.uneven), ("%.6f"):format(m.worst) end

local function balance_table()
  local published = PUBLISHED[("%dx%d"):format(RANKS, options.sequences)] or {}
  local rows = { { "balance", "unpacked", "worst", "study", "packed", "worst", "in micro-batches", "worst" } }
  for _, way in ipairs(WAYS) do
    local row = { way }
    row[2], row[3] = cells(measure(balanced(drawn.unpacked, way), arms.layouts.exact))
    row[4] = published[way] or "-"
    row[5], row[6] = cells(measure(balanced(drawn.packed, way), arms.layouts.exact))
    row[7], row[8] = cells(measure(balanced(drawn.packed, way, options.batches), arms.layouts.exact))
    rows[#rows + 1] = row
  end
  common.print_table(rows)
end

local function arm_table()
  local layouts = arms.layouts
  local window = arms.sorted_window(length, RANKS, math.tointeger(options.sequences), 50)
  local rows = { { "arm", "rows/token", "attention", "imbalance", "time" } }
  local function add(name, lists, layout)
    local m = measure(lists, layout)
    local tokens = measure(lists, layouts.exact).rows
    rows[#rows + 1] = {
      name, ("%.3f"):format(m.rows / tokens), ("%.3f"):format(m.squares), ("%.4f"):format(m.uneven),
      ("%.3f"):format(m.time),
    }
  end
  add("padded to 512", balanced(drawn.unpacked, "random"), layouts.dense)
  add("padded to the rank's longest", balanced(drawn.unpacked, "random"), layouts.padded)
  add("sorted batches of 50 updates, padded", window, layouts.padded)
  add("sorted update in pieces, padded", function(u) return arms.sorted_update(drawn.unpacked(u), RANKS) end,
    layouts.padded)
  add("unpadded, attention at 512, random", balanced(drawn.unpacked, "random"), layouts.longest)
  add("unpadded, buckets of 128, random", balanced(drawn.unpacked, "random"), layouts.bucketed)
  add("unpadded, buckets of 128, strided (exchange)", balanced(drawn.unpacked, "strided"), layouts.bucketed)
  add("unpadded, buckets of 128, cost", balanced(drawn.unpacked, "cost"), layouts.bucketed)
  add("unpadded, steps of 64, cost", balanced(drawn.unpacked, "cost"), layouts.stepped)
  add("unpadded, exact, cost", balanced(drawn.unpacked, "cost"), layouts.exact)
  add("packed, dense attention", balanced(drawn.packed, "random"), layouts.dense)
  add("packed, random", balanced(drawn.packed, "random"), layouts.packs)
  add("packed, cost", balanced(drawn.packed, "cost"), layouts.packs)
  add("packed inside the update, cost", balanced(drawn.inside, "cost"), layouts.packs)
  common.print_table(rows)
end

print(("%d ranks of %d sequences (or %d packs, factor %.3f), H = %d, %d updates"):format(RANKS, options.sequences,
  PACKS // RANKS, factor, options.hidden, DRAWS))
balance_table()
print()
arm_table()
local exchanged = options.sequences * 4 * 2 * 512
print(("\nexchange of an update: %.0f kB sent and %.0f kB received by each rank; balance from the plan: none"):format(
  exchanged / 1000, exchanged * (RANKS - 1) / 1000))
