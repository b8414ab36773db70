-- recipes/concept.lua: concepts of WordNet and of files, their stages, what is masked, packed and alone, runs, ranks.

local bert = require("tests.support.bert")
local json = require("seqrun.core.json")
local mpi = require("tests.support.mpi")
local it_on = require("tests.support.devices").it_on(it)
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local on_ranks = mpi.tests(it, function(why) pending(why) end)

local folder, corpus = small.folder()

-- Sets of synonyms: a number, nouns, and the sets that they are related to.  An animal is related to cat, dog and
-- horse, a cat to a song; nothing leads to a window; a letter is one with the phrase "great care".
local SETS = {
  { 1, "animal", 2, 3, 4 }, { 2, "cat", 1, 5 }, { 3, "dog", 1 }, { 4, "horse Equus_caballus", 1 }, { 5, "song", 2, 6 },
  { 6, "river", 5 }, { 7, "window" }, { 8, "letter great_care" }, { 9, "unicorn", 1 }, { 10, "in" },
}

local function wordnet()
  local lines = { "  1 This software and database is being provided to you", "  2 as it is  " }
  for _, set in ipairs(SETS) do
    local words, related, count = {}, {}, 0
    for word in set[2]:gmatch("%S+") do words[#words + 1] = word .. " 0" end
    for i = 3, #set do
      count = count + 1
      related[count] = ("@ %08d n 0000"):format(set[i])
    end
    lines[#lines + 1] = ("%08d 05 n %02x %s %03d %s | what it is | or not  "):format(set[1], #words,
      table.concat(words, " "), count, table.concat(related, " "))
  end
  return table.concat(lines, "\n") .. "\n"
end

program.write(folder, "data.noun", wordnet())

local function words(out, ...)
  return small.recipe("concept", corpus, "model.hidden_size=32", "model.num_hidden_layers=1",
    "model.num_attention_heads=2", "model.intermediate_size=64", "model.max_position_embeddings=48", "rate.warmup=3",
    "rate.total=60", "model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0",
    "concept.wordnet=" .. folder, "--quiet", "--out", folder .. "/" .. out, ...)
end

---The values of a config with these words.
local function config_of(...) return small.values(sr.tasks.concept, words("none", ...)) end

local function open() return sr.must(sr.data.open(corpus, { held = 0.1 })) end

---Concepts by name with their stages.
local function stages_of(...)
  local found = sr.tasks.concept.concepts(config_of(...), open())
  local by_name = {}
  for i, name in ipairs(found.names) do by_name[name] = found.stages[i] end
  return by_name, found
end

local SEED = "concept.named=[dog]"

describe("the concepts of WordNet", function()
  it("are the nouns that occur, in stages by distance from the seeds, and the last has all that are left", function()
    local stages, found = stages_of(SEED)
    local last = { song = 4, river = 4, letter = 4, ["great care"] = 4, window = 4, dog = 1, cat = 3, horse = 3 }
    assert.same(last, stages)
    local total = 0
    for _, times in ipairs(found.times) do total = total + times end
    assert.matches("by stage: 1 %(%d+ times%), 0 %(0 times%), 2 %(%d+ times%), 5", found:notes()[1])
    assert.is_true(total > 200)
    stages = stages_of(SEED, "concept.hops=2")
    last.cat, last.horse, last.song, last.river = 2, 2, 3, 3
    assert.same(last, stages)
  end)

  it("begin with the nouns of most relations among those that occur often enough", function()
    assert.equal(1, stages_of("concept.seeds=1").cat) -- animal has more, and does not occur
    local stages = stages_of("concept.seeds=3")
    assert.same({ 1, 1, 1, 3 }, { stages.cat, stages.horse, stages.song, stages.dog })
  end)

  it("are the same from a file, and from that of a checkpoint", function()
    local cfg = config_of(SEED)
    local found = sr.tasks.concept.concepts(cfg, open())
    local path = program.write(folder, "own.tsv", "# mine\n" .. found:pack() .. "\ngriffin\t2\n")
    local read = sr.tasks.concept.concepts(config_of("concept.file=" .. path), open())
    local again = sr.tasks.concept.concepts(cfg, open(), found:pack())
    for _, other in ipairs { read, again } do
      assert.same({ found.names, found.stages, found.times }, { other.names, other.stages, other.times })
    end
  end)
end)

describe("the forms of concepts", function()
  local forms = require("seqrun.tasks.concept.forms")

  it("are one and several of a word, but no other word", function()
    local tokenizer = open():tokenizer()
    local function texts(name)
      local list = {}
      for i, ids in ipairs(forms.of(tokenizer)(name)) do list[i] = tokenizer:decode(ids) end
      return table.concat(list, ", ")
    end
    assert.equal("cat, cats", texts("Cat"))
    assert.equal("lady, ladies", texts("lady"))
    assert.equal("church, churches", texts("church"))
    assert.equal("man, men", texts("man"))
    assert.equal("hi", texts("hi")) -- not his
    assert.equal("great care, great cares", texts("great care"))
  end)

  for _, name in ipairs { "roberta", "xlm_roberta", "modernbert" } do
    it("are found where a cased tokenizer with spaces in its tokens writes them: " .. name, function()
      local text = "A dog and the dogs, or a dogma; a dog's not a hotdog.\n\nGreat dogs of great care, great cares.\n\n"
      local input, out = program.write(folder, "cased.txt", text:rep(3)), ("%s/%s.sqr"):format(folder, name)
      sr.must(sr.data.prepare { inputs = { input }, out = out, vocab = "tests/data/tokenizer/" .. name .. ".json" })
      local list = program.write(folder, "cased.tsv", "dog\t1\ngreat care\t2\ngreat\t2\n")
      local found = sr.tasks.concept.concepts(config_of("data.file=" .. out, "concept.file=" .. list),
        sr.must(sr.data.open(out, { held = 0 })))
      local dogs = name == "xlm_roberta" and 9 or 12 -- it has a piece `s,`
      assert.same({ { "dog", "great care", "great" }, { dogs, 6, 3 } }, { found.names, found.times })
    end)
  end
end)

describe("the loader of concepts", function()
  local uids = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }
  local NOUNS = " dog cat horse song river letter window great care "

  ---Masked words of some sequences, in the first update of a run whose last stage has begun by then or not.
  local function masked(...)
    local cfg, opened = config_of(SEED, "mask.prob=0.2", "concept.share=1", ...), open()
    cfg.data.prefetch = 0
    local task = sr.tasks.concept
    local loader = sr.must(sr.data.loader(task.train_options(cfg, opened, task.concepts(cfg, opened))))
    local batch, list = loader:batch_of(uids), {}
    for i, id in ipairs(batch.targets.mlm.labels:totable()) do list[i] = opened:tokenizer():token(id) end
    return list, batch, loader
  end

  local function count(list, wanted)
    local n = 0
    for _, word in ipairs(list) do n = n + (wanted:find(" " .. word .. " ", 1, true) and 1 or 0) end
    return n
  end

  it("masks random tokens before the first stage, concepts of the stages so far from it on", function()
    local plain = masked("concept.stages=[5,6,7,8]")
    assert.same(plain, (masked("concept.stages=[6,7,8,9]")))
    local first = masked("concept.stages=[1,6,7,8]")
    local all = masked("concept.stages=[1]")
    assert.equal(#plain, #first)
    assert.is_true(count(first, " dog ") > 1.5 * count(plain, " dog "))
    assert.is_true(count(all, NOUNS) > 1.6 * count(plain, NOUNS))
  end)

  it("masks the same tokens packed, padded and alone", function()
    local _, batch, loader = masked("concept.stages=[1]")
    local want = batch.targets.mlm.labels:totable()
    for _, way in ipairs { "padded", "single" } do
      local update, got = loader:update_of(uids, { arrange = way }), {}
      for i = 1, update.count do
        local labels = update:batch(i).targets.mlm.labels:totable()
        table.move(labels, 1, #labels, #got + 1, got)
      end
      assert.same(want, got)
    end
  end)

  local function parts()
    local cfg, opened, task = config_of(SEED, "concept.stages=[1]"), open(), sr.tasks.concept
    cfg.data.prefetch = 0
    local concepts = task.concepts(cfg, opened)
    return task.model(cfg, opened, concepts), sr.must(sr.data.loader(task.train_options(cfg, opened, concepts)))
  end

  it_on("cpu", "gives a model the same loss and gradients packed, padded and alone", function()
    bert.check_arrangements(parts())
  end)

  it_on("ref", "gives a model gradients of finite differences", function()
    local model, loader = parts()
    local batch = loader:batch_of { 3, 1 }
    local names = { "bert.encoder.layer.0.output.dense.weight", "cls.predictions.bias" }
    bert.check_gradients(model.params, names, function() return model:losses(batch).total end)
  end)
end)

---Checksums of the last checkpoint of a run, its step and its path.
local function last_of(out) return small.newest(folder .. "/" .. out) end

local run = program.ok

describe("a run on concepts", function()
  it("#slow learns on held-out text, and resumes to the bit where WordNet is gone", function()
    run(words("whole", SEED))
    run(words("half", SEED, "--max-steps", "31"))
    local held, lines = small.metrics(folder .. "/whole", "eval"), small.metrics(folder .. "/whole")
    assert.is_true(held[#held].mlm_loss < lines[1].mlm_loss - 1,
      ("%g, then %g held out"):format(lines[1].mlm_loss, held[#held].mlm_loss))
    local stages = {}
    for _, line in ipairs(lines) do stages[#stages + 1] = line.concept_stage end
    assert.same({ 0, 0, 1, 2, 4 }, { stages[1], stages[6], stages[7], stages[19], stages[#stages] })
    assert(os.rename(folder .. "/data.noun", folder .. "/data.away"))
    local code, _, err = program.run { "recipes/concept.lua", "--resume=" .. folder .. "/half", "--quiet" }
    assert(os.rename(folder .. "/data.away", folder .. "/data.noun"))
    assert.equal(0, code, err)
    local bits, _, path = last_of("half")
    assert.same((last_of("whole")), bits)
    assert.matches("\ndog\t1\n", sys.read_file(path .. "/trainer/concepts.tsv"))
    sr.must(sr.checkpoint.export(folder .. "/whole", folder .. "/out"))
    assert.equal("BertForPreTraining", json.decode(sys.read_file(folder .. "/out/config.json")).architectures[1])
    local _, _, report = sr.must(sr.nn.pretrained(folder .. "/out"))
    assert.same({ 0, 0 }, { #report.missing, #report.ignored }, tostring(report))
  end)

  on_ranks("#slow has the same bits on several ranks", function()
    local more = { SEED, "--max-steps", "8", "threads=1", "concept.stages=[2,4,6,7]" }
    run(words("one", table.unpack(more)))
    program.works(mpi.run(2, words("two", table.unpack(more))))
    assert.same((last_of("one")), (last_of("two")))
  end)
end)

describe("what a run on concepts refuses", function()
  local function refused(code, text, ...)
    local good, problem = pcall(function(...)
      local cfg, task, opened = config_of(...), sr.tasks.concept, open()
      sr.must(sr.data.loader(task.train_options(cfg, opened, task.concepts(cfg, opened))))
    end, ...)
    local message = tostring(problem)
    assert.is_false(good, text)
    assert.is_truthy(message:find(text, 1, true), message)
    if type(problem) == "table" and problem.code then assert.equal(code, problem.code) end
  end

  local function file(text) return "concept.file=" .. program.write(folder, "bad.tsv", text) end

  it("is said in a sentence that names the way out", function()
    refused("config", "concept.stages must ascend, but 5 follows 9: stage 2 would never be alone",
      "concept.stages=[1,9,5]")
    refused("config", "stages 1 and 2 both begin with update 7 of the run; set them further apart",
      "concept.stages=[0.1,0.101]", SEED)
    refused("missing", "/none/data.noun is missing; install it (apt-get install wordnet-base), set concept.wordnet",
      "concept.wordnet=" .. folder .. "/none")
    refused("missing", "corpus.sqr/data.noun", "concept.wordnet=" .. corpus)
    refused("config", "concept.named: WordNet has no noun 'dogs'; did you mean 'dog'?", "concept.named=[dogs]")
    refused("config", "no noun of WordNet occurs 99999 times in the training text of", "concept.least=99999")
    refused("data", "none of its 2 concepts occurs in the training text of", file("griffin\t1\nsphinx\t2\n"))
    refused("data", "bad.tsv has no concepts", file("# nothing\n"))
    refused("data", "bad.tsv:2: 'dog' is not a concept; a line has the words, a tab and the stage",
      file("cat\t1\ndog\n"))
    refused("data", "bad.tsv:1: stage 9 of 'cat', but concept.stages has 4 stages", file("cat\t9\n"))
    refused("data", "bad.tsv:2: 'cat' is on line 1 already", file("cat\t1\ncat\t2\n"))
    refused("missing", "concept.file: ", "concept.file=" .. folder .. "/none.tsv")
    refused("data", "bad.noun/data.noun:1: not a line of WordNet", (function()
      assert(sys.make_dirs(folder .. "/bad.noun"))
      program.write(folder, "bad.noun/data.noun", "00000001 05 n zz cat 0 000 | a cat\n")
      return "concept.wordnet=" .. folder .. "/bad.noun"
    end)())
  end)
end)
