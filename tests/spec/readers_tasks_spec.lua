-- Words with tags (CoNLL, JSON lists) and questions with answers (SQuAD) to data sets.

local json = require "seqrun.core.json"
local lab = require "tests.support.labelled"
local sys = require "seqrun.core.sys"
local none = require "tests.support.none"

setup(lab.setup)

local read, put, column = lab.read, lab.put, lab.column

describe("words with tags", function()
  local CONLL = "-DOCSTART- -X- O O\n\nEmma NNP I-NP B-PER\nwalked VBD O O\nin IN O O\nLondon NNP I-NP B-LOC\n\n\n"
    .. "It PRP O O\nrained VBD O O\n"

  it("come a line each, with a blank line between sentences", function()
    local path = put("a.conll", CONLL)
    local set, report = read { task = "tokens", files = path }
    assert.same({ "B-LOC", "B-PER", "O" }, set:labels())
    assert.same({ 2, 2 }, { report.examples, report.rows })
    assert.same({ 1, 2, 2, 0 }, set:column("tags", 1))
    assert.same({ 2, 2, -100, -100 }, set:column("tags", 2)) -- rain ##e ##d
    assert.same({ "Emma walked in London", "It rained" }, column(set, "text"))
    assert.equal(path .. ":9", set:place(2))
  end)

  it("are the same with tabs, CR LF, comments of CoNLL-U, chosen columns, or as JSON", function()
    local wanted = table.concat(column(read { task = "tokens", files = put("a.conll", CONLL) }, "text"), "|")
    local json_text = '{"tokens":["Emma","walked","in","London"],"tags":["B-PER","O","O","B-LOC"]}\n'
      .. '{"tokens":["It","rained"],"tags":["O","O"]}\n'
    local rows = CONLL:gsub("^.-\n\n", "")
    local tabs = "# sent_id = 1\n# text = Emma walked\n" .. rows:gsub(" ", "\t"):gsub("\n", "\r\n")
    local swapped = rows:gsub("(%S+) (%S+) (%S+) (%S+)", "%2 %1 %4 %3")
    for _, options in ipairs {
      { files = put("b.conll", tabs) }, { files = put("b.jsonl", json_text) },
      { files = put("c.txt", swapped), columns = { text = 2, label = 3 } },
    } do
      options.task = "tokens"
      local set = read(options)
      assert.equal(wanted, table.concat(column(set, "text"), "|"))
      assert.same({ 1, 2, 2, 0 }, set:column("tags", 1))
    end
  end)

  it("are refused with the line when a row is ragged, a tag unknown, or the file empty", function()
    for text, pattern in pairs {
      ["a X\nb\n\nc X\n"] = "^x.conll:2: 1 column instead of 2; correct",
      ["a X\nb Z\n"] = "^x.conll:1: unknown label 'Z' of 'b'; the labels are O, X",
      [""] = "^x.conll: the file has no words",
      ["\n\n"] = "^x.conll: the file has no words",
      ["a\0 X\n"] = "^x.conll:1: column 1: zero byte",
    } do
      none("data", pattern, read { task = "tokens", files = put("x.conll", text), labels = { "O", "X" } })
    end
    none(nil, "^x.jsonl:1: 2 words, but 1 labels", read {
      task = "tokens", files = put("x.jsonl", '{"tokens":["a","b"],"tags":["O"]}\n'), labels = { "O", "X" },
    })
  end)
end)

describe("questions with answers", function()
  ---A SQuAD file of one paragraph.
  local function squad(context, questions)
    local list = {}
    for i, q in ipairs(questions) do
      list[i] = { id = "q" .. i, question = q[1], answers = json.array {}, is_impossible = q[2] == nil }
      for k = 2, #q do list[i].answers[k - 1] = { text = q[k][1], answer_start = q[k][2] } end
    end
    local article = { title = "t", paragraphs = { { context = context, qas = list } } }
    return put("s.json", json.encode { version = "v2.0", data = { article } })
  end

  local CONTEXT = "Emma was good. She walked in the garden."

  it("become windows with the tokens of the first answer, and all answers as text", function()
    local set, report = read {
      task = "squad", files = squad(CONTEXT, {
        { "who was good?", { "Emma", 0 }, { "She", 15 } }, { "where?", { "in the garden", 26 } }, { "what day?" },
      }),
    }
    assert.same({ 3, 3 }, { report.examples, report.rows })
    assert.same({ "3 questions, 1 without an answer, in 3 windows" }, report.notes)
    assert.same({ { 4, 4 }, { 8, 10 }, { -1, -1 } }, column(set, "span")) -- who was good ? Emma ..; where ? Emma was ..
    assert.same({ '["Emma","She"]', '["in the garden"]', "[]" }, column(set, "answers"))
    assert.same({ "q1", "q2", "q3" }, column(set, "id"))
    assert.same({ 0, 1, 2 }, column(set, "source"))
    assert.equal(lab.folder .. "/s.json: question q2", set:place(2))
    local chars, span = set:column("chars", 2), set:column("span", 2)
    assert.equal("in the garden", set:column("text", 2):sub(chars[2 * span[1] + 1] + 1, chars[2 * span[2] + 2]))
    assert.same({ -1, -1 }, { chars[1], chars[2] }) -- of the question
  end)

  it("are the same compressed, with or without line feeds", function()
    local path = squad(CONTEXT, { { "who was good?", { "Emma", 0 } }, { "what day?" } })
    local wanted = read { task = "squad", files = path }
    local text = assert(sys.read_file(path)):gsub(", ", ",\n\n"):gsub('"qas"', '\n"qas"')
    for _, form in ipairs { text, (text:gsub("\n", "")) } do
      put("c.json", form)
      assert(os.execute(("gzip -f %s/c.json"):format(lab.folder)))
      local set = read { task = "squad", files = lab.folder .. "/c.json.gz" }
      for _, name in ipairs { "span", "answers", "id" } do assert.same(column(wanted, name), column(set, name)) end
    end
  end)

  it("count characters, not bytes", function()
    local context = "é — ü: she walked in the garden"
    local set = read { task = "squad", files = squad(context, { { "where?", { "in the garden", 18 } } }) }
    local chars, span = set:column("chars", 1), set:column("span", 1)
    assert.equal("in the garden", context:sub(chars[2 * span[1] + 1] + 1, chars[2 * span[2] + 2]))
  end)

  it("cover long contexts by overlapping windows; each token is the best of exactly one", function()
    local words = {}
    for i = 1, 50 do words[i] = i == 30 and "emma" or "rain" end
    local context = table.concat(words, " ")
    local path = squad(context, { { "who?", { "emma", 29 * 5 } } })
    local set = read { task = "squad", files = path, max_len = 20, stride = 6, query = 4 }
    local room, best, answered = 20 - 3 - 2, {}, 0
    for i = 1, set:info().examples do
      local offset, flags, span = set:column("offset", i), set:column("best", i), set:column("span", i)
      assert.equal(6 * (i - 1), offset)
      for k, flag in ipairs(flags) do
        if flag == 1 then
          assert.is_nil(best[offset + k - 2])
          best[offset + k - 2] = i
        end
      end
      assert.equal(2 + math.min(room, 50 - offset), #flags)
      local inside = 29 >= offset and 29 < offset + room
      assert.same(inside and { 29 - offset + 2, 29 - offset + 2 } or { -1, -1 }, span)
      answered = answered + (inside and 1 or 0)
    end
    assert.equal(50, #best)
    assert.equal(7, set:info().examples)
    assert.is_true(answered > 1)
  end)

  it("are refused when an answer is not in its context, or counted", function()
    local path = squad(CONTEXT, {
      { "who?", { "Emma", 0 } }, { "where?", { "garden", 30 } }, { "who?", { "he", 99 } }, { "day?" }, { "what?" },
    })
    local _, message = read { task = "squad", files = path }
    assert.equal("s.json: question q2: the answer 'garden' is not at character 30 of its context, but at 33 (and more: "
      .. "answers that are not in their context: 1); correct the file, or set data.bad=skip to leave such rows out",
      message)
    local set, report = read { task = "squad", files = path, bad = "skip" }
    assert.same({ 3, 2 }, { set:info().examples, report.counts.mismatch })
  end)

  it("are refused when the file is something else", function()
    for text, pattern in pairs {
      [""] = "not a JSON object", ["[]"] = "not a JSON object", ['{"a":1}'] = 'no "data" in it',
      ['{"data":1}'] = '"data" is not a list', ['{"data":[{"x":1}]}'] = 'an article has no "paragraphs"',
      ['{"data":[{"paragraphs":[]}'] = "the file ends in the article", ['{"data":[]}'] = "no rows",
      ['{"data":[{"paragraphs":['] = "article at byte 10",
      ['{"data":[{"paragraphs":[{"context":"a","qas":[{"id":"1"}]}]}]}'] = "question 1: a question needs id, question",
    } do
      assert.matches("^bad.json: ", none("data", pattern, read { task = "squad", files = put("bad.json", text) }))
    end
    none(nil, "^data: no files are given$", read { task = "squad", files = {} })
    none(nil, "60 tokens %(data.max_len%) have no room for questions of 64 %(data.query%); raise",
      read { task = "squad", files = squad(CONTEXT, { { "who?" } }), max_len = 60 })
  end)
end)
