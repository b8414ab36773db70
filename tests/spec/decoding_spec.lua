-- Tags of words are predicted as valid sequences of their scheme: IOB2, IOBES, BILOU or BMES.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local program = require("tests.support.program")
local schemes = require("seqrun.scores.schemes")
local spans = require("seqrun.scores.spans")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")
local windows = require("seqrun.data.readers.windows")
local with = require("tests.support.with")

local heads, text = sr.nn.heads, task_model.text
local folder = program.folder()
teardown(function() sys.remove(folder) end)

---Letters of a span of one word, and of the first, the inner and the last word of a longer one.
local LETTERS = {
  iob2 = { "B", "B", "I", "I" }, iobes = { "S", "B", "I", "E" }, bilou = { "U", "B", "I", "L" },
  bmes = { "S", "B", "M", "E" },
}

local function labels_of(name)
  local list, seen = { "O" }, {}
  for _, kind in ipairs { "X", "Y" } do
    for _, letter in ipairs(LETTERS[name]) do
      local label = letter .. "-" .. kind
      if not seen[label] then list[#list + 1], seen[label] = label, true end
    end
  end
  return list
end

---Whether tags are what a scheme writes for the spans that they have.
local function is_valid(name, tags)
  local wanted = {}
  for i = 1, #tags do wanted[i] = "O" end
  for _, span in ipairs(spans.of(tags)) do
    for k = span.first, span.last do
      local place = span.first == span.last and 1 or k == span.first and 2 or k == span.last and 4 or 3
      wanted[k] = LETTERS[name][place] .. "-" .. span.type
    end
  end
  return table.concat(wanted, " ") == table.concat(tags, " ")
end

local function random_logits(words, labels)
  local rows = {}
  for i = 1, words do
    rows[i] = {}
    for j = 1, labels do rows[i][j] = 4 * math.random() end
  end
  return rows
end

local function names_of(tags, labels)
  local names = {}
  for i, tag in ipairs(tags) do names[i] = labels[tag] end
  return names
end

---The largest sum of logits over all sequences that `good` accepts.
local function search(rows, labels, good)
  local best = -math.huge
  local function extend(tags, sum)
    if #tags == #rows then
      if sum > best and good(names_of(tags, labels)) then best = sum end
      return
    end
    for j = 1, #labels do
      tags[#tags + 1] = j
      extend(tags, sum + rows[#tags][j])
      tags[#tags] = nil
    end
  end
  extend({}, 0)
  return best
end

describe("valid tags", function()
  it("have the largest sum among all valid sequences, and are never invalid", function()
    math.randomseed(3)
    local broken = 0
    for name in pairs(LETTERS) do
      local labels = labels_of(name)
      local chain = schemes.chain(name, labels)
      for words = 1, 4 do
        for _ = 1, 6 do
          local rows, sum = random_logits(words, #labels), 0
          local tags = schemes.decode(rows, chain)
          for i, tag in ipairs(tags) do sum = sum + rows[i][tag] end
          assert.near(search(rows, labels, function(t) return is_valid(name, t) end), sum, 1e-9)
        end
      end
      for _ = 1, 50 do
        local rows = random_logits(12, #labels)
        assert.is_true(is_valid(name, names_of(schemes.decode(rows, chain), labels)))
        broken = broken + (is_valid(name, names_of(schemes.decode(rows), labels)) and 0 or 1)
      end
    end
    assert.is_true(broken > 100, "what greedy decoding gives would be valid anyway")
  end)

  it("of a case by hand: I-X takes a B-X before it, though O is more probable there", function()
    local labels = { "O", "B-X", "I-X" }
    local rows = { { 2, 1.5, 0 }, { 1, 0, 2 } } -- O I-X has 4; B-X I-X has 3.5, O O has 3
    assert.same({ 1, 3 }, (schemes.decode(rows)))
    assert.same({ 2, 3 }, (schemes.decode(rows, schemes.chain("iob2", labels))))
  end)

  it("are the most probable ones where no sequence is valid, and none of no words", function()
    local chain = schemes.chain("iobes", { "B-X", "E-X" })
    assert.same({ 2 }, (schemes.decode({ { 0, 1 } }, chain)))
    assert.same({ 1, 2 }, (schemes.decode({ { 0, 1 }, { 1, 0 } }, chain)))
    assert.same({}, (schemes.decode({}, chain)))
  end)
end)

describe("a scheme", function()
  it("is shown by labels alone where they mark ends of spans and spans of one word", function()
    local function of(words)
      local labels = {}
      for word in words:gmatch("%S+") do labels[#labels + 1] = word end
      return schemes.of_labels(labels)
    end
    for name in pairs(LETTERS) do
      assert.same({ name ~= "iob2" and name or nil }, { schemes.of_labels(labels_of(name)) })
    end
    assert.same({ "bmes", "iobes" }, { of "B M E S", of "O B-X E-X S-X" })
    assert.same({}, { of "NOUN VERB", of "B-X I-X E-X S-X X", of "O B-X I-X E-X", of "I-X E-X O", of "B-X L-X S-X" })
  end)

  it("is what all sequences of tags follow; IOB1 and IOE are none", function()
    local function of(labels, ...)
      local ids, list = {}, { ... }
      for i, label in ipairs(labels) do ids[label] = i - 1 end
      for i, words in ipairs(list) do
        list[i] = {}
        for word in words:gmatch("%S+") do table.insert(list[i], ids[word]) end
      end
      return { schemes.of_sequences(labels, list) }
    end
    local iob, ioe = { "O", "B-X", "I-X", "I-Y" }, { "O", "I-X", "E-X" }
    assert.same({ "iob2" }, of(iob, "O B-X I-X O", "B-X B-X"))
    assert.same({ nil, 2 }, of(iob, "B-X I-X", "O I-X")) -- IOB1
    assert.same({ nil, 1 }, of(iob, "B-X I-Y"))
    assert.same({}, of(ioe, "I-X E-X O"))
    assert.same({}, of({ "red", "green" }, "red"))
    assert.same({ "iobes" }, of({ "O", "B-X", "I-X", "E-X" }, "O B-X E-X", "B-X I-X E-X"))
    assert.same({ nil, 1 }, of({ "O", "B-X", "I-X", "E-X" }, "O B-X"))
  end)
end)

-- ---- models ------------------------------------------------------------------------------------

local IOB = { "O", "B-X", "I-X", "B-Y", "I-Y" }
local EMPTY = "\u{200b}" -- a word without tokens

---Sentences with random valid tags, each with a word without tokens, as a CoNLL file.
local function write_conll(name)
  local lines = {}
  for i = 1, 12 do
    local before, count = "O", 0
    for word in text(i % 7 + 3, i):gmatch("%S+") do
      local kind = before:match("^.%-(.)$")
      count = count + 1
      local choices = { "O", "B-X", "B-Y", kind and "I-" .. kind }
      before = choices[(i * count + count * count) % #choices + 1]
      lines[#lines + 1] = word .. " " .. before
      if count == i % 3 + 1 then lines[#lines + 1] = EMPTY .. " O" end
    end
    lines[#lines + 1] = ""
  end
  return program.write(folder, name, table.concat(lines, "\n") .. "\n")
end

local FILE = write_conll("a.conll")
local made = 0

---Saves a tagger, and returns its path.
local function save(options, more)
  made = made + 1
  return task_model.save(("%s/%d"):format(folder, made), task_model.new(heads.tokens(options)), more)
end

local function rows(words)
  local list = {}
  for line in program.ok(words):gmatch("[^\n]+") do list[#list + 1] = json.decode(line) end
  return list
end

---Tags of words that have tokens, gold and predicted, and all predicted.
local function predicted(path, ...)
  local gold, guess, all = {}, {}, {}
  local sentences = { {} }
  for line in (assert(sys.read_file(FILE))):gmatch("([^\n]*)\n") do
    if line == "" then sentences[#sentences + 1] = {} else table.insert(sentences[#sentences], line) end
  end
  for i, row in ipairs(rows { "predict", path, FILE, ... }) do
    gold[i], guess[i], all[i] = {}, {}, row.tags
    for k, line in ipairs(sentences[i]) do
      if row.probabilities[k] ~= json.null then
        table.insert(gold[i], line:match("%S+$"))
        table.insert(guess[i], row.tags[k])
      end
    end
  end
  return gold, guess, all
end

local function scored(path, ...)
  return program.json { "eval", path, FILE, "data.folder=" .. folder, "--json", ... }
end

describe("a tagger", function()
  for name, config in pairs { whole = "data: {max_len: 64}\n", windows = "data: {max_len: 8}\n" } do
    it("predicts what is scored, valid also around words without tokens, beside the greedy score: " .. name, function()
      local path = save({ labels = IOB, scheme = "iob2" }, { files = { ["trainer/config.yaml"] = config } })
      local gold, guess, all = predicted(path)
      for _, tags in ipairs(all) do assert.is_true(is_valid("iob2", tags), table.concat(tags, " ")) end
      local wanted, found = sr.scores.spans(gold, guess), scored(path).metrics
      assert.same({ wanted.f1, wanted.precision, wanted.recall }, { found.f1, found.precision, found.recall })
      local _, greedy = predicted(path, "--decode", "greedy")
      assert.not_same(guess, greedy)
      assert.equal(sr.scores.spans(gold, greedy).f1, found.f1_greedy)
      local other = scored(path, "--decode", "greedy").metrics
      assert.same({ found.f1_greedy, nil }, { other.f1, other.f1_greedy })
    end)
  end

  it("keeps its scheme in its checkpoint and in an exported directory; an older one has none", function()
    local path = save { labels = IOB, scheme = "iob2" }
    assert.equal("iob2", json.decode(sys.read_file(path .. "/config.json")).seqrun_head.scheme)
    program.ok { "export", path, folder .. "/out" }
    local _, wanted = predicted(path)
    assert.same(wanted, select(2, predicted(folder .. "/out")))
    program.ok { "export", path, folder .. "/encoder", "--encoder" }
    assert.is_nil(json.decode(sys.read_file(folder .. "/encoder/config.json")).seqrun_head)
    local older = save { labels = labels_of "iobes" } -- without seqrun_head
    assert.equal("none", sr.must(sr.nn.pretrained(older)).heads[1].scheme)
    program.ok { "export", older, folder .. "/older" } -- of somebody else: the labels show it
    assert.is_nil(sr.must(sr.nn.pretrained(folder .. "/older")).heads[1].scheme)
    local label = sr.must(sr.predict.open(folder .. "/older"))
    assert.is_true(is_valid("iobes", label:one(text(30, 1)).tags))
    assert.is_false(sr.must(sr.predict.open(folder .. "/older", { decode = "greedy" })).chain)
  end)

  it("is one of several heads with its scheme", function()
    made = made + 1
    local path = task_model.save(("%s/%d"):format(folder, made), task_model.new(
      heads.classify { outputs = 2 }, heads.tokens { labels = IOB, scheme = "iob2", prefix = "tags_" }))
    local model = sr.must(sr.nn.pretrained(path))
    assert.same({ nil, "iob2" }, { model.heads[1].scheme, model.heads[2].scheme })
  end)

  it("is refused a scheme that its labels are not of, or that nobody knows", function()
    local path = save { labels = IOB }
    for _, verb in ipairs { "predict", "eval" } do
      local function refused(code, message, ...) return program.exits(code, message, program.run { verb, ... }) end
      refused(2, "%-%-decode bmes: the label 'I%-X' is not a tag of this scheme, whose letters are BMES", path, FILE,
        "--decode", "bmes")
      refused(2, "%-%-decode valid: the scheme of the tags is not known.*name it, as in %-%-decode iob2", path, FILE,
        "--decode", "valid")
      refused(2, "%-%-decode", path, FILE, "--decode", "iob3")
      local classes = task_model.save(folder .. "/classes" .. verb, task_model.new(heads.classify { outputs = 2 }))
      refused(2, "%-%-decode is for token classification %(task=tokens%), but the model is for task=classify", classes,
        FILE, "--decode", "valid")
    end
    assert.is_true(is_valid("iob2", rows({ "predict", path, FILE, "--decode", "iob2" })[3].tags))
    program.exits(3, "'scheme' of its head is a number, not a string", program.run { "predict", save({ labels = IOB }, {
      config = with(task_model.new(heads.tokens { labels = IOB }):hf_config(), { seqrun_head = { scheme = 3 } }),
    }), FILE })
    assert.error_matches(function() heads.classify { outputs = 2, scheme = "iob2" } end, "unknown option 'scheme'")
  end)
end)

describe("a run", function()
  ---The scheme of the head, and what the run says.
  local function scheme_of(lines, decode, labels)
    made = made + 1
    local path = program.write(folder, made .. ".conll", lines)
    local data = sr.must(sr.data.files { task = "tokens", train = path, vocab = task_model.VOCAB, folder = folder,
      held = 0, labels = labels })
    local head = kinds.get("tokens"):head_options(data, { eval = { decode = decode } })
    return head.scheme, table.concat(data.notes, "\n")
  end

  it("finds the scheme in the training data", function()
    local found, notes = scheme_of("the B-X\nit I-X\n\nis O\n", "valid")
    assert.equal("iob2", found)
    assert.matches("tags: iob2; evaluations and predictions keep to valid sequences", notes)
    found, notes = scheme_of("the B-X\nit I-X\n\nis O\nthe I-X\n", "valid")
    assert.equal("none", found)
    assert.matches("tags: predicted one by one, as those of %S+.conll:4 follow none .*eval.decode names", notes)
    assert.equal("none", (scheme_of("the A\nit B\n", "valid")))
  end)

  it("takes the scheme of its config, or none", function()
    assert.equal("none", (scheme_of("the B-X\nit I-X\nis O\n", "greedy")))
    assert.equal("iob2", (scheme_of("the I-X\nit B-X\nis O\n", "iob2")))
    assert.error_matches(function() scheme_of("the I-X\nit B-X\nis O\n", "bmes") end,
      "eval.decode bmes: the label 'I%-X' is not a tag")
  end)

  it("of an earlier version decodes as it did", function()
    local schema = sr.run.schema(sr.tasks.tokens)
    local eval = schema.by_name.eval.by_name.decode
    assert.same({ "valid", "greedy" }, { eval:usual(), eval.before })
  end)
end)

describe("a sentence that is longer than the model", function()
  it("is cut in windows: each word counts once, where it is farthest from a border", function()
    math.randomseed(5)
    for _ = 1, 300 do
      local words, ids = {}, {}
      for word = 1, math.random(1, 30) do
        for _ = 1, math.random(1, 4) do words[#words + 1], ids[#ids + 1] = word, #ids + 1 end
      end
      local room, stride = math.random(4, 20), math.random(1, 30)
      local list = windows.cut(#ids, room, stride, function(k) return words[k + 1] ~= words[k] end)
      local best = windows.best(list)
      for k = 0, #ids - 1 do
        local most, first = -1, nil
        for w, window in ipairs(list) do
          local edge = k >= window[1] and k < window[2] and math.min(k - window[1], window[2] - 1 - k) or -1
          if edge > most then most, first = edge, w end
        end
        assert.equal(first, best[k + 1])
        if words[k] ~= words[k + 1] then assert.is_number(first) end
      end
      for _, window in ipairs(list) do
        assert.is_true(window[2] - window[1] <= room and words[window[1]] ~= words[window[1] + 1])
      end
    end
    assert.same({ { 0, 6 }, { 3, 9 } }, windows.cut(9, 6, 3)) -- by hand
    assert.same({ 1, 1, 1, 1, 1, 2, 2, 2, 2 }, windows.best(windows.cut(9, 6, 3)))
  end)

  local function read(options)
    return sr.data.files(with({ task = "tokens", train = FILE, vocab = task_model.VOCAB, folder = folder, max_len = 8,
      too_long = "windows", stride = 128 }, options))
  end

  it("has each of its words once among the tags to learn, and is held out as a whole", function()
    local whole, cut = sr.must(read { too_long = "truncate", max_len = 64 }).train, sr.must(read {}).train
    local function tags_in(corpus)
      local all = {}
      for i = 1, corpus:info().examples do
        for _, tag in ipairs(corpus:column("tags", i)) do all[#all + 1] = tag ~= -100 and tag or nil end
      end
      return all
    end
    assert.same(tags_in(whole), tags_in(cut))
    assert.is_true(cut:info().examples > whole:info().examples)
    local notes = table.concat(sr.must(read {}).notes, "\n")
    assert.matches("train: longer than 8 tokens: %d+ sentences, read in %d+ windows that overlap", notes)
    for _, options in ipairs { { held = 0.3 }, { folds = 3, fold = 2 } } do
      local set, part = sr.must(read(options)).train, {}
      for _, name in ipairs { "train", "held" } do
        for _, example in ipairs(set:units(name)) do
          local sentence = set:column("source", example)
          assert.equal(name, part[sentence] or name)
          part[sentence] = name
        end
      end
    end
  end)

  it("is not of other tasks", function()
    local message = "data.too_long=windows is for sentences .* %(task=tokens%), not for task=classify"
    fails.returning("config", message, read { task = "classify" })
    fails.returning("config", message, sr.data.read { task = "classify", files = FILE, out = folder .. "/no.sqr",
      vocab = task_model.VOCAB, too_long = "windows" })
  end)
end)
