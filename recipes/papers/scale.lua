-- scale.lua - BERT-Large on 8 to 1,024 GPUs, by simulation; needs no GPU.
--
--   build/seqrun recipes/papers/scale.lua [device=a100|h100] [packs=28] [model=bert-large] [results=mlperf_bert.tsv]
--       [link=0.7] [network=0.7] [buckets=8] [gradient=4] [gather_hidden=false] [jitter=0.005] [balance=cost]
--       [draws=20]
--
-- First table: `packs` packs of 512 with the lengths of Wikipedia per device and update, on more and more devices.
-- Second: updates of fixed numbers of sequences, with the minutes to MLPerf's target.  results=FILE adds the best
-- published result for each number of devices of this kind (columns accel, n_accel, gbs, seq_s).  collectives.lua says
-- how a step is computed; the work of the slowest rank is counted on updates drawn from the plan (balance_arms.lua).

package.path = arg[0]:gsub("[^/]*$", "../bench/?.lua;") .. package.path

local arms = require("balance_arms")
local common = require("common")
local models = require("seqrun.advise.models")
local scale = require("collectives")
local sr = require("seqrun")

local defaults = {
  device = "a100", model = "bert-large", packs = 28, results = "", balance = "cost", draws = 20, seed = 1,
  data = common.lengths,
}
for key, value in pairs(scale.links) do defaults[key] = value end
local options = common.options(defaults, arg)

local links = {}
for key in pairs(scale.links) do links[key] = options[key] end
local model, device = sr.must(models.model(options.model)), sr.must(models.device(options.device))
local histogram = sr.must(sr.pack.lengths(options.data))
local length, all = arms.lengths(histogram, math.tointeger(options.seed))
local packing, plan = arms.packing(histogram, all, math.tointeger(options.seed))
local factor = plan:info().factor
local PER_SQUARE = 1 / (6 * model.hidden)

---Work of the slowest rank over the mean, and tokens that a token attends to.
local function draw(ranks, packs)
  local uneven, rows, squares = 0, 0, 0
  local draws = math.max(2, math.ceil(options.draws * 8 / ranks))
  for u = 0, draws - 1 do
    local lists = arms.assign(arms.packed(packing, length, packs, u), ranks, 1, options.balance, PER_SQUARE)
    local one = arms.count(lists, arms.layouts.packs, PER_SQUARE)
    uneven, squares, rows = uneven + one.most / one.mean / draws, squares + one.squares[2], rows + one.rows
  end
  return uneven, squares / rows
end

---A step of `ranks` devices over updates of `packs` packs.
local function simulate(ranks, packs)
  local uneven, attended = draw(ranks, packs)
  local parts, seconds = scale.step {
    model = model, device = device, ranks = ranks, packs = packs / ranks, attended = attended, uneven = uneven,
    links = links,
  }
  parts.sequences_per_s = packs * factor / seconds
  return parts, seconds, uneven
end

local function ms(seconds) return ("%.2f"):format(1e3 * seconds) end

local function row_of(ranks, packs, base)
  local parts, seconds, uneven = simulate(ranks, packs)
  local each = parts.sequences_per_s / ranks
  return {
    ranks, ("%.4f"):format(uneven), ms(parts.compute), ms(parts.waiting), ms(parts.reduce), ms(parts.gather),
    ms(parts.optimizer), ms(seconds), ("%.0f"):format(each), base and ("%.1f %%"):format(100 * each / base) or "100 %",
  }, each
end

local HEAD = {
  "devices", "imbalance", "compute ms", "waiting", "reduce", "gather", "optimizer", "step ms", "seq/s each",
  "efficiency",
}

local function weak()
  local rows, base = { HEAD }, nil
  for _, ranks in ipairs { 8, 16, 32, 64, 128, 256, 512, 1024 } do
    local row, each = row_of(ranks, math.tointeger(options.packs) * ranks, base)
    base = base or each
    rows[#rows + 1] = row
  end
  print(("%d packs per device and update (%.0f sequences); efficiency against 8 devices"):format(options.packs,
    options.packs * factor))
  common.print_table(rows)
  print()
end

-- ---- published results ---------------------------------------------------------------------------

---The best rate of each number of devices: { [n] = { batch, rate } }.
local function results(path)
  local best = {}
  for _, t in ipairs(common.read_table(path)) do
    local n, rate, kind = math.tointeger(tonumber(t.n_accel)), tonumber(t.seq_s), t.accel:lower()
    local same = kind:find(options.device:match("^%w+"), 1, true) and not kind:find("pcie") and kind:find("80gb")
    if n and rate and same and t.division == "closed" and n >= 8 and rate > (best[n] and best[n].rate or 0) then
      best[n] = { batch = tonumber(t.gbs), rate = rate }
    end
  end
  return best
end

---The global batches with which each number of devices was submitted, where no results are given.
local BATCHES = {
  [8] = 448, [16] = 768, [32] = 1536, [64] = 3072, [128] = 3072, [256] = 4608, [512] = 4608, [1024] = 4608,
}

local function fixed(published)
  local counts, rows = {}, { { "devices", "sequences", "step ms", "seq/s each", "efficiency", "minutes to target" } }
  if published then table.move({ "published seq/s each", "its efficiency" }, 1, 2, 7, rows[1]) end
  for n in pairs(published or BATCHES) do counts[#counts + 1] = n end
  table.sort(counts)
  local base, their_base
  for _, n in ipairs(counts) do
    local batch = published and published[n].batch or BATCHES[n]
    local parts, seconds = simulate(n, math.floor(batch / factor + 0.5))
    local each, theirs = parts.sequences_per_s / n, published and published[n].rate / n
    base, their_base = base or each, their_base or theirs
    local row = { n, ("%.0f"):format(batch), ms(seconds), ("%.0f"):format(each), ("%.0f %%"):format(100 * each / base),
      ("%.2f"):format(scale.minutes(batch, seconds)) }
    if theirs then
      table.move({ ("%.0f"):format(theirs), ("%.0f %%"):format(100 * theirs / their_base) }, 1, 2, 7, row)
    end
    rows[#rows + 1] = row
  end
  print("updates of a fixed number of sequences")
  common.print_table(rows)
end

local words = {}
for _, key in ipairs { "link", "network", "hop", "inner_hop", "buckets", "gradient", "gather_hidden", "jitter" } do
  words[#words + 1] = ("%s=%s"):format(key, links[key])
end
print(("%s on %s, bf16, packs of 512, balance %s, %s"):format(model.name, device.name, options.balance,
  table.concat(words, " ")))
weak()
fixed(options.results ~= "" and results(options.results))
