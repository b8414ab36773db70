-- objectives.lua - what a model learns from masked words, replaced ones (ELECTRA, SAS), the next word and then masked
-- ones, and concepts first (CCM), for the same compute.
--
--     build/seqrun recipes/papers/objectives.lua                       8 arms, 5 seeds: an hour
--     build/seqrun recipes/papers/objectives.lua glue=DIR out=runs/objectives             CoLA and SST-2, too
--     build/seqrun recipes/papers/objectives.lua size=0.02 seeds=1 out=runs/try           a rehearsal of two minutes
--     build/seqrun recipes/papers/objectives.lua arms=mlm,concept only=report
--
-- A run ends at `budget` model FLOP, forward and backward, at size 1, where its rate reaches zero; ELECTRA's generator
-- counts, and of `causal` the first half is causal, the second masked (95 % of the sequences).  Arms named half have
-- half of it.  All have two layers, hidden size 128 and Muon, on the novels and the definitions of WordNet.
--
--     loss       of masked tokens of held-out text, where a model sees them masked and has the same size
--     nouns      the same where nouns of WordNet are masked, not any token: loss and accuracy
--     tasks      scores of the tasks of readout.lua after fine-tuning, beside those from random weights, which `random`
--                has; causal models have no heads of tasks, and so no score
--
-- Repeating the command goes on where it stopped.

local experiment = require("experiment") -- first: it says where common.lua is
local common = require("common")
local json = require("seqrun.core.json")
local readout = require("readout")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local options = experiment.open("objectives", {
  arms = "mlm,mlm_half,concept,concept_half,electra,sas,causal,random", budget = 7.2e12, peak = 4e-3, evaluations = 8,
  tasks = "domains,novels", glue = "",
}, { "budget", "peak" }, arg)

---About the model FLOP of a sequence.
local PER_SEQUENCE = 3e8

local BERT = {
  "model.hidden_size=128", "model.num_hidden_layers=2", "model.num_attention_heads=2", "model.intermediate_size=512",
  "model.max_position_embeddings=128", "model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0",
  "data.nsp=false", "data.short_seq_prob=0", "mask.max=20",
}
local GPT2 = { -- no key for pairs and short sequences, which causal runs do not draw
  "model.n_embd=128", "model.n_layer=2", "model.n_head=2", "model.n_positions=128", "model.embd_pdrop=0",
  "model.resid_pdrop=0", "model.attn_pdrop=0", "mask.max=20",
}

---Recipe, keys, and what may be compared of each arm; `share` of the budget, `after` another.
local ARMS = {
  random = { { recipe = "pretrain", keys = BERT, share = 1e-6, more = { "rate.peak=1e-12" } }, control = true },
  mlm = { { recipe = "pretrain", keys = BERT } },
  mlm_half = { { recipe = "pretrain", keys = BERT, share = 0.5 } },
  concept = { { recipe = "concept", keys = BERT } },
  concept_half = { { recipe = "concept", keys = BERT, share = 0.5 } },
  electra = { { recipe = "electra", keys = BERT, more = { "model.embedding_size=128" } }, replaced = true },
  sas = {
    { recipe = "electra", keys = BERT, more = { "model.embedding_size=128", "electra.by=itself" } }, replaced = true,
  },
  causal = {
    { recipe = "causal", keys = GPT2, name = "first", share = 0.5 },
    { recipe = "causal", keys = GPT2, share = 0.5, more = { "causal.share=0.05" } },
    causal = true,
  },
}

local names = experiment.words(options.arms)
for _, name in ipairs(names) do
  if not ARMS[name] then
    common.refuse("unknown arm '%s'; choose %s", name, table.concat(require("seqrun.base.sorted")(ARMS), ", "))
  end
end

local function folder_of(name, seed) return ("%s/%s-%d"):format(options.out, name, seed) end

local function append(list, more) return table.move(more or {}, 1, #(more or {}), #list + 1, list) end

local function usual(path, seed, flop)
  return {
    "data.file=" .. path, "seed=" .. seed, "data.max_len=128", "batch.sequences=32", "batch.micro_packs=32",
    "optimizer.name=muon", "optimizer.betas=[0.9,0.98]", ("rate.peak=%g"):format(options.peak), "rate.by=flops",
    "rate.warmup_by=flops", ("rate.total=%d"):format(flop // 1), ("rate.warmup=%d"):format(flop / 10 // 1),
    "rate.decay=linear", "eval.updates=40", "save.every=0", "save.minutes=3", "log.every=10",
    ("eval.samples=%d"):format(math.max(1, flop / PER_SEQUENCE / options.evaluations // 1)),
  }
end

---Stages of concepts in updates: the run has as many as that of masked LM, whose FLOP an update are the same.
local function stages_of(seed, share)
  local curve = experiment.curve(folder_of("mlm", seed))
  local updates = #curve > 0 and curve[#curve].step * share or common.refuse("the arm concept needs mlm before it")
  local list = {}
  for i, part in ipairs { 0.1, 0.3, 0.5, 0.7 } do list[i] = math.floor(part * updates) + i end
  return "concept.stages=[" .. table.concat(list, ",") .. "]"
end

---Trains the phases of an arm.
local function train(path, name, seed)
  local folder, before = folder_of(name, seed), nil
  for _, phase in ipairs(ARMS[name]) do
    local out = phase.name and folder .. "-" .. phase.name or folder
    local words = { experiment.RECIPES .. phase.recipe .. ".lua" }
    append(words, usual(path, seed, options.budget * options.size * (phase.share or 1)))
    append(append(words, phase.keys), phase.more)
    if phase.recipe == "concept" then words[#words + 1] = stages_of(seed, phase.share or 1) end
    if before then words[#words + 1] = "init.from=" .. before end
    experiment.train(options, out, words)
    before = out
  end
end

-- ---- masked nouns ------------------------------------------------------------------------------

local probes

---Updates of the held-out text in which nouns of WordNet are masked; the same for all models of a data set.
local function nouns(path)
  if probes then return probes end
  local schema, rules = sr.run.schema(sr.tasks.concept)
  local cfg = sr.must(require("seqrun.config").load { schema = schema, rules = rules, arguments = {
    "data.file=" .. path, "concept.stages=[1]", "rate.peak=1", "rate.total=1", "data.nsp=false", "mask.max=20",
  } }).values
  local corpus, task = sr.must(sr.data.open(path, { held = cfg.data.held })), sr.tasks.concept
  local own = task.train_options(cfg, corpus, task.concepts(cfg, corpus))
  own.part, own.sequences, own.prefetch, own.short_seq_prob = "held", 400, 0, 0
  probes = sr.must(sr.data.loader(own)):next()
  return probes
end

---Loss and accuracy of a model on masked nouns; kept in a file, as is all that a repeated command needs.
local function probe(name, seed, path)
  local folder = folder_of(name, seed)
  local kept = sys.read_file(folder .. "-nouns.json")
  if kept then return json.decode(kept) end
  local model = sr.must(sr.nn.pretrained(folder))
  model.training = false
  local quiet <close> = sr.no_grad()
  local found = { loss = 0, correct = 0, count = 0 }
  for batch in nouns(path):batches() do
    local scope <close> = sr.scope()
    local mlm = model:losses(batch).mlm
    found.loss, found.correct = found.loss + mlm.total:item(), found.correct + mlm.correct:sum():item()
    found.count = found.count + mlm.count
  end
  found.accuracy = found.correct / found.count
  sr.must(sys.write_file(folder .. "-nouns.json", json.encode(found)))
  return found
end

-- ---- the table ---------------------------------------------------------------------------------

local path = options.out .. "/text.sqr"
if options.only ~= "report" then path = experiment.data(options.out, "text") end

local tasks = {}
for i, name in ipairs(experiment.words(options.tasks .. (options.glue ~= "" and ",cola,sst2" or ""))) do
  tasks[i] = readout.task(options, name)
end

experiment.each_seed(options, function(seed)
  for _, name in ipairs(names) do
    if experiment.goes_on(options) then
      train(path, name, seed)
      for _, task in ipairs(ARMS[name].causal and {} or tasks) do
        readout.train(options, task, folder_of(name, seed), seed)
      end
    end
  end
end)

---Evaluations at the end of the phases of an arm, the last one first; nothing unless all have ended.
local function ends_of(name, seed)
  local list = {}
  for _, phase in ipairs(ARMS[name]) do
    local folder = folder_of(name, seed) .. (phase.name and "-" .. phase.name or "")
    local curve = experiment.finished(folder) and experiment.curve(folder) or {}
    if #curve == 0 then return {} end
    table.insert(list, 1, curve[#curve])
  end
  return list
end

---Held-out losses of masked tokens by FLOP, of the last phase of an arm; none unless it has ended, or where they cannot
---be compared.
local function curve_of(name, seed)
  local list, ends = {}, ends_of(name, seed)
  if ARMS[name].replaced or ARMS[name].control or #ends == 0 then return list end
  for i, point in ipairs(experiment.curve(folder_of(name, seed))) do
    list[i] = { mlm_loss = point.mlm_loss, flops = point.flops + (ends[2] and ends[2].flops or 0) }
  end
  return list
end

---What a seed of an arm has; nil unless it has ended.
local function result(name, seed)
  local ends, found = ends_of(name, seed), { tokens = 0, seconds = 0 }
  if #ends == 0 then return nil end
  for _, one in ipairs(ends) do
    found.tokens, found.seconds = found.tokens + one.real_tokens / 1e6, found.seconds + one.train_seconds
  end
  local masked = not ARMS[name].replaced and not ARMS[name].control
  if masked then found.loss = ends[1].mlm_loss end
  if masked and not ARMS[name].causal then
    local probed = probe(name, seed, path)
    found.nouns, found.accuracy = probed.loss, probed.accuracy
  end
  for _, task in ipairs(tasks) do
    local score, collapsed = readout.score(task, folder_of(name, seed))
    found[task.name], task.collapsed[name] = score, (task.collapsed[name] or 0) + (collapsed and 1 or 0)
  end
  return found
end

local found = {} -- by arm and seed
for _, name in ipairs(names) do
  found[name] = {}
  for _, seed in ipairs(options.seeds) do found[name][seed] = result(name, seed) end
end

---Values of the seeds of an arm; less those of another arm with the same seed, if it is given.
local function over_seeds(name, key, base)
  return experiment.over(options.seeds, function(seed)
    local value, other = (found[name][seed] or {})[key], base and (found[base][seed] or {})[key]
    return value and (other or not base) and value - (other or 0)
  end)
end

local COLUMNS = {
  { "tokens, M", "tokens", "%.2f" }, { "loss", "loss", "%.3f" }, { "nouns: loss", "nouns", "%.3f" },
  { "accuracy", "accuracy", "%.3f" }, { "CPU s", "seconds", "%.0f" },
}
for _, task in ipairs(tasks) do table.insert(COLUMNS, #COLUMNS, { task.name, task.name, "%.3f" }) end

---The table of all arms; of those beside `base`, less it.
local function print_arms(title, base)
  local rows = { { title } }
  for _, column in ipairs(COLUMNS) do table.insert(rows[1], column[1]) end
  for _, name in ipairs(names) do
    local row = { name }
    for i, column in ipairs(COLUMNS) do
      row[i + 1] = experiment.shown(over_seeds(name, column[2], base), base and "%+" .. column[3]:sub(2) or column[3])
    end
    if name ~= base then rows[#rows + 1] = row end
  end
  common.print_table(rows)
end

print(("\n%s; %.3g FLOP, seeds %s"):format(common.machine(), options.budget * options.size,
  table.concat(options.seeds, ",")))
print_arms("arm")
if found.mlm and #names > 1 then
  print()
  print_arms("less mlm", "mlm")
end
for _, task in ipairs(tasks) do
  for _, name in ipairs(names) do
    local count = task.collapsed[name] or 0
    if count > 0 then
      print(("%s: %d of %d fine-tunings of %s predict one class for all; they are not in its mean"):format(task.name,
        count, #options.seeds, name))
    end
  end
end

---What the differences show that the claims are about: { arm, the arm it is compared with, column }.
local function print_verdicts()
  local list = {}
  local function add(name, base, key, title)
    if found[name] and found[base] and name ~= base then
      list[#list + 1] = { name = ("%s: %s less %s"):format(title, name, base), values = over_seeds(name, key, base) }
    end
  end
  for _, name in ipairs(names) do
    add(name, "mlm", "loss", "loss")
    add(name, "mlm", "nouns", "nouns")
    for _, task in ipairs(tasks) do
      if name ~= "random" then add(name, "mlm", task.name, task.name) end
      add(name, "random", task.name, task.name)
    end
  end
  print()
  experiment.conclude(options, list)
end
print_verdicts()
print("\nMean ± half width of the 95 % interval (Student's t) over seeds; differences are of runs with the same seed.")

local seconds = 0
for _, name in ipairs(names) do
  for _, one in ipairs(over_seeds(name, "seconds")) do seconds = seconds + one end
end
experiment.price(options, seconds)

local series = {}
for i, name in ipairs(names) do
  local curves = experiment.over(options.seeds, function(seed)
    local curve = curve_of(name, seed)
    return #curve > 0 and curve
  end)
  series[i] = { name = name, curves = curves, colour = i }
end
experiment.draw(options.out .. "/objectives.svg", "objectives", { {
  title = "held-out loss of masked tokens", x = { key = "flops", label = "FLOP" },
  y = { key = "mlm_loss", label = "nats" }, series = series,
} })
