-- Pretraining goes on from a model: its config.json says the sizes (families_pretrain_spec.lua: of every family).

local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder = program.folder()
local corpus = small.corpus(folder)
local base = folder .. "/base"
works(program.run(small.words(corpus, "--out", base, "--max-steps", "4")))

---A run by the recipe with its own YAML, from the model of `base`.
local function go_on(out, ...)
  local words = { "recipes/pretrain.lua", "data.file=" .. corpus, "data.max_len=48", "data.held=0.1", "mask.max=8",
    "batch.sequences=24", "batch.shares=none", "batch.micro_packs=4", "rate.peak=1e-3", "rate.warmup=2", "rate.total=8",
    "eval.updates=1", "init.from=" .. base, "--out", folder .. "/" .. out, "--quiet" }
  return program.run(table.move({ ... }, 1, select("#", ...), #words + 1, words))
end

local function config_of(out) return assert(sys.read_file(("%s/%s/config.yaml"):format(folder, out))) end

describe("a model that goes on", function()
  it("has the sizes of its config.json, for which the YAML of the recipe gives way", function()
    local _, said = works(go_on("own"))
    assert.is_nil(said:find("is otherwise", 1, true)) -- of a recipe that ships
    for _, line in ipairs { "hidden_size: 16", "num_hidden_layers: 2", "intermediate_size: 32" } do
      assert.matches("\n  " .. line .. "\n", config_of "own")
    end
  end)

  it("is evaluated before and after, also over a stop", function()
    local before, after = small.metrics(base, "eval"), small.metrics(folder .. "/own", "eval")
    assert.equal(before[#before].mlm_loss, after[1].mlm_loss)
    assert.same({ 0, 8 }, { after[1].step, after[2].step })
    works(go_on("half", "--max-steps", "3"))
    local _, out = works(program.run { "recipes/pretrain.lua", "--resume=" .. folder .. "/half" })
    out = out .. assert(sys.read_file(folder .. "/half/run.log"))
    assert.matches(("before     mlm loss %.3f"):format(before[#before].mlm_loss), out)
    assert.same(small.weights(folder .. "/own", 8), small.weights(folder .. "/half", 8))
  end)

  it("is refused with other sizes, at the word that gives them; dropout and experts are free", function()
    local wanted = "model.hidden_size is 32, but the model of init.from, %S*, has 16; leave the key out"
    exits(2, "command line: " .. wanted, go_on("other", "model.hidden_size=32"))
    local given = program.write(folder, "given.yaml", "model:\n  hidden_size: 32\n")
    exits(2, "given.yaml:2:16: " .. wanted, go_on("other", "config=" .. given))
    exits(2, "model.family is modernbert, but the model of init.from, %S*, has bert",
      go_on("other", "model.family=modernbert"))
    works(go_on("free", "model.hidden_dropout_prob=0.3", "model.experts=2", "--max-steps", "1"))
    assert.matches("\n  hidden_dropout_prob: 0.3\n.*\n  experts: %[2%]\n", config_of "free")
    works(go_on("tiled", "init.tile=true", "model.hidden_size=32", "model.max_position_embeddings=64", "--max-steps",
      "1"))
  end)

  it("is not given more positions than it has, and is refused by the recipe of other models", function()
    exits(2, "max_len 96 exceeds the 64 position embeddings of the model; set data.max_len=64, or", go_on("long",
      "data.max_len=96"))
    local causal = program.folder() .. "/causal"
    works(program.run(small.recipe("causal", corpus, "model.n_embd=16", "model.n_head=2", "model.n_layer=1",
      "rate.total=8", "--max-steps", "1", "--quiet", "--out", causal)))
    exits(2, "the family gpt2 is causal: train it with recipes/causal.lua", go_on("causal", "init.from=" .. causal))
  end)

  it("may be of another family than the YAML of the recipe", function()
    program.write(folder, "mine.yaml", "model: {family: modernbert, hidden_size: 64, local_attention: 8}\n")
    program.write(folder, "mine.lua", assert(sys.read_file("recipes/pretrain.lua")))
    local words = small.recipe("pretrain", corpus, "rate.total=8", "init.from=" .. base, "--max-steps", "1", "--quiet",
      "--out", folder .. "/mine")
    words[1] = folder .. "/mine.lua"
    table.remove(words, 2) -- its config=
    local _, said = works(program.run(words))
    assert.matches("mine.yaml: model.family, model.hidden_size: the model of init.from is otherwise, and counts", said)
    assert.matches("\n  family: bert\n  hidden_size: 16\n", config_of "mine")
  end)

  it("is needed by the preset that goes on", function()
    local words = { "recipes/pretrain.lua", "preset=continue", "data.file=" .. corpus, "--dry-run" }
    exits(3, "init.from: DIR: no such file or directory; give a run", program.run(words))
  end)

  it("is warned of a rate for random weights", function()
    local sanity, model = require("seqrun.run.checks.sanity"), { design = { hidden = 384 } }
    local function warning(peak, carry, resumes)
      return sanity.forgetting({ model = model, resumes = resumes },
        { init = { from = "x", carry = carry }, rate = { peak = peak }, optimizer = { name = "adamw" } })
    end
    assert.matches("rate.peak is 0.002, which is for random weights.* up to 3e%-04", warning(2e-3, "weights"))
    assert.same({}, { warning(1e-4, "weights"), warning(2e-3, "moments"), warning(2e-3, "weights", true) })
    model.design.hidden = 128
    assert.is_nil(warning(2e-3, "weights"))
    assert.equal(1e-4, sr.must(require("seqrun.config").load {
      schema = sr.run.schema(sr.tasks.pretraining), file = "recipes/pretrain.yaml", arguments = { "preset=continue" },
    }).values.rate.peak)
  end)
end)
