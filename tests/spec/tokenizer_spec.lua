-- Tokenizers of all kinds: what a tokenizer.json says, word by word, roles and frames.

local core = require("seqrun.core.text")
local json = require("seqrun.core.json")
local none = require("tests.support.none")
local program = require("tests.support.program")
local stored = require("seqrun.text.stored")
local write_json = require("seqrun.text.tokenizer_json")

local exits, works = program.exits, program.works

local DATA = "tests/data/tokenizer/"

local folder = program.folder()

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

---The tokenizer of a directory or a file.
local function open(path) return assert(stored.tokenizer(path, { literal = false })) end

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

it("a directory gives its tokenizer.json, with roles from the files beside it, which are added", function()
  local text = write_json(read(DATA .. "vocab.txt"), { lowercase = true })
  program.write(folder, "tokenizer.json", text)
  program.write(folder, "tokenizer_config.json", '{"mask_token":{"content":"[UNK]"},"bos_token":"the"}')
  local t = open(folder)
  assert.equal(100, t:special("mask"))
  assert.equal(t:id("the"), t:special("cls"))
  program.write(folder, "tokenizer_config.json", '{"mask_token":"<new>"}')
  t = open(folder)
  assert.same({ #t - 1, "<new>" }, { t:special("mask"), t:token(#t - 1) })
end)

it("a directory is refused without a tokenizer", function()
  none("missing", "tests/data: no tokenizer.json and no vocab.txt", stored.tokenizer("tests/data", {}))
end)

describe("a tokenizer.json of", function()
  local KINDS = DATA .. "kinds/"
  local lines = {}
  for line in io.lines(KINDS .. "lines.bin") do lines[#lines + 1] = line end

  --- The ids and offsets of a line with its frame, as the golden files have them.
  local function row(t, line)
    local frame, ids, spans = t:frame(), t:ids(line, true)
    local out = {}
    for _, id in ipairs(frame.lead.ids) do out[#out + 1] = ("%d:0:0"):format(id) end
    for i, id in ipairs(ids) do out[#out + 1] = ("%d:%d:%d"):format(id, spans[i][1], spans[i][2]) end
    for _, id in ipairs(frame.tail.ids) do out[#out + 1] = ("%d:0:0"):format(id) end
    return table.concat(out, " "), ids
  end

  local words = {
    { "Emma", "Woodhouse", ",", "handsome" }, { "it's", "naïve", "", "x-y", "don't" }, { "3,14", "Zoë", "ﬁn", " a" },
  }

  local function word_row(t, list)
    local ids, numbers, spans = t:words(list)
    for i, id in ipairs(ids) do ids[i] = ("%d:%d:%d:%d"):format(id, numbers[i], spans[i][1], spans[i][2]) end
    return table.concat(ids, " ")
  end

  for _, name in ipairs {
    "roberta", "roberta_spaced", "llama3", "deepseek", "gemma", "llama2", "xlmr", "albert", "unigram_bytes", "clip",
    "wordpiece_odd", "bpe_plain",
  } do
    it(name .. " gives the ids, offsets and texts of tokenizers", function()
      local t = open(KINDS .. name .. ".json")
      local texts, n = io.lines(KINDS .. name .. ".text"), 0
      for wanted in io.lines(KINDS .. name .. ".ids") do
        n = n + 1
        local got, ids = row(t, lines[n])
        assert.equal(wanted, got, "line " .. n)
        local text = texts():gsub("\\u0000", "\\u001a") -- a zero byte is not for JSON
        assert.equal(json.decode(text), (t:decode(ids):gsub("\0", "\26")), "the text of line " .. n)
        assert.same(ids, t:ids(lines[n]))
      end
      assert.equal(#lines, n)
      local file = io.open(KINDS .. name .. ".words")
      if not file then return end
      for i, list in ipairs(words) do assert.equal(file:read("l"), word_row(t, list), "words " .. i) end
      file:close()
    end)
  end

  it("whose file is stored and read again is the same", function()
    for _, name in ipairs { "roberta", "gemma", "xlmr" } do
      local t = open(KINDS .. name .. ".json")
      local text, is_json, config = t:text()
      assert.is_true(is_json)
      local again = assert(core.parse_tokenizer(json.encode(json.decode(text)), nil, { config = config }))
      assert.equal(t:fingerprint(), again:fingerprint())
    end
  end)

  it("has roles by its frame and by known spellings", function()
    local function roles(name)
      local t, list = open(KINDS .. name .. ".json"), {}
      for _, role in ipairs { "pad", "unk", "cls", "sep", "mask" } do
        local id = t:special(role)
        list[#list + 1] = id and t:token(id) or "-"
      end
      return table.concat(list, " ")
    end
    assert.equal("<pad> <unk> <s> </s> <mask>", roles("roberta"))
    assert.equal("<pad> <unk> [CLS] [SEP] [MASK]", roles("albert"))
    assert.equal("<|end_of_text|> - <|begin_of_text|> <|end_of_text|> -", roles("llama3"))
  end)

  it("has no token of the space that an added token has taken", function()
    local made = json.decode(read(KINDS .. "roberta.json"))
    local right = #assert(core.parse_tokenizer(json.encode(made)))
    for i, content in ipairs { "<r>", "  " } do
      made.added_tokens[#made.added_tokens + 1] = {
        id = right + i - 1, content = content, lstrip = i == 2, rstrip = i == 1, normalized = false, special = true,
      }
    end
    local t = assert(core.parse_tokenizer(json.encode(made), nil, { specials = true }))
    assert.same({ right, right }, t:ids("<r>   <r>"))
    assert.same({ right, right }, (t:places("<r>   <r>")))
    assert.same({ right + 1, right }, t:ids("  <r>"))
  end)

  it("has words where its pre-tokenizer begins them", function()
    local function marked(name, line)
      local t = open(KINDS .. name .. ".json")
      local _, starts = t:starts(line)
      local places, out = select(2, t:places(line)), ""
      for i, start in ipairs(starts) do
        out = out .. (start and "|" or ".") .. line:sub(places[2 * i - 1] + 1, places[2 * i])
      end
      return (out:gsub("%.", ""))
    end
    assert.equal("|Emma|Woodhouse|'s|21|st", marked("roberta", "Emma Woodhouse's 21st"))
    assert.equal("|Emma| Woodhouse,| handsome", marked("gemma", "Emma Woodhouse, handsome"))
  end)
end)

describe("a tokenizer.json is refused", function()
  local function refused(change, words)
    local made = json.decode(read(DATA .. "kinds/roberta.json"))
    change(made)
    none("data", words, core.parse_tokenizer(json.encode(made), "t.json"))
  end

  it("by the name and the place of what is not supported", function()
    refused(function(t) t.normalizer = { type = "Nmt" } end, 't.json: normalizer.type is "Nmt", which is not supported')
    refused(function(t)
      t.pre_tokenizer = { type = "Sequence", pretokenizers = json.array { { type = "UnicodeScripts" } } }
    end, 'pre_tokenizer.pretokenizers[0].type is "UnicodeScripts"')
    refused(function(t) t.model.type = "WordLevel" end, 'model.type is "WordLevel"')
    refused(function(t) t.model.dropout = 0.1 end, "model.dropout is not supported: it makes ids random")
    refused(function(t) t.model.alpha = 1 end, "model.alpha is not supported")
    refused(function(t) t.decoder = { type = "CTC" } end, 'decoder.type is "CTC"')
    refused(function(t)
      t.pre_tokenizer = { type = "Split", pattern = { Regex = "(?<n>a)" }, behavior = "Isolated" }
    end, "pre_tokenizer.pattern.Regex has a kind of group at byte 0")
    refused(function(t)
      t.pre_tokenizer = { type = "Split", pattern = { Regex = "a*" }, behavior = "Isolated" }
    end, "can match nothing")
  end)

  it("by the place of what is wrong", function()
    refused(function(t) t.model.merges[1] = "a" end, "model.merges[0] is not two tokens")
    refused(function(t) t.model.merges[1] = "a nothing" end, "model.merges[0] has 'nothing', which is not in")
    refused(function(t) t.model.vocab["<s>"] = 1 end, "the id of another token")
    refused(function(t) t.added_tokens[1].id = 7 end, "added_tokens[0] has the id 7; '<s>' would have 0")
    refused(function(t) t.post_processor.cls = json.array { "<s>", 99999 } end, "post_processor has the id 99999")
    refused(function(t) t.added_tokens[1].special = "yes" end, "added_tokens[0].special is neither true nor false")
    none(nil, "^t.json:1:", core.parse_tokenizer('{"model": {', "t.json"))
  end)
end)

describe("byte-level BPE that is trained here", function()
  --- The merges of tokenizers 0.23.3: BpeTrainer with vocab_size 281, min_frequency 2, the five specials and the
  --- alphabet of ByteLevel, on tests/data/tokenizer/kinds/lines.bin.
  local MERGES = "Ġ+t h+e Ġ+a i+n Ġ+w Ġ+s o+u h+a e+r o+r n+d Ġt+he Ġ+m Ġ+i in+g e+d Ġ+b r+e Ġ+ha Ġ+d"

  it("has the merges of tokenizers", function()
    local out = folder .. "/bpe.json"
    local command = { "vocab", "--model", "bpe", "--size", "281", "--out", out, folder .. "/prose.txt" }
    local lines = {}
    for line in io.lines(DATA .. "kinds/lines.bin") do lines[#lines + 1] = #lines < 30 and line or nil end
    program.write(folder, "prose.txt", table.concat(lines, "\n") .. "\n")
    local printed = works(program.run(command))
    assert.matches("bpe.json: 281 tokens from", printed, 1, true)
    local list = {}
    for _, pair in ipairs(json.decode(read(out)).model.merges) do list[#list + 1] = table.concat(pair, "+") end
    assert.equal(MERGES, table.concat(list, " "))
  end)

  it("is used as it was trained #slow", function()
    local t = assert(core.parse_tokenizer(read(folder .. "/bpe.json"), nil, { specials = true }))
    assert.equal("BPE", t:kind())
    assert.equal(281, #t)
    assert.same({ 2 }, t:frame().lead.ids)
    local ids = t:ids("the [MASK] naïve\n")
    assert.equal(4, ids[3])
    assert.equal("the [MASK] naïve\n", (t:decode(ids, true):gsub("the%[", "the [")))
  end)

  it("is refused below the number of bytes", function()
    exits(2, "%-%-size is 200; byte%-level BPE has at least 261 tokens", program.run { "vocab", "--model", "bpe",
      "--size", "200", "--out", folder .. "/x", "tests/data/tokenizer/text.txt" })
  end)
end)
