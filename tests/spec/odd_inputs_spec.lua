-- Inputs that look right and are something else: values of another type, other formats of the same data.

local json = require "seqrun.core.json"
local lab = require "tests.support.labelled"
local none = require "tests.support.none"

setup(lab.setup)

local read, put, column = lab.read, lab.put, lab.column

---Reads a file of this text, which must fail with this message.
local function refuses(name, text, options, pattern)
  return none("data", pattern, read(require("tests.support.with")({ files = put(name, text) }, options)))
end

---A data set of a file of this text.
local function reads(name, text, options)
  local set, report = read(require("tests.support.with")({ files = put(name, text) }, options))
  assert(set, report)
  return set, report
end

describe("values of JSON", function()
  it("are texts where they are numbers or booleans, in the fewest digits", function()
    local lines = '{"text":3.14,"label":1}\n{"text":true,"label":2.0}\n{"text":0.1,"label":2}\n'
      .. '{"text":1e300,"label":1}\n'
    local set = reads("n.jsonl", lines, { task = "classify" })
    assert.same({ "3.14", "true", "0.1", "1e+300" }, column(set, "text"))
    assert.same({ 0, 1, 1, 0 }, column(set, "label"))
  end)

  it("are refused with their line where they are of another type", function()
    for value, what in pairs { ['["x"]'] = "a list", ['{"a":1}'] = "an object" } do
      refuses("t.jsonl", '{"text":"a","label":"x"}\n{"text":"b","label":' .. value .. "}\n", { task = "classify" },
        "^t.jsonl:2: 'label' is " .. what .. "; expected a text or a number; correct the file")
    end
    refuses("t.jsonl", '{"text":["a"],"label":"x"}\n', { task = "regress" },
      "^t.jsonl:1: 'text' is a list; expected a te")
    refuses("t.jsonl", '{"text":"a","label":[1,2]}\n', { task = "regress" },
      "^t.jsonl:1: columns.label is a list of 2 numbers; name as many columns")
    refuses("t.jsonl", '{"text":"a","choices":"b","label":0}\n', { task = "choice" },
      "^t.jsonl:1: 'choices' is a string; expected a list of texts")
  end)

  it("never lose what follows a null in a list, nor an item of another type", function()
    for item, what in pairs { null = "null", ["[1]"] = "a list", ['{"b":1}'] = "an object" } do
      for task, line in pairs {
        multilabel = '{"text":"a","label":["x",%s,"y"]}', choice = '{"text":"a","choices":["x",%s,"y"],"label":0}',
        tokens = '{"tokens":["a","rain","was"],"tags":["x",%s,"y"]}',
      } do
        refuses("l.jsonl", line:format(item), { task = task },
          "^l.jsonl:1: item 2 of '%a+' is " .. what .. "; expected")
      end
      refuses("w.jsonl", ('{"tokens":["a",%s],"tags":["x","y"]}'):format(item), { task = "tokens" },
        "^w.jsonl:1: item 2 of 'tokens' is " .. what)
    end
    local set, report = reads("e.jsonl", '{"text":"a","pair":"b","choices":["rain",null,"yes"]}\n', {
      task = "embed", columns = { text = "text", pair = "pair", choices = "choices" },
    })
    assert.same({ 4, "1 pair with 2 hard negatives" }, { set:info().examples, report.notes[1] })
  end)
end)

it("integers that JSON cannot give whole are refused, others keep their digits", function()
  local set = reads("i.jsonl", '{"text":"a","id":9007199254740993,"label":9007199254740993}\n'
    .. '{"text":"b","id":9007199254740992,"label":9007199254740992}\n', {
      task = "classify", columns = { text = "text", label = "label", id = "id" } })
  assert.same({ "9007199254740993", "9007199254740992" }, column(set, "id"))
  assert.same({ "9007199254740992", "9007199254740993" }, set:labels())
  refuses("i.jsonl", '{"text":"a","label":12345678901234567890}\n', { task = "classify" },
    "^i.jsonl:1: 'label' is a number of more than 64 bits, whose digits are lost %(put it in quotes%)")
end)

it("one label for all questions is a position, and no choice may be equal to the right one", function()
  local function rows(label, other)
    return ('{"text":"a","choices":["yes","%s"],"label":%d}\n'):format(other, label):rep(2)
  end
  local _, report = reads("c.jsonl", rows(0, "no"), { task = "choice" })
  assert.same({ "warning: the right choice is '0' in all 2 questions; if it is another, see columns.label" },
    report.notes)
  refuses("c.jsonl", rows(1, "no"), { task = "choice" }, "1 different label %(1%) for 2 choices; set data.labels to")
  refuses("c.jsonl", rows(0, "no") .. rows(0, "yes"), { task = "choice" },
    "^c.jsonl:3: choices 0 and 1 are the same text, and only one of them is right")
end)

describe("questions", function()
  local function squad(question)
    local qas = type(question) == "table" and { question } or question
    local paragraph = { context = "Emma was good.", qas = qas }
    return json.encode { data = { { paragraphs = { { context = "a day", qas = json.array {} }, paragraph } } } }
  end

  it("may have a list of each field, and numbers as ids", function()
    local set = reads("q.json", squad {
      id = 7, question = "who?", answers = { text = { "Emma", "good" }, answer_start = { 0, 9 } },
    }, { task = "squad" })
    assert.same({ { "7" }, { '["Emma","good"]' } }, { column(set, "id"), column(set, "answers") })
  end)

  it("are refused without answers, and where the file holds something else", function()
    local options = { task = "squad" }
    refuses("q.json", squad { id = "a", question = "who?" }, options,
      '^q.json: question a: no "answers"; a question that')
    refuses("q.json", squad { id = "a", question = "who?", answers = json.null }, options, '"answers" is not a list')
    refuses("q.json", squad { id = "a", question = "who?", answers = { text = { "Emma" }, answer_start = { 0, 9 } } },
      options, '"answers" needs as many items of answer_start as of text')
    refuses("q.json", squad { id = "a", question = "who?", is_impossible = true,
      answers = json.array { { text = "Emma", answer_start = 0 } } }, options, "is_impossible, but it has answers")
    refuses("q.json", squad(json.null), options, '^q.json: paragraph 2 behind question 0 has no list "qas"')
    refuses("q.json", squad { 5 }:gsub("%[%[5%]%]", "[5]"), options, "^q.json: question number 1: it is not an object")
  end)
end)

describe("lists", function()
  local function labels_of(set)
    local rows = column(set, "labels")
    return set:labels(), rows
  end

  it("of 0 and 1 are labels by their place, if all have one length", function()
    local rows = '{"text":"a","label":[1,0,0]}\n{"text":"b","label":[0,1,1]}\n'
    local set, report = reads("h.jsonl", rows, { task = "multilabel" })
    local names, values = labels_of(set)
    assert.same({ { "label_0", "label_1", "label_2" }, { { 1, 0, 0 }, { 0, 1, 1 } } }, { names, values })
    assert.equal("labels are lists of 0 and 1: label_0 to label_2; data.labels names them", report.notes[1])
    set = reads("h.jsonl", rows, { task = "multilabel", labels = { "x", "y", "z" } })
    assert.same({ { 1, 0, 0 }, { 0, 1, 1 } }, column(set, "labels"))
    refuses("h.jsonl", rows, { task = "multilabel", labels = { "x", "y" } },
      "^h.jsonl:1: a list of 3 numbers for 2 labels, x, y")
    set = reads("h.csv", 'text,label\na,"[1 0]"\nb,"[0, 1]"\n', { task = "multilabel" })
    assert.same({ { 1, 0 }, { 0, 1 } }, column(set, "labels"))
    for _, cells in ipairs { "[true,false]", '"[1 0]"', '"[True, False]"' } do
      local text = ('{"text":"a","label":%s}\n'):format(cells)
      assert.same({ { 1, 0 } }, column(reads("h.jsonl", text, { task = "multilabel" }), "labels"))
    end
    refuses("h.csv", "text,label\na,1\nb,0\n", { task = "multilabel" },
      "^h.csv:2: the labels are 0 and 1; name a column of them for each label, columns.label=%[a,b%], or train with")
  end)

  it("as Python and JSON write them are lists in the cells of a table", function()
    local cells = { [=["['x', 'y']"]=], '"[""y""]"', "[]", [=["['x' 'it\'s']"]=] }
    local rows = { "text,label" }
    for i, cell in ipairs(cells) do rows[i + 1] = "a," .. cell end
    local names, values = labels_of(reads("p.csv", table.concat(rows, "\n"), { task = "multilabel" }))
    assert.same({ "it's", "x", "y" }, names)
    assert.same({ { 0, 1, 1 }, { 0, 0, 1 }, { 0, 0, 0 }, { 1, 1, 0 } }, values)
    local questions = "text,choices,label\na,\"['rain', 'yes']\",1\na,\"['no', 'day']\",0\n"
    local set = reads("p.csv", questions, { task = "choice" })
    assert.equal(4, set:info().examples)
    set = reads("p.jsonl", [[{"text":"a","label":"('x', 'y')"}]] .. "\n" .. [[{"text":"a","label":"{'x'}"}]] .. "\n",
      { task = "multilabel" })
    assert.same({ { 1, 1 }, { 1, 0 } }, column(set, "labels"))
    for _, cell in ipairs { "[a]", "(a)", "{a}", "['a'", "['a'b]", "[1 2 x]" } do
      assert.is_nil(require("seqrun.data.readers.fields").listed(cell))
    end
    refuses("p.csv", "text,label\na,\"['x']\"\nb,\"['y']\"\n", { task = "classify" },
      "^p.csv:2: the label '%['x'%]' is a list; train with task=multilabel")
  end)
end)

describe("labels and headers", function()
  it("that look alike are warned of", function()
    for _, pair in ipairs {
      { "caf\u{e9}", "cafe\u{301}" }, { "x y", "x\u{a0}y" }, { "x", "x\u{200b}" }, { "1", "1.0" },
    } do
      local text = ("text,label\na,%s\nb,%s\na,z\nb,z\n"):format(pair[1], pair[2])
      local _, report = reads("u.csv", text, { task = "classify" })
      assert.matches("^warning: .* are two classes; write them alike if they are one$",
        table.concat(report.notes, "\n"):match("[^\n]*$"))
    end
    local _, report = reads("u.csv", "text,label\na,C\nb,C++\n", { task = "classify" })
    assert.same({}, report.notes)
    _, report = reads("u.conll", "rain B-PER\nwas b-per\n", { task = "tokens" })
    assert.matches("'b%-per' %(.*u.conll:1%) and 'B%-PER' are two classes", report.notes[1])
    local lines = {}
    for i = 1, 6 do lines[i] = ("x w%d\nx W%d\n"):format(i, i) end
    _, report = reads("u.conll", table.concat(lines), { task = "tokens" })
    assert.equal("warning: 3 more of the 12 classes look like others; columns.label may name another column",
      report.notes[4])
    assert.is_nil(report.notes[5])
  end)

  it("the header may not come again", function()
    refuses("r.csv", "text,label\na,x\ntext,label\nb,y\n", { task = "classify" }, "^r.csv:3: the header once more")
    local _, report = reads("r.csv", "text,label\na,x\ntext,label\nb,y\n", { task = "classify", bad = "skip" })
    assert.same({ 2, 1 }, { report.rows, report.counts.header })
  end)
end)

describe("CoNLL", function()
  it("has words with whole ids only, and sentences between lines that hold tabs", function()
    local function row(id, word, tag) return ("%s\t%s\t_\t%s\t_\t_\t_\t_\t_\t_\n"):format(id, word, tag) end
    local text = row("1-2", "du", "_") .. row("1", "de", "ADP") .. row("2", "le", "DET") .. row("2.1", "was", "_")
    local set = reads("c.conll", text, { task = "tokens", columns = { text = 2, label = 4 } })
    assert.same({ "de le" }, column(set, "text"))
    set = reads("b.conll", "emma\tx\n\t\nrain\ty\n", { task = "tokens" })
    assert.same({ "emma", "rain" }, column(set, "text"))
  end)

  it("has a word and its tag in different columns", function()
    refuses("o.conll", "emma\nrain\n\nday\n", { task = "tokens" },
      "^o.conll:1: the word and its tag are both column 1")
  end)
end)

it("spans of BILOU and BMES are those of IOBES", function()
  local score = require("seqrun.scores").spans
  for _, letters in ipairs { "BILOU", "BMEOS" } do
    local b, i, e, o, s = letters:match("(.)(.)(.)(.)(.)")
    local gold = { b .. "-PER", i .. "-PER", e .. "-PER", o, s .. "-LOC", o }
    local found = score({ gold }, { { gold[1], gold[2], gold[3], o, o, o } })
    assert.near(2 / 3, found.f1, 1e-12)
    assert.same({ 1, 1 }, { found.types.PER.count, found.types.LOC.count })
  end
end)

it("a data set does not take the place of its text", function()
  local sr = require("seqrun")
  local path = put("in.csv", "text,label\na,x\nb,y\n")
  local options = { task = "classify", files = path, out = path, vocab = lab.vocab }
  none("config", "out=.*in.csv is an input; give another file", sr.data.read(options))
  none("config", "out=.*in.csv is an input; give another file", sr.data.prepare {
    inputs = { path }, out = path, vocab = lab.vocab, overwrite = true,
  })
  assert.equal("text,label\na,x\nb,y\n", sr.must(require("seqrun.core.sys").read_file(path)))
end)

it("a file that is listed twice is a warning", function()
  local path = put("twice.csv", "text,label\na,x\nb,y\n")
  local sets = assert(require("seqrun").data.files {
    task = "classify", train = { path, path }, vocab = lab.vocab, folder = lab.folder,
  })
  assert.matches("warning: train: %S+twice.csv is listed twice, so each of its rows counts twice",
    table.concat(sets.notes, "\n"))
end)

it("the vocabulary of a run is that of its newest checkpoint", function()
  local task_model, run = require("tests.support.task_model"), lab.folder .. "/run"
  task_model.save(run, task_model.new("mlm"))
  assert(require("seqrun").data.prepare {
    inputs = { put("in.txt", "the rain.\n") }, out = lab.folder .. "/of_run.sqr", vocab = run,
  })
end)

it("a data set made for another task is refused", function()
  local sr = require("seqrun")
  local function files(task, path) return sr.data.files { task = task, train = path, vocab = lab.vocab } end
  local path = lab.folder .. "/classes.sqr"
  local rows = put("s.csv", "text,label\na,0\nb,1\n")
  assert(sr.data.read { task = "classify", files = rows, out = path, vocab = lab.vocab })
  assert(files("classify", path))
  assert(files("pair", path)) -- which has the reader of classify
  none("data", "was made for task=classify, not for task=regress", files("regress", path))
  local own = lab.folder .. "/own.sqr"
  assert(sr.data.write {
    out = own, vocab = lab.vocab, columns = { label = { type = "i32" } }, examples = { { text = "a", label = 1 } },
  })
  none("data", "its column 'label' has values of type i32, but task=regress reads numbers", files("regress", own))
  for task, wanted in pairs { multilabel = "labels", tokens = "tags", choice = "group", squad = "span" } do
    none("data", ("it has no column '%s', which task=%s reads; write it"):format(wanted, task), files(task, own))
  end
end)

it("YAML may begin with a byte order mark", function()
  local root, problems = require("seqrun.core.yaml").parse("\xEF\xBB\xBFa: 1\n")
  assert.same({ 0, 1, 1 }, { #problems, root.line, root.column })
end)
