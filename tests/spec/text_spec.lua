-- From text to ids: golden files, the commands, and vocabularies trained on text.

local program = require("tests.support.program")
local text = require("seqrun.text")
local sys = require("seqrun.core.sys")
local json = require("seqrun.core.json")
local none = require("tests.support.none")

local DATA = "tests/data/tokenizer/"
local VOCAB = DATA .. "vocab.txt"

local folder = program.folder()

local function write(name, bytes) return program.write(folder, name, bytes) end

local function lines_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

--- The stdout, exit code and stderr of a command line.
local function run(command, input, shell)
  local words = {}
  for word in command:gmatch("%S+") do words[#words + 1] = word end
  local code, out, err = program.run(words, { input = input, shell = shell })
  return out, code, err
end

---Of a command line that fails: its exit code, nothing on stdout, and these words.
local function refuses(wanted, words, command)
  local out, code, err = run(command)
  program.refuses(wanted, words, code, out, err)
end

describe("the tokenizer", function()
  local vocab = assert(text.vocab(VOCAB))
  local uncased = assert(text.tokenizer { vocab = vocab })
  local cased = assert(text.tokenizer { vocab = vocab, lowercase = false })

  --- Compares all lines with a golden file; `show` formats the result of encode.
  local function compare(tokenizer, golden, options, show)
    local wanted = lines_of(DATA .. golden)
    local wrong = {}
    for i, line in ipairs(lines_of(DATA .. "text.txt")) do
      if show(tokenizer:encode(line, options)) ~= wanted[i] then wrong[#wrong + 1] = i end
    end
    assert.same({}, wrong)
    assert.equal(2000, #wanted)
  end

  local function show_ids(ids) return table.concat(ids, " ") end

  it("gives the ids of Hugging Face, uncased", function() compare(uncased, "uncased.ids", {}, show_ids) end)

  it("gives the ids of Hugging Face, cased", function() compare(cased, "cased.ids", {}, show_ids) end)

  it("gives the same ids with and without offsets", function()
    compare(uncased, "uncased.ids", { offsets = true }, show_ids)
    compare(cased, "cased.ids", { offsets = true }, show_ids)
  end)

  it("gives the offsets of Hugging Face, in code points", function()
    compare(uncased, "uncased.offsets", { offsets = true }, function(_, more)
      local list = {}
      for i, place in ipairs(more.offsets) do list[i] = place[1] .. ":" .. place[2] end
      return table.concat(list, " ")
    end)
  end)

  it("recognises special tokens in the text unless it is literal", function()
    local literal = assert(text.tokenizer { vocab = vocab, literal = true })
    assert.same({ "a", "[MASK]", "b" }, uncased:tokens("a[MASK]b"))
    assert.same({ "a", "[", "mask", "]", "b" }, literal:tokens("a[MASK]b"))
    assert.same({ "[", "mask", "]" }, uncased:tokens("[mask]"))
  end)

  it("lower-cases by code point, without looking at neighbours", function()
    assert.same(uncased:tokens("ας"), uncased:tokens("Ας"))
    assert.same(uncased:tokens("σας"), uncased:tokens("ΣΑς")) -- a final capital sigma stays medial
    assert.same({ "i" }, uncased:tokens("\u{130}"))
    local kept = assert(text.tokenizer { vocab = vocab, keep_accents = true })
    assert.same(kept:tokens("i\u{307}"), kept:tokens("\u{130}"))
  end)

  it("strips accents when it lower-cases, and only then", function()
    assert.same({ "cafe" }, uncased:tokens("Café"))
    assert.same(cased:tokens("café"), cased:tokens("caf\u{e9}"))
    assert.is_not.same({ "cafe" }, cased:tokens("café"))
  end)

  it("accepts words of up to 100 code points", function()
    assert.is_not.same({ "[UNK]" }, uncased:tokens(("a"):rep(100)))
    assert.same({ "[UNK]" }, uncased:tokens(("a"):rep(101)))
    assert.is_not.same({ "[UNK]" }, uncased:tokens(("é"):rep(100)))
    assert.same({ "[UNK]" }, uncased:tokens(("é"):rep(101)))
    assert.same({ "a", "[UNK]", "b" }, uncased:tokens("a " .. ("x"):rep(1e6) .. " b"))
  end)

  it("keeps canonical order among more combining marks than a word can have", function()
    local marks = ("\u{301}\u{327}"):rep(1000)
    assert.same({ "a", "b" }, { table.unpack(uncased:tokens("a" .. marks .. " b" .. marks)) })
    assert.same({ "[UNK]" }, uncased:tokens("a" .. ("\u{302e}\u{1d16d}"):rep(200)))
  end)

  it("drops invalid UTF-8 and counts it", function()
    local one = assert(text.tokenizer { vocab = vocab })
    assert.same({ "hello" }, one:tokens("he\xFFll\xE4\xB8o"))
    assert.equal(2, one.core:counts().invalid)
    local _, more = one:encode("\xFF\xFFhello", { offsets = true })
    assert.same({ { 2, 7 } }, more.offsets)
  end)

  it("adds special tokens to a line and a pair as BERT expects", function()
    local ids, more = uncased:encode("hello world", { specials = true, offsets = true })
    assert.same({ 101, 7592, 2088, 102 }, ids)
    assert.same({ 0, 0, 0, 0 }, more.types)
    assert.same({ { 0, 0 }, { 0, 5 }, { 6, 11 }, { 0, 0 } }, more.offsets)
    ids, more = uncased:encode("hello", "world !")
    assert.same({ 101, 7592, 102, 2088, 999, 102 }, ids)
    assert.same({ 0, 0, 0, 1, 1, 1 }, more.types)
  end)

  it("decodes ids", function()
    local ids = uncased:encode("Unaffordable words, though.", { specials = true })
    assert.equal("unaffordable words, though.", uncased:decode(ids))
    assert.equal("[CLS] unaffordable words, though. [SEP]", uncased:decode(ids, { specials = true }))
    assert.has_error(function() uncased:decode { 1e9 } end)
  end)

  it("names unknown options", function()
    assert.error_matches(function() text.tokenizer { vocab = vocab, lowercased = true } end, "lowercase")
    assert.error_matches(function() text.tokenizer {} end, "'path' and 'vocab' are missing")
  end)

  it("reports errors in a vocabulary", function()
    assert.equal("missing", (select(3, text.tokenizer { vocab = folder .. "/none" })))
    none("data", "lines is %[MASK%]", text.vocab(write("v", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n")))
  end)

  it("keeps its vocabulary alive", function()
    local t = assert(text.tokenizer { vocab = VOCAB })
    local core = t.core
    t = nil -- luacheck: ignore 311
    collectgarbage() collectgarbage()
    assert.same({ 7592 }, core:ids("hello"))
    assert.equal(30522, #core:vocab())
  end)
end)

describe("seqrun tokenize", function()
  local function golden(name) return assert(sys.read_file(DATA .. name)) end

  it("prints the golden files, on one thread and on three", function()
    for _, threads in ipairs { 1, 3 } do
      local base = ("tokenize --vocab %s --threads %d "):format(VOCAB, threads)
      assert.is_true(golden("uncased.ids") == run(base .. "--ids", golden("text.txt")))
      assert.is_true(golden("cased.ids") == run(base .. "--ids --cased " .. DATA .. "text.txt"))
      assert.is_true(golden("uncased.offsets") == run(base .. "--offsets " .. DATA .. "text.txt"))
    end
  end)

  it("prints tokens, ids with offsets, and JSON", function()
    local base = "tokenize --vocab " .. VOCAB
    assert.equal("hello [MASK] !\n\n", (run(base, "Hello[MASK]!\n\n")))
    assert.equal("101:0:0 7592:0:5 102:0:0\n", (run(base .. " --ids --offsets --specials", "Hello")))
    local out = run(base .. " --json --literal", "\"[MASK]\n\n")
    local first, second = out:match("([^\n]*)\n([^\n]*)\n")
    assert.same({ '"', "[", "mask", "]" }, json.decode(first).tokens)
    assert.same({ line = 2, tokens = {}, ids = {}, offsets = {} }, json.decode(second))
    out = run(base .. " --json --ids --offsets --specials", "hello")
    assert.same({
      line = 1, ids = { 101, 7592, 102 }, offsets = { { 0, 0 }, { 0, 5 }, { 0, 0 } },
      tokens = { "[CLS]", "hello", "[SEP]" },
    }, json.decode(out))
  end)

  it("answers each line before the next one arrives", function()
    local fifo, out = folder .. "/fifo", folder .. "/answers"
    assert(os.execute("mkfifo " .. fifo))
    os.execute(("%s tokenize --vocab %s --ids %s >%s & "):format(program.path, VOCAB, fifo, out))
    local pipe = assert(io.open(fifo, "w"))
    pipe:setvbuf("no")
    pipe:write("hello\n")
    local deadline = sys.now() + 300
    while (sys.read_file(out) or "") == "" and sys.now() < deadline do sys.sleep(0.01) end
    assert.equal("7592\n", (sys.read_file(out)))
    pipe:close()
  end)

  it("exits quietly when its output is closed", function()
    local command = ("%s tokenize --vocab %s --ids 2>%s/err"):format(program.path, VOCAB, folder)
    local pipe = io.popen(("bash -c 'yes hello 2>/dev/null | %s | head -n 1; exit ${PIPESTATUS[1]}'"):format(command))
    assert.equal("7592\n", pipe:read("a"))
    local _, _, code = pipe:close()
    assert.equal(0, code)
    assert.equal("", (sys.read_file(folder .. "/err")))
  end)

  it("has an exit code and a message for every failure", function()
    refuses(3, "cannot open", "tokenize --ids --vocab " .. folder .. "/none")
    refuses(3, "", "tokenize --ids --vocab " .. VOCAB .. " " .. folder .. "/none")
    refuses(2, "", "tokenize --ids")
    for _, command in ipairs { "tokenize --ids --vocab " .. VOCAB, "vocab --out " .. folder .. "/v " .. VOCAB } do
      for _, threads in ipairs { "0", "1e3", "1025", "many" } do
        refuses(2, "is not an integer from 1 to 1024", command .. " --threads " .. threads)
      end
    end
    local full = table.pack(run("tokenize --vocab " .. VOCAB .. " --ids", "hello", ">/dev/full"))
    assert.equal(5, full[2])
    assert.matches("No space", full[3])
  end)

  it("reads directories, .gz and several files in order", function()
    local base = "tokenize --vocab " .. VOCAB .. " --ids "
    write("a", "hello")
    write("b", "world\n")
    assert(os.execute(("gzip -f %s/b"):format(folder)))
    assert.equal("7592\n2088\n7592\n", (run(("%s %s/a %s/b.gz %s/a"):format(base, folder, folder, folder))))
  end)
end)

describe("a trained vocabulary", function()
  local words = {}
  for i = 1, 400 do
    for _ = 1, 1 + 400 // i do words[#words + 1] = ("word%d stem%ding"):format(i % 37, i % 11) end
  end

  local function train(options)
    options.files = options.files or write("corpus", table.concat(words, "\n"))
    return text.train(options)
  end

  local function tokens(vocab)
    local list = {}
    for id = 0, #vocab - 1 do list[#list + 1] = vocab:token(id) end
    return list
  end

  it("starts with the special tokens and the alphabet, followed by the most frequent pairs", function()
    -- hug x 10, pug x 5, pun x 12, bun x 4, hugs x 5: the merges are worked out by hand
    local corpus = ("hug "):rep(10) .. ("pug "):rep(5) .. ("pun "):rep(12) .. ("bun "):rep(4) .. ("hugs "):rep(5)
    local vocab, counts = text.train { files = write("small", corpus), size = 21 }
    assert.same({ "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b", "g", "h", "n", "p", "s", "u", "##g", "##n", "##s",
      "##u", "##ug", "##un", "hug", "pun", "pug" }, tokens(vocab))
    assert.equal(36, counts.words)
    assert.equal(5, counts.distinct)
  end)

  it("is the same in every run, on any number of threads", function()
    local one = train { size = 300, threads = 1 }
    for _, threads in ipairs { 1, 2, 3, 8 } do
      assert.equal(one:fingerprint(), train({ size = 300, threads = threads }):fingerprint())
    end
  end)

  it("is the same on any number of threads when rare words are discarded", function()
    local list = {}
    for i = 1, 200000 do list[i] = ("w%x"):format(i * 2654435761 % 65521) end
    local path = write("many", table.concat(list, "\n"))
    local one, counts = train { files = path, size = 300, word_limit = 3000, threads = 1 }
    assert.is_true(counts.forgotten > 0 and counts.distinct <= 3000)
    assert.equal(one:fingerprint(), train({ files = path, size = 300, word_limit = 3000, threads = 3 }):fingerprint())
  end)

  it("stops at its size, or when the remaining pairs are too rare", function()
    assert.equal(64, #train { size = 64 })
    local all, rare = train { size = 5000, min_frequency = 1 }, train { size = 5000, min_frequency = 100 }
    assert.is_true(#rare < #all and #all < 5000)
    local twice = text.train { files = write("pairs", "ab ab cd"), size = 100 } -- by default
    assert.same({ "##b", "##d", "ab" }, table.move(tokens(twice), 10, 20, 1, {}))
  end)

  it("tokenizes its training text without [UNK]", function()
    local tokenizer = assert(text.tokenizer { vocab = train { size = 200 } })
    local unk = tokenizer.vocab:special("unk")
    for _, word in ipairs(words) do
      for _, id in ipairs(tokenizer:encode(word)) do assert.is_true(id ~= unk) end
    end
  end)

  it("is cased on request, and lower-case by default", function()
    local path = write("case", ("Anna anna Émile "):rep(5))
    assert.is_nil(train({ files = path, size = 100 }):id("A"))
    assert.is_truthy(train({ files = path, size = 100, lowercase = false }):id("Anna"))
    assert.is_truthy(train({ files = path, size = 100, lowercase = false }):id("É"))
  end)

  it("omits and counts words with characters outside the alphabet", function()
    local path = write("alphabet", ("aaa bbb aab "):rep(9) .. "zzz")
    local vocab, counts = train { files = path, size = 100, limit_alphabet = 2 }
    assert.is_nil(vocab:id("z"))
    assert.equal(1, counts.out_of_reach)
  end)

  it("is rejected with a reason", function()
    none("data", "no word", train { files = write("nothing", " \n\n"), size = 100 })
    none("data", "alphabet", train { size = 10 })
    none("data", "zero byte", train { files = write("binary", "a\0b"), size = 100 })
    assert.has_error(function() train { size = 0 } end)
  end)

  it("is written by seqrun vocab, which prints a summary", function()
    local corpus, out = write("corpus", table.concat(words, "\n")), folder .. "/made.txt"
    local said, code = run(("vocab --size 100 --out %s %s"):format(out, corpus))
    assert.equal(0, code)
    assert.matches("100 tokens", said)
    assert.equal(100, #assert(text.vocab(out)))
    local report = json.decode((run(("vocab --size 100 --json --out %s %s"):format(out, corpus))))
    assert.equal(text.vocab(out):fingerprint(), report.fingerprint)
    local deep = ("%s/no/such/v"):format(folder) -- the directory is made
    assert.equal(deep, json.decode((run(("vocab --size 100 --json --out %s %s"):format(deep, corpus)))).out)
    -- known before the text is looked for
    refuses(5, "name a file, not a directory", ("vocab --out %s nowhere.txt"):format(folder))
  end)
end)

it("words of a text are those of BERT's rule, with their places in code points and bytes", function()
  local split = require("seqrun.core.text").split
  for line, wanted in pairs {
    [""] = { {}, {}, {}, {} }, [" \t\n"] = { {}, {}, {}, {} },
    ["Mr. Li,\u{a0}é!"] = { { "Mr", ".", "Li", ",", "é", "!" }, { 0, 2, 4, 6, 8, 9 }, { 2, 3, 6, 7, 9, 10 },
      { 0, 2, 4, 6, 9, 11 } },
    ["a\u{4e2d}\u{6587}b\xff\xfe c"] = { { "a", "\u{4e2d}", "\u{6587}", "b\xff\xfe", "c" }, { 0, 1, 2, 3, 7 },
      { 1, 2, 3, 6, 8 }, { 0, 1, 4, 7, 11 } },
  } do
    assert.same(wanted, { split(line) }, line)
  end
  assert.same({ { "a.b", "c" }, { 1, 6 }, { 4, 7 }, { 1, 6 } }, { split(" a.b  c", true) })
end)

describe("sentences", function()
  --- Sentences with "|" between them and a new line for each document.
  local function split(prose, format)
    local documents = {}
    for sentence, document in assert(text.sentences { files = write("prose", prose), format = format }) do
      local sofar = documents[document]
      documents[document] = sofar and sofar .. "|" .. sentence or sentence
    end
    return table.concat(documents, "\n")
  end

  it("end after a stop and white space, before a capital, a digit or an opening quote", function()
    assert.equal("One two.|Three?|Four!|5 six.", split("One two. Three? Four! 5 six."))
    assert.equal("a.|Be!|“Ce”?|‘De.’|“El.”|'Fa.'|«Go.»", split("a. Be! “Ce”? ‘De.’ “El.” 'Fa.' «Go.»"))
    assert.equal("(As here.) [So.]|There.", split("(As here.) [So.] There.")) -- a bracket opens no quote
    assert.equal("He said.|\"No!\"|Then he left.", split("He said. \"No!\" Then he left."))
    assert.equal("Wait...|What?!|Élan.|Ça va.", split("Wait... What?! Élan. Ça va."))
  end)

  it("continue if the next word is in lower case, or no white space follows", function()
    for _, one in ipairs { "It costs 3.50 today.", "\"Oh!\" she said.", "See a.B for it.", "Well... maybe. (not)" } do
      assert.equal(one, split(one))
    end
  end)

  it("continue after abbreviations and initials", function()
    local one = "Mr. Knightley and Mrs. J. R. Weston, e.g. Dr. A.B. Perry of St. Mary, met Capt. Smith vs. Lt. Jones."
    assert.equal(one, split(one))
    assert.equal("See No. 5 and Fig. 3.|No.|They left.", split("See No. 5 and Fig. 3. No. They left."))
    assert.equal("Hers is etc.|The end.", split("Hers is etc. The end."))
  end)

  it("join wrapped lines with a space; a blank line ends a document", function()
    assert.equal("One two three.|Four.\nFive", split("One\ntwo  \n   three. Four.\n \t\n\n\nFive\n"))
    assert.equal("A b.|C d.", split("A b.\r\nC\r\nd.\r\n"))
  end)

  it("are one per line in the published format", function()
    assert.equal("mr. A b. C|d\ne", split("mr. A b. C \n  d\n\ne", "lines"))
    assert.equal("A b.|C d\ne\nf.|G", split("A b. C d\n\ne\n f. G\n", "documents"))
  end)

  it("of different files belong to different documents", function()
    local list = {}
    local files = { write("x", "One\n"), write("y", "two.") }
    for sentence, document in assert(text.sentences { files = files }) do list[#list + 1] = document .. sentence end
    assert.same({ "1One", "2two." }, list)
  end)

  it("are the same through a pipe that gives them byte by byte", function()
    local path = write("whole", ("“Never!” said Mr. X. “Why?” Emma asked... No. 5. Ça!\nAnd\n\n"):rep(50))
    local function all(files)
      local list = {}
      for sentence, document in assert(text.sentences { files = files }) do list[#list + 1] = document .. sentence end
      return list
    end
    local fifo = folder .. "/drip"
    assert(os.execute("mkfifo " .. fifo))
    os.execute(("dd if=%s of=%s bs=1 status=none & "):format(path, fifo))
    assert.same(all(path), all(fifo))
  end)

  it("that are too long are split at white space", function()
    local list = {}
    for sentence in assert(text.sentences { files = write("l", ("abcdef "):rep(20)), limit = 32 }) do
      list[#list + 1] = sentence
    end
    assert.equal(("abcdef "):rep(20):sub(1, -2), table.concat(list, " "))
    for _, sentence in ipairs(list) do assert.is_true(#sentence <= 32 and not sentence:find("^ ")) end
  end)

  it("of an empty text do not exist", function()
    assert.equal("", split(""))
    assert.equal("", split(" \n\n\t"))
  end)

  it("of a missing file are nil and a reason; those of binary data raise during iteration", function()
    none("missing", "none", text.sentences { files = folder .. "/none" })
    assert.error_matches(function() split("good.\n\0") end, "zero byte at offset 6")
  end)
end)
