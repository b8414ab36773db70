-- Suites: files of GLUE and SuperGLUE as published, their columns and plain forms, the table, and recipes/glue.lua.

local encoder = require("tests.support.task_files").encoder
local files = require("seqrun.run.suite.files")
local glue = require("seqrun.run.suite.glue")
local json = require("seqrun.core.json")
local measure = require("seqrun.run.suite.measure")
local program = require("tests.support.program")
local show = require("seqrun.run.suite.show")
local sr = require("seqrun")
local sts = require("seqrun.run.suite.sts")
local suite = require("seqrun.run.suite")
local superglue = require("seqrun.run.suite.superglue")
local sys = require("seqrun.core.sys")

local refuses, works = program.refuses, program.works

local folder

setup(function() folder = program.folder() end)

local function write(path, text)
  assert(sys.make_dirs((folder .. "/" .. path):match("^(.*)/")))
  return program.write(folder, path, text)
end

local function task_of(list, name)
  for _, task in ipairs(list) do
    if task.name == name then return task end
  end
end

---The first lines of training files as published, and what their columns are.
local HEADS = {
  { "CoLA", "gj04\t1\t\tOur friends won't buy this analysis.", "columns.text=4 columns.label=2" },
  { "SST-2", "sentence\tlabel", "columns.text=sentence columns.label=label" },
  {
    "MRPC", "\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "columns.header=true columns.text=4 columns.pair=5 columns.label=1",
  },
  {
    "STS-B", "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "columns.text=sentence1 columns.pair=sentence2 columns.label=score",
  },
  {
    "QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "columns.text=question1 columns.pair=question2 columns.label=is_duplicate",
  },
  {
    "MNLI", "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse"
      .. "\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
    "columns.text=sentence1 columns.pair=sentence2 columns.label=gold_label",
  },
  { "QNLI", "index\tquestion\tsentence\tlabel", "columns.text=question columns.pair=sentence columns.label=label" },
  { "RTE", "index\tsentence1\tsentence2\tlabel", "columns.text=sentence1 columns.pair=sentence2 columns.label=label" },
  { "WNLI", "index\tsentence1\tsentence2\tlabel", "columns.text=sentence1 columns.pair=sentence2 columns.label=label" },
}

it("the files of a suite have their columns where GLUE publishes them, and in copies without headers", function()
  for i, row in ipairs(HEADS) do
    local path = write(("heads/%d.tsv"):format(i), row[2] .. "\n")
    local words = assert(files.columns(path, task_of(glue, row[1]).columns))
    assert.equal(row[3], table.concat(words, " "))
  end
  local plain = write("heads/plain.tsv", "one more\t1\n")
  assert.same({ "columns.text=1", "columns.label=2" }, files.columns(plain, task_of(glue, "CoLA").columns))
  local _, message = files.columns(plain, task_of(glue, "MNLI").columns)
  assert.matches("plain.tsv: its first line has 2 columns, in none of the published forms: one more, 1$", message)
end)

it("the files of a suite are found in folders of a task's name, however it is written", function()
  write("found/sst2/train.tsv", "sentence\tlabel\n")
  write("found/CoLA/train.tsv.gz", "x")
  assert.equal(folder .. "/found/sst2", (files.folder({ folder .. "/found" }, { "SST-2" }, { "train.tsv" })))
  local _, path = files.folder({ folder .. "/none", folder .. "/found/CoLA" }, { "CoLA" }, { "train.tsv" })
  assert.equal(folder .. "/found/CoLA/train.tsv.gz", path)
  assert.is_nil(files.folder({ folder .. "/found" }, { "RTE" }, { "train.tsv" }))
end)

describe("nested files of SuperGLUE", function()
  ---The rows of a plain file.
  local function rows(name, object)
    local path = write(("nested/%s.jsonl"):format(name), json.encode(object) .. "\n")
    local paths = { folder = folder, train = path, dev = path }
    local plain, list = task_of(superglue, name).prepare(paths, folder .. "/plain/" .. name), {}
    for line in io.lines(plain.dev) do list[#list + 1] = json.decode(line) end
    return list
  end

  it("become rows with a text, a second one and a label", function()
    local copa = rows("COPA", { premise = "My body cast a shadow.", choice1 = "The sun rose.", choice2 = "It rained.",
      question = "cause", label = 0, idx = 0 })
    assert.same({ { text = "My body cast a shadow. What was the cause?", choices = { "The sun rose.", "It rained." },
      label = "0" } }, copa)
    local wic = rows("WiC", { word = "place", sentence1 = "Do you want to come?", sentence2 = "A place.",
      label = false, idx = 0 })
    assert.same({ { text = "place: Do you want to come?", pair = "A place.", label = "false" } }, wic)
    local wsc = rows("WSC", { text = "Mark told Pete lies, and he  believed he.", label = true, target = {
      span1_index = 0, span1_text = "Mark", span2_index = 7, span2_text = "he",
    } })
    assert.same({ { text = "Mark told Pete lies, and he  believed *he*.", pair = "Mark", label = "true" } }, wsc)
  end)

  it("name the question that a row belongs to", function()
    local function answer(text, label) return { text = text, label = label } end
    local multi = rows("MultiRC", { idx = 0, passage = { text = "P.", questions = json.array {
      { question = "Who?", answers = json.array { answer("A", 1), answer("B", 0) } },
      { question = "Why?", answers = json.array { answer("C", 0) } },
    } } })
    local short = {}
    for i, row in ipairs(multi) do short[i] = { row.text, row.pair, row.label, row.group:match("%d+/%d+$") } end
    assert.same({ { "P.", "Who? A", "1", "1/1" }, { "P.", "Who? B", "0", "1/1" }, { "P.", "Why? C", "0", "1/2" } },
      short)
    local record = rows("ReCoRD", { passage = { text = "\u{e9}a Bob 100% Bob", entities = json.array {
      { start = 0, ["end"] = 1 }, { start = 3, ["end"] = 5 }, { start = 7, ["end"] = 10 }, { start = 12, ["end"] = 14 },
    } }, qas = json.array { { query = "@placeholder sat", answers = json.array { { text = "Bob" } } } } })
    short = {}
    for i, row in ipairs(record) do short[i] = { row.pair, row.label, row.entity } end
    assert.same({ { "\u{e9}a sat", "0", "\u{e9}a" }, { "Bob sat", "1", "Bob" }, { "100% sat", "0", "100%" } }, short)
  end)

  it("that are none are refused with the line", function()
    assert.error_matches(function() rows("COPA", { choice1 = "a" }) end, "COPA.jsonl:1: not an object of this task")
  end)

  it("are scored by question, as published", function()
    local function row(guess, label, p, entity)
      return { guess = guess, label = label, p = p, entity = entity, answers = { "the Cat" } }
    end
    local groups = { { rows = { row("1", "1"), row("0", "0") } }, { rows = { row("1", "1"), row("1", "0") } } }
    assert.same({ exact_match = 0.5 }, measure.whole_groups(groups))
    groups = {
      { rows = { row("0", "0", 0.2, "dog"), row("0", "1", 0.4, "cat") } },
      { rows = { row("1", "0", 0.9, "cat food"), row("1", "1", 0.8, "cat") } },
    }
    local found = measure.best_of_groups(groups)
    assert.equal(0.5, found.exact_match)
    assert.near((1 + 2 / 3) / 2, found.answer_f1, 1e-12)
  end)
end)

it("the table of a suite names an average by what it is of, seed by seed", function()
  local tasks = { task_of(glue, "CoLA"), task_of(glue, "MRPC") }
  local function row(name, values, parts, more)
    local one = { trial = { name = name, words = {} }, values = values, parts = parts, seconds = 9, state = "done" }
    for key, value in pairs(require("seqrun.run.sweep.results").spread(values)) do one[key] = value end
    for key, value in pairs(more or {}) do one[key] = value end
    return one
  end

  local self = { tasks = tasks, missing = {}, trials = {}, seeds = 2, folder = "runs/glue" }
  local rows = {
    row("CoLA", { 0.5, 0.6 }, { { matthews = 0.5 }, { matthews = 0.6 } }),
    row("MRPC", { 0.8, 0.7 }, { { f1 = 0.9, accuracy = 0.7 }, { f1 = 0.8, accuracy = 0.6 } }),
  }
  local whole = show.averages(self, rows, tasks)[1]
  assert.same({ "GLUE average", true }, { whole.name, whole.complete })
  assert.near(0.65, whole.mean, 1e-12)
  assert.near(0, whole.deviation, 1e-12) -- 0.65 with either seed
  local part = show.averages(self, rows, glue)[1]
  assert.same({ "average of 2 of 9 GLUE tasks", false }, { part.name, part.complete })
  rows[2] = row("MRPC", {}, {}, { state = "failed", mean = false })
  rows[2].mean = nil
  local one = show.averages(self, rows, tasks)[1]
  assert.same({ "average of 1 of 2 GLUE tasks", false }, { one.name, one.complete })
  assert.near(0.55, one.mean, 1e-12)
  self.tasks = { tasks[1] }
  local cells = show.cells(self, { rows[1] }, {})
  assert.same({ "CoLA", "matthews", "55.00", "7.07", "2", "9.0s", "done" }, cells[2])
end)

describe("words of a suite", function()
  it("are its keys, settings of all runs, and settings of one task", function()
    local own, of_runs = suite.split({ [0] = "recipes/glue.lua", "data=x", "data.max_len=64", "--out", "y", "seeds=2",
      "MRPC.epochs=9", "--resume", "SST2.rate.peak=1e-4" }, { data = true, seeds = true })
    assert.same({ [0] = "recipes/glue.lua", "data=x", "--out", "y", "seeds=2" }, own)
    local tasks = { task_of(glue, "MRPC"), task_of(glue, "SST-2") }
    local common, each = suite.settings(of_runs, tasks)
    assert.same({ "data.max_len=64" }, common)
    assert.same({ { "epochs=9" }, { "rate.peak=1e-4" } }, { each[tasks[1]], each[tasks[2]] })
    assert.error_matches(function() suite.settings({ "data.dev=x" }, tasks) end, "the suite sets data.dev")
    assert.error_matches(function() suite.choose(glue, { "MRCP" }) end,
      "no task 'MRCP'; choose CoLA, .*; did you mean 'MRPC'")
  end)
end)

describe("files of scored pairs", function()
  it("are read as STS, the STS benchmark, GLUE and SICK publish them, and by the names of columns", function()
    local wanted = { first = { "a b", "c" }, second = { "d", 'e "f' }, scores = { 4.5, 0 } }
    write("sts/STS.input.x.txt", 'a b\td\nnone\tscored\nc\te "f\n')
    write("sts/STS.gs.x.txt", "4.5\n\n0\n")
    local list = {
      folder .. "/sts/STS.input.x.txt",
      write("sts/sts-dev.csv", 'main\tf\t2012\t1\t4.500\ta b\td\nmain\tf\t2012\t2\t0\tc\te "f\n'),
      write("sts/glue.tsv", "index\tsentence1\tsentence2\tscore\n0\ta b\td\t4.5\n1\tc\te \"f\t0\n"),
      write("sts/SICK.tsv", "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\ta b\td\t4.5\n2\tc\te \"f\t0\n"),
      write("sts/pairs.csv", 'score,sentence1,sentence2\n4.5,"a b",d\n0,c,"e ""f"\n'),
      write("sts/pairs.jsonl", json.encode { sentence1 = "a b", sentence2 = "d", score = 4.5 } .. "\n"
        .. json.encode { sentence1 = "c", sentence2 = 'e "f', score = 0 } .. "\n"),
      write("sts/any.csv", 'text a,text b,similarity\n"a b",d,4.5\nc,"e ""f",0\n'),
    }
    for _, path in ipairs(list) do assert.same(wanted, sts.read(path), path) end
    local own = { "x", "y", "z" }
    assert.same(wanted, sts.read(write("sts/own.csv", 'z,x,y,more\n4.5,"a b",d,1\n0,c,"e ""f",1\n'), own))
    local object = '{"x":"a b","y":"d","z":4.5}\n{"x":"c","y":"e \\"f","z":0}\n'
    assert.same(wanted, sts.read(write("sts/own.jsonl", object), own))
  end)

  it("are refused with what is wrong", function()
    local function problem(name, text) return tostring(select(2, pcall(sts.read, write(name, text)))) end
    assert.matches("a.tsv: no columns sentence1, .* %(name others with columns.text, .*nor a published form: x, y",
      problem("sts/a.tsv", "x\ty\n1\t2\n"))
    assert.matches("d.csv: no columns p, q, r, nor",
      tostring(select(2, pcall(sts.read, write("sts/d.csv", "a,b,c\n1,2,3\n"), { "p", "q", "r" }))))
    assert.matches("b.tsv:2: expected two sentences and a score", problem("sts/b.tsv", "a\tb\t1\nc\td\tx\n"))
    assert.matches("c.tsv: too few pairs with scores", problem("sts/c.tsv", "a\tb\t1\n"))
  end)

  it("give correlations for each encoder, and their mean, beside sets for retrieval #slow", function()
    encoder(folder .. "/base")
    local lines = { "sentence1\tsentence2\tscore" }
    for i = 1, 20 do lines[#lines + 1] = ("w%d w%d\tw%d w%d\t%g"):format(i, i + 1, i + i % 4, i + 1, 4 - i % 4) end
    local one = write("sts/one.tsv", table.concat(lines, "\n") .. "\n")
    write("sts/beir/corpus.jsonl", '{"_id":"d1","text":"w1 w2"}\n{"_id":"d2","title":"w9","text":"w8"}\n')
    write("sts/beir/queries.jsonl", '{"_id":"q1","text":"w1 w2"}\n{"_id":"q2","text":"w3"}\n')
    write("sts/beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    local code, told, err = program.run { "recipes/sts.lua", "model=[" .. folder .. "/base," .. folder .. "/base]",
      ("data=[%s,%s,%s/none.tsv,%s/sts/beir]"):format(one, one, folder, folder), "format=json", "--quiet" }
    assert.same({ 0, "" }, { code, err })
    local object = json.decode(told).models[2]
    local scores = object.data
    assert.same({ 20, 20, 0, 1 }, { scores[1].count, scores[2].count, scores[3].count, scores[4].count })
    assert.equal(scores[1].metrics.spearman, object.spearman)
    assert.equal(1, object.ndcg_at_10)
    assert.matches("none.tsv", scores[3].reason)
    local label = sr.must(sr.encode.open(folder .. "/base"))
    local a, b = label:one("w1 w2"), label:one("w2 w2")
    local cosine = 0
    for i, x in ipairs(a) do cosine = cosine + x * b[i] end
    local all = sts.score(label, one)
    assert.near(scores[1].metrics.pearson, all.metrics.pearson, 1e-6)
    assert.is_true(cosine < 1 and all.metrics.spearman > 0)
    told = works(program.run { "recipes/sts.lua", "model=" .. folder .. "/base", ("data=[%s,%s]"):format(one, one),
      "--quiet" })
    assert.matches("\nmean +spearman +%d", told)
    told, err = works(program.run { "recipes/sts.lua", "model=" .. folder .. "/base", "format=markdown", "--quiet",
      ("data=[%s,%s/none.tsv]"):format(one, folder) })
    assert.matches("^failed: [^\n]*none.tsv: cannot open", err)
    assert.matches("^| data | metric | count | [^\n]*/base |\n" .. ("|%-%-%-"):rep(4) .. "|\n| [^\n]*one.tsv | s", told)
  end)
end)

describe("recipes/glue.lua #slow", function()
  ---Sentences of words of the small vocabulary; those with w5 have label 1.
  local function sentence(i, label) return ("w%d w%d w%d"):format(30 + i % 40, label == 1 and 5 or 25, 40 + i % 31) end

  local function fill(name, parts, line_of, header)
    for part, count in pairs(parts) do
      local lines = { header }
      for i = 1, count do lines[#lines + 1] = line_of(i, i % 2) end
      write(("glue/%s/%s"):format(name, part), table.concat(lines, "\n") .. "\n")
    end
  end

  setup(function()
    fill("CoLA", { ["train.tsv"] = 48, ["dev.tsv"] = 16 }, function(i, label)
      return ("gj04\t%d\t\t%s"):format(label, sentence(i, label))
    end)
    fill("MNLI", { ["train.tsv"] = 48, ["dev_matched.tsv"] = 16, ["dev_mismatched.tsv"] = 12 }, function(i, label)
      return ("%s\t%s\t%s"):format(sentence(i, label), sentence(i + 3, 0), label == 1 and "neutral" or "entailment")
    end, "sentence1\tsentence2\tgold_label")
    fill("MultiRC", { ["train.jsonl"] = 12, ["val.jsonl"] = 6 }, function(i)
      local answers = json.array { { text = sentence(i, 1), label = 1 }, { text = sentence(i, 0), label = 0 } }
      return json.encode { passage = { text = sentence(i, 0), questions = json.array {
        { question = sentence(i, 0), answers = answers },
      } } }
    end)
    fill("RTE", { ["train.tsv"] = 4, ["dev.tsv"] = 4 }, function(i) return "a\tb" .. i end) -- not a published form
    write("glue/WNLI/train.tsv", "index\tsentence1\tsentence2\tlabel\n")
  end)

  local function run(...)
    return program.run {
      "recipes/glue.lua", "init.from=" .. folder .. "/base", "data=" .. folder .. "/glue", "--out", folder .. "/out",
      "data.folder=" .. folder .. "/sets", "batch.sequences=8", "rate.peak=4e-3", "data.max_len=48", ...,
    }
  end

  it("scores the tasks whose files are there, over seeds, in one table, and does nothing twice", function()
    encoder(folder .. "/base")
    refuses(2, "^seqrun: command line: unknown key 'epohcs'; did you mean 'epochs'%?\n", run("epohcs=2", "seeds=1"))
    refuses(2, "^seqrun: CoLA: command line: unknown key 'epohcs'; did you mean 'epochs'%?\n",
      run("CoLA.epohcs=2", "seeds=1"))
    local plan = works(run("--dry-run"))
    assert.matches("CoLA, 3 seeds: columns.text=4 columns.label=2 task=classify", plan)
    local told, err = works(run("seeds=2", "epochs=2", "CoLA.epochs=6"))
    assert.matches("\nGLUE CoLA +matthews +%d[%d.]+ +%d[%d.]+ +2 +%S+ +done\n", told)
    assert.matches("\nGLUE MNLI +accuracy [%d.]+, accuracy_mismatched [%d.]+ +[%d.]+ ", told)
    assert.matches("\nSuperGLUE MultiRC +f1 [%d.]+, exact_match [%d.]+ +[%d.]+ ", told)
    assert.matches("\nGLUE RTE +accuracy +%- .* failed\n", told)
    assert.matches("\naverage of 2 of 9 GLUE tasks +mean of the scores +%d", told)
    assert.matches("failed: RTE: .*RTE/train.tsv: its first line has 2 columns", told)
    assert.matches("failed: WNLI: .*it has train.tsv, but no dev.tsv to score on", told)
    assert.matches("\nnot found: GLUE SST%-2, GLUE MRPC, ", told)
    assert.matches("CoLA  seed 1  matthews", err)

    local code, result
    code, result, err = run("seeds=2", "epochs=2", "CoLA.epochs=6", "format=json")
    assert.same({ 0, "" }, { code, err }) -- nothing was run again
    local object = json.decode(result)
    local cola = object.tasks[1]
    assert.same({ "CoLA", "done", 2 }, { cola.task, cola.state, #cola.seeds })
    assert.near((cola.seeds[1].score + cola.seeds[2].score) / 2, cola.score, 1e-12)
    assert.matches("\nGLUE CoLA,matthews,", works(run("seeds=2", "epochs=2", "CoLA.epochs=6", "format=csv")))
    refuses(2, "GLUE%-CoLA was begun with other settings", run("seeds=2", "epochs=2", "CoLA.epochs=7"))
  end)
end)
