-- Data sets, masks, readers and checkpoints with tokenizers of every kind.  The tokenizers, and what Transformers makes
-- of some texts, are from tests/peers/small_tokenizers.py.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local DATA = "tests/data/tokenizer/"
local GOLDEN = json.decode(assert(sys.read_file(DATA .. "small.json")))

---Token types are all 0; pairs of RoBERTa have two tokens between A and B.
local FRAMES = {
  roberta = { "<s>", "</s></s>", "</s>" }, modernbert = { "[CLS]", "[SEP]", "[SEP]" },
  xlm_roberta = { "<s>", "</s></s>", "</s>" },
}

local folder = program.folder()

local function file_of(name) return DATA .. name .. ".json" end

local function open(name, literal)
  return sr.must(sr.text.tokenizer { path = file_of(name), literal = literal }).core
end

---Sentences of two documents.
local SENTENCES = {
  { "Emma Woodhouse was handsome.", "She came to Highbury, and she was happy!", "Mr. Knightley was there." },
  { "\"It is very good,\" he said.", "The naïve (and rich) girl did not come." },
}

local function text_file()
  local documents = {}
  for i, list in ipairs(SENTENCES) do documents[i] = table.concat(list, "\n") end
  local text = table.concat(documents, "\n\n") .. "\n"
  return program.write(folder, "text.txt", text .. ("\n" .. text):rep(40))
end

local function prepared(name)
  local out = ("%s/%s.sqr"):format(folder, name)
  if not sys.exists(out) then
    sr.must(sr.data.prepare { inputs = text_file(), out = out, vocab = file_of(name), format = "lines" })
  end
  return sr.must(sr.data.open(out, { held = 0, vocab = file_of(name) }))
end

---All ids of a layout's sequences, as lists.
local function sequences(batch)
  local ids, types, list, at = batch.ids:totable(), batch.types:totable(), {}, 0
  for i, length in ipairs(batch.layout:lengths()) do
    local function cut(all) return table.move(all, at + 1, at + length, 1, {}) end
    list[i] = { ids = cut(ids), types = cut(types) }
    at = at + length
  end
  return list
end

---The special tokens around a pair.
local function frame_ids(tokenizer)
  local frame, ids = tokenizer:frame(true), {}
  for _, part in ipairs { frame.lead, frame.middle, frame.tail } do
    table.move(part.ids, 1, #part.ids, #ids + 1, ids)
  end
  return ids
end

---A position mask of the ids of a frame: "<s>A..</s></s>B..</s>".
local function shape_of(tokenizer, ids)
  local special = {}
  for _, role in ipairs { "cls", "sep" } do special[tokenizer:special(role)] = true end
  local parts, open_part = {}, false
  for _, id in ipairs(ids) do
    if special[id] then
      parts[#parts + 1], open_part = tokenizer:token(id), false
    elseif not open_part then
      parts[#parts + 1], open_part = "*", true
    end
  end
  return table.concat(parts)
end

---Adds the number of each token's word in the sequence of one or two texts, by all its ids; false: of the frame.
local function add_words(words, name, ...)
  local tokenizer = open(name, true)
  local frame, ids, numbers, count = tokenizer:frame(select("#", ...) > 1), {}, {}, 0
  local function add_frame(part)
    for _, id in ipairs(part.ids) do ids[#ids + 1], numbers[#numbers + 1] = id, false end
  end
  add_frame(frame.lead)
  for i, text in ipairs { ... } do
    local own, starts = tokenizer:starts(text)
    for k, id in ipairs(own) do
      count = count + ((starts[k] or k == 1) and 1 or 0)
      ids[#ids + 1], numbers[#numbers + 1] = id, count
    end
    add_frame(i < select("#", ...) and frame.middle or frame.tail)
  end
  assert.is_true(count < #ids)
  words[table.concat(ids, " ")] = numbers
end

---Checks that words are masked as a whole or not at all; returns the number of masked tokens that go on with a word.
local function check_whole_words(corpus, words, count)
  local loader <close> = sr.must(sr.data.loader {
    data = corpus, max_len = 256, sequences = count, seed = 3, nsp = false, short_seq_prob = 0, keep_ids = true,
    prefetch = 0, mask = { prob = 0.3, max = 60, whole_word = true }, targets = { "mlm" },
  })
  local scope <close> = sr.scope()
  local whole = 0
  for batch in loader:next():batches() do
    local before, masked, at = batch.original_ids:totable(), {}, 0
    for _, row in ipairs(batch.targets.mlm.rows:totable()) do masked[row] = true end
    for _, length in ipairs(batch.layout:lengths()) do
      local state = {}
      for k, number in ipairs(assert(words[table.concat(before, " ", at + 1, at + length)])) do
        local now = masked[at + k - 1] or false
        assert.is_true(state[number] == nil or state[number] == now, "a word is masked in part")
        whole = whole + (number and state[number] and 1 or 0)
        state[number] = now
      end
      at = at + length
    end
  end
  return whole
end

for _, name in ipairs { "roberta", "modernbert", "xlm_roberta" } do
  local golden, frame = GOLDEN[name], FRAMES[name]

  describe("the tokenizer of " .. name, function()
    it("gives texts, pairs, lists of words and masks the ids of Transformers", function()
      local tokenizer = sr.must(sr.text.tokenizer { path = file_of(name) })
      for _, one in ipairs(golden.texts) do
        local ids, more = tokenizer:encode(one.given[1], one.given[2], { specials = true })
        assert.same({ one.ids, one.types }, { ids, more.types })
        assert.equal(one.decoded, tokenizer:decode(ids))
      end
      local ids, numbers = tokenizer:words(golden.words.given)
      for i, number in ipairs(numbers) do numbers[i] = number - 1 end
      assert.same({ golden.words.ids, golden.words.numbers }, { ids, numbers })
      assert.same(golden.masked.ids, (tokenizer:encode(golden.masked.given, { specials = true })))
    end)

    it("makes data sets that carry it: documents have the ids of their whole text", function()
      local corpus, tokenizer = prepared(name), open(name, true)
      assert.equal(tokenizer:fingerprint(), corpus:info().fingerprint)
      assert.equal(tokenizer:fingerprint(), corpus:tokenizer():fingerprint())
      assert.equal(#tokenizer, corpus:vocab_size())
      for i, list in ipairs(SENTENCES) do
        assert.same(tokenizer:ids(table.concat(list, " ")), (corpus.core:unit(i)))
      end
      local again = sr.must(sr.data.open(corpus:info().path, { vocab = tokenizer }))
      assert.equal(corpus:info().digest, again:info().digest)
      fails.returning("missing", "", sr.data.open(corpus:info().path, { vocab = file_of("camembert_is_not_here") }))
      local other = file_of(name == "roberta" and "modernbert" or "roberta")
      fails.returning(nil, "prepared with the tokenizer %x+ %(%u%a+, 601 tokens, cased%), not with %x+ %(BPE, 601",
        sr.data.open(corpus:info().path, { vocab = other }))
    end)

    it("takes special tokens written in a text for text", function()
      local tokenizer = open(name, true)
      local special = {}
      for _, id in ipairs(tokenizer:specials()) do special[id] = true end
      special[tokenizer:special("unk")] = nil
      for _, id in ipairs(tokenizer:ids("a <mask> [MASK] </s> [SEP] b")) do assert.is_nil(special[id]) end
    end)

    it("frames pairs within max_len, and masks neither the frame nor parts of words", function()
      local corpus = prepared(name)
      local tokenizer = corpus:tokenizer()
      local loader <close> = sr.must(sr.data.loader {
        data = corpus, max_len = 48, sequences = 64, seed = 3, nsp = true, keep_ids = true, prefetch = 0,
        mask = { prob = 0.3, whole_word = true },
      })
      local scope <close> = sr.scope()
      local masks, random, special = 0, 0, {}
      for _, id in ipairs(tokenizer:specials()) do special[id] = id ~= tokenizer:special("unk") end
      for batch in loader:next():batches() do
        local before = batch.original_ids:totable()
        local at = 0
        for _, sequence in ipairs(sequences(batch)) do
          local original = table.move(before, at + 1, at + #sequence.ids, 1, {})
          at = at + #sequence.ids
          assert.is_true(#sequence.ids <= 48)
          assert.equal(frame[1] .. "*" .. frame[2] .. "*" .. frame[3], shape_of(tokenizer, original))
          for i, id in ipairs(sequence.ids) do
            assert.equal(0, sequence.types[i])
            if id ~= original[i] then
              assert.falsy(special[original[i]])
              masks = masks + (id == tokenizer:special("mask") and 1 or 0)
              random = random + (id ~= tokenizer:special("mask") and 1 or 0)
              assert.is_true(id == tokenizer:special("mask") or not special[id])
            end
          end
        end
      end
      assert.is_true(masks > 100 and random > 10)
    end)

    it("masks whole words of documents, as the pre-tokenizer cuts them", function()
      local words = {}
      for _, list in ipairs(SENTENCES) do add_words(words, name, table.concat(list, " ")) end
      assert.is_true(check_whole_words(prepared(name), words, 40) > 20)
    end)

    it("masks whole words of fixed examples of text", function()
      local out, examples, words = ("%s/%s-fixed.sqr"):format(folder, name), {}, {}
      for i = 1, 7 do
        examples[i] = { text = SENTENCES[1][i % 3 + 1], pair = SENTENCES[2][i % 2 + 1] }
        add_words(words, name, examples[i].text, examples[i].pair)
      end
      sr.must(sr.data.write { out = out, vocab = file_of(name), examples = examples })
      assert.is_true(check_whole_words(sr.must(sr.data.open(out, { held = 0 })), words, 7) > 3)
      local mixed = { examples[1], { a = { 5, 6 } } }
      fails.raising("example 2", sr.data.write, { out = out, vocab = file_of(name), examples = mixed })
    end)

    it("needs one token more between the segments of a pair where the frame has it", function()
      local corpus = prepared(name)
      local least = #frame_ids(corpus:tokenizer()) + 2
      local _, message = pcall(sr.data.loader, { data = corpus, max_len = least - 1, packs = 1, nsp = true })
      assert.matches(("max_len is %d; must be %d.."):format(least - 1, least), message)
      local loader <close> = sr.must(sr.data.loader { data = corpus, max_len = least, packs = 1, nsp = true })
      for _, length in ipairs(loader:lengths(0)) do assert.is_true(length <= least) end
    end)

    it("reads pairs and words: a label stands on the first piece of its word", function()
      local out = ("%s/%s-words.sqr"):format(folder, name)
      local lines = {}
      for i, word in ipairs(golden.words.given) do lines[i] = word .. (i % 2 == 1 and " B-X" or " O") end
      local path = program.write(folder, "words.conll", table.concat(lines, "\n") .. "\n\nEmma B-X\n")
      sr.must(sr.data.read { task = "tokens", files = path, out = out, vocab = file_of(name), columns = {} })
      local corpus = sr.must(sr.data.open(out, { held = 0 }))
      assert.same(golden.words.ids, (corpus.core:unit(1)))
      local tags, wanted = corpus:column("tags", 1), {}
      for i, number in ipairs(golden.words.numbers) do
        wanted[i] = number == golden.words.numbers[i - 1] and -100 or number % 2
      end
      assert.same(wanted, tags)
    end)

    it("finds answers by their place in the context", function()
      local context = "It was very good that Emma came to Highbury, he said."
      local start = context:find("Highbury", 1, true) - 1
      local path = program.write(folder, "squad.json", json.encode { data = { { paragraphs = { {
        context = context, qas = { { id = "1", question = "Where did Emma come?",
          answers = { { text = "Highbury", answer_start = start } } } },
      } } } } })
      local out = ("%s/%s-squad.sqr"):format(folder, name)
      sr.must(sr.data.read { task = "squad", files = path, out = out, vocab = file_of(name), max_len = 96, query = 32 })
      local corpus = sr.must(sr.data.open(out, { held = 0 }))
      local span, chars = corpus:column("span", 1), corpus:column("chars", 1)
      local first, last = chars[2 * span[1] + 1], chars[2 * span[2] + 2]
      assert.equal("Highbury", (context:sub(first + 1, last):gsub("[ ,]", "")))
      if name == "roberta" then -- whose post-processor trims offsets
        assert.equal("Highbury", context:sub(first + 1, first + 8))
      end
    end)
  end)
end

describe("decoders", function()
  it("give the texts of Transformers", function()
    for _, one in ipairs(json.decode(assert(sys.read_file(DATA .. "decoders.json")))) do
      local tokenizer = assert(require("seqrun.core.text").parse_tokenizer(one.json))
      for i, ids in ipairs(one.ids) do assert.equal(one.texts[i], tokenizer:decode(ids, true)) end
    end
  end)

  it("that are not known are refused by name", function()
    local text = assert(sys.read_file(file_of("roberta"))):gsub('"decoder":%b{}', '"decoder":{"type":"CTC"}')
    fails.returning("data", 'decoder.type is "CTC"', require("seqrun.core.text").parse_tokenizer(text, "t.json"))
  end)
end)

describe("a pattern", function()
  local golden = json.decode(assert(sys.read_file(DATA .. "patterns.json")))

  local function whole(text) return (text:gsub("VOCAB", golden.vocab)) end

  it("with words, boundaries and anchors cuts as Oniguruma does, line by line", function()
    for _, one in ipairs(golden.rows) do
      local tokenizer = assert(require("seqrun.core.text").parse_tokenizer(whole(one.json)))
      for i, text in ipairs(one.texts) do assert.same(one.ids[i], tokenizer:ids(text)) end
    end
  end)

  it("with a repeated anchor or a back reference is refused with its place", function()
    for given, what in pairs { ["\\\\b+"] = "a quantifier after an anchor", ["(a)\\\\1"] = "an escape" } do
      local text = golden.rows[1].json:gsub('"Regex":"[^"]*"', function() return '"Regex":"' .. given .. '"' end)
      fails.returning("data", what .. " at byte", require("seqrun.core.text").parse_tokenizer(whole(text), "t.json"))
    end
  end)
end)

describe("a checkpoint with the tokenizer of RoBERTa", function()
  local checkpoint = require("seqrun.checkpoint")

  ---A small model in a directory, with this many embeddings.
  local function saved(name, rows)
    local bert = sr.nn.bert {
      vocab_size = rows, hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, intermediate_size = 32,
      max_position_embeddings = 64, heads = { "mlm" },
    }:initialise(1)
    local run = folder .. "/" .. name
    sr.must(sys.make_dirs(run))
    sr.must(checkpoint.save(run, {
      step = 1, model = bert.params, config = bert:hf_config(), tokenizer = open("roberta", true),
    }))
    return run
  end

  it("has its files, is exported and imported with them, and opens it again", function()
    local run = saved("whole", 608)
    local step, out = run .. "/step-000000001", folder .. "/exported"
    local wanted = open("roberta"):fingerprint()
    local function check(dir)
      assert.equal(sys.read_file(file_of("roberta")), sys.read_file(dir .. "/tokenizer.json"))
      assert.is_false(sys.exists(dir .. "/vocab.txt"))
      local config = json.decode(assert(sys.read_file(dir .. "/tokenizer_config.json")))
      assert.same({ "PreTrainedTokenizerFast", "<s>", "</s>", "<mask>", "<pad>", 64 }, {
        config.tokenizer_class, config.cls_token, config.sep_token, config.mask_token, config.pad_token,
        config.model_max_length,
      })
      assert.equal("<unk>", json.decode(assert(sys.read_file(dir .. "/special_tokens_map.json"))).unk_token)
      local facts = sr.must(checkpoint.pretrained(dir))
      assert.equal(wanted, sr.must(facts.tokenizer:open { literal = true }):fingerprint())
    end
    check(step)
    sr.must(checkpoint.export(run, out))
    check(out)
    sr.must(checkpoint.import(out, folder .. "/imported"))
    check(folder .. "/imported/step-000000000")
  end)

  it("is compared with a data set by content: model, tokens, casing, roles, frames", function()
    local difference = checkpoint.vocabulary.difference
    local bpe, unigram = open("roberta"), open("xlm_roberta")
    assert.is_nil(difference(bpe, open("roberta", true)))
    assert.equal("BPE and Unigram", difference(bpe, unigram))
    assert.equal("601 and 601 tokens, first difference at id 0: '<s>' and '[UNK]'", difference(bpe, open("modernbert")))
    local core, whole = require("seqrun.core.text"), assert(sys.read_file(file_of("roberta")))
    local function changed(pattern, with, config)
      local text, count = whole:gsub(pattern, with)
      assert.is_true(count > 0 or pattern == "")
      return assert(core.parse_tokenizer(text, "changed", { config = config }))
    end
    assert.matches("^the mask token is '<mask>' %(600%) and '<unk>' %(3%)$",
      difference(bpe, changed("$", "", '{"mask_token": "<unk>"}')))
    assert.equal("pairs are <s> A </s> </s> B </s> and <s> A B",
      difference(bpe, changed('"post_processor":(%b{})', function()
        return '"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},'
          .. '{"Sequence":{"id":"A","type_id":0}}],"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},'
          .. '{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],'
          .. '"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}}'
      end, '{"sep_token": "</s>"}')))
    local vocab = assert(sys.read_file("tests/data/model/tiny/vocab.txt"))
    local uncased, cased = assert(core.parse_tokenizer(vocab, "v", { lowercase = true })),
      assert(core.parse_tokenizer(vocab, "v", {}))
    assert.equal("uncased and cased", difference(uncased, cased))
  end)

  it("is refused if it has more ids than the model has embeddings", function()
    local run = saved("small", 600)
    fails.returning("data", "the vocabulary has 601 tokens, but the model only 600", sr.encode.open(run))
    local csv = program.write(folder, "few.csv", "text,label\na good day,yes\na bad day,no\n")
    fails.exiting(3, "the vocabulary has 601 tokens, but the model only 600",
      { "recipes/finetune.lua", "task=classify", "init.from=" .. run,
      "data.train=" .. csv, "data.folder=" .. folder, "--out", folder .. "/refused", "--quiet" })
  end)
end)

describe("filling in a mask", function()
  ---Values of the pipeline "fill-mask" of Transformers 5.23 with the same directory.
  it("gives the tokens, probabilities and text of Transformers: <mask> eats the space before it", function()
    local fill = sr.must(sr.fill.open("tests/data/families/xlm_roberta", { words = false, top = 3 }))
    assert.equal("<mask>", fill.mask)
    local found = fill:one("it was a good <mask>")
    local wanted = { { 58, "on", 0.18819 }, { 42, "r", 0.0709 }, { 22, "be", 0.06038 } }
    for i, one in ipairs(wanted) do
      local candidate = found.masks[1][i]
      assert.same({ one[1], one[2] }, { candidate.id, candidate.token })
      assert.is_true(math.abs(one[3] - candidate.probability) < 1e-5)
    end
    assert.equal("it was a goodon", found.text)
    local words = sr.must(sr.fill.open("tests/data/families/xlm_roberta", { top = 1 }))
    assert.equal("it was a good be", words:one("it was a good <mask>").text)
  end)

  it("takes the mask of the tokenizer only", function()
    fails.exiting(3, "no <mask>; did you mean it by '%[MASK%]'%?",
      { "fill", "tests/data/families/roberta", "-t", "it was a [MASK]" })
  end)
end)
