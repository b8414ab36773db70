-- ladder.lua - what each step away from padding brings on this machine: the table of the unpadded BERT (Baidu's,
-- arXiv:2208.08124), rung by rung.
--
--     build/seqrun recipes/papers/ladder.lua                          5 minutes on a quiet machine
--     build/seqrun recipes/papers/ladder.lua seeds=1,2,3,4,5         narrower intervals
--     build/seqrun recipes/papers/ladder.lua model=base packs=8 updates=1               half an hour
--     build/seqrun recipes/papers/ladder.lua size=0.25 seeds=1 out=runs/try          a rehearsal
--     build/seqrun recipes/papers/ladder.lua only=report
--
-- padded      a sequence per row of 512, attention over the whole row
-- unpadded    sequences one after the other; attention still at 512 for each
-- bucketed    attention at 128, 256, 384 or 512
-- exact       attention at each length
-- fused       exact, with bias, activation, dropout, residual and norm inside the ops that need them
-- ranks       fused, on `ranks` ranks of a thread each; sequences as drawn
-- balanced    the same, assigned to ranks by cost
-- overlapped  the same, with gradients exchanged during the backward pass
--
-- A rung is a step of recipes/bench/step.lua over updates of `packs` packs' worth of sequences with the lengths of
-- Wikipedia; `size` scales packs.  All rungs of a seed see the same sequences, in turns; the interval is over seeds,
-- which draw other sequences.  `of the rung above` is the mean of the ratios within a seed.  Ranks need mpirun; a
-- seed that has been measured is not measured again.

local experiment = require("experiment") -- first: it says where common.lua is
local bars = require("seqrun.draw.bars")
local common = require("common")
local sys = require("seqrun.core.sys")

local options = experiment.open("ladder", {
  model = "small", packs = 8, updates = 4, repeats = 3, ranks = 2, precision = "f32", longest = 0, clock = "wall",
}, { "model", "packs", "updates", "repeats", "ranks", "precision", "longest", "threads", "clock" }, arg)

local PACKS = math.max(1, math.floor(options.packs * options.size))

---Name of a rung, arrangement of step.lua, its options; ranked: on several ranks.
local RUNGS = {
  { "padded", "padded", "fused=false" }, { "unpadded", "longest", "fused=false" },
  { "bucketed", "bucketed", "fused=false" }, { "exact", "exact", "fused=false" }, { "fused", "exact" },
  { "ranks", "dealt", "deal=random", "overlap=false", ranked = true },
  { "balanced", "dealt", "overlap=false", ranked = true }, { "overlapped", "dealt", ranked = true },
}

---Real tokens per second of a rung on the sequences of a seed; nil with what was said.
local function measure(rung, seed)
  local words = {
    "only=" .. rung[2], "model=" .. options.model, ("packs=%d"):format(PACKS), ("updates=%d"):format(options.updates),
    ("repeats=%d"):format(options.repeats), "seed=" .. seed, "precision=" .. options.precision,
    ("longest=%d"):format(options.longest), "clock=" .. options.clock,
    ("threads=%d"):format(rung.ranked and 1 or options.threads),
  }
  table.move(rung, 3, #rung, #words + 1, words)
  local text = common.run(common.folder .. "/step.lua", words, { ranks = rung.ranked and options.ranks or 1 })
  return tonumber(text:match("\n" .. rung[2] .. " +(%d+)")), text
end

-- ---- what has been measured, a line each ------------------------------------------------------------

local FILE = options.out .. "/ladder.tsv"
local speeds = {} -- by rung and seed
for _, rung in ipairs(RUNGS) do speeds[rung[1]] = {} end
for name, seed, speed in (sys.read_file(FILE) or ""):gmatch("(%l+)\t(%d+)\t([%d.]+)\n") do -- whole lines only
  if speeds[name] then speeds[name][math.tointeger(tonumber(seed))] = tonumber(speed) end
end

local function keep(name, seed, speed)
  speeds[name][seed] = speed
  local file = assert(io.open(FILE, "a"))
  file:write(("%s\t%d\t%.1f\n"):format(name, seed, speed))
  assert(file:close())
end

local ranks = common.has_ranks()
if not ranks then
  print("left out: ranks, balanced, overlapped: mpirun is not installed (apt-get install openmpi-bin)")
end
for _, seed in ipairs(options.seeds) do
  for _, rung in ipairs(RUNGS) do
    if experiment.goes_on(options) and not speeds[rung[1]][seed] and (ranks or not rung.ranked) then
      local speed, text = measure(rung, seed)
      if not speed then error(("%s failed:\n%s"):format(rung[1], text), 0) end
      keep(rung[1], seed, speed)
    end
  end
end

-- ---- report ------------------------------------------------------------------------------------

local WIDTH = 24 -- of bars

---Ratios of a rung to another, for the seeds that have both.
local function ratios(name, other)
  return experiment.over(options.seeds, function(seed)
    local one, two = speeds[name][seed], speeds[other][seed]
    return one and two and one / two
  end)
end

local function values(name) return experiment.over(options.seeds, function(seed) return speeds[name][seed] end) end

print(("%s; %s in %s, %d updates of %g packs of 512"):format(common.machine(), options.model, options.precision,
  options.updates, PACKS))
local rows, drawn = { { "rung", "seeds", "real tokens/s", "of the rung above", "of padded", "" } }, {}
local before, most = nil, 0
for _, rung in ipairs(RUNGS) do
  local list = values(rung[1])
  if #list > 0 then
    local mean = experiment.interval(list).mean
    local function to(other, format) return other and experiment.shown(ratios(rung[1], other), format) or "-" end
    rows[#rows + 1] = {
      rung[1], #list, experiment.shown(list, "%.0f"), to(before, "%.3f"), to(before and "padded", "%.2f"), "",
    }
    drawn[#rows], most, before = mean, math.max(most, mean), rung[1]
  end
end
for i, mean in pairs(drawn) do
  local bar = bars.bar(mean / most, WIDTH)
  rows[i][6] = bar .. (" "):rep(WIDTH - utf8.len(bar))
end
common.print_table(rows)

local ticks, curves = {}, {}
for i, rung in ipairs(RUNGS) do ticks[i] = { at = i, label = (rung[1]:gsub("ped$", "")) } end
for k, seed in ipairs(options.seeds) do
  curves[k] = {}
  for i, rung in ipairs(RUNGS) do
    local speed, first = speeds[rung[1]][seed], speeds.padded[seed]
    if speed and first then table.insert(curves[k], { rung = i, times = speed / first }) end
  end
end
experiment.draw(options.out .. "/ladder.svg", "ladder", { {
  title = "real tokens/s, in those of padded", x = { key = "rung", label = "", low = 0.6, high = 8.4, ticks = ticks },
  y = { key = "times", label = "times" }, series = { { name = options.model, curves = curves, colour = 1 } },
} })
