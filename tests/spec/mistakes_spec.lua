-- Plausible mistakes that would train or score something else than was meant: refused, or said before the run.

local checkpoint = require("seqrun.checkpoint")
local fails = require("tests.support.fails")
local files = require("tests.support.task_files")
local program = require("tests.support.program")
local ranking = require("seqrun.scores.ranking")
local results = require("seqrun.run.sweep.results")
local roles = require("seqrun.tasks.embed.roles")
local sanity = require("seqrun.run.checks.sanity")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local unknown = require("seqrun.run.checks.sanity").unknown

local works = program.works

local folder, corpus = small.folder()

---Runs a command that is to be refused with these words.
local function refused(code, words, ...)
  local _, err = fails.exiting(code, "", words)
  for _, part in ipairs { ... } do assert.is_truthy(err:find(part, 1, true), err) end
end

describe("a sweep", function()
  local function row(name, mean, step, state)
    return { trial = { name = name, words = { name } }, mean = mean, step = step, state = state or "done" }
  end

  it("orders trials that are done by their score, whatever their steps", function()
    local rows = { row("long", 0.7, 200), row("dropped", 0.95, 50, "dropped"), row("short", 0.9, 100) }
    results.sort(rows, "accuracy")
    assert.equal("short long dropped", ("%s %s %s"):format(rows[1].trial.name, rows[2].trial.name, rows[3].trial.name))
    assert.equal("short", results.best(rows).trial.name)
  end)

  it("knows what its trials cannot be compared by", function()
    local function trials(...)
      local list = {}
      for i, word in ipairs { ... } do list[i] = { words = { word, "seed=" .. i } } end
      return list
    end
    assert.same({ "mask.prob" }, results.deciding(trials("mask.prob=0.1", "mask.prob=0.4"), false))
    assert.same({ "data.max_len" }, results.deciding(trials("data.max_len=64", "data.max_len=128"), false))
    assert.same({}, results.deciding(trials("data.max_len=64", "data.max_len=128"), true))
    assert.same({}, results.deciding(trials("rate.peak=1e-3", "rate.peak=1e-4"), false))
    assert.same({}, results.deciding(trials("mask.prob=0.1", "mask.prob=0.1"), false))
  end)

  it("does not count runs that were made from other files #slow", function()
    local data = files.write(folder, "classify")
    local words = files.finetune(folder, "classify", data, files.encoder(folder .. "/base"), "epochs=1",
      "rate.peak=1e-3,1e-2", "--seeds", "1", "--out", folder .. "/sweep")
    table.insert(words, 1, "sweep")
    works(program.run(words))
    assert.equal(0, (program.run(words)))
    local rows = sr.must(sys.read_file(data.dev))
    assert(sys.write_file(data.dev, (rows:gsub("[^\n]*\n$", ""))))
    refused(3, words, "data.dev: " .. data.dev .. " has changed since", "was made; remove", "another --out")
    assert(sys.write_file(data.dev, rows))
  end)
end)

describe("settings", function()
  it("that mask less than they say are warned of", function()
    local function warned(mask, max_len)
      return table.concat(sanity.rates { rate = {}, data = { max_len = max_len }, mask = mask }, "\n")
    end
    assert.matches("mask.max=20 masks at most 15.6 %% of a sequence of 128 tokens, less than mask.prob=0.4; "
      .. "set mask.max=52", warned({ prob = 0.4, max = 20 }, 128))
    assert.equal("", warned({ prob = 0.15, max = 20 }, 128))
    assert.equal("", warned({ prob = 0.15, max = 80 }, 512))
  end)

  it("whose schedules end after the run are warned of", function()
    local function warned(options, ends)
      options.name = "curriculum.length"
      return sanity.schedules({ sr.schedule.new(options) }, ends)
    end
    local length = { kind = "length", min = 16, max = 48, total = 1000, quantum = 8 }
    assert.same({ "curriculum.length ends at step 1,000, after the run, which ends at 20: it reaches 16, not 48; "
      .. "set an end within the run, such as total: 50%" }, warned(length, { step = 20 }))
    assert.same({}, warned(length, { step = 1000 }))
    assert.same({}, warned(length, {}))
    assert.equal(1, #warned({ type = "discrete", values = { 1, 2 }, upto = { 30 } }, { step = 20 }))
  end)

  it("whose average begins after the run are warned of", function()
    assert.matches("average_from=50 is after the end of the run, 20",
      sanity.average({ average = 0.9, average_from = 50 }, 20))
    assert.is_nil(sanity.average({ average = 0.9, average_from = 0 }, 20))
    assert.is_nil(sanity.average({ average = 0, average_from = 50 }, 20))
  end)

  it("of updates larger than the data are warned of", function()
    local loader = { examples = function() return 40 end, summary = function() return { by = "sequences" } end }
    assert.matches("batch.sequences=100, but the data have 40 examples", sanity.rows({ sequences = 100 }, loader))
    assert.is_nil(sanity.rows({ sequences = 40 }, loader))
  end)
end)

describe("data", function()
  it("of unknown tokens are warned of", function()
    local input = program.write(folder, "other.txt", ("qzx wvy jkq the cat\n"):rep(20))
    local out = folder .. "/other.sqr"
    sr.must(sr.data.prepare { inputs = { input }, vocab = "tests/data/model/tiny/vocab.txt", out = out })
    assert.is_nil(unknown(sr.must(sr.data.open(corpus, { held = 0 }))))
    local told = unknown(sr.must(sr.data.open(out, { held = 0 })))
    assert.matches("^%d+ %% of the tokens of [^ ]+other.sqr are unknown to its tokenizer %(of 100 looked at%)",
      told or "")
  end)

  it("do not take the place of a vocabulary", function()
    local input = program.write(folder, "words.txt", "the cat\n")
    program.write(folder, "words.vocab.txt", "mine\n")
    refused(2, { "recipes/prepare.lua", "inputs=[" .. input .. "]", "out=" .. folder .. "/words.sqr" },
      "words.vocab.txt exists; take it with vocab=")
    assert.equal("mine\n", sys.read_file(folder .. "/words.vocab.txt"))
  end)

  it("named twice are refused", function()
    local input = program.write(folder, "twice.txt", "the cat\n")
    refused(2, { "recipes/prepare.lua", "inputs=[" .. input .. "," .. input .. "]", "out=" .. folder .. "/twice.sqr" },
      input .. " is listed twice")
    refused(2, { "vocab", input, input, "--out", folder .. "/twice.vocab" }, input .. " is listed twice")
    local texts = folder .. "/texts"
    assert(sys.make_dirs(texts))
    input = program.write(texts, "a.txt", "the cat\n")
    for again, message in pairs {
      [input] = " twice; list it once", [texts .. "/*.txt"] = " twice; list it once",
      [texts .. "/../texts/a.txt"] = " are the same file; leave one out",
    } do
      local given = ("inputs=[%s,%s]"):format(texts, again)
      refused(2, { "recipes/prepare.lua", given, "out=" .. folder .. "/twice.sqr" }, message)
    end
  end)

  it("are not overwritten by what is made of them", function()
    local input = program.write(folder, "kept.txt", "the cat\n")
    refused(2, { "vocab", input, "--out", input }, "--out=" .. input .. " is an input")
    refused(2, { "pack", corpus, "--max-len", "64", "--out", corpus }, "--out=" .. corpus .. " is an input")
    assert.equal("the cat\n", sys.read_file(input))
    assert.is_truthy(sr.data.open(corpus, { held = 0 }))
  end)

  it("of pairs with scores, labels or negatives that would go unused are refused", function()
    local function check(name, text)
      local path = program.write(folder, name, text)
      local options = { files = { path }, columns = {}, format = "auto" }
      local good, problem = pcall(function() roles.check(path, options, roles.usual(path, options)) end)
      return good or tostring(problem)
    end
    assert.is_true(check("a.csv", "anchor,positive,negative_1,source\na,b,c,d\n"))
    assert.is_true(check("b.csv", "sentence1,sentence2,score\na,b,0.5\n"))
    assert.matches("has a column 'label', which would not be used; add it with columns.text=sentence1",
      check("c.csv", "sentence1,sentence2,label\na,b,0\n"))
    assert.is_true(check("g.csv", "sentence1,sentence2,score,label\na,b,0.5,x\n"))
    assert.is_true(check("h.csv", "text,label\na,x\n"))
    assert.matches("has a column 'score'", check("d.csv", "anchor,positive,score\na,b,0.5\n"))
    assert.matches("has a column 'hard_negative'", check("e.csv", "anchor,positive,hard_negative\na,b,c\n"))
    local late = '{"anchor":"a","positive":"b"}\n{"anchor":"a","positive":"b","negatives":["c"]}\n'
    assert.is_true(check("f.jsonl", late))
    local path = folder .. "/f.jsonl"
    assert.same({ "negatives" }, roles.usual(path, { files = { path }, columns = {}, format = "auto" }).choices)
  end)
end)

it("retrieval counts judged texts that the corpus lacks as not found", function()
  local unit = sr.tensor { { 1, 0 }, { 0, 1 } }
  local function score(qrels)
    local wanted, own, lost, problem = ranking.judged({ "d1", "d2" }, { "q1", "q2" }, qrels)
    assert.is_nil(problem)
    return ranking.score { queries = unit, documents = unit, wanted = wanted, own = own, lost = lost }
  end
  assert.equal(1, score({ q1 = { d1 = 1 }, q2 = { d2 = 1 } }).ndcg_at_10)
  local half = score { q1 = { d1 = 1 }, q2 = { gone = 1 } }
  assert.same({ 0.5, 0.5, 0.5 }, { half.ndcg_at_10, half.mrr_at_10, half.recall_at_100 })
end)

it("retrieval with texts of one name, or without a judged query, is refused", function()
  assert.matches("two texts with the _id 'd1'", select(4, ranking.judged({ "d1", "d1" }, {}, {})))
  assert.matches("none of the queries is judged", select(4, ranking.judged({ "d1" }, { "q" }, { p = { d1 = 1 } })))
end)

describe("a checkpoint", function()
  ---A copy of a model without some of its tensors.
  local function without(base, pattern, name)
    local out, kept = program.copy(base, folder .. "/" .. name, { "config.json", "vocab.txt" }), {}
    for key, t in pairs(sr.must(checkpoint.read_tensors(base .. "/model.safetensors"))) do
      if not key:find(pattern) then kept[key] = t end
    end
    sr.must(checkpoint.write_tensors(out .. "/model.safetensors", kept))
    return out
  end

  it("that lacks a part of the encoder is not what a run starts from", function()
    local base = sr.must(checkpoint.resolve(files.encoder(folder .. "/whole")))
    local cut, data = without(base, "position_embeddings", "cut"), files.write(folder, "classify")
    local words = files.finetune(folder, "classify", data, cut, "epochs=1", "--out", folder .. "/started")
    refused(3, words, "init.from: " .. cut .. " lacks the tensor '", "position_embeddings.weight' of the encoder")
    assert.is_false(sys.exists(folder .. "/started"))
    words[#words + 1] = "--dry-run"
    for i, word in ipairs(words) do
      if word == "init.from=" .. cut then words[i] = "init.from=" .. without(base, "pooler", "unpooled") end
    end
    assert.equal(0, (program.run(words)))
  end)

  it("without its head predicts nothing, also in Lua", function()
    local model = sr.must(checkpoint.resolve(files.encoder(folder .. "/task")))
    local json = require("seqrun.core.json")
    local config = json.decode(sr.must(sys.read_file(model .. "/config.json")))
    config.architectures, config.num_labels = json.array { "BertForSequenceClassification" }, 3
    local cut = without(model, "^cls", "classifier")
    assert(sys.write_file(cut .. "/config.json", json.encode(config)))
    fails.returning("data", "has no tensor '[^']+' and %d others; it cannot be used without it", sr.predict.open(cut))
  end)

  it("without a head is no teacher", function()
    assert.equal(0, (program.run(small.words(corpus, "--out", folder .. "/teacher", "--max-steps", "1"))))
    local headless = without(sr.must(checkpoint.resolve(folder .. "/teacher")), "^cls", "headless")
    refused(2, small.words(corpus, "--out", folder .. "/taught", "distill.from=" .. headless),
      "distill.from: " .. headless .. " has no tensor 'cls.", "a teacher needs its masked-LM head")
  end)
end)

it("a resumed run is refused where its development set is another one", function()
  local data = files.write(folder, "classify")
  works(program.run(files.finetune(folder, "classify", data, files.encoder(folder .. "/base2"), "epochs=2", "--quiet",
    "--out", folder .. "/resumed", "--max-steps", "2")))
  local rows = sr.must(sys.read_file(data.dev))
  assert(sys.write_file(data.dev, (rows:gsub("[^\n]*\n$", ""))))
  local again = { "recipes/finetune.lua", "--resume=" .. folder .. "/resumed", "--max-steps", "3" }
  refused(3, again, "data.dev: " .. data.dev .. " has changed since the run started; restore it")
  assert(sys.write_file(data.dev, rows))
  assert.equal(0, (program.run(again)))
end)
