-- objectives.lua - what a model learns from masked words, replaced ones (ELECTRA, SAS), the next word and then masked
-- ones, and concepts first (CCM), for the same compute.
--
--     build/seqrun recipes/papers/objectives.lua                       5 arms, 3 seeds: 20 minutes
--     build/seqrun recipes/papers/objectives.lua size=0.2 seeds=1 out=runs/try            a rehearsal of two minutes
--     build/seqrun recipes/papers/objectives.lua arms=mlm,concept only=report
--
-- A run ends at `budget` model FLOP, forward and backward, at size 1, where its rate reaches zero; ELECTRA's generator
-- counts, and of `causal` the first half is causal, the second masked (95 % of the sequences).  All have two layers,
-- hidden size 128 and Muon, whose rate was not searched for, on the novels and the definitions of WordNet.
--
--     loss       of masked tokens of held-out text, where a model sees them masked and has the same size
--     nouns      the same where nouns of WordNet are masked, not any token: loss and accuracy
--     domains    accuracy of the domain of a noun from its definition, after fine-tuning on 20 of each; causal models
--                have no heads of tasks, and so no accuracy
--
-- Repeating the command goes on where it stopped.

local experiment = require("experiment") -- first: it says where common.lua is
local common = require("common")
local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local options = experiment.open("objectives", {
  arms = "mlm,concept,electra,sas,causal", budget = 9e11, peak = 4e-3, task = true, evaluations = 4,
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
  mlm = { { recipe = "pretrain", keys = BERT } },
  concept = { { recipe = "concept", keys = BERT } },
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
    common.refuse("unknown arm '%s'; choose mlm, concept, electra, sas or causal", name)
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
local function stages_of(seed)
  local curve = experiment.curve(folder_of("mlm", seed))
  local updates = #curve > 0 and curve[#curve].step or common.refuse("the arm concept needs mlm before it")
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
    if name == "concept" then words[#words + 1] = stages_of(seed) end
    if before then words[#words + 1] = "init.from=" .. before end
    experiment.train(options, out, words)
    before = out
  end
end

---Fine-tunes for the domains of nouns.
local function domains(name, seed)
  local out, task = folder_of(name, seed) .. "-domains", options.out .. "/domains"
  if not experiment.finished(out) then
    if not sys.exists(task .. "/dev.tsv") then
      experiment.run { experiment.RECIPES .. "data/wordnet.lua", "out=" .. task, "labelled=20", "--quiet" }
    end
    experiment.train(options, out, {
      experiment.RECIPES .. "finetune.lua", "task=classify", "preset=demo", "init.from=" .. folder_of(name, seed),
      "data.train=" .. task .. "/train.tsv", "data.dev=" .. task .. "/dev.tsv", "seed=" .. seed, "eval.epochs=0",
    })
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

for _, seed in ipairs(options.seeds) do
  for _, name in ipairs(names) do
    if experiment.goes_on(options) then
      train(path, name, seed)
      if options.task and not ARMS[name].causal then domains(name, seed) end
    end
  end
end

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
  if ARMS[name].replaced or #ends == 0 then return list end
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
  if not ARMS[name].replaced then found.loss = ends[1].mlm_loss end
  if not ARMS[name].replaced and not ARMS[name].causal then
    local probed = probe(name, seed, path)
    found.nouns, found.accuracy = probed.loss, probed.accuracy
  end
  local scored = experiment.curve(folder_of(name, seed) .. "-domains")
  found.domains = #scored > 0 and scored[#scored].accuracy or nil
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
  { "accuracy", "accuracy", "%.3f" }, { "domains", "domains", "%.3f" }, { "CPU s", "seconds", "%.0f" },
}

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
print("\nMean ± half width of the 95 % interval (Student's t) over seeds; differences are of runs with the same seed.")

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
