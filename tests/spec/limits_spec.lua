-- What a file may make the program allocate: a stated multiple of its size and a stated base, whatever it says
-- (docs/evidence/reliability.md has the table).  Measured in a process of its own, with the memory of libraries.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local MIB = 1 << 20

---Bytes for each byte of the file, and a constant: the table of the document.
local LIMITS = {
  config = { 250, 16 * MIB }, json = { 160, 8 * MIB }, tokenizer = { 101, 12 * MIB }, vocab = { 60, 8 * MIB },
  tensors = { 110, 8 * MIB }, model = { 32, 48 * MIB }, data = { 16, 24 * MIB }, metric = { 16, 24 * MIB },
  plan = { 60, 8 * MIB }, metrics = { 160, 8 * MIB }, checkpoint = { 4, 12 * MIB },
  sentences = { 1, 12 * MIB }, rows = { 8, 24 * MIB }, squad = { 160, 16 * MIB }, ids = { 4, 24 * MIB },
}

---Whatever its size: the largest window of zstd.
local ZSTD = { 0, 160 * MIB }

local MOST_SECONDS = 30 -- of processor time

local folder = program.folder()

---Reads a file in a process of its own; checks that it stays below the limit.
---@param kind string
---@param path string
---@param first? string what is read before, to load modules
---@param limit? integer[] instead of that of the kind
---@return table found good, message, code
local function read(kind, path, first, limit)
  local size = sys.stat(path).size
  local code, out, err = program.run { "tests/support/peak.lua", kind, path, first or path .. ".none" }
  assert.equal(0, code, kind .. ": " .. err)
  local found = json.decode(out)
  limit = limit or LIMITS[kind]
  local most = limit[1] * size + limit[2]
  local what = ("%s: %s of %d bytes took %.1f MiB, at most %.1f"):format(kind, path, size, found.bytes / MIB,
    most / MIB)
  if os.getenv("SHOW") then print(what, found.message) end
  assert.is_true(found.bytes <= most, what)
  assert.is_true(found.seconds < MOST_SECONDS, what .. ": too slow")
  return found
end

---A text in a file of its own.
local count = 0
local function file(name, text)
  count = count + 1
  local place = ("%s/%d"):format(folder, count)
  assert(sys.make_dirs(place))
  return program.write(place, name, text)
end

local function refused(pattern, kind, path, first, limit)
  local found = read(kind, path, first, limit)
  assert.is_false(found.good, kind .. ": was read")
  assert.matches(pattern, found.message)
end

---A list of numbered lines.
local function lines(n, format)
  local list = {}
  for i = 1, n do list[i] = format:gsub("#", tostring(i)) end
  return table.concat(list)
end

describe("the memory that a file takes #slow", function()

  local function cases(name, fn)
    it(name, function()
      if sys.build().sanitizers then return pending("sanitizers keep what is freed") end
      fn()
    end)
  end

  cases("of a config is limited: aliases, anchors, depth, many keys, long values", function()
    local bomb = { "a: &a [x,x,x,x,x,x,x,x,x]\n" }
    for i = 1, 25 do
      local key, before = string.char(97 + i), string.char(96 + i)
      bomb[#bomb + 1] = ("%s: &%s [*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s]\n"):format(key, key, before, before, before,
        before, before, before, before, before, before)
    end
    refused("aliases %(%*name%) are not supported", "config", file("c.yaml", table.concat(bomb)))
    refused("the limit is 32", "config", file("c.yaml", ("["):rep(500000)))
    refused("the limit is 32", "config", file("c.yaml", "a: " .. ("{a: "):rep(200000)))
    refused("flow", "config", file("c.yaml", ("{"):rep(20) .. ("?"):rep(500000)))
    refused("the limit is 100000", "config", file("c.yaml", "a: [" .. ("0,"):rep(400000) .. "]"))
    refused("seed", "config", file("c.yaml", "seed: [" .. ("0,"):rep(90000) .. "]"))
    refused("unknown key", "config", file("c.yaml", lines(30000, "k#: 0\n")))
    refused("unknown key", "config", file("c.yaml", lines(3000, ("k"):rep(300) .. "#: 0\n")))
    refused("duplicate", "config", file("c.yaml", ("seed: 1\n"):rep(40000)))
    refused("unknown key", "config", file("c.yaml", "data: {" .. lines(40000, "k#: 0,") .. "}"))
    refused("the limit is 65536", "config", file("c.yaml", "a: " .. ("x"):rep(1000000)))
    refused("the limit is 1048577", "config", file("c.yaml", "# " .. ("x"):rep(1 << 20)))
    refused("second document", "config", file("c.yaml", "seed: 1\n" .. ("---\nseed: 1\n"):rep(20000)))
    refused("anchors", "config", file("c.yaml", lines(20000, "k#: &a# 0\n")))
    refused("tags", "config", file("c.yaml", lines(20000, "k#: !a# 0\n")))
    refused("", "config", file("c.yaml", ("presets:\n" .. lines(5000, "  p#: {seed: 1}\n"))))
  end)

  cases("of JSON is limited: lists, objects, numbers, texts", function()
    read("json", file("a.json", "[" .. ("{},"):rep(300000) .. "{}]"))
    read("json", file("a.json", "[" .. ("[],"):rep(300000) .. "[]]"))
    read("json", file("a.json", "[" .. ("0,"):rep(500000) .. "0]"))
    read("json", file("a.json", "{" .. lines(60000, '"#":{},') .. '"a":0}'))
    read("json", file("a.json", "[" .. ('"",'):rep(300000) .. '""]'))
    read("json", file("a.json", "[" .. ("1.5,"):rep(200000) .. "0]"))
    refused("maximum parsing depth", "json", file("a.json", ("["):rep(500000)))
    refused("nested more than 64 deep", "json", file("a.json", ("["):rep(100) .. ("]"):rep(100)))
    refused("", "json", file("a.json", ("9"):rep(500000)))
    read("json", file("a.json", '"' .. ("\\u0041"):rep(100000) .. '"'))
  end)

  cases("of a tokenizer and of a vocabulary is limited", function()
    local vocab = "tests/data/model/tiny/vocab.txt"
    read("tokenizer", file("tokenizer.json", '{"model":{"type":"BPE","vocab":{' .. lines(60000, '"a#":#,')
      .. '"b":0},"merges":[]}}'), vocab)
    refused("", "tokenizer", file("tokenizer.json", '{"added_tokens":[' .. ("{},"):rep(200000) .. "{}]}"), vocab)
    refused("depth", "tokenizer", file("tokenizer.json", '{"model":' .. ("["):rep(300000)), vocab)
    refused("", "vocab", file("vocab.txt", lines(300000, "#\n")), vocab)
    refused("", "vocab", file("vocab.txt", ("x"):rep(4 << 20)), vocab)
    refused("", "vocab", file("vocab.txt", ("\n"):rep(2 << 20)), vocab)
  end)

  cases("of the header of a safetensors file is limited", function()
    local function tensors(header, bytes)
      return file("model.safetensors", string.pack("<I8", bytes or #header) .. header)
    end
    refused("is not an object of dtype", "tensors", tensors("{" .. lines(60000, '"#":{},') .. '"a":{}}'))
    refused("", "tensors", tensors('{"a":[' .. ("[],"):rep(300000) .. "[]]}"))
    refused("", "tensors", tensors('{"a":[' .. ("{},"):rep(300000) .. "{}]}"))
    refused("nested too deeply", "tensors", tensors(("{"):rep(300000) .. ("}"):rep(300000)))
    refused("more than 65,536 tensors", "tensors", tensors("{" .. lines(70000, '"#":0,') .. '"a":0}'))
    refused("extends beyond the file", "tensors", tensors("{}", 1 << 40))
    refused("extends beyond the file", "tensors", tensors("{}", -1))
    refused("larger than 1 MiB", "tensors", tensors('{"__metadata__":{"a":"' .. ("x"):rep(2 << 20) .. '"}}'))
    read("tensors", tensors('{"__metadata__":{' .. lines(100000, '"#":"",') .. '"a":""}}'))
  end)

  cases("of a model is limited by its tensors, whatever config.json says", function()
    local source = "tests/data/families/bert"
    local first = sys.real_path(source .. "/config.json")
    local function model(changes, from)
      from = from or source
      count = count + 1
      local place = ("%s/%d"):format(folder, count)
      assert(os.execute(("cp -rL '%s' '%s' && chmod -R u+w '%s'"):format(from, place, place)))
      local config = json.decode(sr.must(sys.read_file(place .. "/config.json")))
      for key, value in pairs(changes) do config[key] = value end
      sr.must(sys.write_file(place .. "/config.json", json.encode(config)))
      return place .. "/config.json"
    end
    assert.is_true(read("model", model {}, first).good)
    for _, changes in ipairs {
      { vocab_size = 1 << 30 }, { max_position_embeddings = 1 << 30 }, { intermediate_size = 1 << 28 },
      { type_vocab_size = 1 << 30 }, { hidden_size = 1 << 20, num_attention_heads = 1 << 18 },
    } do
      refused("describes a model of [%d.]+[kMGT] parameters, but its tensors have", "model", model(changes),
        first)
    end
    refused("num_hidden_layers is 1000000000; expected an integer from 1 to 10000", "model",
      model { num_hidden_layers = 1000000000 }, first)
    refused("num_hidden_layers is 1000000000", "model", model({ num_hidden_layers = 1000000000 },
      "tests/data/families/modernbert"), first)
    refused("", "model", model { num_hidden_layers = 10000 }, first)
    refused("expected an integer from 1 to", "model", model { vocab_size = 1 << 60 }, first)
    refused("parameters, but its tensors", "model", model { architectures = { "BertForSequenceClassification" },
      num_labels = 1 << 30 }, first)
    refused("parameters, but its tensors", "model", model { architectures = { "BertForSequenceClassification" },
      seqrun_heads = { { kind = "regress", name = "a", outputs = 1 << 30 } } }, first)
    read("model", model({ max_position_embeddings = (1 << 31) - 1 }, "tests/data/families/modernbert"), first)
    refused("", "model", file("config.json", ("["):rep(500000)), first)
  end)

  cases("of data sets, metrics, plans, checkpoints and metrics of runs is limited", function()
    local frozen = "tests/data/frozen/"
    read("data", frozen .. "text.sqr")
    read("metric", frozen .. "text.rarity.metric")
    refused("", "plan", file("plan.txt", "seqrun plan 1\nsolver x\ncapacity 99999999\n"))
    refused("", "plan", file("plan.txt", "seqrun plan 1\n" .. ("5 1421\n"):rep(200000)))
    read("metrics", file("metrics.jsonl", ('{"type":"train","step":1,"loss":1}\n'):rep(20000)))
    read("metrics", file("metrics.jsonl", '{"type":"train","step":1' .. lines(40000, ',"k#":1') .. "}\n"))
    read("metrics", file("metrics.jsonl", ("x"):rep(2 << 20)))
    refused("", "checkpoint", file("MANIFEST", "seqrun checkpoint 1\nstep 1\n"
      .. lines(20000, "file 1 " .. ("0"):rep(32) .. " f#\nblock " .. ("0"):rep(16) .. "\n")))
    refused("", "checkpoint", file("MANIFEST", "seqrun checkpoint 1\nstep 1\nfile 18446744073709551615 "
      .. ("0"):rep(32) .. " f\n"))
  end)

  cases("of text, rows and compressed files is that of a line", function()
    local function packed(name, text, times)
      local path = file(name, text)
      local command = "for i in $(seq %d); do cat '%s'; done | gzip -1 > '%s.gz'"
      assert(os.execute(command:format(times, path, path)))
      return path .. ".gz"
    end
    read("sentences", packed("a.txt", ("x"):rep(4 << 20), 64))
    read("sentences", packed("a.txt", ("\n"):rep(1 << 20), 16))
    local row = packed("a.csv", ("x"):rep(4 << 20), 16)
    refused("", "rows", row)
    refused("", "rows", file("a.csv", "text,label\n\"" .. ("x"):rep(8 << 20)))
    refused("", "rows", file("a.csv", (","):rep(4 << 20)))
    local articles = packed("a.json", "{\n" .. (("x"):rep(1023) .. "\n"):rep(4096), 70)
    refused("has more than 256 MiB when it is unpacked", "squad", articles, nil, { 0, 800 * MIB })
    refused("", "squad", file("a.json", '{"data":[' .. ("["):rep(1 << 20)))
  end)

  cases("of Megatron's indexed sets is limited, and long tails of special tokens take no longer", function()
    local first = sys.real_path("tests/data/inputs/indexed.idx")
    local function index(numbers, sizes, pointers, documents, bin)
      local path = file("i.idx", "MMIDIDX\0\0" .. string.pack("<I8I1I8I8", 1, numbers.type or 8, numbers.sequences,
        numbers.documents) .. sizes .. pointers .. documents)
      if bin then sr.must(sys.write_file((path:gsub("idx$", "bin")), bin)) end
      return path
    end
    local function four(...) return string.pack(("<i4"):rep(select("#", ...)), ...) end
    local function eight(...) return string.pack(("<i8"):rep(select("#", ...)), ...) end
    local one = { sequences = 1, documents = 2 }
    local special = ("\3\0"):rep(4 << 20) -- [SEP] of u16
    local tail = index(one, four(1 + #special // 2), eight(0), eight(0, 1), "\7\0" .. special)
    local found = read("ids", tail, first)
    assert.is_true(found.good, found.message)
    refused("numbers of sequences and documents", "ids",
      index({ sequences = 1 << 60, documents = 2 }, four(1), eight(0), eight(0, 1), "\7\0"), first)
    refused("numbers of sequences and documents", "ids",
      index({ sequences = 1, documents = 1 << 61 }, four(1), eight(0), eight(0, 1), "\7\0"), first)
    refused("no list of documents", "ids",
      index({ sequences = 1, documents = 0 }, four(1), eight(0), eight(0, 1), "\7\0"), first)
    refused("is outside", "ids", index(one, four(-1), eight(0), eight(0, 1), "\7\0"), first)
    refused("is outside", "ids", index(one, four((1 << 31) - 1), eight(0), eight(0, 1), "\7\0"), first)
    refused("is outside", "ids", index(one, four(1), eight(-8), eight(0, 1), "\7\0"), first)
    refused("do not follow one another", "ids",
      index({ sequences = 2, documents = 2 }, four(1, 1), eight(0, 0), eight(0, 2), "\7\0\7\0"), first)
    refused("in the order of its sequences", "ids",
      index({ sequences = 1, documents = 3 }, four(1), eight(0), eight(0, 1, 0), "\7\0"), first)
    refused("does not begin with its first", "ids", index(one, four(1), eight(0), eight(-1, 1), "\7\0"), first)
    refused("its ids are of type 6", "ids",
      index({ type = 6, sequences = 1, documents = 2 }, four(1), eight(0), eight(0, 1), "\7\0\0\0"), first)
    refused("no documents with tokens", "ids",
      index({ sequences = 0, documents = 1 << 20 }, "", "", eight(0):rep(1 << 20), ""), first)
    local many = 300000
    local starts = {}
    for i = 1, many do starts[i] = eight(2 * (i - 1)) end
    found = read("ids", index({ sequences = many, documents = 2 }, four(1):rep(many), table.concat(starts),
      eight(0, many), ("\7\0"):rep(many)), first)
    assert.is_true(found.good, found.message)
  end)

  cases("of .zst files is that of a window and a line", function()
    local first = sys.real_path("tests/data/inputs/vocab.txt")
    local function zst(bytes) return file("z.zst", bytes) end
    local function made(command)
      local path = zst("")
      assert(os.execute(("%s > '%s'"):format(command, path)))
      return path
    end
    local words = made("yes word 2>/dev/null | head -c 250M | zstd -q -1 --long=27")
    assert.is_true(read("sentences", words, first, ZSTD).good)
    assert.is_true(read("sentences", made("head -c 100M /dev/zero | tr '\\0' x | zstd -q"), first, ZSTD).good)
    local empty = sr.must(sys.read_file(made("zstd -q < /dev/null")))
    assert.is_true(read("sentences", zst(empty:rep(200000)), first, ZSTD).good)
    local skipped = "\x50\x2A\x4D\x18" .. string.pack("<I4", 0)
    assert.is_true(read("sentences", zst(skipped:rep(200000)), first, ZSTD).good)
    local magic = "\x28\xB5\x2F\xFD"
    refused("window of more than 128 MiB", "sentences", zst(magic .. "\x00\xFF" .. ("\0"):rep(64)), first, ZSTD)
    refused("window of more than 128 MiB", "sentences",
      zst(magic .. "\xE0" .. string.pack("<I8", 1 << 60) .. ("\0"):rep(64)), first, ZSTD)
    refused("compressed with a dictionary", "sentences",
      zst(magic .. "\x23\x07\x00\x00\x00\x01" .. ("\0"):rep(64)), first, ZSTD)
    refused("damaged", "sentences", zst(magic .. ("\xFF"):rep(1 << 20)), first, ZSTD)
    refused("truncated", "sentences", zst("\x50\x2A\x4D\x18" .. string.pack("<I4", (1 << 32) - 1)), first, ZSTD)
    refused("truncated", "sentences", zst(magic), first, ZSTD)
  end)
end)

describe("a byte that is another", function()
  ---Reads copies of a file in each of which one byte is another; each is read, or refused in one sentence.
  local function flip(name, whole, step, prepare)
    local refusals = 0
    for at = 1, #whole, step do
      local text = whole:sub(1, at - 1) .. string.char(whole:byte(at) ~ (1 << at % 8)) .. whole:sub(at + 1)
      local path = program.write(folder, name, text)
      local made, message, code = prepare(path)
      if not made then
        refusals = refusals + 1
        assert.is_true(code == "data" or code == "config" or code == "missing", code)
        assert.is_nil(message:find("\n"), message)
        assert.truthy(message:find(name:match("^%w+"), 1, true), message)
      end
    end
    assert.is_true(refusals > 0)
  end

  it("in an indexed set ends with one sentence, or is read", function()
    sr.must(sys.write_file(folder .. "/mutant.bin", sr.must(sys.read_file("tests/data/inputs/indexed.bin"))))
    flip("mutant.idx", sr.must(sys.read_file("tests/data/inputs/indexed.idx")), 1, function(mutant)
      return sr.data.prepare { inputs = mutant, out = folder .. "/x.sqr", vocab = "tests/data/inputs/vocab.txt",
        overwrite = true }
    end)
  end)

  it("in a .zst file ends with one sentence, or is read", function()
    local path = program.write(folder, "some.txt", ("The cat sat on the mat. A dog ran home, number %d.\n"):rep(9))
    assert(os.execute(("zstd -q -f --check '%s' -o '%s/some.zst'"):format(path, folder)))
    flip("mutant.zst", sr.must(sys.read_file(folder .. "/some.zst")), 1, function(mutant)
      return sr.data.prepare { inputs = mutant, out = folder .. "/x.sqr", vocab = "tests/data/inputs/vocab.txt",
        overwrite = true }
    end)
  end)
end)
