-- Tags of words: valid sequences of their scheme, CRFs, sentences in windows.  What is predicted is what is scored, and
-- what enumeration finds.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local program = require("tests.support.program")
local schemes = require("seqrun.scores.schemes")
local small = require("tests.support.small")
local spans = require("seqrun.scores.spans")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_files = require("tests.support.task_files")
local task_model = require("tests.support.task_model")
local tasks = require("tests.support.tasks")
local windows = require("seqrun.data.readers.windows")
local with = require("tests.support.with")

local heads, text = sr.nn.heads, task_model.text
local folder = program.folder()
teardown(function() sys.remove(folder) end)
before_each(function() math.randomseed(11) end)

-- ---- sequences of tags ---------------------------------------------------------------------------

---Letters of a span of one word, and of the first, an inner and the last word of a longer one.
local LETTERS = { iob2 = "BBII", iobes = "SBIE", bilou = "UBIL", bmes = "SBME" }

local function words_of(line)
  local list = {}
  for word in line:gmatch("%S+") do list[#list + 1] = word end
  return list
end

local LABELS = {
  none = words_of "O B-X I-X", iob2 = words_of "O B-X I-X B-Y I-Y", iobes = words_of "O B-X I-X E-X S-X E-Y B-Y",
  bilou = words_of "B-X O I-X L-X U-X U-Y", bmes = words_of "O B-X M-X E-X S-X M-Y",
}

---Whether tags are what a scheme writes for the spans that they have.
local function is_valid(name, tags)
  local wanted = {}
  for i = 1, #tags do wanted[i] = "O" end
  for _, span in ipairs(name ~= "none" and spans.of(tags) or {}) do
    for k = span.first, span.last do
      local place = span.first == span.last and 1 or k == span.first and 2 or k == span.last and 4 or 3
      wanted[k] = LETTERS[name]:sub(place, place) .. "-" .. span.type
    end
  end
  return name == "none" or table.concat(wanted, " ") == table.concat(tags, " ")
end

local function random_row(count)
  local row = {}
  for j = 1, count do row[j] = 3 * math.random() - 1.5 end
  return row
end

local function names_of(tags, labels)
  local names = {}
  for i, tag in ipairs(tags) do names[i] = labels[tag] end
  return names
end

---Calls `see` with all sequences of so many tags, from 1.
local function each(words, classes, see, tags)
  tags = tags or {}
  if #tags == words then return see(tags) end
  for tag = 1, classes do
    tags[#tags + 1] = tag
    each(words, classes, see, tags)
    tags[#tags] = nil
  end
end

---The score of tags of words with these logits.
local function score_of(rows, tags, chain)
  local sum = chain.into and chain.first[tags[1]] + chain.last[tags[#tags]] or 0
  for i, tag in ipairs(tags) do
    sum = sum + rows[i][tag] + (chain.into and i > 1 and chain.into[tag][tags[i - 1]] or 0)
  end
  return sum
end

---A model with random transitions.
local function with_transitions(model)
  for _, name in ipairs(model.params:names()) do
    if name:find("crf.", 1, true) then
      local shape = model.params:shape(name)
      model.params:set(name, sr.tensor(random_row(shape[1] * (shape[2] or 1))):reshape(table.unpack(shape)))
    end
  end
  return model
end

describe("tags", function()
  for name, labels in pairs(LABELS) do
    it("are the best of all valid sequences, of a CRF with their probabilities: " .. name, function()
      local model = with_transitions(task_model.new(heads.tokens { labels = labels, crf = true, scheme = name }))
      for _, chain in ipairs { schemes.of_head(model.heads[1]), schemes.chain(name, labels) } do
        for words = 1, 4 do
          local rows, most, sum, p = {}, -math.huge, 0, {}
          for i = 1, words do rows[i] = random_row(#labels) end
          each(words, #labels, function(tags)
            if not is_valid(name, names_of(tags, labels)) then return end
            local score = score_of(rows, tags, chain)
            most, sum = math.max(most, score), sum + math.exp(score)
            for i, tag in ipairs(tags) do p[i .. " " .. tag] = (p[i .. " " .. tag] or 0) + math.exp(score) end
          end)
          local tags, found = schemes.decode(rows, chain)
          assert.near(most, score_of(rows, tags, chain), 1e-9)
          assert.is_true(is_valid(name, names_of(tags, labels)))
          for i, tag in ipairs(chain.into and tags or {}) do assert.near(p[i .. " " .. tag] / sum, found[i], 1e-9) end
        end
      end
    end)
  end

  it("of a case by hand: I-X takes a B-X before it, though O is more probable there", function()
    local rows = { { 2, 1.5, 0 }, { 1, 0, 2 } } -- O I-X has 4; B-X I-X has 3.5, O O has 3
    assert.same({ 1, 3 }, (schemes.decode(rows)))
    assert.same({ 2, 3 }, (schemes.decode(rows, schemes.chain("iob2", LABELS.none))))
  end)

  it("are the most probable ones where no sequence is valid", function()
    local chain = schemes.chain("iobes", { "B-X", "E-X" })
    assert.same({ { 2 }, { 1, 2 }, {} }, { (schemes.decode({ { 0, 1 } }, chain)),
      (schemes.decode({ { 0, 1 }, { 1, 0 } }, chain)), (schemes.decode({}, chain)) })
  end)
end)

describe("a scheme", function()
  it("is shown by labels alone where they mark ends of spans and spans of one word", function()
    local function of(line) return schemes.of_labels(words_of(line)) end
    assert.same({ "iobes", "bilou", "bmes", "bmes", "iobes" }, { of "O B-X I-X E-X S-X", of "O B-X I-X L-X U-X",
      of "O B-X M-X E-X S-X", of "B M E S", of "O B-X E-X S-X" })
    assert.same({}, { of "NOUN VERB", of "O B-X I-X", of "B-X I-X E-X S-X X", of "O B-X I-X E-X", of "B-X L-X S-X" })
  end)

  it("is what all sequences of tags follow; IOB1 and IOE are none", function()
    local function of(line, ...)
      local labels, ids, list = words_of(line), {}, { ... }
      for i, label in ipairs(labels) do ids[label] = i - 1 end
      for i, tags in ipairs(list) do
        list[i] = words_of(tags)
        for k, tag in ipairs(list[i]) do list[i][k] = ids[tag] end
      end
      return { schemes.of_sequences(labels, list) }
    end
    assert.same({ "iob2" }, of("O B-X I-X I-Y", "O B-X I-X O", "B-X B-X"))
    assert.same({ nil, 2 }, of("O B-X I-X I-Y", "B-X I-X", "O I-X")) -- IOB1
    assert.same({ nil, 1 }, of("O B-X I-X I-Y", "B-X I-Y"))
    assert.same({}, of("O I-X E-X", "I-X E-X O")) -- IOE
    assert.same({ "iobes" }, of("O B-X I-X E-X", "O B-X E-X", "B-X I-X E-X"))
    assert.same({ nil, 1 }, of("O B-X I-X E-X", "O B-X"))
  end)

  it("is found in the training data of a run, or named by its config", function()
    local function found(lines, decode)
      local path = program.write(folder, sys.hash(lines) .. ".conll", (lines:gsub(",", "\n\n"):gsub(";", "\n")))
      local data = sr.must(sr.data.files { task = "tokens", train = path, vocab = task_model.VOCAB, folder = folder,
        held = 0 })
      local head = kinds.get("tokens"):head_options(data, { eval = { decode = decode } })
      return head.scheme .. table.concat(data.notes, "\n")
    end
    assert.matches("^iob2.*tags: iob2; evaluations and predictions keep to", found("the B-X;it I-X,is O", "valid"))
    assert.matches("^none.*tags: predicted one by one, as those of %S+.conll:4 follow none .*eval.decode names",
      found("the B-X;it I-X,is O;the I-X", "valid"))
    assert.matches("^none.*iob2", found("the B-X;it I-X;is O", "greedy") .. found("the I-X;it B-X;is O", "iob2"))
    assert.error_matches(function() found("the I-X;it B-X;is O", "bmes") end, "eval.decode bmes: the label 'I%-X'")
    local decode = sr.run.schema(sr.tasks.tokens).by_name.eval.by_name.decode
    assert.same({ "valid", "greedy" }, { decode:usual(), decode.before }) -- of an earlier run
  end)
end)

-- ---- models --------------------------------------------------------------------------------------

local GOLD, LINES = {}, {} -- random valid tags, with a word without tokens in each sentence
for i = 1, 12 do
  local before
  GOLD[i] = {}
  for count, word in ipairs(words_of(text(i % 7 + 3, i))) do
    local kind = before and before:match("^.%-(.)$")
    local choices = { "O", "B-X", "B-Y", kind and "I-" .. kind }
    before = choices[(i * count + count * count) % #choices + 1]
    GOLD[i][count] = before
    LINES[#LINES + 1] = word .. " " .. before .. (count == i % 3 + 1 and "\n\u{200b} O" or "")
  end
  LINES[#LINES + 1] = ""
end
local FILE = program.write(folder, "a.conll", table.concat(LINES, "\n") .. "\n")
local IOB, made = LABELS.iob2, 0

---Saves a tagger, and returns its path.
local function save(options, more)
  made = made + 1
  return task_model.save(("%s/%d"):format(folder, made), with_transitions(task_model.new(heads.tokens(options))), more)
end

---Predicted tags of the words that have tokens; all are valid.
local function predicted(path, decode)
  local guess, rows = {}, program.ok { "predict", path, FILE, decode and "--decode", decode }
  for line in rows:gmatch("[^\n]+") do
    local row, tags = json.decode(line), {}
    for k, tag in ipairs(row.tags) do tags[#tags + 1] = row.probabilities[k] ~= json.null and tag or nil end
    assert.is_true(decode == "greedy" or is_valid("iob2", row.tags), table.concat(row.tags, " "))
    guess[#guess + 1] = tags
  end
  return guess
end

describe("a tagger", function()
  for name, case in pairs { whole = { 64 }, windows = { 8 }, crf = { 8, true } } do
    it("predicts what is scored, valid also around words without tokens, beside the greedy score: " .. name, function()
      local function scored(path, ...)
        return program.json { "eval", path, FILE, "data.folder=" .. folder, "--json", ... }.metrics
      end
      local path = save({ labels = IOB, scheme = "iob2", crf = case[2] },
        { files = { ["trainer/config.yaml"] = ("data: {max_len: %d}\n"):format(case[1]) } })
      local guess, greedy = predicted(path), predicted(path, "greedy")
      local wanted, found = sr.scores.spans(GOLD, guess), scored(path)
      assert.same({ wanted.f1, wanted.precision, wanted.recall }, { found.f1, found.precision, found.recall })
      assert.not_same(guess, greedy)
      assert.equal(sr.scores.spans(GOLD, greedy).f1, found.f1_greedy)
      local other = scored(path, "--decode", "greedy")
      assert.same({ found.f1_greedy, nil }, { other.f1, other.f1_greedy })
    end)
  end

  it("keeps its scheme and its transitions, in an exported directory where Transformers ignores them", function()
    local path = save { labels = IOB, scheme = "iob2", crf = true }
    program.ok { "export", path, folder .. "/out" }
    assert.matches("The CRF of its tags", sys.read_file(folder .. "/out/README.md"))
    for name in pairs(sr.must(sr.checkpoint.read_tensors(folder .. "/out/model.safetensors"))) do
      assert.is_nil(name:find("crf.", 1, true))
    end
    assert.same(predicted(path), predicted(folder .. "/out"))
    program.ok { "export", path, folder .. "/encoder", "--encoder" }
    assert.is_nil(json.decode(sys.read_file(folder .. "/encoder/config.json")).seqrun_head)
    local several = task_model.save(folder .. "/several", task_model.new(heads.classify { outputs = 2 },
      heads.tokens { labels = IOB, scheme = "iob2", prefix = "tags_" }))
    assert.equal("iob2", sr.must(sr.nn.pretrained(several)).heads[2].scheme)
    sys.remove(folder .. "/out/crf.safetensors")
    program.exits(3, "has no tensor 'crf.", program.run { "predict", folder .. "/out", FILE })
  end)

  it("of an earlier version has no scheme; of somebody else, the one that its labels show", function()
    local older = save { labels = LABELS.iobes }
    assert.equal("none", sr.must(sr.nn.pretrained(older)).heads[1].scheme)
    program.ok { "export", older, folder .. "/older" }
    assert.is_true(is_valid("iobes", sr.must(sr.predict.open(folder .. "/older")):one(text(30, 1)).tags))
    assert.is_false(sr.must(sr.predict.open(folder .. "/older", { decode = "greedy" })).chain)
  end)

  it("is refused a scheme that its labels are not of, or that nobody knows", function()
    local path, classes = save { labels = IOB }, task_model.save(folder .. "/classes",
      task_model.new(heads.classify { outputs = 2 }))
    for _, verb in ipairs { "predict", "eval" } do
      for _, case in ipairs {
        { path, "bmes", "%-%-decode bmes: the label 'I%-X' is not a tag of this scheme, whose letters are BMES" },
        { path, "valid", "%-%-decode valid: the scheme of the tags is not known.*name it, as in %-%-decode iob2" },
        { classes, "valid", "%-%-decode is for token classification %(task=tokens%), but the model is for task=class" },
      } do program.exits(2, case[3], program.run { verb, case[1], FILE, "--decode", case[2] }) end
    end
    local config = with(task_model.new(heads.tokens { labels = IOB }):hf_config(), { seqrun_head = { scheme = 3 } })
    program.exits(3, "'scheme' of its head is a number, not a string",
      program.run { "predict", save({ labels = IOB }, { config = config }), FILE })
  end)
end)

describe("a CRF", function()
  it("has the loss that enumeration gives, as the mean over words", function()
    local model = with_transitions(tasks.model("crf"))
    model.training = false
    local head, chain = model.heads[1], schemes.of_head(model.heads[1])
    local loader <close> = tasks.loader("crf", tasks.corpus("crf", folder), { micro_packs = 2 })
    local scope <close> = sr.scope()
    local quiet <close> = sr.no_grad()
    local found, items, wanted, words = 0, 0, 0, 0
    for batch in loader:next():batches() do
      local target, loss, of = batch.targets.tags, model:losses(batch).tags, {}
      local logits = head:logits(model.encoder:states(batch), target, batch):totable()
      local labels = target.labels:totable()
      for i, uid in ipairs((require("seqrun.data.items").uids(target, batch))) do
        of[uid] = of[uid] or { rows = {}, tags = {} }
        table.insert(of[uid].rows, logits[i])
        table.insert(of[uid].tags, labels[i] + 1)
      end
      for _, one in pairs(of) do
        local sum = 0
        each(#one.rows, 2, function(all) sum = sum + math.exp(score_of(one.rows, all, chain)) end)
        wanted, words = wanted + math.log(sum) - score_of(one.rows, one.tags, chain), words + #one.rows
      end
      found, items = found + loss.total:item(), items + loss.items:sum():item()
    end
    assert.near(wanted / words, found, 1e-5)
    assert.near(wanted, items, 1e-5 * wanted)
  end)

  it("trains in a run, and goes on after a stop as if there had been none", function()
    local given, base = task_files.write(folder, "tokens"), task_files.encoder(folder .. "/base")
    local function run(out, ...)
      return program.run(task_files.finetune(folder, "tokens", given, base, "epochs=1", "batch.sequences=120",
        "rate.peak=1e-3", "tune.crf=true", "--out", folder .. "/" .. out, "--quiet", ...))
    end
    program.works(run("whole"))
    program.works(run("stopped", "--max-steps", "2"))
    program.works(run("stopped", "--resume"))
    assert.same(small.weights(folder .. "/whole", 4), small.weights(folder .. "/stopped", 4))
    program.exits(2, "tune.label_smoothing is for the loss of each word", run("no", "tune.label_smoothing=0.1"))
    program.exits(2, "eval.decode bilou: no label ends a span that 'B%-[%w]+' begins, so none could be predicted",
      run("no", "eval.decode=bilou"))
    program.exits(2, "eval.decode=greedy would not use the transitions", run("no", "eval.decode=greedy"))
  end)
end)

describe("a sentence that is longer than the model", function()
  it("is cut in windows: each word counts once, where it is farthest from a border", function()
    for _ = 1, 200 do
      local words = {}
      for word = 1, math.random(1, 30) do
        for _ = 1, math.random(1, 4) do words[#words + 1] = word end
      end
      local list = windows.cut(#words, math.random(4, 20), math.random(1, 30), function(k)
        return words[k + 1] ~= words[k]
      end)
      local best = windows.best(list)
      for k = 0, #words - 1 do
        local edges = {}
        for w, window in ipairs(list) do edges[w] = math.min(k - window[1], window[2] - 1 - k) end
        local most = math.max(table.unpack(edges))
        assert.equal(most >= 0 and most or nil, edges[best[k + 1]])
        assert.is_true(most >= 0 or words[k] == words[k + 1])
      end
    end
    assert.same({ { 0, 6 }, { 3, 9 } }, windows.cut(9, 6, 3)) -- by hand
    assert.same({ 1, 1, 1, 1, 1, 2, 2, 2, 2 }, windows.best(windows.cut(9, 6, 3)))
  end)

  it("is counted, and knows its windows, which are held out as those of documents", function()
    local function read(task)
      return sr.data.files { task = task, train = FILE, vocab = task_model.VOCAB, folder = folder, max_len = 8,
        too_long = "windows", stride = 128, held = 0.3 }
    end
    local set = sr.must(read "tokens")
    assert.matches("longer than 8 tokens: %d+ sentences, read in %d+ windows that overlap",
      table.concat(set.notes, "\n"))
    assert.equal("i32", set.train:known("source").type)
    fails.returning("config", "data.too_long=windows is for sentences .* %(task=tokens%), not for task=classify",
      read "classify")
  end)
end)
