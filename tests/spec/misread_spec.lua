-- Files and options that look right to a person and mean something else to a command: read as meant, or refused.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local task_model = require("tests.support.task_model")

local heads, refuses = sr.nn.heads, program.refuses
local dir = program.folder()
teardown(function() require("seqrun.core.sys").remove(dir) end)

local function model(name, head, config)
  return task_model.save(dir .. "/" .. name, task_model.new(head), {
    files = config and { ["trainer/config.yaml"] = config } or nil,
  })
end

local classes = model("classes", heads.classify { labels = { "no", "yes" } })
local tagger = model("tagger", heads.tokens { labels = { "O", "B-X" } })

local function put(name, text) return program.write(dir, name, text) end

local function predict(path, ...) return program.run { "predict", path, ... } end

---What a command prints, a table a line.
local function rows(words, input)
  local list = {}
  for line in program.ok(words, { input = input }):gmatch("[^\n]+") do list[#list + 1] = json.decode(line) end
  return list
end

describe("a table on standard input", function()
  local text = "text,label\nthe,yes\nit is,no\n"

  it("is read with the columns of the run, as files are", function()
    local wanted = rows { "predict", classes, put("t.csv", text), "columns.text=text" }
    local run = model("run", heads.classify { labels = { "no", "yes" } }, "columns: {text: text, label: [label]}\n")
    assert.same(wanted, rows({ "predict", run, "--format", "csv" }, text))
    local csv = model("csv", heads.classify { labels = { "no", "yes" } }, "data: {format: csv}\n")
    assert.same(wanted, rows({ "predict", csv }, text))
    refuses(3, "input is read as csv, as the run read its files; %-%-format lines reads texts\n.*standard input has no "
      .. "column 'text', only: the it", program.run({ "predict", csv }, { input = "the it\n" }))
    assert.equal(1, rows({ "predict", csv, "--pair" }, "the\tit\n")[1].line) -- lines are pairs, whatever the run read
    local conll = model("conll", heads.tokens { labels = { "O", "X" } }, "data: {format: conll}\n")
    assert.same({ "the", "it" }, rows({ "predict", conll }, "the it\n")[1].words) -- and these are texts
  end)

  it("is no text: its header is refused with the option that helps", function()
    for _, command in ipairs { "predict", "encode" } do
      refuses(3, "standard input:1: 'text, label' looks like the header of a table; say --format csv or --format tsv, "
        .. "or if it is a text --format lines", program.run({ command, classes }, { input = text }))
      refuses(3, "looks like the header of a table; name its columns: columns.text=NAME",
        program.run({ command, classes, "--format", "csv" }, { input = text }))
      assert.equal(3, #rows({ command, classes, "--format", "lines" }, text))
      assert.equal(2, #rows({ command, classes }, "text, it was\nthe\n"))
    end
  end)
end)

it("options of a task are refused for others", function()
  refuses(2, "%-%-split is for token classification %(task=tokens%), but the model is for task=classify",
    predict(classes, "--split", "white"))
  for option, value in pairs { nbest = "3", stride = "9", ["null-threshold"] = "0" } do
    local message = " is for question answering %(task=squad%)[%a ,.]*, but the model is for task=classify"
    refuses(2, option:gsub("-", "%%-") .. message,
      predict(classes, "--" .. option, value))
  end
end)

it("lines that end with carriage returns alone are refused, by every reader", function()
  local message = "its lines end with carriage returns alone; make them line feeds: tr '\\r' '\\n' < IN > OUT"
  local conll = put("mac.conll", "the\tO\rit\tB-X\r\rthe\tO\r")
  for _, command in ipairs { "predict", "eval" } do
    refuses(3, "mac.conll: " .. message, program.run { command, tagger, conll })
    refuses(3, "mac.csv: " .. message,
      program.run { command, classes, put("mac.csv", "text,label\rthe,no\r"), "columns.text=text" })
  end
  refuses(3, "mac.txt: " .. message, predict(classes, put("mac.txt", "the\rit\r")))
  assert.equal(1, #rows { "predict", classes, put("one.txt", "the it\r\n") })
  local pipe = dir .. "/pipe" -- which is read once
  assert(os.execute(("mkfifo %s; (printf 'the\\nit\\n' > %s) &"):format(pipe, pipe)))
  assert.equal(2, #rows { "predict", classes, pipe })
end)

it("words in a table need lists, and the message says how to write them", function()
  local plain = put("plain.csv", "tokens,tags\nthe it,O B-X\n")
  refuses(3, "plain.csv:2: the words of a row must be a list, such as %['a', 'b'%] in its cell; or write a .conll file",
    program.run { "eval", tagger, plain })
  local code, out = predict(tagger, plain)
  assert.same({ 3, "2 fields; expected text, separated by commas; or name columns: columns.text=NAME" },
    { code, json.decode(out:match("[^\n]+")).error })
  local listed = put("listed.csv", "tokens,tags\n\"['the', 'it']\",\"['O', 'B-X']\"\n")
  program.ok { "eval", tagger, listed, "data.folder=" .. dir }
  for _, file in ipairs { plain, listed } do
    assert.same({ "the", "it" }, rows({ "predict", tagger, file, "columns.text=tokens" })[1].words)
  end
end)

it("a submission has one row for an id", function()
  local out = dir .. "/out.tsv"
  local words = { "columns.text=text", "columns.id=id", "--submission", out }
  refuses(3, "d.csv:4: its id '1' is that of %S+d.csv:2 too, and a submission has one prediction for an id",
    predict(classes, put("d.csv", "id,text\n1,the\n2,it\n1,is\n"), table.unpack(words)))
  assert.is_nil(io.open(out))
end)

it("a header is proposed only where a table has none", function()
  local regress = model("regress", heads.regress { outputs = 1 })
  local function message(name, text, ...) return select(3, program.run { "eval", regress, put(name, text), ... }) end
  assert.matches("r.jsonl:1: 'x' is not a number; correct", message("r.jsonl", '{"text":"the","label":"x"}\n'))
  assert.matches("set columns.header=true", message("r.csv", "the,x\n", "columns.text=1", "columns.label=2"))
end)

it("an evaluation has no notes on training", function()
  local regress = model("far", heads.regress { outputs = 1 })
  local file = put("far.csv", "text,label\nthe,100\nit,120\nit,130\n")
  local options = { task = "regress", train = file, vocab = task_model.VOCAB, folder = dir }
  assert.matches("warning: train: the values have mean", table.concat(sr.must(sr.data.files(options)).notes, "\n"))
  local _, err = program.ok { "eval", regress, file, "data.folder=" .. dir }
  assert.is_nil(err:find("train", 1, true))
  local choice = model("choice", heads.choice {})
  local question = '{"text":"a","choices":["the","it"],"label":%d}\n'
  file = put("c.jsonl", question:format(0) .. question:format(1))
  _, err = program.ok { "eval", choice, file, "data.folder=" .. dir }
  assert.is_nil(err:find("dev: none", 1, true))
end)

it("rows of several files name theirs", function()
  local a, b = put("a.txt", "the\n"), put("b.txt", "it\n\n")
  for _, command in ipairs { "predict", "encode" } do
    local _, out = program.run { command, classes, a, b }
    local files = {}
    for line in out:gmatch("[^\n]+") do files[#files + 1] = json.decode(line).file end
    assert.same({ a, b, b }, files)
    assert.is_nil(rows({ command, classes, a })[1].file)
  end
end)
