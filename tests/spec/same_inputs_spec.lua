-- Training, evaluation and prediction read one file as the same inputs: the same ids, whatever the task, the format and
-- the settings, with labels and without.

local inputs = require("tests.support.inputs")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local task_model = require("tests.support.task_model")

local heads = sr.nn.heads
local folder = program.folder()
teardown(function() require("seqrun.core.sys").remove(folder) end)

local text = task_model.text

local function lines_of(count, make)
  local list = {}
  for i = 1, count do list[i] = make(i) end
  return table.concat(list, "\n") .. "\n"
end

local COUNT = 9
local EMPTY = "\u{200b}" -- a word without tokens

local function objects(make) return lines_of(COUNT, function(i) return json.encode(make(i)) end) end

local function questions(with_answers)
  local list = {}
  for i = 1, COUNT do
    local context = text(30 + 5 * i, i)
    local question = { id = i, question = text(3 + 2 * i, i) }
    if with_answers then
      question.answers = json.array { { text = context:match("^%S+"), answer_start = 0 } }
    end
    list[i] = { context = context, qas = { question } }
  end
  return json.encode { data = { { paragraphs = list } } }
end

---A model of somebody else, whose tokenizer says how long texts may be.
local FOREIGN = '{"model_max_length":%d,"do_lower_case":true}'

---Files of a task, with labels and without, and the config of its run, or what its tokenizer says.
local function sentences(tag)
  return lines_of(COUNT, function(i) return (text(i * 6, i) .. " " .. EMPTY):gsub("(%S+) ?", "%1" .. tag .. "\n") end)
end

local CASES = {
  { "classify", heads.classify { labels = { "no", "yes" } }, "a.csv",
    lines_of(COUNT, function(i)
      return ("%s;%s;%s"):format(i % 2 == 0 and "yes" or "no", text(i * 4, i), text(3, i))
    end),
    lines_of(COUNT, function(i) return (";%s;%s"):format(text(i * 4, i), text(3, i)) end),
    "columns: {text: 2, pair: 3, label: 1}\ndata: {delimiter: ';', max_len: 24}\n" },
  { "classify", heads.classify { labels = { "no", "yes" } }, "a.txt",
    lines_of(COUNT, function(i) return ('"%s, so",%s'):format(text(i * 4, i), i % 2 == 0 and "yes" or "no") end),
    lines_of(COUNT, function(i) return ('"%s, so",'):format(text(i * 4, i)) end),
    "columns: {text: 1, label: 2}\ndata: {format: csv, max_len: 16}\n" },
  { "regress", heads.regress { outputs = 2 }, "a.jsonl",
    objects(function(i) return { body = i % 2 == 0 and i * 1.1 or text(i * 4, i), a = i, b = 0.5 } end),
    objects(function(i) return { body = i % 2 == 0 and i * 1.1 or text(i * 4, i) } end),
    "columns: {text: body, label: [a, b]}\ndata: {max_len: 16}\n" },
  { "multilabel", heads.multilabel { labels = { "x", "y" } }, "a.tsv",
    "t\tx\ty\n" .. lines_of(COUNT, function(i) return ("%s\t%d\t1"):format(text(i * 3, i), i % 2) end),
    "t\n" .. lines_of(COUNT, function(i) return text(i * 3, i) end),
    "columns: {text: t, label: [x, y]}\ndata: {max_len: 12}\n" },
  { "choice", heads.choice {}, "a.jsonl",
    objects(function(i) return { c = text(5, i), s = text(2, i), e = { text(9, i), text(i, 3) }, g = i % 2 } end),
    objects(function(i) return { c = text(5, i), s = text(2, i), e = { text(9, i), text(i, 3) } } end),
    "columns: {text: c, pair: s, choices: [e], label: g}\ndata: {max_len: 16}\n" },
  { "tokens", heads.tokens { labels = { "O", "X" } }, "a.conll",
    sentences "\tO", sentences "", "columns: {}\ndata: {max_len: 16}\n" },
  { "tokens", heads.tokens { labels = { "O", "X" } }, "b.conll",
    sentences "\tO", sentences "", "columns: {}\ndata: {max_len: 16, too_long: truncate}\n" },
  { "tokens", heads.tokens { labels = { "O", "X" } }, "a.jsonl",
    objects(function(i) return { w = { text(1, i), EMPTY, text(1, 9), 3.5 }, t = { "O", "X", "O", "O" } } end),
    objects(function(i) return { w = { text(1, i), EMPTY, text(1, 9), 3.5 } } end),
    "columns: {text: w, label: t}\ndata: {max_len: 16}\n" },
  { "squad", heads.squad {}, "a.json", questions(true), questions(false),
    "data: {max_len: 40, query: 9, stride: 7}\n" },
  { "squad", heads.squad {}, "b.json", questions(true), questions(false), FOREIGN:format(48) },
  { "classify", heads.classify { labels = { "no", "yes" } }, "b.jsonl",
    objects(function(i) return { text = text(i * 6, i), label = i % 2 == 0 and "yes" or "no" } end),
    objects(function(i) return { text = text(i * 6, i) } end), FOREIGN:format(20) },
}

describe("one file is the same input everywhere,", function()
  for i, case in ipairs(CASES) do
    local kind, head, name, labelled, bare, config = table.unpack(case)
    it(("of %s, from %s (%d)"):format(kind, name, i), function()
      local path = task_model.save(("%s/%d"):format(folder, i), task_model.new(head), {
        files = { [config:find("^{") and "tokenizer_config.json" or "trainer/config.yaml"] = config },
      })
      local facts = sr.must(require("seqrun.checkpoint").pretrained(path))
      local file = program.write(folder, i .. name, labelled)
      local wanted = inputs.evaluated(facts, file, folder)
      local found, results = inputs.predicted(facts, path, file)
      assert.equal(COUNT, #results)
      for _, result in ipairs(results) do assert.is_nil(result.error) end
      if not config:find("truncate") then assert.same(wanted, found) end
      assert.is_true(#wanted >= COUNT)
      local has = {}
      for _, one in ipairs(found) do has[one] = true end
      for _, one in ipairs(wanted) do assert.is_true(has[one], one) end -- of cut sentences there are more
      assert.same(found, (inputs.predicted(facts, path, program.write(folder, "bare" .. name, bare))))
    end)
  end
end)
