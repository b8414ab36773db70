-- experts.lua - do experts lower the loss?  A dense model, experts from scratch, upcycled ones and a gate that begins
-- dense, at equal FLOP and at equal processor time.
--
--     build/seqrun recipes/bench/experts.lua                          18 runs, a quarter of an hour
--     build/seqrun recipes/bench/experts.lua size=0.1 seeds=1 out=runs/try         a rehearsal of a minute
--     build/seqrun recipes/bench/experts.lua only=report
--
-- `flop` is model FLOP at size 1, forward and backward; of experts those that tokens choose count, and while a gate is
-- dense all of them.  Every arm spends the same, and its rate reaches zero there.  `start` is a dense model that spends
-- half; `continued` and `upcycled` begin with its weights and spend the other half, with a rate of their own: compare
-- these two with each other, and with `dense`, which spends all at once.
--
-- Repeating the command goes on where it stopped.

local directory = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = directory .. "/?.lua;" .. package.path

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
  local words = {
    experiment.RECIPES .. "pretrain.lua", "data.file=" .. path, "seed=" .. seed, "data.nsp=false", "data.max_len=128",
    "mask.max=40", "mask.prob=0.3", "batch.sequences=32", "batch.micro_packs=32", "model.hidden_size=" .. h,
    "model.num_hidden_layers=" .. options.layers, "model.num_attention_heads=" .. math.max(1, h // 32),
    "model.intermediate_size=" .. 4 * h, "model.max_position_embeddings=128", "model.hidden_dropout_prob=0",
    "model.attention_probs_dropout_prob=0", "model.initializer=local", "model.initializer_range=0.05",
    "optimizer.betas=[0.9,0.98]", ("rate.peak=%g"):format(options.peak), "rate.by=flops", "rate.warmup_by=flops",
    ("rate.total=%d"):format(math.floor(flop)), ("rate.warmup=%d"):format(math.floor(flop / 10)), "eval.updates=20",
    ("eval.every=%d"):format(math.max(1, math.floor(flop / per_step(h) / options.evaluations))), "save.every=0",
    "save.minutes=3",
    "log.every=10",
  }
  local from = FROM[arm.name]
  if from then words[#words + 1] = "init.from=" .. folder_of(from, seed) end
  return table.move(arm.words, 1, #arm.words, #words + 1, words)
end

---The curves of the runs of an arm that have ended, and these by the number of the seed.  What begins with another run
---has its FLOP and time before it.
local function curves_of(arm)
  local list, by_seed = {}, {}
  for i, seed in ipairs(options.seeds) do
    local folder = folder_of(arm.name, seed)
    if experiment.finished(folder) then
      local curve, before = experiment.curve(folder), { flops = 0, train_seconds = 0 }
      if FROM[arm.name] then
        local first = experiment.curve(folder_of(FROM[arm.name], seed))
        before = first[#first]
      end
      for _, point in ipairs(curve) do
        point.flops = point.flops + before.flops
        point.train_seconds = point.train_seconds + before.train_seconds
      end
      list[#list + 1], by_seed[i] = curve, curve
    end
  end
  return list, by_seed
end

---The values of a key at the end of each curve, or what `of` makes of each.
local function values(curves, of)
  local list = {}
  for _, curve in ipairs(curves) do list[#list + 1] = of(curve[#curve], curve) end
  return list
end

---The losses at the end less those of the dense model with the same seed.
local function differences(found, dense)
  local list = {}
  for i, curve in pairs(found.by_seed) do
    local other = dense.by_seed[i]
    if other then list[#list + 1] = curve[#curve].mlm_loss - other[#other].mlm_loss end
  end
  return list
end

local function report()
  local found, seconds, dense = {}, math.huge, nil
  for i, arm in ipairs(arms()) do
    local curves, by_seed = curves_of(arm)
    found[i] = { arm = arm, curves = curves, by_seed = by_seed }
    dense = arm.name == "dense" and found[i] or dense
    for _, curve in ipairs(arm.name ~= "start" and found[i].curves or {}) do
      seconds = math.min(seconds, curve[#curve].train_seconds)
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
      experiment.shown(values(one.curves, function(last) return last.mlm_loss end), "%.3f"),
      experiment.shown(differences(one, dense), "%+.3f"),
      experiment.shown(values(one.curves, function(last) return last.train_seconds end), "%.0f"),
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

local path = options.only == "" and (options.data ~= "" and options.data or experiment.data(options.out, "text"))
for _, seed in ipairs(path and options.seeds or {}) do
  for _, arm in ipairs(arms()) do
    if experiment.goes_on(options) then
      experiment.train(options, folder_of(arm.name, seed), words_of(path, arm, seed))
    end
  end
end
report()
