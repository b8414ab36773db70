-- Inputs of prepare as they come: .gz and .zst, JSONL with a condition, directories and patterns, ids of others.

local condition = require("seqrun.base.condition")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local with = require("tests.support.with")

local exits, works = program.exits, program.works

local WORDS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\n##s\non\nmat\n.\ndog\nran\n"
local GOLDEN = "tests/data/inputs/"

local folder = program.folder()
local vocab = program.write(folder, "vocab.txt", WORDS)

local function prepare(options)
  return sr.data.prepare(with({ vocab = vocab, out = folder .. "/x.sqr", overwrite = true }, options))
end

---The documents of inputs, as text.
local function documents(options)
  local counts = sr.must(prepare(options))
  local set, list = sr.must(sr.data.open(folder .. "/x.sqr", { held = 0 })), {}
  for i = 1, set:info().documents do list[i] = (set:decode(i):gsub(" %.", "."):gsub("\n", " | ")) end
  return list, counts, set
end

local function refused(options, code) return fails.returning(code, "", prepare(options)) end

local function shell(format, ...) assert(os.execute(format:format(...)), format) end

describe("compressed inputs", function()
  it("are read from .gz and .zst alike, of several frames, whatever their name", function()
    local text = program.write(folder, "a.txt", "The cat sat.\n\nThe dog ran.\n")
    shell("cd %s && gzip -k a.txt && zstd -q -k a.txt && cat a.txt.zst a.txt.zst > two", folder)
    shell("cd %s && zstd -q --long=27 -k a.txt -o w", folder)
    local plain = documents { inputs = text }
    for _, name in ipairs { "a.txt.gz", "a.txt.zst", "w" } do
      assert.same(plain, documents { inputs = folder .. "/" .. name })
    end
    assert.equal(3, #documents { inputs = folder .. "/two" }) -- no blank line between the two
  end)

  it("are refused when truncated, damaged, followed by something, or of too large a window", function()
    shell("cd %s && head -c 3000 /dev/urandom | od -x > n.txt && zstd -q --check n.txt", folder)
    local whole = sr.must(sys.read_file(folder .. "/n.txt.zst", 1 << 20))
    for _, size in ipairs { 5, #whole // 2, #whole - 1 } do
      local path = program.write(folder, "cut.zst", whole:sub(1, size))
      assert.matches("cut.zst: truncated: the compressed data ends early", refused({ inputs = path }, "data"))
    end
    local middle = #whole // 2
    local flipped = whole:sub(1, middle) .. string.char(whole:byte(middle + 1) ~ 0x55) .. whole:sub(middle + 2)
    assert.matches("bad.zst: the compressed data is damaged",
      refused({ inputs = program.write(folder, "bad.zst", flipped) }, "data"))
    assert.matches("unexpected data after the compressed data",
      refused({ inputs = program.write(folder, "tail.zst", whole .. "rubbish") }, "data"))
    shell("cd %s && zstd -q --ultra --long=28 -c < n.txt > wide.zst", folder) -- a stream: its size is not known
    local message = refused({ inputs = folder .. "/wide.zst" }, "data")
    assert.matches("wide.zst: compressed with a window of more than 128 MiB", message)
  end)

  it("are labelled files too", function()
    local csv = program.write(folder, "rows.csv", "text,label\nthe cat,a\nthe dog,b\n")
    shell("zstd -q -k %s", csv)
    local report = sr.must(sr.data.read { task = "classify", files = csv .. ".zst", out = folder .. "/rows.sqr",
      vocab = vocab })
    assert.equal(2, report.examples)
  end)
end)

describe("JSONL", function()
  local RECORDS = [[
{"text": "The cat sat.\n\nThe dog ran.", "lang": "en", "score": 0.9, "meta": {"year": 2020}}
{"text": "The dog ran.", "lang": "de", "score": 0.8, "meta": {"year": 2021}}

{"text": "The mat sat.", "lang": "en", "score": 0.1, "meta": {"year": null}}
{"text": "", "lang": "en", "score": 1, "meta": {"year": 1999}}
]]
  local path
  setup(function() path = program.write(folder, "r.jsonl", RECORDS) end)

  it("has a document a record: its text, in which a blank line ends a paragraph only", function()
    local list, counts = documents { inputs = path }
    assert.same({ "the cat sat. | the dog ran.", "the dog ran.", "the mat sat." }, list)
    assert.same({ 4, 0 }, { counts.records, counts.left_out })
  end)

  it("is filtered by a condition, on members of members too", function()
    local function kept(where)
      local list, counts = documents { inputs = path, where = where }
      return #list, counts.left_out
    end
    assert.same({ 1, 2 }, { kept "lang == 'en' and score > 0.5" }) -- one of those kept has no text
    assert.same({ 2, 2 }, { kept "meta.year>=2020" })
    assert.same({ 1, 3 }, { kept "not (lang=en)" })
    assert.same({ 1, 3 }, { kept "text ~ mat or lang=fr" })
    assert.same({ 3, 0 }, { kept "meta.year != 2020 and meta.year!=3 or score=0.9 and lang='en'" })
    assert.same({ 1, 3 }, { kept "meta.year='2021'" })
  end)

  it("is filtered as runs are: a condition means the same in Lua and in C", function()
    local tests = { "x=false", "x~false", "x=1", "x='1.0'", "x~1", "x!=2", "x<2", "x~e", "x", "not x" }
    for _, value in ipairs { "false", "true", "1", "1.0", "1e300", '"false"', "null", "[1]" } do
      local record = json.decode(value)
      if record == json.null then record = nil end
      local file = program.write(folder, "x.jsonl", ('{"text": "The cat.", "x": %s}\n'):format(value)
        .. '{"text": "The dog.", "x": 0, "keep": true}\n')
      for _, test in ipairs(tests) do
        local tree = condition.parse(test, "where")
        local held = condition.holds(tree, function() return record end)
        local list = documents { inputs = file, where = ("keep or (%s)"):format(test) }
        assert.equal(held and 2 or 1, #list, ("%s of %s"):format(test, value))
      end
    end
  end)

  it("is read under any name, compressed, from another member, with a byte order mark", function()
    local other = program.write(folder, "other",
      '\xEF\xBB\xBF{"doc": {"body": "The cat."}}\r\n{"doc":{"body":"The dog."}}')
    assert.equal(2, #documents { inputs = other, format = "jsonl", columns = { text = "doc.body" } })
    shell("zstd -q -k %s && gzip -k %s", path, path)
    for _, ending in ipairs { ".zst", ".gz" } do assert.equal(3, #documents { inputs = path .. ending }) end
  end)

  it("trains a vocabulary on the texts alone", function()
    local many = {}
    for i = 1, 50 do many[i] = ('{"secretfield": %d, "text": "the cat sat on the mat"}'):format(i) end
    local file = program.write(folder, "many.jsonl", table.concat(many, "\n"))
    sr.must(prepare { inputs = file, vocab = { size = 60, min_frequency = 1 } })
    local words = sr.must(sys.read_file(folder .. "/x.vocab.txt"))
    assert.truthy(words:find("\ncat\n", 1, true))
    assert.is_nil(words:find("secret", 1, true))
    for _, model in ipairs { "wordpiece", "bpe" } do
      local out = ("%s/%s"):format(folder, model)
      works(program.run { "vocab", file, "--size", "300", "--model", model, "--out", out, "--json" })
      local made = sr.must(sys.read_file(out))
      assert.truthy(made:find("cat", 1, true))
      assert.is_nil(made:find("secret", 1, true) or made:find("field", 1, true), model)
    end
    local trained, counts = sr.text.train { files = file, size = 60, min_frequency = 1 }
    assert.is_truthy(trained)
    assert.equal(300, counts.words)
    exits(3, "no 'body', which columns.text names",
      program.run { "vocab", file, "--column", "body", "--out", folder .. "/none" })
    local code, _, err = program.run { "vocab", file, "--where", "secretfield > 60", "--out", folder .. "/none" }
    assert.not_equal(0, code)
    assert.matches("^seqrun: [^\n]*\n$", err)
    exits(2, "indexed.idx has token ids, not text",
      program.run { "vocab", GOLDEN .. "indexed.idx", "--out", folder .. "/none" })
  end)

  it("names file and line of what is wrong", function()
    local function problem(text, options)
      local given = { inputs = program.write(folder, "w.jsonl", '{"text": "The cat.", "a": 1}\n' .. text) }
      return refused(with(given, options), "data")
    end
    assert.matches("/w.jsonl:2: no 'text', which columns.text names; the record has: txt", problem '{"txt": "x"}')
    assert.matches("/w.jsonl:2: 'text' is a number; expected a text", problem '{"text": 5}')
    assert.matches("/w.jsonl:2: not a JSON object: ", problem '{"text": "x"')
    assert.matches("/w.jsonl:2: not a JSON object: a list", problem '[1]')
    assert.matches("/w.jsonl:2: no 'a', which where names; the record has: text; if only some records have it, ask for "
      .. "it first: a and a", problem('{"text": "x"}', { where = "a = 1" }))
    local nested = '{"text": "x", "a": [' .. ("{},"):rep(1 << 19) .. "0]}"
    assert.matches("/w.jsonl:2: the record would take more than 32 times its size in memory", problem(nested))
    local large = '{"text": "x", "hash": 18446744073709551615, "a": 2}' -- it is read as a real
    assert.matches("where leaves out all of the 2 records", problem(large, { where = "a > 2" }))
    assert.matches("where leaves out all of the 2 records", problem('{"text": "x", "a": 2}', { where = "a > 2" }))
    assert.equal(1, #documents { inputs = folder .. "/w.jsonl", where = "a and a = 1" })
  end)

  it("refuses a condition that is none, and one without records", function()
    fails.returning("config", "^where: expected a value after lang=, got the end: lang ==$",
      prepare { inputs = path, where = "lang ==" })
    fails.returning("config", "^where: more than 1000 comparisons: ",
      prepare { inputs = path, where = ("a and "):rep(1000) .. "a" })
    local deep = { "has", "lang" }
    for _ = 1, 5000 do deep = { "not", deep } end
    assert.error_matches(function()
      require("seqrun.core.text").train(path, { records = { where = deep } })
    end, "a tree of more than 2,000 levels")
    local chain = ("lang and "):rep(999) .. "lang"
    assert.equal(3, #documents { inputs = path, where = chain })
    assert.matches("no input is a .jsonl", refused({ inputs = vocab, where = "a" }, "config"))
    assert.matches("leave out text.document_start", refused({ inputs = path, document_start = "X" }, "config"))
    assert.matches("a table of records, not text", refused({ inputs = folder .. "/x.csv.zst" }, "config"))
  end)

  it("is read by the recipe, with its keys", function()
    local out = works(program.run { "recipes/prepare.lua", "inputs=[" .. path .. "]", "out=" .. folder .. "/y.sqr",
      "vocab.file=" .. vocab, "where=lang == 'en' and score > 0.5" })
    assert.matches("read 311 B of text in 1 file: 6 words, 4 records, 2 of them left out by where", out)
  end)
end)

describe("directories and patterns", function()
  it("of thousands of files are read in the order of their names, one at a time, without hidden ones", function()
    local many = folder .. "/many"
    sys.make_dirs(many .. "/b")
    for i = 1, 3000 do
      program.write(many, ("%sf%04d.txt"):format(i % 2 == 0 and "b/" or "", i), i == 7 and "The dog.\n" or "The cat.\n")
    end
    program.write(many, ".hidden.txt", "The mat.\n")
    local list, counts = documents { inputs = many }
    assert.same({ 3000, 3000 }, { #list, counts.files })
    assert.equal("the dog.", list[1500 + 4]) -- b/ comes first
    assert.equal(1500, #documents { inputs = many .. "/*.txt" })
    assert.equal("the dog.", documents({ inputs = many .. "/f000[5-9].txt" })[2])
    local out = works(program.run({ "recipes/prepare.lua", "inputs=[" .. many .. "]", "out=" .. folder .. "/z.sqr",
      "vocab.file=" .. vocab }, { before = "ulimit -n 64;" }))
    assert.matches("read 26.4 KiB of text in 3,000 files: 6,000 words", out)
  end)

  it("that nothing matches are refused", function()
    assert.matches("/none%*: no file matches this pattern", refused({ inputs = folder .. "/none*" }, "missing"))
  end)
end)

describe("ids of other programs", function()
  local BERT = GOLDEN .. "vocab.txt"

  it("of Megatron's indexed sets become documents of sentences", function()
    sr.must(prepare { inputs = GOLDEN .. "indexed.idx", vocab = BERT })
    local set = sr.must(sr.data.open(folder .. "/x.sqr", { held = 0 }))
    assert.same({ "text", 2, 3, 9 }, { set:info().kind, set:info().documents, set:info().sentences, set:info().tokens })
    local ids, lengths = set.core:unit(1)
    assert.same({ { 5, 6, 7, 9, 10 }, { 3, 2 } }, { ids, lengths })
    sr.must(prepare { inputs = GOLDEN .. "indexed.bin", vocab = BERT })
    assert.same(ids, (sr.must(sr.data.open(folder .. "/x.sqr", { held = 0 })).core:unit(1)))
  end)

  it("are refused with another vocabulary, or none", function()
    local small = program.write(folder, "small.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n")
    assert.matches("indexed.bin: sequence 0 has the id 7, but the vocabulary has 7 tokens",
      refused({ inputs = GOLDEN .. "indexed.idx", vocab = small }, "data"))
    assert.matches("token ids need the vocabulary that they were made with",
      refused({ inputs = GOLDEN .. "indexed.idx", vocab = { size = 50 } }, "config"))
    assert.matches("cannot be mixed", refused({ inputs = { vocab, GOLDEN .. "indexed.idx" } }, "config"))
    assert.matches("exists; choose another file",
      refused({ inputs = GOLDEN .. "indexed.idx", vocab = BERT, overwrite = false }, "config"))
    shell("cp %sindexed.idx %s/alone.idx", GOLDEN, folder)
    assert.matches("alone.bin", refused({ inputs = folder .. "/alone.idx", vocab = BERT }, "missing"))
  end)

  ---Makes x.sqr from 40 rows as the program of h5py prints them, with the rows.lua of the page.
  local function write_rows()
    local lines = {}
    for i = 0, 39 do
      local a, b = {}, {}
      for k = 0, i % 4 do a[k + 1] = i % 30 + k + 5 end
      for k = 1, i % 3 do b[k] = i % 30 + k + 6 end
      lines[i + 1] = ("%d\t%s\t%s\n"):format(i % 2, table.concat(a, ","), table.concat(b, ","))
    end
    local page = sr.must(sys.read_file("docs/reference/formats.md", 1 << 20))
    local script = program.write(folder, "rows.lua", page:match("```lua rows.lua\n(.-)```"))
    return program.run({ script, BERT, folder .. "/x.sqr" }, { input = table.concat(lines) })
  end

  it("of HDF5 become examples by the programs of the page, which an .hdf5 among the inputs is referred to", function()
    for _, name in ipairs { "bert.hdf5", "bert.h5" } do
      assert.matches(name .. ": HDF5 is not supported; docs/reference/formats.md shows how",
        refused({ inputs = program.write(folder, name, "\x89HDF"), vocab = BERT }, "config"))
    end
    assert.equal("40\n", (works(write_rows())))
    local set = sr.must(sr.data.open(folder .. "/x.sqr", { held = 0 }))
    local ids, lengths = set.core:unit(3)
    assert.same({ { 7, 8, 9, 9, 10 }, { 3, 2 } }, { ids, lengths })
    assert.same({ 0, 1 }, { set:column("next_sentence", 3), set:column("next_sentence", 4) })
  end)

  it("predict next sentences by their labels", function()
    write_rows()
    local options = {
      "recipes/pretrain.lua", "data.file=" .. folder .. "/x.sqr", "data.max_len=24", "data.held=0.2",
      "model.hidden_size=16", "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.intermediate_size=32",
      "batch.sequences=8", "batch.micro_packs=2", "rate.peak=1e-3", "rate.warmup=0", "rate.total=4", "--quiet", "--out",
      folder .. "/nsp",
    }
    works(program.run(options))
    local last
    for _, row in ipairs(sr.must(sr.metrics.read(folder .. "/nsp"))) do
      if row.type == "eval" then last = row end
    end
    assert.is_true(last.nsp_loss > 0 and last.mlm_loss > 0)
    local out = works(program.run { "eval", folder .. "/nsp", folder .. "/x.sqr", "--json" })
    assert.matches("nsp", out)
    sr.must(sr.data.write { out = folder .. "/bare.sqr", vocab = BERT, examples = { { a = { 7, 8 }, b = { 9 } } } })
    options[2] = "data.file=" .. folder .. "/bare.sqr"
    options[#options] = folder .. "/bare"
    exits(2, "fixed examples without a column next_sentence", program.run(options))
  end)
end)
