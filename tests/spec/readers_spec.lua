-- Labelled tables to data sets: CSV, TSV and JSONL, and what is wrong with them.

local sr = require "seqrun"
local sys = require "seqrun.core.sys"
local lab = require "tests.support.labelled"
local program = require "tests.support.program"
local none = require "tests.support.none"

local exits, works = program.exits, program.works

setup(lab.setup)

local read, put, column = lab.read, lab.put, lab.column

describe("labelled tables", function()
  it("become examples with the text, the class, and the place of each row", function()
    local path = put("a.csv", "id,text,label\r\n7,\"She was \"\"good\"\",\nhe said\",yes\r\n8,It was bad,no\r\n")
    local set, report = read { task = "classify", files = path, columns = { id = "id" } }
    assert.same({ "no", "yes" }, set:labels())
    assert.same({ 1, 0 }, column(set, "label"))
    assert.same({ "She was \"good\",\nhe said", "It was bad" }, column(set, "text"))
    assert.same({ "7", "8" }, column(set, "id"))
    assert.same({ 2, 4 }, column(set, "line"))
    assert.equal(path .. ":4", set:place(2))
    assert.equal("it was bad", (set:decode(2):gsub("\n", "")))
    assert.same({ "classify", 2, 2 }, { set:meta().task, report.examples, report.rows })
  end)

  it("have literal quotes as TSV, a byte order mark or none, and columns by name or number", function()
    local rows = "label\tq1\tq2\n1\t\"rain\tit was\n0\tthe day\t\"\"\n"
    local wanted = { "\"rain", "the day" }
    for name, text in pairs { ["b.tsv"] = rows, ["bom.tsv"] = "\xEF\xBB\xBF" .. rows } do
      local set = read { task = "classify", files = put(name, text), columns = { text = "q1", pair = "q2" } }
      assert.same(wanted, column(set, "text"))
      assert.same({ "it was", "\"\"" }, column(set, "pair"))
    end
    local bare = put("bare.tsv", rows:gsub("^[^\n]*\n", ""))
    local set = read { task = "classify", files = bare, columns = { text = 2, pair = "3", label = "1" } }
    assert.same(wanted, column(set, "text"))
    assert.same({ 1, 2 }, column(set, "line"))
  end)

  it("are the same as CSV, as TSV, as JSONL, compressed or cut in two", function()
    local csv = put("same.csv", "text,label\nrain,a\nfine day,b\n\nwho,a\n")
    local tsv = put("same.tsv", "label\ttext\na\train\nb\tfine day\na\twho\n")
    local json = put("same.jsonl", '{"text":"rain","label":"a","more":[1]}\n{"label":"b","text":"fine day"}\n'
      .. '{"text":"wh\\u006f","label":"a"}\n')
    local one, two = put("one.csv", "text,label\nrain,a\n"), put("two.csv", "label,text\nb,fine day\na,who\n")
    local digests = {}
    for i, files in ipairs { csv, tsv, json, { one, two } } do
      local set = read { task = "classify", files = files }
      digests[i] = table.concat(column(set, "label"), ",") .. "|" .. set:decode(1) .. set:decode(2) .. set:decode(3)
    end
    for i = 2, 4 do assert.equal(digests[1], digests[i]) end
    local set = read { task = "classify", files = { one, two } }
    assert.same({ 0, 1, 1 }, column(set, "file"))
    assert.equal(two .. ":3", set:place(3))
  end)

  it("number integer labels by value, others by name, or as set", function()
    local path = put("n.tsv", "text\tlabel\na\t10\na\t9\na\t-1\n")
    assert.same({ "-1", "9", "10" }, read({ task = "classify", files = path }):labels())
    local set = read { task = "classify", files = path, labels = { "10", "9", "-1", "3" } }
    assert.same({ 0, 1, 2 }, column(set, "label"))
    assert.same({ "10", "9", "-1", "3" }, set:labels())
  end)

  it("have no class '-', which marks rows without a label, unless it is one of two, beside '+', or named", function()
    local function labels(text, names)
      return read({ task = "classify", files = put("d.tsv", text), labels = names, bad = "skip" }):labels()
    end
    local text = "text\tlabel\na\tx\nb\t-\nc\ty\nd\tx\n"
    assert.same({ "x", "y" }, labels(text))
    assert.same({ "-", "x", "y" }, labels(text, { "-", "x", "y" }))
    assert.same({ "+", "-", "x" }, labels((text:gsub("y", "+"))))
    assert.same({ "-", "x" }, labels((text:gsub("y", "x"))))
  end)

  it("have numbers that are all the same: a warning", function()
    local function notes(text)
      return table.concat(select(2, read { task = "regress", files = put("s.tsv", text) }).notes, "\n")
    end
    assert.matches("warning: all 2 rows have the value 2.0", notes("text\tlabel\na\t2\nb\t2.0\n"))
    assert.equal("", notes("text\tlabel\na\t2\nb\t2\nc\t3\n") .. notes("text\tlabel\na\t2\n"))
  end)

  it("have one number, or several", function()
    local path = put("r.tsv", "rain\t3.5\t-1e-3\nfine\t .5 \t2\n")
    local set = read { task = "regress", files = path, columns = { text = 1, label = 2 } }
    assert.same({ 3.5, 0.5 }, column(set, "label"))
    set = read { task = "regress", files = path, columns = { text = 1, label = { 3, 2 } } }
    assert.same({ 2, 0.5 }, set:column("label", 2))
    for _, bad in ipairs { "nan", "0x10", "1,5", "", "1e99", "inf" } do
      none(nil, "^bad.tsv:3: '.*' is not a number; correct the file",
        read { task = "regress", files = put("bad.tsv", "text\tlabel\na\t1\nb\t" .. bad .. "\n") })
    end
  end)

  it("have any number of classes, by names in a cell or by columns of 0 and 1", function()
    local path = put("m.csv", 'text,label\na,"red, blue"\nb,\nc,red\n')
    local set = read { task = "multilabel", files = path }
    assert.same({ "blue", "red" }, set:labels())
    assert.same({ { 1, 1 }, { 0, 0 }, { 0, 1 } }, column(set, "labels"))
    assert.same({ 1, 0 }, column(read { task = "multilabel", files = put("1.csv", "text,label\na,x\nb,\n") },
      "labels"))
    path = put("w.csv", "text,red,blue\na,1,1\nb,0,0\nc,1,0\n")
    set = read { task = "multilabel", files = path, columns = { label = { "blue", "red" } } }
    assert.same({ { 1, 1 }, { 0, 0 }, { 0, 1 } }, column(set, "labels"))
    path = put("l.jsonl", '{"text":"a","label":["red","blue"]}\n{"text":"b","label":[]}\n'
      .. '{"text":"c","label":["red"]}\n')
    assert.same({ { 1, 1 }, { 0, 0 }, { 0, 1 } }, column(read { task = "multilabel", files = path }, "labels"))
    none(nil, "^w2.csv:2: column 'blue' is '2', not 0 or 1", read {
      task = "multilabel", files = put("w2.csv", "text,red,blue\na,1,2\n"), columns = { label = { "red", "blue" } },
    })
  end)

  it("have choices in columns or in a list: an example for each, those of a question together", function()
    local csv = put("c.csv", "q,a,b,c,label\nwho,he,she,emma,A\nwhere,in,london,rain,B\nwhat,a,b,c,C\n")
    local json = put("c.jsonl", '{"q":"who","end":["he","she","emma"],"label":0}\n'
      .. '{"q":"where","end":["in","london","rain"],"label":1}\n{"q":"what","end":["a","b","c"],"label":2}\n')
    for _, options in ipairs {
      { files = csv, columns = { text = "q", choices = { "a", "b", "c" } } },
      { files = json, columns = { text = "q", choices = "end" } },
    } do
      options.task = "choice"
      local set, report = read(options)
      assert.same({ 9, 3 }, { report.examples, report.rows })
      assert.same({ 0, 0, 0, 1, 1, 1, 2, 2, 2 }, column(set, "group"))
      assert.same({ 0, 1, 2, 0, 1, 2, 0, 1, 2 }, column(set, "choice"))
      assert.same({ 0, 0, 0, 1, 1, 1, 2, 2, 2 }, column(set, "label"))
      assert.same({ 1, -100, -100, -100, 1, -100, -100, -100, 1 }, column(set, "answer"))
      assert.equal("where\nlondon", set:decode(5))
    end
    none(nil, "2 different labels %(A, B%) for 3 choices; set data.labels", read {
      task = "choice", files = put("c2.csv", "text,a,b,c,label\nwho,he,she,emma,A\nwhere,in,london,rain,B\n"),
      columns = { choices = { "a", "b", "c" } },
    })
  end)

  it("may have another number of choices in each question, whose labels count from 0", function()
    local function choose(text, options)
      options = options or {}
      options.task, options.files = "choice", put("v.jsonl", text)
      return read(options)
    end
    local two = '{"text":"q","choices":["a","b"],"label":%s}\n'
    local three = two:gsub('"b"', '"b","c"')
    local set = choose(two:format(1) .. three:format(0) .. three:format('"1"'))
    assert.same({ "0", "1", "2" }, set:labels())
    assert.same({ -100, 1, 1, -100, -100, -100, 1, -100 }, column(set, "answer"))
    assert.same({ 0, 0, 1, 1, 1, 2, 2, 2 }, column(set, "group"))
    assert.matches("v.jsonl:2: the label is '2', but there are 2 choices",
      select(2, choose(three:format(0) .. two:format(2) .. three:format(1))))
    assert.matches("v.jsonl:2: 3 choices instead of 2; set", select(2, choose(two:format(0) .. three:format(1),
      { labels = { "0", "1" } })))
    assert.matches("2 different labels %(1, 2%) for 3 choices", select(2, choose(three:format(1) .. three:format(2))))
    assert.matches("v.jsonl:2: 'label' is null", select(2, choose(two:format(0) .. two:format("null"))))
  end)

  it("need no labels where none are wanted", function()
    local path = put("u.tsv", "sentence\nrain\nfine\n")
    local set = read { task = "none", files = path, columns = { text = "sentence" } }
    assert.equal(2, set:info().examples)
    set = read {
      task = "classify", files = path, columns = { text = "sentence" }, labels = { "a", "b" }, unlabelled = true,
    }
    assert.same({ -100, -100 }, column(set, "label"))
  end)
end)

describe("a table that cannot be right", function()
  local function refuses(name, text, options, pattern)
    options.files, options.task = put(name, text), options.task or "classify"
    local message = none("data", pattern, read(options))
    assert.is_nil(message:find("\n"))
  end

  it("is empty, or has only a header, or one row", function()
    refuses("e.csv", "", {}, "^e.csv: the file is empty$")
    refuses("e.csv", "\n\r\n", {}, "^e.csv: the file is empty$")
    refuses("e.jsonl", "", { task = "none" }, "^e.jsonl: no rows$")
    refuses("h.csv", "text,label\n", {}, "^h.csv: the file has no rows$")
    refuses("h.csv", "text,label\na,\n", {}, "^h.csv: no row has a label")
    refuses("h.csv", "text,label\n", { task = "regress" }, "^h.csv: no rows$")
    refuses("o.csv", "text,label\nrain,a\n", {},
      "^o.csv:2: all rows have the label 'a'; a classifier needs at least two")
    assert.equal(1, read({ task = "regress", files = put("o1.csv", "text,label\nrain,1\n") }):info().examples)
  end)

  it("has two roles of one column, by name or by number", function()
    local table_of = "text,label\nrain,a\nwho,b\n"
    local function refuses_columns(columns, pattern)
      for name, text in pairs { ["r.csv"] = table_of, ["r.jsonl"] = '{"text":"rain","label":"a"}\n' } do
        none("config", pattern, read { task = "classify", files = put(name, text), columns = columns })
      end
    end
    refuses_columns({ label = "text" }, "columns.text and columns.label are both column 'text'; give each its own")
    refuses_columns({ text = "label" }, "columns.text and columns.label are both column 'label'")
    refuses_columns({ pair = "text" }, "columns.text and columns.pair are both column 'text'")
    refuses_columns({ label = { "a", "a" } }, "columns.label names column 'a' twice")
    refuses("r.csv", table_of, { columns = { text = 2 } }, "^r.csv: columns.text and columns.label are both column")
  end)

  it("has a row of another length in line 70,000", function()
    local rows = { "text\tlabel" }
    for i = 2, 70100 do rows[i] = i % 2 == 0 and "a\tx" or "b\ty" end
    rows[70000] = "a"
    refuses("long.tsv", table.concat(rows, "\n"), {},
      "^long.tsv:70000: 1 column instead of 2; correct the file, or set data.bad=skip to leave such rows out$")
    local set, report = read { task = "classify", files = lab.folder .. "/long.tsv", bad = "skip" }
    assert.same({ 70098, 1 }, { set:info().examples, report.counts.ragged })
    assert.matches("left out rows with another number of columns: 1, the first at .*long.tsv:70000: 1 column",
      report.notes[1])
    assert.same(report.notes, require("seqrun.core.json").decode(set:meta().notes))
  end)

  it("has lines that are too long", function()
    refuses("g.tsv", "text\tlabel\na\tx\n" .. ("b"):rep(400) .. "\ty\n", { limit = 300 },
      "^g.tsv:3: the row is longer than 300 bytes; split its text")
    refuses("g.jsonl", '{"text":"' .. ("b"):rep(400) .. '"}\n', { limit = 300 }, "^g.jsonl:1: the row is longer")
  end)

  it("has zero bytes or another encoding", function()
    refuses("z.csv", "text,label\na,x\n\0\0,y\n", {}, "^z.csv:3: column 1: zero byte, not UTF%-8 text")
    refuses("u.csv", "text,label\na,x\ncaf\xE9,y\n", {},
      "^u.csv:3: column 1: invalid UTF%-8 %(iconv converts")
    refuses("w.csv", "\xFF\xFEt\0e\0x\0t\0,\0l\0\n\0", {}, "^w.csv:1: column 1: zero byte, not UTF%-8 text")
    refuses("b.tsv", "caf\xE9\t1\na\t2\n", { task = "regress", columns = { text = 1, label = 2 } },
      "^b.tsv:1: column 1: invalid UTF%-8")
  end)

  it("has quotes that are never closed, or text after them", function()
    refuses("q.csv", "text,label\na,x\n\"b,y\nc,x\n", {}, "^q.csv:3: the quote that opens here is never closed")
    refuses("q.csv", "text,label\na,x\n\"b\"c,y\n", {}, "^q.csv:3: column 1: text after a closing quote")
  end)

  it("has no such column, or the same twice", function()
    refuses("n.csv", "sentense,label\na,x\n", { columns = { text = "sentence" } },
      "^n.csv has no column 'sentence', only: sentense, label; set columns.text; did you mean 'sentense'%?$")
    refuses("n.csv", "text;label\na;x\n", {},
      "has no column 'text', only: text;label; set columns.text, or data.delimiter")
    refuses("n.csv", "a,x\n", { columns = { text = "a", label = 2, header = false } },
      "^n.csv is read without a header %(columns.header%), so 'a' names no column; set columns.text to its number")
    refuses("n.csv", "a,x\n", { columns = { text = 3, label = 2 } }, "^n.csv has no column 3, only 2; set columns.text")
    refuses("n.csv", "text,text,label\na,b,c\n", {}, "^n.csv has two columns 'text'; rename one of them")
    refuses("n.jsonl", '{"text":"a"}\n', { labels = { "x", "y" } }, "^n.jsonl:1: no 'label', which columns.label names")
    refuses("n.jsonl", '{"text":"a","lable":"x"}\n', { labels = { "x", "y" } },
      "^n.jsonl:1: no 'label', which columns.label names; did you mean 'lable'%?")
    refuses("n.jsonl", '{"text":"a"\n', { task = "none" }, "^n.jsonl:1: not a JSON object: line 1, column 11")
    refuses("n.jsonl", '[1]\n', { task = "none" }, "^n.jsonl:1: not a JSON object")
  end)

  it("has labels that make no sense", function()
    refuses("l.tsv", "text\tlabel\na\tx\nb\ty\na\tx\nb\ty\n", { columns = { text = 1, label = 2 } },
      "^l.tsv:1: 'label' occurs as a label only in this first line, which looks like a header; set columns.header")
    refuses("l.tsv", "a\t1\na\t0.5\n", { columns = { text = 1, label = 2 } },
      "^l.tsv:2: the labels are numbers such as 0.5")
    local rows = { "text,label" }
    for i = 1, 150 do rows[i + 1] = ("a,text %d"):format(i) end
    refuses("l.csv", table.concat(rows, "\n"), {},
      "150 different labels in 150 rows; columns.label probably names another")
    refuses("l.csv", "text,label\na,x\nb,\nc,y\n", {}, "^l.csv:3: the label is empty")
    refuses("l.csv", "text,label\na,x\nb,-\nc,y\n", {}, "^l.csv:3: the label is '%-', which means no label")
    refuses("l.csv", "text,label\na,x\nb,z\nc,y\n", { labels = { "x", "y" } },
      "^l.csv:3: unknown label 'z'; the labels are x, y")
  end)

  it("has texts without words, or ids twice", function()
    refuses("t.csv", "text,label\na,x\n \xE2\x80\x8B,y\n", {}, "^t.csv:3: the text has no tokens")
    refuses("t.csv", "text,b,label\na,b,x\na,,y\n", { columns = { pair = "b" } },
      "^t.csv:3: the second text has no tokens")
    refuses("t.csv", "id,text,label\n1,a,x\n2,b,y\n1,c,x\n", { columns = { id = "id" } },
      "^t.csv:4: id '1' was used in line 2")
  end)

  it("is printed on one line, without control characters, and not at any length", function()
    local label = "\27[31m" .. ("é"):rep(100)
    local _, message = read {
      task = "classify", files = put("c.csv", 'text,label\na,"' .. label .. '"\n'), labels = { "x\ny", "z" },
    }
    assert.equal("c.csv:2: unknown label '\\x1b[31m" .. ("é"):rep(27) .. "...'; the labels are x\\x0ay, z; correct "
      .. "the file, or set data.bad=skip to leave such rows out", message)
    _, message = read {
      task = "classify", files = put("c.csv", "text,label\na,x\n"), labels = { "x", ("y"):rep(70000) },
    }
    assert.equal("data.read: the 2 labels have more than 65536 bytes, too many to keep with the data set", message)
  end)

  it("is reported all at once", function()
    refuses("all.csv", "text,label\na,x\n,y\nb\nc,z\nd\n", { labels = { "x", "y" } },
      "^all.csv:3: the text has no tokens %(and more: rows with another number of columns: 2, unknown labels: 1%); ")
  end)

  it("has more bad rows than good ones, even if they may be skipped", function()
    refuses("most.csv", "text,label\na,x\n,y\n,y\n", { bad = "skip" },
      "2 rows are bad and 1 good, so the file probably")
  end)

  it("has a name of an unknown format", function()
    none("config", "^x.dat: unknown format %(by its name%); set data.format to csv, tsv or jsonl$",
      read { task = "classify", files = put("x.dat", "a") })
    none("missing", "^missing.csv: cannot open", read { task = "classify", files = lab.folder .. "/missing.csv" })
  end)
end)

describe("the files of a run", function()
  local rows = "text,label\nrain,yes\nthe garden was fine,no\nshe walked in the rain,yes\nhe was bad,no\n"

  local function files(options)
    local given = { task = "classify", vocab = lab.vocab, folder = lab.folder .. "/cache" }
    return sr.data.files(require("tests.support.with")(given, options))
  end

  before_each(function() sys.remove(lab.folder .. "/cache") end)

  it("may not be a data set of text, which has no examples", function()
    local path = lab.folder .. "/text.sqr"
    local text = put("text.txt", "The garden was fine. It rained.\n")
    assert(sr.data.prepare { inputs = text, vocab = lab.vocab, out = path })
    none("data", "text.sqr is a data set of text, without examples and labels; give labelled files",
      files { train = path })
  end)

  it("become data sets once, until a byte or an option changes", function()
    local train = put("train.csv", rows)
    local first = assert(files { train = train })
    local second = assert(files { train = train })
    assert.equal(first.train:info().path, second.train:info().path)
    assert.equal(1, #sys.list(lab.folder .. "/cache"))
    assert(files { train = train, separator = ";" })
    put("train.csv", rows .. "who,yes\n")
    assert.equal(5, assert(files { train = train }).train:info().examples)
    assert.equal(3, #sys.list(lab.folder .. "/cache"))
    assert(sys.write_file(first.train:info().path, "damaged"))
    put("train.csv", rows)
    assert.equal(4, assert(files { train = train }).train:info().examples)
  end)

  it("are missing with a similar name, if there is one", function()
    put("train.csv", rows)
    none("missing", "/trian.csv: cannot open: No such file or directory; did you mean '.*/train.csv'%?$",
      files { train = lab.folder .. "/trian.csv" })
  end)

  it("share the labels of train, and report which examples they share", function()
    local dev = put("dev.csv", "text,label\nThe garden was FINE,no\nit was fine,no\n")
    local sets = assert(files { train = put("train.csv", rows), dev = dev })
    assert.same({ "no", "yes" }, sets.dev:labels())
    assert.same({ 0, 0 }, column(sets.dev, "label"))
    local said = lab.short(table.concat(sets.notes, "\n"))
    assert.matches("\ntrain: labels no %d+, yes %d+\n", said)
    assert.matches("warning: 1 of 2 dev examples are in train too, the first at dev.csv:2 %(as train.csv:3%)", said)
    none(nil, "dev2.csv:2: unknown label 'maybe'; the labels are no, yes",
      files { train = lab.folder .. "/train.csv", dev = put("dev2.csv", "text,label\na,maybe\n") })
  end)

  it("warn of labels that are ids, and of texts that are their own label or pair", function()
    local lines = { "id,text,copy,label" }
    for i = 1, 20 do lines[i + 1] = ("%d,rain %d,rain %d,%s"):format(i, i % 9, i % 9, i % 9 % 2) end
    local path = put("odd.csv", table.concat(lines, "\n") .. "\n")
    local function said(columns) return table.concat(assert(files { train = path, columns = columns }).notes, "\n") end
    assert.matches("warning: train: 20 classes in 20 rows, so most occur once", said { label = "id" })
    assert.matches("warning: train: in 20 of 20 rows the label is the text itself", said { label = "copy" })
    assert.matches("warning: train: in 20 of 20 rows the second text is the text itself", said { pair = "copy" })
    assert.is_nil(said({}):find("warning"))
  end)

  it("warn of several labels that were read as one", function()
    local path = put("joined.csv", "text,label\na,sea|war\nb,sea\nc,war\n")
    local function said(separator)
      return table.concat(assert(files { task = "multilabel", train = path, separator = separator }).notes, "\n")
    end
    assert.matches("warning: train: 'sea|war' is a class beside 'sea'; if '|' separates labels, set data.sep", said ",")
    assert.is_nil(said("|"):find("warning"))
  end)

  it("warn of labels that differ only in case or spaces", function()
    local path = put("alike.csv", "text,label\na,Very good\nb,bad\nc,very good \nd,verygood\n")
    local said = lab.short(table.concat(assert(files { train = path }).notes, "\n"))
    assert.matches("warning: train: 'very good' %(alike.csv:4%) and 'Very good' are two classes; ", said)
    assert.matches("'verygood' %(alike.csv:5%) and 'Very good'", said)
    assert.is_nil(said:find("bad' %("))
    path = put("grades.csv", "text,label\na,A\nb,A-\nc,A+\nd,C\ne,C++\nf,C#\n")
    assert.is_nil(table.concat(assert(files { train = path }).notes, "\n"):find("warning"))
  end)

  it("hold out a part of train where there is no dev: rows, or what belongs together", function()
    local sets = assert(files { train = put("train.csv", rows), held = 0.3, seed = 3 })
    assert.equal("held", sets.dev_part)
    local info = sets.dev:info()
    assert.is_true(info.held.units >= 1 and info.train.units + info.held.units == 4)
    none(nil, "/train.csv: data.held=0.01 of 4 examples is too little to evaluate on; give data.dev, or raise "
      .. "data.held$", files { train = lab.folder .. "/train.csv", held = 0.01 })
    local lines = { "text,a,b,label" }
    for i = 1, 10 do lines[i + 1] = "who,he,she," .. i % 2 end
    local train, columns = put("c.csv", table.concat(lines, "\n") .. "\n"), { choices = { "a", "b" } }
    local seen = {}
    for seed = 1, 2 do
      sets = assert(files { task = "choice", train = train, held = 0.3, columns = columns, seed = seed })
      assert.same({ 6, 14 }, { sets.dev:info().held.units, sets.dev:info().train.units })
      for k, i in ipairs(sets.dev:units("held")) do
        if k % 2 == 0 then assert.equal(sets.dev:column("group", i), sets.dev:column("group", i - 1)) end
      end
      seen[seed] = table.concat(sets.dev:units("held"), " ")
    end
    assert.are_not.equal(seen[1], seen[2])
    local order, updates, groups = sr.data.groups(sets.dev, { groups = 2, part = "held", epochs = 1 })
    assert.same({ 2, 3, { { 0, 1 }, { 2, 3 } } }, { updates, groups, order(0) })
    none("data", "data.held=0.01 of 20 examples is too little", files {
      task = "choice", train = train, held = 0.01, columns = columns,
    })
  end)

  it("count texts that are too long, or refuse them", function()
    local train = put("train.csv", rows)
    local sets = assert(files { train = train, max_len = 6 })
    assert.matches("1 of 4 examples are longer than 6 tokens and are truncated; the first is train.csv:4, the longest",
      lab.short(table.concat(sets.notes, "\n")))
    none("data", "/train.csv:4: longer than data.max_len, 6 tokens with",
      files { train = train, max_len = 6, too_long = "error" })
  end)

  it("may be data sets, of the same vocabulary and labels", function()
    local train = put("train.csv", rows)
    local made = lab.folder .. "/made.sqr"
    assert(sr.data.read { task = "classify", files = train, out = made, vocab = lab.vocab })
    assert.equal(4, assert(files { train = made, labels = { "no", "yes" } }).train:info().examples)
    none(nil, "label 0 is 'no', but 'yes' in the model", files { train = made, labels = { "yes", "no" } })
    local other = put("other.txt", assert(sys.read_file(lab.vocab)) .. "other\n")
    none(nil, "prepared with the tokenizer .* %(WordPiece, %d+ tokens, uncased%), not with",
      files { train = made, vocab = other })
  end)
end)

it("pairs that are too long lose tokens of the longer text, as with Hugging Face", function()
  ---What Hugging Face's tokenizers keep of n1 and n2 tokens (longest_first).
  local function kept(n1, n2, room)
    if n1 + n2 <= room then return n1, n2 end
    local short = math.min(n1, n2)
    local long = math.max(short, room - short)
    if short + long > room then short, long = room // 2, room // 2 + room % 2 end
    if n1 > n2 then return long, short end
    return short, long
  end

  local examples, lengths = {}, {}
  for n1 = 1, 14 do
    for n2 = 1, 14 do
      local a, b = {}, {}
      for i = 1, n1 do a[i] = 9 + i end
      for i = 1, n2 do b[i] = 29 + i end
      examples[#examples + 1], lengths[#lengths + 1] = { a = a, b = b }, { n1, n2 }
    end
  end
  local out = lab.folder .. "/pairs.sqr"
  assert(sr.data.write { out = out, vocab = lab.vocab, examples = examples })
  for _, max_len in ipairs { 10, 11 } do
    local uid = 0
    local loader <close> = sr.must(sr.data.loader {
      data = sr.must(sr.data.open(out)), max_len = max_len, too_long = "truncate", targets = {}, arrange = "single",
      by = "order", order = function()
        uid = uid + 1
        return uid <= #examples and { uid - 1 } or nil
      end,
    })
    for i = 1, #examples do
      local batch = loader:next():batch(1)
      local n, types = batch.layout:lengths()[1], 0
      for k, t in ipairs(batch.types:totable()) do types = types + (k <= n and t or 0) end
      local a, b = kept(lengths[i][1], lengths[i][2], max_len - 3)
      assert.same({ a + b + 3, b + 1 }, { n, types })
    end
  end
end)

it("the recipe for labelled files writes a data set and says what it has", function()
  local path, out = put("p.csv", "text;stars\nrain;1\nit was fine;2\n;2\n"), lab.folder .. "/p.sqr"
  local words = {
    "recipes/prepare_labelled.lua", "inputs=" .. path, "out=" .. out, "vocab=" .. lab.vocab, "columns.label=stars",
    "delimiter=;", "bad=skip",
  }
  local said = works(program.run(words))
  assert.matches("left out empty texts: 1, the first at .*p.csv:4: the text has no tokens\nlabels: 1, 2\n", said)
  assert.same({ "1", "2" }, sr.must(sr.data.open(out)):labels())
  said = works(program.run { "info", out, "--json" })
  local facts = require("seqrun.core.json").decode(said)
  assert.same({ "classify", "1", "2", 2 }, { facts.task, facts.labels[1], facts.labels[2], facts.examples })
  program.refuses(2, "exists; choose another file with out=, or set overwrite=true", program.run(words))
end)

it("the recipe for WordNet writes definitions with their domains, each on the same side for ever", function()
  local lines = { "  1 This software and database is being provided to you", "00000001 03 n 01 entity 0 000 | all  " }
  for i = 1, 60 do
    local domain = ({ 5, 13, 18 })[i % 3 + 1]
    lines[#lines + 1] = ("%08d %02d n 01 word 0 001 @ 00000001 n 0000 | thing %d  ; \"so it is used\"  "):format(i,
      domain, i)
  end
  for _, domain in ipairs { 5, 13 } do
    lines[#lines + 1] = ("00000099 %02d n 01 word 0 000 | in two domains"):format(domain)
  end
  local folder = lab.folder .. "/wordnet-3.0"
  assert(sys.make_dirs(folder))
  put("wordnet-3.0/data.noun", table.concat(lines, "\n") .. "\n")
  local function go(...)
    local words = { "recipes/data/wordnet.lua", "folder=" .. folder, "--out", folder, "dev=0.3", ... }
    assert.equal(0, (program.run(words)))
    local sides, count = {}, 0
    for _, side in ipairs { "train", "dev" } do
      local set = read { task = "none", files = folder .. "/" .. side .. ".tsv", columns = { text = "definition" } }
      for _, text in ipairs(column(set, "text")) do
        assert.matches("^thing %d+$", text)
        sides[text], count = side, count + 1
      end
    end
    return sides, count
  end
  local some, few = go("domains=[animal, food]", "per_domain=15")
  local all, many = go()
  assert.same({ 30, 60 }, { few, many })
  for text, side in pairs(some) do assert.equal(side, all[text]) end
  local texts, listed = assert(sys.read_file(folder .. "/definitions.txt")), 0
  for text, side in pairs(all) do assert.equal(side == "train", texts:find(text .. "\n", 1, true) ~= nil) end
  for _ in texts:gmatch("[^\n]+") do listed = listed + 1 end
  local _, left = go("labelled=2")
  local dev = 0
  for _, side in pairs(all) do dev = dev + (side == "dev" and 1 or 0) end
  assert.same({ 62 - dev, 6 + dev }, { listed, left })
  exits(3, "data.noun is missing; install it %(apt%-get install wordnet%-base%), or set folder",
    program.run { "recipes/data/wordnet.lua", "folder=" .. folder .. "/none" })
end)
