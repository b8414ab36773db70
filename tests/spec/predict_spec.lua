-- Predictions and vectors: the same in company and alone, in the order of the input; unusable lines are reported.

local json = require("seqrun.core.json")
local precision = require("seqrun.predict.precision")
local program = require("tests.support.program")
local sr = require("seqrun")
local task_model = require("tests.support.task_model")
local truncate = require("seqrun.data.truncate")

local exits, refuses, works = program.exits, program.refuses, program.works

local heads = sr.nn.heads
local text = task_model.text

local function items(make)
  local list = {}
  for i = 1, 23 do list[i] = make(i, i * i % 17 + 1) end
  return list
end

local KINDS = {
  classify = {
    head = heads.classify { labels = { "no", "yes", "maybe" } }, field = "probability",
    item = function(i, n) return { text = text(n, i), pair = i % 3 == 0 and text(4, i) or nil } end,
  },
  regress = {
    head = heads.regress { outputs = 1 }, field = "value", item = function(i, n) return { text = text(n, i) } end,
  },
  multilabel = {
    head = heads.multilabel { labels = { "a", "b" } }, item = function(i, n) return { text = text(n, i) } end,
  },
  choice = {
    head = heads.choice {}, field = "probability",
    item = function(i, n) return { text = text(n, i), choices = { text(3, i), text(n, i + 1), "the" } } end,
  },
  tokens = {
    head = heads.tokens { labels = { "O", "B-X", "I-X" } },
    item = function(i, n) return { text = text(n * 5, i) } end, -- longer than the model at times
  },
  squad = {
    head = heads.squad {}, field = "score",
    item = function(i, n) return { question = text(3, i), context = text(n * 8, i) } end, -- several windows
  },
}

local function predictor(kind, options)
  local o = { tokenizer = task_model.tokenizer(), max_len = 64, rows = 300 }
  return sr.predict.new(task_model.new(KINDS[kind].head), require("tests.support.with")(o, options))
end

local function near(a, b, path)
  assert.equal(math.type(a) and "number" or type(a), math.type(b) and "number" or type(b), path)
  if type(a) == "number" then return assert.near(a, b, 2e-5, path) end
  if type(a) ~= "table" then return assert.equal(a, b, path) end
  for key, value in pairs(a) do near(value, b[key], ("%s.%s"):format(path, key)) end
end

describe("a prediction", function()
  for kind, case in pairs(KINDS) do
    it("of " .. kind .. " is the same in company and alone, in the order of the input", function()
      local all, alone = predictor(kind), predictor(kind, { rows = 1 })
      local list, at = items(case.item), 0
      for result, item in all:each(items(case.item)) do
        at = at + 1
        assert.equal(list[at].text, item.text)
        near(alone:one(list[at]), result, kind)
      end
      assert.equal(#list, at)
      if case.field then assert.equal("number", type(alone:one(case.item(1, 5))[case.field])) end
    end)
  end

  it("has probabilities that sum to one, by name", function()
    local result = predictor("classify"):one("the")
    local p = result.probabilities
    assert.near(1, p.no + p.yes + p.maybe, 1e-5)
    assert.equal(p[result.label], result.probability)
  end)

  it("of tokens has spans of the text, in code points, beside the words", function()
    local spans = require("seqrun.scores.spans")
    local line = "\u{c9}mile, (" .. task_model.text(12, 3) .. ")  \u{4e2d}\u{6587}" .. task_model.text(20, 4) .. "."
    local found = 0
    for _, case in ipairs { { nil, line }, { "white", line }, { nil, { "New York", "is", task_model.text(1, 5) } } } do
      local label = predictor("tokens", { split = case[1] })
      local given = case[2]
      local result = label:one(type(given) == "table" and { words = given } or given)
      local source = type(given) == "table" and table.concat(given, " ") or given
      local marked = spans.of(result.tags)
      assert.equal(#marked, #result.spans)
      for i, span in ipairs(result.spans) do
        local from, to = utf8.offset(source, span.start + 1), utf8.offset(source, span["end"] + 1) - 1
        assert.equal(source:sub(from, to), span.text)
        assert.equal(result.words[marked[i].first], span.text:sub(1, #result.words[marked[i].first]))
        local sum = 0
        for k = marked[i].first, marked[i].last do sum = sum + result.probabilities[k] end
        assert.near(sum / (marked[i].last - marked[i].first + 1), span.score, 1e-5)
        found = found + 1
      end
      if case[1] == "white" then assert.equal("\u{c9}mile,", result.words[1]) end
      if not case[1] and given == line then
        assert.same({ "\u{c9}mile", ",", "(" }, table.move(result.words, 1, 3, 1, {}))
        assert.equal(".", result.words[#result.words])
      end
      assert.is_string(json.encode(result))
    end
    assert.is_true(found > 3)
    assert.is_nil(predictor("classify"):one("a").spans)
  end)

  it("of tokens has a tag for each word, also of texts longer than the model", function()
    local label = predictor("tokens")
    local result = label:one(text(150, 3))
    assert.same({ 150, 150, 150 }, { #result.words, #result.tags, #result.probabilities })
    assert.same({ "the", "the" }, label:one({ words = { "the", "the" } }).words)
    assert.equal(0, #label:one("").tags)
    assert.equal(1, #label:one("\u{200b}").tags) -- a word without tokens
  end)

  it("of an answer is a part of its context, found in whichever window has it", function()
    local answer = predictor("squad", { stride = 8 })
    for i = 1, 8 do
      local context = text(90, i)
      local result = answer:one { question = text(4, i), context = context }
      assert.equal(result.answer, result.answer ~= "" and context:sub(result.first + 1, result.last) or "")
    end
    local unanswered = predictor("squad", { null_threshold = -1e9 }):one { question = "the", context = text(9, 1) }
    assert.same({ "", nil }, { unanswered.answer, unanswered.first })
    assert.equal("the context is empty", answer:one({ question = "the", context = "" }).error) -- as in training
  end)

  it("of an answer may list the best ones, each once, with their probabilities", function()
    local answer = predictor("squad", { stride = 8, nbest = 5, null_threshold = 1e9 })
    for i = 1, 8 do
      local context = text(90, i)
      local result = answer:one { question = text(4, i), context = context }
      local sum, best, texts_of = 0, nil, {}
      for k, one in ipairs(result.nbest) do
        sum = sum + one.probability
        assert.is_true(k == 1 or one.score <= result.nbest[k - 1].score)
        assert.is_nil(texts_of[one.answer])
        texts_of[one.answer] = true
        assert.equal(one.answer, one.first and context:sub(one.first + 1, one.last) or "")
        best = best or one.answer ~= "" and one
      end
      assert.near(1, sum, 1e-5)
      assert.same({ 5, result.answer, result.score }, { #result.nbest, best.answer, best.score })
    end
  end)

  it("fills each batch: an item that does not fit begins the next one", function()
    local sizes, at, order = {}, 0, {}
    local each = require("seqrun.predict.stream") {
      items = function()
        at = at + 1
        return at <= 7 and { number = at } or nil
      end,
      sequences = function(item)
        local ids = {}
        for i = 1, item.number == 3 and 250 or 28 do ids[i] = 10 end
        return { { a = ids }, { a = { 10 } } } -- 33 tokens, or 255
      end,
      compute = function(batch)
        sizes[#sizes + 1] = batch.tokens
        return {}
      end,
      tokenizer = task_model.tokenizer().core, rows = 100,
    }
    for item in each do order[#order + 1] = item.number end
    assert.same({ 1, 2, 3, 4, 5, 6, 7 }, order)
    assert.same({ 66, 252, 3, 99, 33 }, sizes)
  end)

  it("truncates a pair as Hugging Face does, and counts it", function()
    local function cut(a, b, room)
      local x, y = {}, {}
      for i = 1, a do x[i] = i end
      for i = 1, b do y[i] = i end
      truncate(x, y, room)
      return { #x, #y }
    end
    assert.same({ 3, 2 }, cut(3, 2, 5))
    assert.same({ 2, 3 }, cut(4, 10, 5)) -- by tokenizers 0.23
    assert.same({ 3, 2 }, cut(10, 4, 5))
    assert.same({ 7, 2 }, cut(10, 2, 9))
    assert.same({ 5, 5 }, cut(9, 9, 10))
    local label = predictor("classify")
    label:one { text = text(100, 1), pair = text(3, 1) }
    assert.equal(1, label.counts.cut)
  end)

  it("needs a head of a task", function()
    assert.error_matches(function()
      sr.predict.new(task_model.new("mlm"), { tokenizer = task_model.tokenizer(), max_len = 8 })
    end, "no head that predicts")
  end)
end)

describe("the command", function()
  local dir = program.folder()
  local path = task_model.save(dir, task_model.new(KINDS.classify.head))
  teardown(function() require("seqrun.core.sys").remove(dir) end)

  local function lines_of(out)
    local list = {}
    for line in out:gmatch("[^\n]+") do list[#list + 1] = json.decode(line) end
    return list
  end

  it("predict labels lines, pairs and objects", function()
    local out = exits(3, "1 line could not be used: standard input:2: the text is empty",
      program.run({ "predict", path, "--text" }, { input = "the\n \nit is here" }))
    local list = lines_of(out)
    assert.same({ 3, 3, "it is here" }, { #list, list[3].line, list[3].text })
    assert.equal("the text is empty", list[2].error) -- a label of no text would mean nothing
    local label = sr.must(sr.predict.open(dir))
    assert.near(label:one("it is here").probability, list[3].probability, 2e-6)
    out = program.ok({ "predict", path, "--pair" }, { input = "the\tit is\n" })
    assert.equal(1, #lines_of(out))
    local _, same = program.run({ "predict", path, "--format", "jsonl" },
      { input = '{"text":"the","pair":"it is","id":"q7"}\n' })
    assert.same({ lines_of(out)[1].probability, "q7" }, { lines_of(same)[1].probability, lines_of(same)[1].id })
  end)

  it("predict warns of single texts for a model of pairs, and takes no pair without a second text", function()
    local sys = require("seqrun.core.sys")
    assert(sys.make_dirs(path .. "/trainer"))
    assert(sys.write_file(path .. "/trainer/config.yaml", "columns: {pair: reply}\n"))
    local _, err = program.ok({ "predict", path }, { input = "the\n" })
    assert.matches("trained on pairs %(columns.pair=reply%).* pass %-%-pair\n$", err)
    exits(3, "1 field; expected text, pair", program.run({ "predict", path, "--pair" }, { input = "the\nthe\tit\n" }))
    -- objects have the columns of the run
    local out = exits(3, "", program.run({ "predict", path, "--format", "jsonl" },
      { input = '{"text":"the","reply":"it is"}\n{"text":"the","pair":"it is"}\n' }))
    os.remove(path .. "/trainer/config.yaml")
    local list = lines_of(out)
    assert.equal("string", type(list[1].label))
    assert.matches("^no 'reply', which columns.pair names", list[2].error)
  end)

  it("predict reads the named columns of a table, and writes a submission", function()
    local file = program.write(dir, "new.tsv", "id\tsentence\n7\tthe\n9\tit is here\n")
    local words = { "predict", path, file, "columns.text=sentence", "columns.id=id" }
    local list = lines_of((program.ok(words)))
    assert.same({ 2, "7", "9", 3 }, { #list, list[1].id, list[2].id, list[2].line })
    local target = dir .. "/submission.tsv"
    table.move({ "--submission", target }, 1, 2, #words + 1, words)
    assert.equal("", (program.ok(words)))
    local wanted = ("index\tprediction\n7\t%s\n9\t%s\n"):format(list[1].label, list[2].label)
    assert.equal(wanted, require("seqrun.core.sys").read_file(target))
    os.remove(target)
    program.write(dir, "new.tsv", "id\tsentence\n7\tthe\n9\n")
    local _, _, err = program.run(words)
    assert.matches("1 line could not be used: .*new.tsv:3: 1 column instead of 2; nothing is written", err)
    assert.is_nil(io.open(target))
    local _, _, told = program.run({ "predict", path, "columns.text=1" }, { input = "the" })
    assert.matches("lines have no columns; add %-%-format", told)
  end)

  it("predict answers the questions of a SQuAD file, and writes what the official scripts read", function()
    local sys, squad = require("seqrun.core.sys"), task_model.save(dir .. "/squad", task_model.new(heads.squad {}))
    local context = text(30, 4)
    local file = program.write(dir, "dev.json", json.encode { version = "v2.0", data = { { paragraphs = { {
      context = context, qas = {
        { id = "x/1", question = text(3, 1), answers = { { text = "the", answer_start = 0 } } },
        { id = "x/2", question = text(4, 2), answers = json.array {}, is_impossible = true },
      },
    } } } } })
    local words = { "predict", squad, file, "--null-threshold", "1e9" }
    local out, err = program.ok(words)
    assert.equal("", err)
    local list = lines_of(out)
    local answer = sr.must(sr.predict.open(squad, { null_threshold = 1e9 }))
    local same = answer:one({ question = text(3, 1), context = context }).answer
    assert.same({ 2, "x/1", "x/2", same }, { #list, list[1].id, list[2].id, list[1].answer })
    local target = dir .. "/predictions.json"
    table.move({ "--submission", target }, 1, 2, #words + 1, words)
    assert.equal(0, (program.run(words)))
    local answers = json.decode(sr.must(sys.read_file(target)))
    assert.same({ ["x/1"] = list[1].answer, ["x/2"] = list[2].answer }, answers)
    local odds = json.decode(sr.must(sys.read_file(dir .. "/null_odds.json")))
    assert.near(list[1].null_score - list[1].score, odds["x/1"], 1e-6)
    assert.is_false(sys.exists(dir .. "/nbest_predictions.json"))
    local more = table.move(words, 1, #words, 1, {})
    assert.equal(0, (program.run(table.move({ "--nbest", "3" }, 1, 2, #more + 1, more))))
    local best = json.decode(sr.must(sys.read_file(dir .. "/nbest_predictions.json")))["x/1"]
    assert.equal(3, #best)
    assert.equal(list[1].answer, best[1].text ~= "" and best[1].text or best[2].text)
    assert.near(1, best[1].probability + best[2].probability + best[3].probability, 1e-6)
    assert.is_true(best[1].start_logit + best[1].end_logit >= best[2].start_logit + best[2].end_logit)
    program.write(dir, "dev.json", '{"data":[{"paragraphs":[{"context":"a b","qas":[{"id":"q","question":" "}]}]}]}')
    os.remove(target)
    refuses(3, "1 line could not be used: .*dev.json:1: the question is empty; nothing is written", program.run(words))
    assert.is_nil(io.open(target))
  end)

  it("predict reads words with tags as training does, whatever their file is called, and refuses others", function()
    local tagger = task_model.save(dir .. "/tags", task_model.new(KINDS.tokens.head))
    local wanted = program.ok({ "predict", tagger }, { input = "the it\n" })
    for _, name in ipairs { "w.conll", "w.txt", "w.tsv" } do
      local file = program.write(dir, name, "the\tO\nit\tB-X\n\n")
      assert.equal(wanted, (program.ok { "predict", tagger, file }), name)
    end
    local lines = program.write(dir, "w.txt", "the it\n") -- no tags
    assert.equal(wanted, (program.ok { "predict", tagger, lines }))
    for name, way in pairs {
      ["a.json"] = "write an object per line", ["a.sqr"] = "give the files", ["a.parquet"] = "convert it to",
      ["a.conll"] = "convert it to", ["a.dat"] = "convert it to .* or say %-%-format lines",
    } do
      for _, command in ipairs { "predict", "encode" } do
        local message = name .. ": not a known format of texts, by its name; " .. way
        refuses(2, message, program.run { command, path, dir .. "/" .. name })
      end
    end
    for _, format in ipairs { "conll", "squad" } do
      refuses(2, "the model is for task=classify, which does not read " .. format .. " files",
        program.run { "predict", path, lines, "--format", format })
    end
    refuses(2, "w.conll and %S+lines.csv are of different formats",
      program.run { "predict", tagger, dir .. "/w.conll", program.write(dir, "lines.csv", "the\n") })
    local words_of = task_model.save(dir .. "/words", task_model.new(KINDS.tokens.head), {
      files = { ["trainer/config.yaml"] = "columns: {text: words, label: tags}\n" },
    })
    assert.same({ "the", "it" }, program.json({ "predict", words_of, "--format", "jsonl" },
      { input = '{"words":["the","it"]}\n' }).words)
    assert.error_matches(function() sr.must(sr.predict.open(path)):one("the", "it") end, "expected one item")
    refuses(3, "empty.csv: no rows", program.run { "predict", path, program.write(dir, "empty.csv", "text,label\r"),
      "columns.text=1", "columns.header=true" })
    program.write(dir, "a.ndjson", '{"text":"the"}\n')
    assert.equal("string", type(program.json({ "predict", path, dir .. "/a.ndjson" }).label))
    local _, _, err = program.run({ "predict", path, "data.max_lenn=4" }, { input = "the" })
    assert.matches("unknown key 'max_lenn'", err)
  end)

  it("predict uses the head that is named, of a checkpoint with several", function()
    local tags = heads.tokens { outputs = 2, prefix = "t_" }
    local both = task_model.save(dir .. "/both", task_model.new(KINDS.classify.head, tags))
    local one = { input = "the it" }
    assert.equal("string", type(program.json({ "predict", both }, one).label))
    assert.equal(2, #program.json({ "predict", both, "--head", "tags" }, one).tags)
    local _, _, err = program.run({ "predict", both, "--head", "tag" }, one)
    assert.matches("no head 'tag'; it has label, tags", err)
  end)

  it("predict goes on after a line that cannot be used, and says so", function()
    local words = "3 lines could not be used, the first is standard input:2: 'text' must be a string; see `error`"
    local out = exits(3, words, program.run({ "predict", path, "--format", "jsonl" },
      { input = '{"text":"the"}\n{"txt":1}\n[]\n{"text":\n{"text":"it"}\n' }))
    local list = lines_of(out)
    assert.equal(5, #list)
    assert.equal("'text' must be a string", list[2].error)
    assert.matches("not a JSON object", list[4].error)
    assert.equal("string", type(list[5].label))
    assert.equal(2, #lines_of((exits(3, "", program.run({ "predict", path }, { input = "the\n\xff\0\n" })))))
  end)

  it("encode writes the same vectors to standard output and to a file", function()
    local input = "the\nit is here\nit\n" .. text(200, 1) .. "\n"
    local out, err = program.ok({ "encode", path, "--pool", "mean" }, { input = input })
    assert.matches("1 text was truncated to 64 tokens", err)
    local list = lines_of(out)
    local file = dir .. "/vectors.safetensors"
    local report = program.json({ "encode", path, "--out", file, "--json" }, { input = input })
    assert.same({ 4, 1, 32 }, { report.texts, report.truncated, report.size })
    local vectors = sr.must(sr.checkpoint.read_tensors(file)).embeddings
    assert.same({ 4, 32 }, vectors:shape())
    for i, row in ipairs(vectors:totable()) do
      local norm = 0
      for k, x in ipairs(row) do
        assert.near(list[i].embedding[k], x, 1e-7)
        norm = norm + x * x
      end
      assert.near(1, norm, 1e-5)
    end
  end)

  it("encode has no vector for a blank line, and writes no file of fewer vectors than lines", function()
    local code, out = program.run({ "encode", path }, { input = "the\n\nit\n" })
    assert.same({ 3, "the text is empty" }, { code, lines_of(out)[2].error })
    refuses(3, "standard input:2: the text is empty",
      program.run({ "encode", path, "--out", dir .. "/none.safetensors" }, { input = "the\n\nit\n" }))
    assert.is_nil(io.open(dir .. "/none.safetensors"))
  end)

  it("encode takes the named column of a table, and refuses a header whose columns nobody names", function()
    local file = program.write(dir, "named.csv", "text\nit is here\n")
    local out, said = program.ok { "encode", path, file }
    assert.equal(2, #lines_of(out))
    assert.matches("warning: %S+named.csv:1: 'text' is read as a row; if it is a header, name its columns: "
      .. "columns.text=NAME, or", said)
    program.write(dir, "named.csv", "text,stars\nit is here,5\n,4\n")
    refuses(3, "named.csv:1: 'text, stars' looks like the header of a table; name its columns: columns.text=NAME",
      program.run { "encode", path, file })
    local alone = lines_of(select(2, program.run({ "encode", path }, { input = "it is here\n" })))
    local named, err = exits(3, "", program.run { "encode", path, file, "columns.text=text" })
    assert.is_nil(err:find("warning", 1, true))
    local list = lines_of(named)
    assert.same({ 2, alone[1].embedding, "the text is empty" }, { #list, list[1].embedding, list[2].error })
    refuses(2, "encode: lines have no columns; add %-%-format tsv, csv or jsonl",
      program.run({ "encode", path, "columns.text=text" }, { input = "it\n" }))
  end)

  it("sr.encode gives the vectors of the command", function()
    for _, options in ipairs { {}, { pool = "cls", normalise = false } } do
      local words = options.pool and { "--pool", "cls", "--raw" } or {}
      local _, out = program.run({ "encode", path, table.unpack(words) }, { input = "the\nit is here\n" })
      local wanted, encode = lines_of(out), sr.must(sr.encode.open(path, options))
      local seen = 0
      for vector, item in encode:each { "the", { text = "it is here" } } do
        seen = seen + 1
        assert.equal(seen == 1 and "the" or "it is here", item.text)
        for k, x in ipairs(vector) do assert.near(wanted[seen].embedding[k], x, 1e-6) end
      end
      assert.same({ 2, 32, 32 }, { seen, encode.size, #encode:one "it" })
    end
    assert.error_matches(function() sr.encode.open(path, { pool = "max" }) end, "pool")
    assert.same({ "missing" }, { select(3, sr.encode.open(dir .. "/nothing")) })
  end)

  it("encode gives the state of [CLS], or the mean over the tokens, of the encoder alone", function()
    local encoder = sr.must(sr.nn.pretrained(path, { heads = {} })).encoder
    local ids, more = task_model.tokenizer():encode("it is here", { specials = true })
    local quiet <close> = sr.no_grad()
    local x = encoder:encode {
      ids = sr.tensor(ids, { dtype = "i32" }), types = sr.tensor(more.types, { dtype = "i32" }),
      layout = sr.layout { lens = { #ids } },
    }
    for pool, wanted in pairs { cls = x:select(1, 1):totable(), mean = x:mean(1):totable() } do
      local _, out = program.run({ "encode", path, "--raw", "--pool", pool }, { input = "the\nit is here\n" })
      for k, value in ipairs(lines_of(out)[2].embedding) do assert.near(wanted[k], value, 1e-5) end
    end
  end)

  it("encode --precision auto computes in bf16 where the device multiplies it and vectors stay close", function()
    local input = { input = "the\nit is here\n" }
    local function vectors(...)
      local out, err = works(program.run({ "encode", path, ... }, input))
      return lines_of(out), err
    end
    local exact, nothing = vectors()
    local found, told = vectors("--precision", "auto")
    assert.equal("", nothing)
    if not precision.multiplies_bf16() then
      assert.same({ "", exact }, { told, found })
      return
    end
    local most = tonumber(told:match("computing in bf16, which changes vectors by up to ([%d.]+) %%"))
    assert.is_true(most > 0 and most <= 1)
    assert.same(vectors("--precision", "bf16"), found)
    for i, item in ipairs(exact) do
      local apart = 0 -- of vectors of length 1
      for k, x in ipairs(item.embedding) do apart = apart + (x - found[i].embedding[k]) ^ 2 end
      assert.is_true(apart > 0 and math.sqrt(apart) <= 1.5 * precision.TOLERANCE)
    end
  end)

  it("the precision is f32 where vectors in bf16 would be too far, or none at all", function()
    local f32, bf16 = sr.must(sr.nn.pretrained(path)), sr.must(sr.nn.pretrained(path, { precision = "bf16" }))
    local other, tokenizer = sr.must(sr.nn.pretrained(path)), task_model.tokenizer()
    f32.training, bf16.training, other.training = false, false, false
    assert.equal(0, precision.error(f32, f32, tokenizer))
    local rounding = precision.error(f32, bf16, tokenizer)
    assert.is_true(rounding > 1e-4 and rounding < precision.TOLERANCE)
    local words = other.encoder:words()
    words:detach():copy_(sr.zeros(table.unpack(words:shape())))
    assert.is_true(precision.error(f32, other, tokenizer) > precision.TOLERANCE)
    words:detach():copy_(sr.zeros(table.unpack(words:shape())) / 0)
    assert.equal(math.huge, precision.error(f32, other, tokenizer))
  end)

  it("encode does what a directory of sentence-transformers says, or refuses", function()
    local sys, place = require("seqrun.core.sys"), dir .. "/sentences"
    sr.must(sys.make_dirs(place .. "/1_Pooling"))
    for _, name in ipairs { "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json" } do
      program.write(place, name, sr.must(sys.read_file(path .. "/" .. name)))
    end
    local function put(name, value) program.write(place, name, json.encode(value)) end
    local function modules(...)
      local list = {}
      for i, kind in ipairs { "Transformer", "Pooling", ... } do
        local type_of = "sentence_transformers.models." .. kind
        list[i] = { idx = i - 1, path = kind == "Pooling" and "1_Pooling" or "", type = type_of }
      end
      put("modules.json", list)
    end
    local function vectors(folder, input, ...)
      local code, out, err = program.run({ "encode", folder, ... }, { input = input })
      return code == 0 and out or err
    end
    local input = "the\nit is here\n"
    put("1_Pooling/config.json", { pooling_mode_cls_token = true, pooling_mode_mean_tokens = false })
    modules()
    assert.equal(vectors(path, input, "--pool", "cls", "--raw"), vectors(place, input))
    assert.equal(vectors(path, input, "--pool", "cls"), vectors(place, input, "--normalise"))
    modules("Normalize")
    assert.equal(vectors(path, input, "--pool", "cls"), vectors(place, input))
    assert.equal(vectors(path, input, "--raw"), vectors(place, input, "--raw", "--pool", "mean"))
    put("config_sentence_transformers.json", { prompts = { query = "it " }, default_prompt_name = "query" })
    put("sentence_bert_config.json", { max_seq_length = 4 })
    assert.equal(vectors(path, "it is\n", "--pool", "cls"), (vectors(place, "is here\n"):gsub("seqrun: .*", "")))
    put("1_Pooling/config.json", { pooling_mode_cls_token = true, pooling_mode_max_tokens = true })
    assert.matches("its pooling is cls_token and max_tokens, concatenated; only one of cls, mean and last token is "
      .. "supported; to make other vectors", vectors(place, input))
    modules("LSTM")
    assert.matches("it has a module LSTM, which is not supported", vectors(place, input))
    assert.matches('^{"line":1', vectors(place, input, "--pool", "mean", "--raw"))
    program.write(place, "modules.json", '[{"idx": 0, "path"')
    assert.matches("^seqrun: %S+modules.json is damaged: it is not an object or a list; copy", vectors(place, input))
  end)

  it("predict and encode end quietly when nobody reads on #slow", function()
    for _, verb in ipairs { "predict", "encode" } do
      local line = "yes it is here | head -20000 | %s %s %s 2>%s/err | head -1 >/dev/null; exit ${PIPESTATUS[2]}"
      local _, _, code = os.execute(("bash -c '%s'"):format(line:format(program.path, verb, path, dir)))
      assert.same({ 0, "" }, { code, require("seqrun.core.sys").read_file(dir .. "/err") })
    end
  end)

  it("encode goes on after a line that cannot be used, and says so", function()
    local out = exits(3, "1 line could not be used: standard input:2: .*see `error` in the output",
      program.run({ "encode", path }, { input = "the\n\xff\nit\n" }))
    local list = lines_of(out)
    assert.same({ 3, 2 }, { #list, list[2].line })
    assert.matches("invalid UTF%-8", list[2].error)
    assert.same(lines_of(select(2, program.run({ "encode", path }, { input = "it" })))[1].embedding, list[3].embedding)
    assert.equal(3, (program.run({ "encode", path }, { input = "\xff\n" })))
  end)

  it("encode leaves nothing half written", function()
    local file = dir .. "/bad.safetensors"
    exits(3, "standard input:2: column 1: invalid UTF%-8",
      program.run({ "encode", path, "--out", file }, { input = "the\n\xff\n" }))
    assert.is_nil(io.open(file))
    assert.is_nil(io.open(file .. ".part"))
  end)

  it("says what a directory lacks", function()
    for _, verb in ipairs { "predict", "encode" } do
      exits(3, "no such file or directory", program.run({ verb, dir .. "/nowhere" }))
    end
    for _, verb in ipairs { "encode", "fill" } do
      exits(2, "is a directory; name files", program.run({ verb, "tests/data/model/tiny", dir }))
    end
    exits(3, "has no task head; fine%-tune it first, or use seqrun encode",
      program.run({ "predict", "tests/data/model/tiny" }))
    exits(2, "has 64 positions, fewer than max_len 65", program.run({ "encode", path, "--max-len", "65" }))
  end)
end)
