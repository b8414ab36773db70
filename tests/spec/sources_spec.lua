-- Several data sets as one.

local fails = require("tests.support.fails").raising
local numbers = require("tests.support.numbers")
local program = require("tests.support.program")
local sr = require("seqrun")
local with = require("tests.support.with")

local folder = program.folder()
local VOCAB = "tests/data/tokenizer/vocab.txt"
local news, tales, both = folder .. "/news.sqr", folder .. "/tales.sqr", folder .. "/both.sqr"

---Documents of two to five short sentences.
local function text(documents, noun)
  local lines = {}
  for d = 1, documents do
    for s = 1, 2 + d % 4 do
      lines[#lines + 1] = ("%s %d saw %s the %d hills."):format(noun, d * s % 91, ("very "):rep(d * s % 7), d + s)
    end
    lines[#lines + 1] = ""
  end
  return table.concat(lines, "\n")
end

local function prepare(path, words, vocab)
  local input = program.write(folder, "text.txt", words)
  sr.must(sr.data.prepare { inputs = input, out = path, vocab = vocab or VOCAB, format = "lines", overwrite = true })
  return path
end

local function open(files, held) return sr.must(sr.data.open(files, { held = held or 0 })) end

setup(function()
  prepare(news, text(90, "reporters"))
  prepare(tales, text(30, "giants"))
  prepare(both, text(90, "reporters") .. "\n" .. text(30, "giants"))
end)

describe("a list of data sets", function()
  it("is the data set of all their texts, whatever reads it", function()
    local one, list = open(both), open { news, tales }
    for _, key in ipairs { "tokens", "sentences", "documents" } do
      assert.equal(one:info()[key], list:info()[key], key)
    end
    for i = 1, one:info().documents do assert.equal(one:decode(i), list:decode(i)) end
    assert.same(one:counts(), list:counts())
    assert.is_true(list.core:verify())
    assert.not_equal(list:info().digest, open({ tales, news }):info().digest)
    local options = { max_len = 48, packs = 5, nsp = false, seed = 4, epochs = 2 }
    local a <close> = sr.must(sr.data.loader(with(options, { data = one })))
    local b <close> = sr.must(sr.data.loader(with(options, { data = list })))
    for update in function() return a:next() end do
      assert.equal(numbers.contents(update), numbers.contents(b:next()))
    end
  end)

  it("reads where words begin from the bits of each file", function()
    local json, files = "tests/data/families/modernbert/tokenizer.json", {}
    local words = { text(9, "the cat"), text(7, "a dog"), text(16, "they") }
    local all = prepare(folder .. "/bits.sqr", table.concat(words, "\n"), json)
    for i, own in ipairs(words) do files[i] = prepare(("%s/bits%d.sqr"):format(folder, i), own, json) end
    local options = { max_len = 32, packs = 3, nsp = false, mask = { whole_word = true, max = 8 } }
    local a <close> = sr.must(sr.data.loader(with(options, { data = open(all) })))
    local b <close> = sr.must(sr.data.loader(with(options, { data = open(files) })))
    for _ = 1, 12 do assert.equal(numbers.contents(a:next()), numbers.contents(b:next())) end
  end)

  it("holds out a part of each, as alone, and takes other sentences of a pair from the same", function()
    local list, own = open({ news, tales }, 0.2), { open(news, 0.2), open(tales, 0.2) }
    for i, source in ipairs(list:info().sources) do
      assert.equal(own[i]:info().held.units, source.held)
      assert.equal(own[i]:info().train.units, source.train)
    end
    local loader <close> = sr.must(sr.data.loader { data = list, max_len = 48, packs = 8, nsp = true })
    local function count(ids, word)
      local found = 0
      for _, id in ipairs(ids) do found = found + (id == list:tokenizer():id(word) and 1 or 0) end
      return found
    end
    for uid = 0, loader:examples() - 1 do
      local ids = loader:batch_of({ uid }, { arrange = "single" }):host("ids")
      assert.is_true(count(ids, "reporters") == 0 or count(ids, "giants") == 0)
    end
  end)

  it("refuses files that do not fit, by name", function()
    local cased = prepare(folder .. "/other.sqr", text(5, "cats"), { size = 150 })
    fails("news.sqr and .*other.sqr were not made alike: .*vocab.*prepare both with one tokenizer", function()
      open { news, cased }
    end)
    local fixed = folder .. "/fixed.sqr"
    sr.must(sr.data.write { out = fixed, vocab = VOCAB, examples = { { a = { 7, 8 } }, { a = { 9 } } } })
    fails("not made alike: kind is text in one, examples in the other", function() open { news, fixed } end)
    local labelled = folder .. "/labelled.sqr"
    sr.must(sr.data.write { out = labelled, vocab = VOCAB, columns = { next_sentence = { type = "i32" } }, examples = {
      { a = { 7 }, next_sentence = 1 },
    } })
    fails("column.next_sentence is example in one, not there in the other", function() open { fixed, labelled } end)
    local lone = prepare(folder .. "/lone.sqr", "one sentence here\nand another one")
    fails("file 2 is one document, of which nothing can be held out", function() open({ news, lone }, 0.1) end)
  end)
end)
