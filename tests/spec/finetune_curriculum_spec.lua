-- Fine-tuning with curricula and with rates by tokens: the same keys as in pretraining, exact after a stop.

local fails = require("tests.support.fails")
local files = require("tests.support.task_files")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local folder = program.folder()
local base, data = files.encoder(folder .. "/base"), {}
for _, kind in ipairs { "classify", "choice", "squad", "tokens" } do data[kind] = files.write(folder, kind) end

local function words(kind, ...)
  local list = {
    "recipes/finetune.lua", "task=" .. kind, "data.train=" .. data[kind].train, "data.dev=" .. data[kind].dev,
    "data.folder=" .. folder .. "/sets", "init.from=" .. base, "data.max_len=48", "data.query=16", "save.minutes=0",
    "log.every=1", "batch.sequences=16", "epochs=1", "--quiet",
  }
  table.move(data[kind].words, 1, #data[kind].words, #list + 1, list)
  return table.move({ ... }, 1, select("#", ...), #list + 1, list)
end

local function succeeds(kind, ...) return program.ok(words(kind, ...)) end

local function refused(kind, expected, ...)
  fails.exiting(2, expected, words(kind, "--out", folder .. "/none", ...))
end

local COURSE = {
  "curriculum.length.min=8", "curriculum.length.max=48", "curriculum.length.total=0.5", "curriculum.rarity.min=20",
  "curriculum.rarity.max=100", "curriculum.rarity.total=20", "curriculum.order=reversed", "token_drop.keep=0.75",
  "token_drop.layers=[0,1]",
}
local BY_TOKENS = {
  "rate.by=effective_tokens", "rate.total=3000", "rate.warmup_by=effective_tokens", "rate.warmup=10%",
  "curriculum.length.total=20", "rate.floor=1e-5", "rate.decay=cosine", "rate.peak=1e-3",
}

describe("fine-tuning", function()
  it("follows a curriculum of lengths and of examples, and is the same after a stop", function()
    local out, stopped = folder .. "/straight", folder .. "/stopped"
    succeeds("classify", "--out", out, table.unpack(COURSE))
    local lines = small.metrics(out)
    local tokens = {}
    for i, line in ipairs(lines) do
      assert.equal(16 * i, line.sequences)
      tokens[i] = line.real_tokens - (i > 1 and lines[i - 1].real_tokens or 0)
    end
    assert.is_true(tokens[1] <= 16 * 8, "sequences are cut to 8 tokens at first")
    assert.is_true(lines[#lines].raw_tokens > lines[#lines].real_tokens)
    succeeds("classify", "--out", stopped, "--max-steps", "3", table.unpack(COURSE))
    program.ok { "recipes/finetune.lua", "--resume=" .. stopped, "--quiet" }
    assert.same(lines, small.metrics(stopped))
    assert.same(small.weights(out, #lines), small.weights(stopped, #lines))
    local text = succeeds("classify", "--dry-run", "--out", folder .. "/none", table.unpack(COURSE))
    assert.matches("step 1: .*rarity .* sequences of at most 8 tokens", text)
    local dev = table.move(data.classify.words, 1, #data.classify.words, 4, { "eval", out, data.classify.dev })
    dev[#dev + 1] = "data.max_len=32" -- shorter than curriculum.length.max, which says nothing of an evaluation
    program.ok(dev)
  end)

  it("decays and ends by tokens", function()
    local out, all = folder .. "/tokens", table.move(COURSE, 1, #COURSE, 1, {})
    table.move(BY_TOKENS, 1, #BY_TOKENS, #all + 1, all)
    local text = succeeds("classify", "--dry-run", "--out", out, table.unpack(all))
    assert.truthy(text:find("peak 0.001 after 300 effective_tokens, cosine decay to 1e-05 at 3000 effective_tokens", 1,
      true), text)
    succeeds("classify", "--out", out, table.unpack(all))
    local lines = small.metrics(out)
    local last = lines[#lines]
    assert.is_true(last.effective_tokens >= 3000 and lines[#lines - 1].effective_tokens < 3000)
    assert.equal(1e-5, last.lr)
    for _, line in ipairs(lines) do
      if line.effective_tokens <= 300 then assert.near(1e-3 * line.effective_tokens / 300, line.lr, 1e-9) end
    end
  end)

  it("unlocks examples by their loss under a checkpoint", function()
    local out = folder .. "/first"
    succeeds("classify", "--out", out, "--max-steps", "2")
    local sets = sys.list(folder .. "/sets")
    local set
    for _, name in ipairs(sets) do
      if name:find("^classify%-train.*%.sqr$") then set = folder .. "/sets/" .. name end
    end
    program.ok { "analyze", set, "--metric", "loss", "--checkpoint", out }
    local metric = set:gsub("%.sqr$", ".loss.metric")
    succeeds("classify", "--out", folder .. "/by_loss", "--max-steps", "4", "curriculum.loss.file=" .. metric,
      "curriculum.loss.min=10", "curriculum.loss.max=100", "curriculum.loss.total=10")
    assert.equal(4, #small.metrics(folder .. "/by_loss"))
  end)

  it("draws windows of questions and sequences of tags by metrics too", function()
    local by = { "curriculum.length_rarity.kind=fraction", "curriculum.length_rarity.min=0.25",
      "curriculum.length_rarity.max=1", "curriculum.length_rarity.total=10", "--max-steps", "2" }
    succeeds("squad", "--out", folder .. "/squad", table.unpack(by))
    succeeds("tokens", "--out", folder .. "/tags", "curriculum.cut=pieces", "curriculum.length=16", table.unpack(by))
  end)

  it("refuses what makes no sense, and says why", function()
    refused("choice", "curriculum.rarity: the choices of a question belong in one micro-batch, but a curriculum draws",
      "curriculum.rarity=50")
    refused("choice", "curriculum.length: the choices of a question", "curriculum.length=16")
    refused("squad", "curriculum.length: it would cut answers out of their windows", "curriculum.length=16")
    refused("classify", "curriculum.cut: pieces of an example would all have its label; use truncate",
      "curriculum.cut=pieces", "curriculum.length=16")
    refused("classify", "curriculum.examples: fresh draws new sentence pairs from text", "curriculum.examples=fresh",
      "curriculum.rarity=50")
    refused("classify", "curriculum.length: max is 64, but data.max_len is 48", "curriculum.length=64")
    refused("classify", "rate.by=real_tokens needs rate.total, where the decay and the run end", "rate.by=real_tokens")
    refused("classify", "rate.total requires rate.by", "rate.total=100")
    refused("classify", "rate.warmup is 0.1, a fraction of steps whose number is not known", "rate.by=real_tokens",
      "rate.total=3000")
    refused("classify", "rate.warmup is 3000 of 3000 real_tokens", "rate.by=real_tokens", "rate.total=3000",
      "rate.warmup=3000", "rate.warmup_by=real_tokens")
    refused("classify", "rate.floor 1 exceeds rate.peak", "rate.floor=1") -- for others of pretraining: counters_spec
    refused("classify", "curriculum.loss.file is missing", "curriculum.loss=3")
  end)
end)
