-- equivalence.lua - what packing changes, and what its parts are worth: a small BERT, padded and packed, and packed
-- with a part left out.
--
--     build/seqrun recipes/papers/equivalence.lua                            7 arms, novels, 5 seeds: half an hour
--     build/seqrun recipes/papers/equivalence.lua data=wikipedia arms=padded,packed,unmasked           an hour
--     build/seqrun recipes/papers/equivalence.lua size=0.02 seeds=1 out=runs/try        a rehearsal of two minutes
--     build/seqrun recipes/papers/equivalence.lua only=report
--     build/seqrun recipes/papers/equivalence.lua data=mine.sqr,novels arms=padded,packed
--
-- padded    a sequence per row
-- packed    the same updates in packs, with attention inside each sequence and positions from 0 in each
-- unmasked  packed, but tokens attend to their whole pack
-- unreset   packed, but positions run on in a pack
-- joined    packed, without both: a pack is one sequence
-- betas     as many packs per update as `padded` has sequences, so fewer updates; betas^factor (the packing paper)
-- plain     the same with the betas as they are
--
-- All arms train on the same sequences, as many of them, with the same masks (30 % of the tokens) and dropout 0.1, and
-- are evaluated on held-out sequences each by itself.  The novels are in recipes/data; definitions are WordNet's
-- (Debian's package wordnet-base); wikipedia is both, cut into sequences as long as those of Wikipedia at 512 tokens.
-- Processor seconds are those of training alone.  Repeating the command goes on where it stopped.

local experiment = require("experiment") -- first: it says where common.lua is
local common = require("common")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local ARMS = {
  { "padded", "pack.arrange=padded" }, { "packed" }, { "unmasked", "arm=unmasked" }, { "unreset", "arm=unreset" },
  { "joined", "arm=joined" }, { "betas", "batch.adjust=betas" }, { "plain", "batch.adjust=betas", "power=false" },
}

---Length of packs, sequences of an update, sequences in all at size 1.
local SETS = { novels = { 128, 16, 16000 }, definitions = { 64, 32, 40000 }, wikipedia = { 512, 16, 12000 } }
local OTHER = { 128, 16, 16000 }

local options = experiment.open("equivalence", {
  data = "novels", arms = "padded,packed,unmasked,unreset,joined,betas,plain", hidden = 128, layers = 2,
  evaluations = 8, peak = 2e-3, dropout = 0.1,
}, { "hidden", "layers", "peak", "dropout" }, arg)

local function chosen(names)
  local list = {}
  for _, name in ipairs(names) do
    local found
    for _, arm in ipairs(ARMS) do found = found or arm[1] == name and arm end
    list[#list + 1] = found or common.refuse("unknown arm '%s'; they are listed by --help", name)
  end
  return list
end

local arms, sets = chosen(experiment.words(options.arms)), {}
for i, name in ipairs(experiment.words(options.data)) do
  if not SETS[name] and not sys.exists(name) then
    common.refuse("data=%s: no such file; give novels, definitions, wikipedia or a data set (.sqr)", name)
  end
  sets[i] = { name = name:match("([^/]*)%.sqr$") or name, path = name, shape = SETS[name] or OTHER }
  if SETS[name] then sets[i].path = nil end
end

local function folder_of(set, arm, seed) return ("%s/%s-%s-%d"):format(options.out, set.name, arm[1], seed) end

local function words_of(set, arm, seed)
  local max_len, batch = set.shape[1], set.shape[2]
  local total = math.max(4 * batch, math.floor(set.shape[3] * options.size))
  return experiment.pretraining({
    recipe = (arg[0]:gsub("%.lua$", "_arm.lua")), data = set.path, seed = seed, max_len = max_len, sequences = batch,
    hidden = options.hidden, layers = options.layers, dropout = options.dropout, peak = options.peak, by = "sequences",
    total = total, evaluated = 20, logged = 1,
  }, { ("eval.samples=%d"):format(math.max(1, total // options.evaluations)), table.unpack(arm, 2) })
end

for _, set in ipairs(options.only ~= "report" and sets or {}) do
  set.path = set.path or experiment.data(options.out, set.name)
end
experiment.each_seed(options, function(seed)
  for _, set in ipairs(sets) do
    for _, arm in ipairs(arms) do
      if experiment.goes_on(options) then
        experiment.train(options, folder_of(set, arm, seed), words_of(set, arm, seed))
      end
    end
  end
end)

-- ---- report ------------------------------------------------------------------------------------

---What each finished run of a data set has, by arm and seed.
local function results_of(set)
  local found = {}
  for _, arm in ipairs(arms) do
    found[arm[1]] = {}
    for _, seed in ipairs(options.seeds) do
      local folder = folder_of(set, arm, seed)
      local curve = experiment.finished(folder) and experiment.curve(folder) or {}
      if #curve > 0 then
        local lines = sr.metrics.read(folder)
        local last
        for _, line in ipairs(lines) do last = line.type == "train" and line or last end
        found[arm[1]][seed] = { curve = curve, last = curve[#curve], lines = lines, train = last }
      end
    end
  end
  return found
end

---Values of the finished seeds of an arm; of a second arm as well, where both are asked for.
local function over_seeds(found, arm, value, other)
  return experiment.over(options.seeds, function(seed)
    local one, two = found[arm][seed], other and (found[other] or {})[seed]
    return one and (two or not other) and value(one, two or nil)
  end)
end

---Where on the curve of `packed` times are compared, as a share of its processor time: before its end, so that an arm
---that ends a little above it reaches the loss there too.
local SHARE = 0.9

---Processor seconds to the loss that `packed` has there, in those that it takes itself, both read off the line between
---two evaluations.  A mean over those seeds alone that reach the loss would be too low, so there is none.
local function time_to_loss(found, arm)
  local reached = over_seeds(found, arm, function(one, base)
    local at = SHARE * base.last.train_seconds
    local loss = experiment.value_at(base.curve, "train_seconds", "mlm_loss", at)
    local own = loss and experiment.reaches(base.curve, "train_seconds", "mlm_loss", loss)
    local seconds = loss and experiment.reaches(one.curve, "train_seconds", "mlm_loss", loss)
    return own and seconds and seconds / own
  end, "packed")
  local all = #over_seeds(found, arm, function() return true end, "packed")
  if all == 0 then return "-" end
  if #reached == 0 then return "never" end
  return #reached == all and experiment.shown(reached, "%.2f") or ("in %d of %d seeds"):format(#reached, all)
end

local function print_set(set, found)
  local rows = { { set.name, "runs", "held-out loss", "to packed", "accuracy, %", "updates", "tokens, M", "slots, M",
    "CPU s", "CPU time to a loss" } }
  for _, arm in ipairs(arms) do
    local name = arm[1]
    local function column(value, format) return experiment.shown(over_seeds(found, name, value), format) end
    local losses = over_seeds(found, name, function(one) return one.last.mlm_loss end)
    local more = over_seeds(found, name, function(one, base)
      return one.last.mlm_loss - base.last.mlm_loss
    end, "packed")
    if #losses > 0 then
      rows[#rows + 1] = {
        name, #losses, experiment.shown(losses, "%.3f"), name == "packed" and "0" or experiment.shown(more, "%+.4f"),
        column(function(one) return 100 * one.last.mlm_accuracy end, "%.1f"),
        column(function(one) return one.last.step end, "%.0f"),
        column(function(one) return one.train.real_tokens / 1e6 end, "%.2f"),
        column(function(one) return one.train.slot_tokens / 1e6 end, "%.2f"),
        column(function(one) return one.last.train_seconds end, "%.0f"), time_to_loss(found, name),
      }
    end
  end
  common.print_table(rows)
end

---What the losses of the other arms, less that of packed, show.
local function print_verdicts(set, found)
  local list = {}
  for _, arm in ipairs(arms) do
    local values = over_seeds(found, arm[1], function(one, base) return one.last.mlm_loss - base.last.mlm_loss end,
      "packed")
    if arm[1] ~= "packed" then
      list[#list + 1] = { name = ("%s: %s, less packed"):format(set.name, arm[1]), values = values, format = "%+.4f" }
    end
  end
  print()
  experiment.conclude(options, list)
end

---How many steps are reported separately, since rounding grows from step to step.
local FIRST = 50

---The largest difference of a loss of training between padded and packed, over all steps of all seeds.
local function print_steps(found)
  local most, early, steps, equal = 0, 0, 0, 0
  over_seeds(found, "padded", function(padded, packed)
    local losses = {}
    for _, line in ipairs(padded.lines) do
      if line.type == "train" then losses[line.step] = line.mlm_loss end
    end
    for _, line in ipairs(packed.lines) do
      local other = line.type == "train" and losses[line.step]
      if other then
        local off = math.abs(line.mlm_loss - other)
        most, steps = math.max(most, off), steps + 1
        if line.step <= FIRST then early = math.max(early, off) end
        equal = equal + (line.mlm_loss == other and 1 or 0)
      end
    end
    return 0
  end, "packed")
  if steps == 0 then return end
  local text = "padded and packed, step by step: %d of %d losses have the same digits; the largest difference is %.2g "
    .. "in the first %d steps, %.2g in all"
  print(text:format(equal, steps, early, FIRST, most))
end

print(("\n%s; %d layers, hidden size %d, size %g"):format(common.machine(), options.layers, options.hidden,
  options.size))
local panels, seconds = {}, 0
for _, set in ipairs(sets) do
  local found = results_of(set)
  print()
  print_set(set, found)
  if found.padded and found.packed then print_steps(found) end
  if found.packed then print_verdicts(set, found) end
  for _, arm in ipairs(arms) do
    for _, one in ipairs(over_seeds(found, arm[1], function(one) return one.last.train_seconds end)) do
      seconds = seconds + one
    end
  end
  for _, x in ipairs { { key = "sequences", label = "sequences" }, { key = "train_seconds", label = "CPU seconds" } } do
    local series = {}
    for i, arm in ipairs(arms) do
      series[i] = { name = arm[1], colour = i, curves = over_seeds(found, arm[1], function(one) return one.curve end) }
    end
    panels[#panels + 1] = { title = "held-out loss, " .. set.name, x = x, y = { key = "mlm_loss", label = "nats" },
      series = series }
  end
end
print("\nMean ± half width of the 95 % interval (Student's t) over seeds; `to packed` is the difference to the packed")
print("run of the same seed, in nats.  The last column is processor time to the loss that packed has at")
print(("%g %% of its time, over what packed takes to it, on lines between evaluations; a mean where all seeds"):format(
  100 * SHARE))
print("reach it.")
experiment.price(options, seconds)
experiment.draw(options.out .. "/equivalence.svg", "packing", panels, 2)
