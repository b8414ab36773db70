-- Tokenizers of all kinds: what a tokenizer.json says, word by word, roles and frames.

local core = require("seqrun.core.text")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local write_json = require("seqrun.checkpoint.tokenizer_json")

local DATA = "tests/data/tokenizer/"

local folder
setup(function() folder = program.folder() end)
teardown(function() sys.remove(folder) end)

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

describe("WordPiece", function()
  local vocab = read(DATA .. "vocab.txt")
  local from_vocab = assert(core.parse_tokenizer(vocab, "vocab.txt", { lowercase = true, specials = true }))
  local from_json = assert(core.parse_tokenizer(write_json(vocab, { lowercase = true }), nil, { specials = true }))

  it("is the same from a vocab.txt and from the tokenizer.json that says the same", function()
    assert.equal(from_vocab:fingerprint(), from_json:fingerprint())
    assert.equal(#from_vocab, #from_json)
    for line in io.lines(DATA .. "text.txt") do assert.same(from_vocab:ids(line), from_json:ids(line)) end
  end)

  it("has another fingerprint with another casing", function()
    local cased = assert(core.parse_tokenizer(vocab, "vocab.txt", {}))
    local kept = assert(core.parse_tokenizer(vocab, "vocab.txt", { lowercase = true, keep_accents = true }))
    assert.not_equal(cased:fingerprint(), from_vocab:fingerprint())
    assert.not_equal(kept:fingerprint(), from_vocab:fingerprint())
    assert.is_false(cased:lowercase())
    local same = assert(core.parse_tokenizer(write_json(vocab, { lowercase = false })))
    assert.equal(cased:fingerprint(), same:fingerprint())
  end)

  it("has roles, special ids and frames", function()
    assert.same({ 0, 100, 101, 102, 103 }, from_json:specials())
    assert.equal(103, from_json:special("mask"))
    local pair = from_json:frame(true)
    assert.same({ ids = { 101 }, types = { 0 } }, pair.lead)
    assert.same({ ids = { 102 }, types = { 0 } }, pair.middle)
    assert.same({ ids = { 102 }, types = { 1 } }, pair.tail)
    assert.same({ 0, 1 }, pair.types)
    assert.same({ ids = {}, types = {} }, from_json:frame().middle)
  end)

  it("gives back the text that makes it again", function()
    for _, one in ipairs { from_vocab, from_json } do
      local text, is_json, config = one:text()
      local again = assert(core.parse_tokenizer(text, nil, { lowercase = true, config = config }))
      assert.equal(one:fingerprint(), again:fingerprint())
      assert.equal(one == from_json, is_json)
      assert.equal("[MASK]", json.decode(config).mask_token)
    end
  end)

  it("marks the beginnings of words", function()
    local ids, starts = from_json:starts("unaffordable words")
    assert.same({ "una", "##ff", "##ord", "##able", "words" }, { from_json:token(ids[1]), from_json:token(ids[2]),
      from_json:token(ids[3]), from_json:token(ids[4]), from_json:token(ids[5]) })
    assert.same({ true, false, false, false, true }, starts)
  end)

  it("takes a list of words", function()
    local ids, numbers, offsets = from_json:words { "Hello", "", "unaffordable", "x-y" }
    assert.same(from_json:ids("Hello unaffordable x-y"), ids)
    assert.same({ 1, 3, 3, 3, 3, 4, 4, 4 }, numbers)
    assert.same({ 0, 5 }, offsets[1])
    assert.same({ 3, 5 }, offsets[3])
    assert.has_error(function() from_json:words { "a", 7 } end)
  end)
end)

describe("a directory", function()
  it("gives its tokenizer.json, with roles from the files beside it", function()
    local text = write_json(read(DATA .. "vocab.txt"), { lowercase = true })
    program.write(folder, "tokenizer.json", text)
    program.write(folder, "tokenizer_config.json", '{"mask_token":{"content":"[UNK]"},"bos_token":"the"}')
    local t = assert(core.load_tokenizer(folder))
    assert.equal(100, t:special("mask"))
    assert.equal(t:id("the"), t:special("cls"))
    program.write(folder, "tokenizer_config.json", '{"mask_token":"<nothing>"}')
    local none, message, code = core.load_tokenizer(folder)
    assert.is_nil(none)
    assert.equal("data", code)
    assert.matches("tokenizer_config.json: mask_token is '<nothing>', which is no token", message, 1, true)
  end)

  it("is refused without a tokenizer", function()
    local none, message, code = core.load_tokenizer("tests/data")
    assert.is_nil(none)
    assert.equal("missing", code)
    assert.matches("tests/data: no tokenizer.json and no vocab.txt", message, 1, true)
  end)
end)
