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
    local lines = '{"text":3.14,"label":1}\n{"text":true,"label":2.0}\n{"text":0.1,"label":2}\n{"text":1e300,"label":1}\n'
    local set = reads("n.jsonl", lines, { task = "classify" })
    assert.same({ "3.14", "true", "0.1", "1e+300" }, column(set, "text"))
    assert.same({ 0, 1, 1, 0 }, column(set, "label"))
  end)

  it("are refused with their line where they are of another type", function()
    for value, what in pairs { ['["x"]'] = "a list", ['{"a":1}'] = "an object" } do
      refuses("t.jsonl", '{"text":"a","label":"x"}\n{"text":"b","label":' .. value .. "}\n", { task = "classify" },
        "^t.jsonl:2: 'label' is " .. what .. "; expected a text or a number; correct the file")
    end
    refuses("t.jsonl", '{"text":["a"],"label":"x"}\n', { task = "regress" }, "^t.jsonl:1: 'text' is a list; expected a te")
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
        refuses("l.jsonl", line:format(item), { task = task }, "^l.jsonl:1: item 2 of '%a+' is " .. what .. "; expected")
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
    refuses("q.json", squad { id = "a", question = "who?" }, options, '^q.json: question a: no "answers"; a question that')
    refuses("q.json", squad { id = "a", question = "who?", answers = json.null }, options, '"answers" is not a list')
    refuses("q.json", squad { id = "a", question = "who?", answers = { text = { "Emma" }, answer_start = { 0, 9 } } },
      options, '"answers" needs as many items of answer_start as of text')
    refuses("q.json", squad(json.null), options, '^q.json: paragraph 2 behind question 0 has no list "qas"')
    refuses("q.json", squad { 5 }:gsub("%[%[5%]%]", "[5]"), options, "^q.json: question number 1: it is not an object")
  end)
end)

it("YAML may begin with a byte order mark", function()
  local root, problems = require("seqrun.core.yaml").parse("\xEF\xBB\xBFa: 1\n")
  assert.same({ 0, 1, 1 }, { #problems, root.line, root.column })
end)
