-- experts.lua - do experts lower the loss?  A dense model, experts from scratch, upcycled ones and a gate that begins
-- dense, at equal FLOP and at equal processor time.
--
--     build/seqrun recipes/papers/experts.lua                          18 runs, a quarter of an hour
--     build/seqrun recipes/papers/experts.lua size=0.1 seeds=1 out=runs/try         a rehearsal of a minute
--     build/seqrun recipes/papers/experts.lua only=report
--
-- `flop` is model FLOP at size 1, forward and backward; of experts those that tokens choose count, and while a gate is
-- dense all of them.  Every arm spends the same, and its rate reaches zero there.  `start` is a dense model that spends
-- half; `continued` and `upcycled` begin with its weights and spend the other half, with a rate of their own: compare
-- these two with each other, and with `dense`, which spends all at once.
--
-- Repeating the command goes on where it stopped.

local experiment = require("experiment")

local options = experiment.open("experts", {
  flop = 1.8e12, experts = 4, chosen = 1, layers = 2, hidden = 128, peak = 2e-3, evaluations = 8, data = "",
}, { "flop", "experts", "chosen", "layers", "hidden", "peak", "data" }, arg)

local FROM = { continued = "start", upcycled = "start" }

---What sets an arm apart: its share of the FLOP, and keys.
local function arms()
  local experts = { "model.experts=" .. options.experts, "model.experts_chosen=" .. options.chosen }
  local function with(...) return table.move({ ... }, 1, select("#", ...), 3, { table.unpack(experts) }) end
  return {
    { name = "start", share = 0.5, words = {} }, { name = "dense", share = 1, words = {} },
    { name = "continued", share = 0.5, words = {} }, { name = "upcycled", share = 0.5, words = experts },
    { name = "scratch", share = 1, words = experts },
    { name = "dense gate", share = 1, words = with("gate.temperature=4", "gate.total=0.2") },
  }
end

local function folder_of(name, seed) return ("%s/%s-%d"):format(options.out, name:gsub(" ", "_"), seed) end

---About the FLOP of a step of a dense model, for the distance between evaluations.
local function per_step(hidden) return 6 * 800 * (options.layers * 12 * hidden * hidden + 4000 * hidden / 4) end

local function words_of(path, arm, seed)
  local flop, h = options.flop * options.size * arm.share, options.hidden
  local every = math.max(1, math.floor(flop / per_step(h) / options.evaluations))
  local own = table.move(arm.words, 1, #arm.words, 2, { ("eval.every=%d"):format(every) })
  if FROM[arm.name] then own[#own + 1] = "init.from=" .. folder_of(FROM[arm.name], seed) end
  return experiment.pretraining({
    data = path, seed = seed, max_len = 128, sequences = 32, hidden = h, layers = options.layers, dropout = 0,
    peak = options.peak, by = "flops", total = flop, evaluated = 20, logged = 10,
  }, own)
end

---The curve of a run of an arm; nil unless it has ended.  What begins with another run has its FLOP and time before it.
local function curve_of(arm, seed)
  local folder = folder_of(arm.name, seed)
  if not experiment.finished(folder) then return nil end
  local curve, first = experiment.curve(folder), FROM[arm.name] and experiment.curve(folder_of(FROM[arm.name], seed))
  local before = first and first[#first] or { flops = 0, train_seconds = 0 }
  for _, point in ipairs(curve) do
    point.flops, point.train_seconds = point.flops + before.flops, point.train_seconds + before.train_seconds
  end
  return curve
end

---The values of a key at the end of each curve; less those of the dense model with the same seed, if it is given.
local function values(curves, key, dense)
  return experiment.over(options.seeds, function(seed)
    local one, other = curves[seed], dense and dense[seed]
    if one and (other or not dense) then return one[#one][key] - (other and other[#other][key] or 0) end
  end)
end

local function report()
  local found, seconds, dense = {}, math.huge, nil
  for i, arm in ipairs(arms()) do
    local by_seed = {}
    local curves = experiment.over(options.seeds, function(seed)
      by_seed[seed] = curve_of(arm, seed)
      return by_seed[seed]
    end)
    found[i] = { arm = arm, curves = curves, by_seed = by_seed }
    if arm.name == "dense" then dense = by_seed end
    for _, last in ipairs(arm.name ~= "start" and values(by_seed, "train_seconds") or {}) do
      seconds = math.min(seconds, last)
    end
  end
  print(("\n%-12s %16s %18s %14s %20s %6s"):format("arm", "loss at the end", "less dense's", "CPU seconds",
    ("loss at %.0f CPU s"):format(seconds), "runs"))
  for _, one in ipairs(found) do
    local at = {}
    for _, curve in ipairs(one.curves) do
      at[#at + 1] = experiment.value_at(curve, "train_seconds", "mlm_loss", seconds)
    end
    print(("%-12s %16s %18s %14s %20s %6d"):format(one.arm.name,
      experiment.shown(values(one.by_seed, "mlm_loss"), "%.3f"),
      experiment.shown(values(one.by_seed, "mlm_loss", dense), "%+.3f"),
      experiment.shown(values(one.by_seed, "train_seconds"), "%.0f"),
      experiment.shown(at, "%.3f"), #one.curves))
  end
  local panels = {}
  for i, x in ipairs { { key = "flops", label = "FLOP" }, { key = "train_seconds", label = "processor seconds" } } do
    local series = {}
    for k, one in ipairs(found) do series[k] = { name = one.arm.name, curves = one.curves, colour = k } end
    panels[i] = {
      title = "held-out loss by " .. x.label, x = x, y = { key = "mlm_loss", label = "nats" }, series = series,
    }
  end
  experiment.draw(options.out .. "/experts.svg", "Experts", panels, 2)
end

local path = options.only ~= "report" and (options.data ~= "" and options.data or experiment.data(options.out, "text"))
experiment.each_seed(options, function(seed)
  for _, arm in ipairs(arms()) do
    if experiment.goes_on(options) then
      experiment.train(options, folder_of(arm.name, seed), words_of(path, arm, seed))
    end
  end
end)
report()
