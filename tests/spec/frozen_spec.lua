-- Files that an earlier version wrote (tests/data/frozen/README.md): they are read, and runs resume, as they did then.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local FROZEN = "tests/data/frozen"

---The recipe of each run; its directory keeps the name that it had.
local RECIPES = { run = "pretrain", curriculum = "curriculum", averaged = "pretrain" }

---Losses of the last four steps, and the losses of the last evaluation, as the version that wrote them went on.
local RECORDED = {
  run = {
    { 5.985805988311768, 5.97176718711853, 5.980754375457764, 5.955775499343872 }, 5.301918792724609, 2035,
  },
  averaged = { -- on two ranks, resumed here on one
    { 5.9858057498931885, 5.971766948699951, 5.980754613876343, 5.955775499343872 }, 5.301918792724609, 2035,
  },
  curriculum = {
    { 5.954339265823364, 5.958238124847412, 5.957722187042236, 5.92891263961792 }, 5.304785664876302, 2000,
    { 20, 24, 28, 32 },
  },
}

---Libraries of other machines may round exp and log otherwise in the last bit.
local TOLERANCE = 1e-5

local folder = program.folder()
local root = sys.real_path(".")
assert(os.execute(("cp -r %s/. '%s' && chmod -R u+w '%s'"):format(FROZEN, folder, folder)))

local function run(words, options)
  options = options or {}
  options.before = ("cd '%s' &&"):format(folder)
  return program.run(words, options)
end

describe("a data set of an earlier version", function()
  it("has its text, its vocabulary and its examples", function()
    local corpus = sr.must(sr.data.open(folder .. "/text.sqr", { held = 0.05 }))
    local info = corpus:info()
    assert.same({ "aec10628e2759808", 9496, 50, 167, 200, true },
      { info.digest, info.tokens, info.documents, info.sentences, corpus:vocab_size(), corpus:lowercase() })
    local loader <close> = sr.must(sr.data.loader { data = corpus, max_len = 32, sequences = 8, seed = 42 })
    local scope <close> = sr.scope()
    for batch in loader:next():batches() do assert.equal(2, batch.ids:narrow(1, 1, 1):item()) end -- [CLS]
  end)

  it("of labelled rows has its columns and its labels", function()
    local _, name = assert(sys.list(folder)), nil
    for _, file in ipairs(sys.list(folder)) do name = file:match("^reviews%-.*%.sqr$") or name end
    local set = sr.must(sr.data.open(folder .. "/" .. name, { held = 0 }))
    assert.same({ "no", "yes" }, set:labels())
    assert.same({ 16, 1, "a very good and happy day number 1" },
      { set:info().examples, set:column("label", 1), set:column("text", 1) })
  end)

  it("has the number 1", function()
    for _, name in ipairs { "text.sqr", "text.rarity.metric" } do
      local bytes = assert(sys.read_file(folder .. "/" .. name))
      assert.equal("\x89SQR\r\n\x1a\n\x01\0\0\0", bytes:sub(1, 12))
    end
  end)
end)

it("the hashes of checked steps and the average of an earlier version are read", function()
  local count = 0
  for _, line in ipairs(sr.must(sr.metrics.read(folder .. "/averaged"))) do
    if line.type == "verify" then count = count + (line.equal and #line.weights_hash == 32 and 1 or 0) end
  end
  assert.equal(2, count)
  local plain = sr.must(sr.encode.open(folder .. "/averaged")):one("the house")
  local mean = sr.must(sr.encode.open(folder .. "/averaged", { average = true })):one("the house")
  assert.same({ 16, 16 }, { #plain, #mean })
  assert.not_equal(plain[1], mean[1])
end)

it("a metric file, a plan and a certificate of an earlier version have their values", function()
  local metric = sr.must(sr.data.metric(folder .. "/text.rarity.metric"))
  assert.equal(138, metric:count())
  local plan = sr.must(sr.pack.load(folder .. "/plan.txt"))
  local found = { plan.solver, plan.packs, plan.lower_bound, plan.tokens, plan.max_seqs }
  assert.same({ "optimal", 140, 140, 4452, 3 }, found)
  assert.matches("capacity\t32\tmax_seqs_per_pack\t3", assert(sys.read_file(folder .. "/proof.txt")))
end)

describe("a file of a later version is refused:", function()
  local function later(path, from)
    local text, count = assert(sys.read_file(folder .. "/" .. path)):gsub(from .. " 1\n", from .. " 9\n", 1)
    assert.equal(1, count)
    return text
  end

  it("a plan", function()
    fails.returning(nil, "unsupported version; expected version 1",
      sr.pack.load(program.write(folder, "later.txt", later("plan.txt", "seqrun plan"))))
  end)

  it("a checkpoint", function()
    assert(os.execute(("cp -r '%s/run' '%s/later'"):format(folder, folder)))
    program.write(folder, "later/step-000000004/MANIFEST", later("run/step-000000004/MANIFEST", "seqrun checkpoint"))
    program.exits(3, "format version 9 is not 1",
      run { root .. "/recipes/" .. RECIPES.run .. ".lua", "--resume=later", "--quiet" })
  end)
end)

-- Of .sqr and .metric, tests/c/shard.c has the cases.
describe("a file of another machine or program is refused by name:", function()
  ---What refuses a file of these bytes.
  local function refused(name, bytes, open)
    local path = program.write(folder, name, bytes)
    return fails.returning("data", path, open(path))
  end

  it("a data set", function()
    local text = assert(sys.read_file(folder .. "/text.sqr"))
    local swapped = text:sub(1, 8) .. text:sub(9, 12):reverse() .. text:sub(13, 16):reverse() .. text:sub(17)
    assert.matches("a big%-endian data set", refused("other.sqr", swapped, sr.data.open))
    assert.matches("not a data set %(no .sqr header at byte 0%)", refused("other.sqr", text:sub(2), sr.data.open))
    local metric = function(path) return sr.data.metric(path) end
    assert.matches("a big%-endian data set", refused("other.metric", swapped, metric))
  end)

  it("tensors: a header whose size is big-endian or of 32 bits", function()
    local header = '{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}'
    local function tensors(bytes)
      return refused("other.safetensors", bytes, function(path) return sr.checkpoint.read_tensors(path) end)
    end
    local rest = header .. "\0\0\0\0"
    assert.matches("the size of its header is big%-endian", tensors(string.pack(">I8", #header) .. rest))
    assert.matches("the header extends beyond the file", tensors(string.pack("<I4", #header) .. rest))
    assert.matches("not a valid safetensors file", tensors("PK\3\4" .. ("\0"):rep(60)))
  end)
end)

describe("a run of an earlier version", function()
  for name, recipe in pairs(RECIPES) do
    it("resumes as it went on then: " .. name, function()
      program.works(run { ("%s/recipes/%s.lua"):format(root, recipe), "--resume=" .. name, "--quiet" })
      local recorded, lines = RECORDED[name], small.metrics(folder .. "/" .. name, "train")
      assert.equal(8, #lines)
      for i, loss in ipairs(recorded[1]) do
        assert.near(loss, lines[4 + i].loss, TOLERANCE * loss)
        if recorded[4] then assert.equal(recorded[4][i], lines[4 + i].ltd or lines[4 + i].token_drop) end
      end
      local eval = small.metrics(folder .. "/" .. name, "eval")
      assert.near(recorded[2], eval[#eval].mlm_loss, TOLERANCE * recorded[2])
      assert.equal(recorded[3], lines[8].real_tokens)
    end)
  end

  it("is described, listed, compared and reported", function()
    for _, words in ipairs { { "info", "run", "--json" }, { "runs", ".", "--json" }, { "compare", "run", "curriculum" },
      { "report", "run", "-o", "report.html" } } do
      local out = program.works(run(words))
      if words[#words] == "--json" then json.decode(out) end
    end
  end)

  it("of a fine-tuning predicts the same labels, and goes on", function()
    local out = program.works(run({ "predict", "classify" }, { input = "a very good day\nno pleasure at night\n" }))
    local found = {}
    for line in out:gmatch("[^\n]+") do found[#found + 1] = json.decode(line) end
    assert.same({ "yes", "no" }, { found[1].label, found[2].label })
    assert.near(0.995337, found[1].probability, 1e-4)
    local again = { root .. "/recipes/finetune.lua", "task=classify", "--resume=classify", "--quiet" }
    for _, words in ipairs { again, { "export", "classify", "exported" } } do program.works(run(words)) end
  end)
end)
