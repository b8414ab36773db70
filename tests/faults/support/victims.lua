-- victims.lua - every command and every recipe, small and quick, for the commands of tests/faults.
--
-- "@" in a word is replaced by the directory of the outputs.

local commands = require("seqrun.cli.commands")
local files = require("tests.support.task_files")
local frame = require("tests.faults.support.frame")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local victims = {}

---@class tests.Victim
---@field name string
---@field words string[]
---@field input? string

---Runs the program, which must not fail.
local function must(words, options)
  local code, out, err = program.run(words, options)
  assert(code == 0, table.concat(words, " ") .. ": " .. out .. err)
end

---The files that the victims read.
local function fixtures(dir)
  local f = { dir = dir, corpus = small.corpus(dir, 40), run = dir .. "/run", verified = dir .. "/verified" }
  f.text = dir .. "/corpus.txt"
  f.model = task_model.save(dir .. "/model", task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } }))
  f.base = files.encoder(dir .. "/base")
  local rows, numbers, pairs_of = { "text\tlabel" }, { "text,label" }, { "anchor,positive" }
  local scored, glue = { "sentence1\tsentence2\tscore" }, { "sentence\tlabel" }
  for i, word in ipairs(task_model.words()) do
    rows[i + 1] = word .. " the\t" .. (i % 3 == 0 and "yes" or "no")
    numbers[i + 1] = ("%s the,%d"):format(word, i % 5)
    pairs_of[i + 1] = ("%s the,the %s"):format(word, word)
    scored[i + 1] = ("%s the\tthe %s\t%d"):format(word, word, i % 5)
    glue[i + 1] = ("%s the\t%d"):format(word, i % 2)
  end
  f.table = program.write(dir, "test.tsv", table.concat(rows, "\n", 1, 25) .. "\n")
  f.numbers = program.write(dir, "numbers.csv", table.concat(numbers, "\n", 1, 25) .. "\n")
  f.pairs = program.write(dir, "pairs.csv", table.concat(pairs_of, "\n", 1, 25) .. "\n")
  f.scored = program.write(dir, "scored.tsv", table.concat(scored, "\n", 1, 25) .. "\n")
  assert(sys.make_dirs(dir .. "/glue/SST-2"))
  for _, name in ipairs { "train.tsv", "dev.tsv" } do
    program.write(dir .. "/glue/SST-2", name, table.concat(glue, "\n", 1, 25) .. "\n")
  end
  f.lines = program.write(dir, "lines.txt", "the\nthe the\n")
  f.concepts = program.write(dir, "concepts.tsv", "teacher\t1\nriver\t2\n")
  must(small.words(f.corpus, "--out", f.run, "--max-steps", "2", "save.every=1", "data.nsp=true"))
  must(small.words(f.corpus, "--out", f.verified, "--max-steps", "2", "save.every=1", "verify.every=2"))
  must { "export", f.run, dir .. "/exported" }
  return f
end

---Words of a small run of a recipe.
local function train(f, recipe, ...)
  local words = small.words(f.corpus, "--out", "@/run", "--max-steps", "2", "save.every=1", "attach=false", ...)
  words[1] = "recipes/" .. recipe .. ".lua"
  return words
end

---Words of a small run of a recipe of labelled files.
local function tune(f, recipe, data, ...)
  return {
    "recipes/" .. recipe .. ".lua", "init.from=" .. f.base, "data.train=" .. data, "data.folder=@/sets",
    "data.max_len=24", "batch.sequences=12", "rate.peak=1e-3", "save.minutes=0", "attach=false", "--out", "@/run",
    "--max-steps", "2", "--quiet", ...,
  }
end

local COMMANDS = {
  advise = function()
    return { "advise", "--model", "bert-base", "--seq", "128", "--batch", "64", "--device", "h100", "--devices", "2" }
  end,
  analyze = function(f) return { "analyze", f.corpus, "--metric", "length", "rarity", "--out", "@" } end,
  compare = function(f) return { "compare", f.run, f.verified } end,
  completion = function() return { "completion", "bash" } end,
  doctor = function() return { "doctor" } end,
  encode = function(f) return { "encode", f.model, f.lines, "--out", "@/v.safetensors" } end,
  eval = function(f)
    return { "eval", f.model, f.table, "columns.text=text", "columns.label=label", "data.folder=@" }
  end,
  export = function(f) return { "export", f.run, "@/exported" } end,
  fill = function(f) return { "fill", f.run, "-t", "the [MASK] sees" } end,
  import = function(f) return { "import", f.dir .. "/exported", "@/imported" } end,
  info = function(f) return { "info", f.run } end,
  new = function() return { "new", "@/new" } end,
  pack = function(f)
    return { "pack", f.corpus, "--max-len", "48", "--out", "@/plan.txt", "--certificate", "@/proof.txt" }
  end,
  predict = function(f) return { "predict", f.model, "--text" }, "the\nthe the\n" end,
  repro = function(f) return { "repro", f.run, "--out", "@/again" } end,
  report = function(f) return { "report", f.run, "--out", "@/page.html" } end,
  runs = function(f) return { "runs", f.dir } end,
  score = function(f) return { "score", f.run, f.lines } end,
  stats = function(f) return { "stats", f.corpus } end,
  sweep = function(f)
    local words = { "sweep" }
    for _, word in ipairs(train(f, "pretrain", "rate.peak=1e-3,1e-2")) do
      if word ~= "--quiet" and word ~= "rate.peak=3e-3" then words[#words + 1] = word end
    end
    return words
  end,
  tokenize = function() return { "tokenize", "--vocab", task_model.VOCAB, "--ids" }, "the the\nthe\n" end,
  verify = function(f) return { "verify", f.verified } end,
  watch = function(f) return { "watch", "--once", f.run } end,
  version = function() return { "version" } end,
  vocab = function(f) return { "vocab", f.text, "--size", "100", "--out", "@/vocab.txt" } end,
}

---Commands that are not tried, and why.
victims.NOT_TRIED = { attach = "it only talks to a run", help = "it is a part of the command line" }

---Words of a small run of a recipe whose task has keys of a model of its own.
local function train_own(f, recipe, ...)
  return {
    "recipes/" .. recipe .. ".lua", "data.file=" .. f.corpus, "data.held=0.1", "data.max_len=48", "rate.peak=1e-3",
    "batch.sequences=24", "batch.micro_packs=4", "save.minutes=0", "save.every=1", "log.every=1", "eval.updates=1",
    "attach=false", "--out", "@/run", "--max-steps", "2", "--quiet", ...,
  }
end

local RECIPES = {
  babylm = function(f) return train_own(f, "babylm", "preset=tiny", "model.hidden_size=16") end,
  bert_phase1 = function(f) return train(f, "bert_phase1", "steps=4", "rate.from=0") end,
  bert_phase2 = function(f) return train(f, "bert_phase2", "init.from=" .. f.run, "steps=4", "rate.from=0") end,
  causal = function(f)
    return train_own(f, "causal", "model.n_embd=16", "model.n_layer=2", "model.n_head=2", "model.n_positions=48")
  end,
  concept = function(f)
    return train_own(f, "concept", "concept.file=" .. f.concepts, "model.hidden_size=16", "model.num_hidden_layers=2",
      "model.num_attention_heads=2", "model.intermediate_size=32", "model.max_position_embeddings=48")
  end,
  cramming = function(f)
    return train_own(f, "cramming", "rate.total=4", "model.hidden_size=16", "model.num_hidden_layers=2",
      "model.num_attention_heads=2", "model.intermediate_size=32")
  end,
  curriculum = function(f)
    return train(f, "curriculum", "curriculum.length.min=16", "curriculum.length.max=48", "curriculum.length.total=4",
      "curriculum.rarity.kind=fraction", "curriculum.rarity.min=0.2", "curriculum.rarity.max=1",
      "curriculum.rarity.total=4", "curriculum.rarity.file=@/rarity.metric")
  end,
  electra = function(f)
    return train_own(f, "electra", "model.hidden_size=16", "model.num_hidden_layers=2", "model.num_attention_heads=2",
      "model.intermediate_size=32", "model.embedding_size=16", "model.max_position_embeddings=48")
  end,
  embed = function(f) return tune(f, "embed", f.pairs) end,
  finetune = function(f) return tune(f, "finetune", f.table, "task=classify", "data.dev=" .. f.table) end,
  finetune_own = function(f) return tune(f, "finetune_own", f.numbers, "data.dev=" .. f.numbers) end,
  glue = function(f)
    return { "recipes/glue.lua", "init.from=" .. f.base, "data=" .. f.dir .. "/glue", "--out", "@/glue",
      "data.folder=@/sets", "batch.sequences=12", "rate.peak=1e-3", "data.max_len=24", "seeds=1", "epochs=1",
      "attach=false", "--quiet" }
  end,
  mlperf = function(f)
    return train(f, "mlperf", "init.from=" .. f.run, "mlperf.eval_sequences=8", "eval.samples=24", "eval.target=0.99")
  end,
  modernbert = function(f)
    return { "recipes/modernbert.lua", "preset=tiny", "data.file=" .. f.corpus, "data.held=0", "--max-steps", "1",
      "model.hidden_size=32", "model.num_hidden_layers=2", "model.intermediate_size=32", "model.num_attention_heads=2",
      "attach=false", "--out", "@/run", "--quiet" }
  end,
  prepare = function(f)
    return { "recipes/prepare.lua", "inputs=[" .. f.text .. "]", "vocab.size=100", "out=@/corpus.sqr", "--quiet" }
  end,
  prepare_labelled = function(f)
    return { "recipes/prepare_labelled.lua", "inputs=" .. f.table, "columns.label=label", "model=" .. f.model,
      "out=@/set.sqr", "--quiet" }
  end,
  pretrain = function(f) return train(f, "pretrain") end,
  sts = function(f) return { "recipes/sts.lua", "model=" .. f.base, "data=[" .. f.scored .. "]", "--quiet" } end,
  search = function(f) return { "recipes/search.lua", "model=" .. f.model, "texts=" .. f.lines, "the" } end,
}

---The names of the recipes that have no victim.
local function recipes()
  local names = {}
  for _, name in ipairs(assert(sys.list("recipes"))) do
    local recipe = name:match("^([%w_]+)%.lua$")
    if recipe and recipe ~= "demo_check" then names[#names + 1] = recipe end
  end
  table.sort(names)
  return names
end

---How many of them the short forms try.
local SHORT = 8

---Those that are to be tried, in the short forms a few; makes what they read.
---@param trial tests.Frame
---@return tests.Victim[]
function victims.chosen(trial)
  local dir, list = trial.folder .. "/given", {}
  assert(sys.make_dirs(dir))
  local f = fixtures(dir)
  local function add(name, make)
    if not trial:wants(name) then return end
    if not make then return io.stderr:write(name, " is not tried: it has no words in victims.lua\n") end
    local words, input = make(f)
    list[#list + 1] = { name = name, words = words, input = input }
  end
  for _, name in ipairs(commands.names()) do
    if not victims.NOT_TRIED[name] then add(name, COMMANDS[name]) end
  end
  for _, name in ipairs(recipes()) do add(name .. ".lua", RECIPES[name]) end
  return frame.LONG and list or trial:choose(list, SHORT)
end

return victims
