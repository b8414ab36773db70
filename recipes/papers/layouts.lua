-- layouts.lua - the steps of all layouts of micro-batch, recomputation, ranks and ZeRO on this machine, measured beside
-- what the advisor predicts.
--
--     build/seqrun recipes/papers/layouts.lua                       a small model, some minutes
--     build/seqrun recipes/papers/layouts.lua packs=8 micro=1,4 ranks=1,2 steps=2 turns=1
--
-- Ranks share the processors: R ranks have threads / R threads each.  All layouts compute updates of the same made-up
-- packs, as `seqrun advise --here` does.  The time of a layout is the least of its steps over all turns, since other
-- work on the machine only adds to it; `kept` are the activations of a micro-batch.  `regret` is how much longer the
-- layout takes that the advisor would choose than the fastest one measured.

package.path = arg[0]:gsub("[^/]*$", "../bench/?.lua;") .. package.path

local common = require("common")
local correlation = require("seqrun.scores.correlation")
local here = require("seqrun.advise.here")
local models = require("seqrun.advise.models")
local sr = require("seqrun")

local options = common.options({
  packs = 16, max_len = 128, micro = "1,2,4,8", ranks = "1,2", recompute = "false,true", zero = "false,true",
  threads = 0, hidden = 256, layers = 4, vocabulary = 4000, steps = 4, turns = 2,
}, arg)
local THREADS = options.threads > 0 and options.threads or sr.threads()

local function values_of(list)
  local values = {}
  for word in list:gmatch("[^,]+") do
    local value = tonumber(word)
    if word == "true" or word == "false" then value = word == "true" end
    if value == nil then common.refuse("'%s' is not a number, true or false", word) end
    values[#values + 1] = value
  end
  return values
end

---All layouts that can run; the others are named.
---@return seqrun.advise.Arm[]
local function layouts_of()
  local list = {}
  local function add(ranks, zero, recompute, micro)
    if zero and ranks == 1 or options.packs % (micro * ranks) ~= 0 then return end
    list[#list + 1] = {
      ranks = ranks, threads = THREADS // ranks, micro_batch = micro, recompute = recompute, zero = zero and 1 or 0,
      name = ("%d x %d, micro %d%s%s"):format(ranks, THREADS // ranks, micro, recompute and ", recompute" or "",
        zero and ", ZeRO-1" or ""),
    }
  end
  for _, ranks in ipairs(values_of(options.ranks)) do
    if ranks > THREADS then print(("left out: %d ranks: only %d threads"):format(ranks, THREADS)) end
    for _, zero in ipairs(ranks <= THREADS and values_of(options.zero) or {}) do
      for _, recompute in ipairs(values_of(options.recompute)) do
        for _, micro in ipairs(values_of(options.micro)) do add(ranks, zero, recompute, micro) end
      end
    end
  end
  return list
end

---Measures all in turns, and keeps the least; what fails is named and left out.
local function measure_all(machine, list)
  local least = {}
  for _ = 1, options.turns do
    for _, layout in ipairs(list) do
      if not layout.problem then here.measure(machine, options.packs, layout, options.steps) end
      least[layout] = math.min(least[layout] or math.huge, layout.seconds or math.huge)
    end
  end
  local good = {}
  for _, layout in ipairs(list) do
    layout.seconds = least[layout]
    if layout.problem then
      print(("left out: %s: %s"):format(layout.name, layout.problem))
    else
      good[#good + 1] = here.expect(machine, options.packs, layout)
    end
  end
  return good
end

local function megabytes(bytes) return ("%.1f"):format(bytes / 1e6) end

local function show(list)
  local rows = { { "layout", "step ms", "tokens/s", "kept MB", "advised ms", "error", "advised MB" } }
  local measured, guessed, best = {}, {}, nil
  for i, layout in ipairs(list) do
    measured[i], guessed[i] = layout.seconds, layout.predicted.step_seconds
    if not best or measured[i] < best.seconds then best = layout end
    rows[i + 1] = {
      layout.name, ("%.1f"):format(1000 * measured[i]),
      ("%.0f"):format(options.packs * options.max_len / measured[i]), megabytes(layout.kept),
      ("%.1f"):format(1000 * guessed[i]), ("%+.0f %%"):format(100 * (guessed[i] / measured[i] - 1)),
      megabytes(layout.keeps),
    }
  end
  common.print_table(rows)
  here.sort(list)
  local verdict = here.judge(list)
  print(("\nfastest: %s; advised: %s; regret %.1f %%; mean error %.1f %%; rank correlation %.2f"):format(best.name,
    list[1].name, 100 * (list[1].seconds / best.seconds - 1), 100 * verdict.error,
    #list > 1 and correlation.spearman(measured, guessed) or 1))
end

local machine = sr.must(here.probe { seq = options.max_len, threads = THREADS, model = models.of_config("this model", {
  hidden_size = options.hidden, num_hidden_layers = options.layers, intermediate_size = 4 * options.hidden,
  num_attention_heads = math.max(1, options.hidden // 64), vocab_size = options.vocabulary,
}) })
local list = measure_all(machine, layouts_of())
if #list == 0 then error("layouts: no layout could be measured", 0) end
print(common.machine())
print(("H = %d, L = %d; updates of %d packs of %d, %d steps a turn, %d turns; the advisor's probe took %.0f s"):format(
  options.hidden, options.layers, options.packs, options.max_len, options.steps, options.turns, machine.seconds))
show(list)
