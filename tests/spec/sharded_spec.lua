-- A sharded optimizer: many ranks train and save as one does, whoever saved before.

local checkpoint = require("seqrun.checkpoint")
local devices = require("tests.support.devices")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local on_ranks = mpi.tests(it, function(why) pending(why) end)

---Trains on n ranks; the directory of the checkpoints, then the words of tests/support/sharded.lua.
local function train(n, dir, ...)
  local words = { "tests/support/sharded.lua", dir, ... }
  local code, out, err
  if n == 1 then
    code, out, err = program.run(words)
  else
    code, out, err = mpi.run(n, words, { before = "SEQRUN_PLUGINS=" .. devices.plugin("late") })
  end
  assert.equal(0, code, out .. err)
  return out, err
end

---All numbers of a checkpoint: weights, and moments put together.
local function contents(path)
  local params = sr.params.new {
    { name = "word", shape = { 900, 64 } }, { name = "norm", shape = { 300 } }, { name = "q", shape = { 128, 300 } },
    { name = "k", shape = { 128, 300 } }, { name = "bias", shape = { 70 } },
  }
  local kind = sr.must(checkpoint.state(path)).optimizer.kind
  local opt = sr.optim[kind](params)
  sr.must(checkpoint.load(path, { model = params, opt = opt, carry = "resume" }))
  local list = { table.concat({ opt:counts() }, " ") }
  for _, name in ipairs(params:names()) do
    local m, v = opt:moments(name)
    for _, t in ipairs { params:value_of(name), m, v } do list[#list + 1] = t:contiguous():tostring_bytes() end
  end
  return table.concat(list)
end

local function same(wanted, dir, step)
  assert.is_true(wanted == contents(("%s/step-%09d"):format(dir, step)), "step " .. step .. " differs")
end

describe("a sharded optimizer", function()
  local dir
  before_each(function() dir = program.folder() end)
  after_each(function() sys.remove(dir) end)

  on_ranks("trains as one does, and resumes on another number of ranks", function()
    train(1, dir .. "/one", "lamb", "f32", "0", "3")
    train(3, dir .. "/many", "lamb", "f32", "0", "2")
    train(2, dir .. "/many", "lamb", "f32", "2", "3", "late") -- a device that is not done when a call returns
    same(contents(dir .. "/one/step-000000003"), dir .. "/many", 3)
  end)

  on_ranks("has the masters of all ranks in a checkpoint when ops read bf16 copies", function()
    train(1, dir .. "/one", "adamw", "bf16", "0", "3")
    train(2, dir .. "/many", "adamw", "bf16", "0", "2")
    train(1, dir .. "/many", "adamw", "bf16", "2", "3")
    same(contents(dir .. "/one/step-000000003"), dir .. "/many", 3)
  end)

  for _, kind in ipairs { "stable_adamw", "muon" } do
    on_ranks("has the bits of one rank with " .. kind .. ", also after a resume on another number of ranks", function()
      train(1, dir .. "/one", kind, "f32", "0", "3")
      train(3, dir .. "/many", kind, "f32", "0", "2")
      train(2, dir .. "/many", kind, "f32", "2", "3", "late")
      same(contents(dir .. "/one/step-000000003"), dir .. "/many", 3)
    end)
  end

  on_ranks("skips an update on all ranks when the loss of one is not finite", function()
    train(2, dir .. "/two", "adamw", "f32", "0", "3", "loss")
    train(2, dir .. "/whole", "adamw", "f32", "0", "3", "loss", "whole")
    local wanted = contents(dir .. "/two/step-000000003")
    assert.equal("2 1 0", wanted:sub(1, 5))
    same(wanted, dir .. "/whole", 3)
  end)

  on_ranks("keeps the checkpoint before when the disk of one rank is full", function()
    local out = train(3, dir, "lamb", "f32", "0", "3", "full 2")
    for rank = 0, 2 do assert.is_truthy(out:find(("%d: rank 2: "):format(rank), 1, true), out) end
    assert.equal(3, select(2, out:gsub("No space left on device[^\n]* %(storage%)\n", "")), out)
    assert.equal(2, select(2, checkpoint.latest(dir)))
    assert.same({ "step-000000002" }, sys.list(dir))
  end)

  on_ranks("names the rank whose file is lost", function()
    train(3, dir, "lamb", "f32", "0", "1")
    local path = dir .. "/step-000000001"
    assert(os.remove(path .. "/trainer/optim-rank1-of-3.safetensors"))
    local _, message = checkpoint.latest(dir)
    assert.is_truthy(message:find("optim-rank1-of-3.safetensors: the file is missing", 1, true), message)
    assert(os.remove(path .. "/MANIFEST")) -- as a copy may lack it
    _, message = pcall(contents, path)
    assert.is_truthy(tostring(message):find("the moments of rank 1 of 3", 1, true), tostring(message))
  end)

  on_ranks("lets a run go on, and end with its newest checkpoint, when the disk of one rank is full", function()
    local recipe, changed = assert(sys.read_file("recipes/pretrain.lua")):gsub("  run:log%(step, optimizer%)\n", [[%0
      if run.ranks.rank == 1 and (step == 4 or step == 8) then
        dofile("tests/support/fault.lua").storage(1, "ENOSPC", "write")
      end
    ]])
    assert.equal(1, changed)
    local corpus = small.corpus(dir)
    local words = small.words(corpus, "save.every=2", "--max-steps", "8", "threads=1", "--out", dir .. "/out")
    words[1] = program.write(dir, "full.lua", recipe)
    program.write(dir, "full.yaml", assert(sys.read_file("recipes/pretrain.yaml")))
    local _, err = exits(5, "warning: rank 1: [^\n]*No space left on device[^\n]*step 4 is not saved",
      mpi.run(2, words))
    assert.is_truthy(err:find("seqrun: rank 1: [^\n]*No space left on device[^\n]*step 8 is not saved"), err)
    assert.equal(6, select(2, checkpoint.latest(dir .. "/out")))
  end)

  on_ranks("takes the memory that the run reports", function()
    local out, err = works(mpi.run(2, {
      "tests/support/rank_memory.lua", "data.file=" .. small.corpus(dir),
      "data.max_len=48", "mask.max=8", "data.held=0",
      "model.hidden_size=384", "model.num_hidden_layers=6", "model.num_attention_heads=6",
      "model.intermediate_size=1536", "model.max_position_embeddings=64", "batch.sequences=5", "batch.micro_packs=1",
      "batch.shares=4", "rate.peak=1e-4", "rate.total=40", "steps=2", "precision=bf16", "optimizer.name=lamb",
      "threads=1", "log.every=1", "--out", dir .. "/out",
    }, { seconds = 400 })) -- long with sanitizers
    local line = "memory  at least [%d.]+ MiB on rank 0 %(.*, [%d.]+ MiB on the others"
    assert.is_truthy((out .. err):find(line), out .. err)
    local said, grew = out:match("1: (%d+) (%d+)")
    -- More by buffers whose size does not depend on the model: of the engine, of products, and pages of 2 MiB.
    assert.is_true(grew / said > 0.97 and grew - said < 64e6, ("%d bytes were reported, %d used"):format(said, grew))
  end)
end)
