-- Casing: a data set, a vocabulary and a model of different casing do not go together in silence, and a directory is
-- read the same with and without tokenizer_config.json.

local core = require("seqrun.core.text")
local fails = require("tests.support.fails")
local program = require("tests.support.program")
local sr = require("seqrun")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")

local WORDS = { "the", "cat", "sat", "in", "london", "and", "paris", "##s", ".", "a", "c", "l", "p" }
local CAPITALS = { "The", "Cat", "London", "Paris", "A", "##S" }
local SPECIAL = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }

local folder = program.folder()
local vocabs = {}
setup(function()
  for name, more in pairs { cased = CAPITALS, uncased = {} } do
    local list = table.move(SPECIAL, 1, #SPECIAL, 1, {})
    table.move(WORDS, 1, #WORDS, #list + 1, list)
    table.move(more, 1, #more, #list + 1, list)
    vocabs[name] = program.write(folder, name .. ".txt", table.concat(list, "\n") .. "\n")
  end
  program.write(folder, "text.txt", ("The Cat sat in London. A cat and Paris sat.\n\n"):rep(20))
end)

local function prepare(name, vocab, lowercase)
  return sr.data.prepare { inputs = { folder .. "/text.txt" }, out = ("%s/%s.sqr"):format(folder, name), vocab = vocab,
    lowercase = lowercase, overwrite = true }
end

---A model directory with the files of a tokenizer.
local function directory(name, files)
  local place = folder .. "/" .. name
  sr.must(sys.make_dirs(place))
  for file, text in pairs(files) do program.write(place, file, text) end
  return place
end

describe("a vocab.txt", function()
  it("of its own is cased if its tokens have capital letters, special tokens aside", function()
    assert.same({ 6, 19 }, { stored.capitals(sr.must(sys.read_file(vocabs.cased))) })
    assert.same({ 0, 13 }, { stored.capitals(sr.must(sys.read_file(vocabs.uncased))) })
    for name, path in pairs(vocabs) do
      assert.equal(name == "uncased", sr.must(sr.text.tokenizer { vocab = path }).lowercase)
      assert.equal(name == "uncased", sr.must(sr.text.tokenizer { vocab = sr.must(sr.text.vocab(path)) }).lowercase)
      assert.equal(0, (program.run { "info", path }))
    end
    assert.same({ "The", "Cat" }, sr.must(sr.text.tokenizer { vocab = vocabs.cased }):tokens("The Cat"))
  end)

  it("that is cased is refused with lower-cased text, with both values, by every reader", function()
    local pattern = "6 of its 19 tokens have capital letters, which lower%-cased text never has: the vocabulary is "
      .. "cased; set text.lowercase=false"
    local csv = program.write(folder, "rows.csv", "text,label\nThe Cat,0\na cat,1\n")
    fails.returning("config", pattern, sr.text.tokenizer { vocab = vocabs.cased, lowercase = true })
    fails.returning("config", pattern, prepare("lower", vocabs.cased, true))
    fails.returning("config", pattern, sr.data.read { task = "classify", files = { csv }, out = folder .. "/rows.sqr",
      vocab = vocabs.cased, lowercase = true })
    fails.exiting(2, pattern, { "tokenize", "--vocab", vocabs.cased }, { input = "The Cat\n" })
    local recipe = { "recipes/prepare.lua", "inputs=[" .. folder .. "/text.txt]", "vocab.file=" .. vocabs.cased,
      "out=" .. folder .. "/recipe.sqr" }
    fails.exiting(2, pattern, recipe)
    recipe[#recipe + 1] = "text.lowercase=false"
    program.ok(recipe)
  end)
end)

describe("a directory", function()
  local config = '{"do_lower_case": %s}'

  it("of a vocab.txt is read the same with and without tokenizer_config.json", function()
    for name, path in pairs(vocabs) do
      local text, lower = sr.must(sys.read_file(path)), name == "uncased"
      local without = directory(name .. "-without", { ["vocab.txt"] = text })
      local with = directory(name .. "-with", { ["vocab.txt"] = text,
        ["tokenizer_config.json"] = config:format(tostring(lower)) })
      local a, b = sr.must(sr.text.tokenizer { path = without }), sr.must(sr.text.tokenizer { path = with })
      assert.equal(lower, a.lowercase)
      assert.equal(a.core:fingerprint(), b.core:fingerprint())
      local json = sr.must(stored.read(with))
      local files = require("seqrun.checkpoint.tokenizer").files(json, { complete = true })
      local complete = directory(name .. "-json", { ["tokenizer.json"] = files["tokenizer.json"] })
      local both = directory(name .. "-both", files)
      for _, place in ipairs { complete, both } do
        local c = sr.must(sr.text.tokenizer { path = place })
        assert.same({ lower, (a:encode("The Cat sat.")) }, { c.lowercase, (c:encode("The Cat sat.")) })
      end
    end
  end)

  it("whose tokenizer_config.json sets the casing is read with it", function()
    local text = sr.must(sys.read_file(vocabs.cased))
    local place = directory("told", { ["vocab.txt"] = text, ["tokenizer_config.json"] = config:format("true") })
    assert.is_true(sr.must(sr.text.tokenizer { path = place }).lowercase)
  end)
end)

describe("data sets and models of different casing", function()
  it("are refused with both values", function()
    sr.must(prepare("uncased", vocabs.uncased, true))
    sr.must(prepare("cased", vocabs.uncased, false))
    local function tokenizer(lowercase)
      return sr.must(core.parse_tokenizer(sr.must(sys.read_file(vocabs.uncased)), "v", { lowercase = lowercase }))
    end
    for name, lowercase in pairs { uncased = true, cased = false } do
      local path = ("%s/%s.sqr"):format(folder, name)
      assert.is_truthy(sr.data.open(path, { vocab = tokenizer(lowercase) }))
      fails.returning("data", ("prepared with the tokenizer %%x+ %%(WordPiece, 18 tokens, %s%%), not with %%x+ "
        .. "%%(WordPiece, 18 tokens, %s%%)"):format(name, name == "cased" and "uncased" or "cased"),
        sr.data.open(path, { vocab = tokenizer(not lowercase) }))
    end
  end)

  it("are refused by init.from, with both values #slow", function()
    local function words(data, ...)
      return { "recipes/pretrain.lua", "data.file=" .. data, "data.max_len=16", "model.hidden_size=16",
        "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.intermediate_size=32", "--max-steps=1",
        "model.max_position_embeddings=16", "batch.sequences=4", "batch.micro_packs=2", "--quiet", ... }
    end
    sr.must(prepare("uncased", vocabs.uncased, true))
    sr.must(prepare("cased", vocabs.uncased, false))
    local model = folder .. "/model"
    program.ok(words(folder .. "/uncased.sqr", "--out", model))
    fails.exiting(3, "init.from: the tokenizer of .* differs from that of the data set .* %(uncased and cased%)",
      words(folder .. "/cased.sqr", "--out", folder .. "/other", "init.from=" .. model))
    -- a checkpoint records its casing; without the file the tokens show it
    local newest = sr.must(sr.checkpoint.latest(model))
    assert.is_true(stored.read(newest).lowercase)
  end)
end)
