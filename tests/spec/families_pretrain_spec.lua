-- Pretraining of every family by the recipe: the keys of its config.json, its head, a resume, what is saved.

local config = require("seqrun.config")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder, corpus = small.folder()

---Sizes by the names that families have for them.
local SIZES = {
  hidden_size = 16, num_hidden_layers = 3, num_attention_heads = 2, intermediate_size = 32, embedding_size = 8,
  dim = 16, n_layers = 3, n_heads = 2, hidden_dim = 32, max_position_embeddings = 80, num_key_value_heads = 1,
  local_attention = 8, global_attn_every_n_layers = 2,
}

local function words_of(family, out, ...)
  local words = small.recipe("pretrain", corpus, "rate.peak=3e-3", "rate.warmup=3", "rate.total=20", "eval.updates=1",
    "--quiet", "model.family=" .. family, "--out", out)
  local schema = sr.run.schema(sr.tasks.pretraining).by_name.model
  local keys = config.chosen(schema, family).by_name
  for name, size in pairs(SIZES) do
    if keys[name] then words[#words + 1] = ("model.%s=%d"):format(name, size) end
  end
  return table.move({ ... }, 1, select("#", ...), #words + 1, words)
end

local run = program.ok

for _, family in ipairs(sr.nn.family_names()) do
  if require("seqrun.nn.families").find(family).causal then goto continue end -- recipes/causal.lua trains it
  describe("pretraining of " .. family, function()
    it("learns, resumes to the bit, and is saved as Transformers names it", function()
      local out, half = folder .. "/" .. family, folder .. "/" .. family .. "-half"
      run(words_of(family, out))
      run(words_of(family, half, "--max-steps", "9"))
      run { "recipes/pretrain.lua", "--resume=" .. half, "--quiet" }
      local last, other = sr.must(sr.checkpoint.resolve(out)), sr.must(sr.checkpoint.resolve(half))
      assert.equal(sys.read_file(last .. "/model.safetensors"), sys.read_file(other .. "/model.safetensors"))
      local saved = json.decode(sys.read_file(last .. "/config.json"))
      local found = require("seqrun.nn.families").find(family)
      local class = found.class
      if found.keys.pad_token_id then assert.equal(0, saved.pad_token_id, "that of the vocabulary") end
      assert.equal(family, saved.model_type)
      assert.equal(class .. (family == "bert" and "ForPreTraining" or "ForMaskedLM"), saved.architectures[1])
      local lines = {}
      for line in io.lines(out .. "/metrics.jsonl") do lines[#lines + 1] = json.decode(line) end
      local first = lines[1].type == "train" and lines[1] or lines[2]
      local after = lines[#lines].mlm_loss
      assert.is_true(after < first.mlm_loss, ("%g, then %g"):format(first.mlm_loss, after))
      local on = out .. "-on" -- without keys of the model: those of its config.json
      run(small.recipe("pretrain", corpus, "rate.peak=3e-3", "rate.warmup=3", "rate.total=20", "eval.updates=1",
        "--quiet", "init.from=" .. out, "--out", on, "--max-steps", "1"))
      assert.equal(after, small.metrics(on, "eval")[1].mlm_loss)
      local fill = sr.must(sr.fill.open(out))
      assert.equal(5, #fill:one("The cat [MASK] the dog.").masks[1])
    end)
  end)
  ::continue::
end

it("fine-tuning refuses the dropout keys of another family, and poolings that the family does not have", function()
  local data = program.write(folder, "few.jsonl", '{"text": "it", "label": "a"}\n{"text": "was", "label": "b"}\n')
  local function refused(...)
    local code, _, err = program.run { "recipes/finetune.lua", "task=classify", "data.train=" .. data, "data.held=0",
      "init.from=tests/data/families/modernbert", "--out", folder .. "/refused", "--quiet", ... }
    assert.equal(2, code, err)
    return err
  end
  assert.matches("model.hidden_dropout_prob: not a key of the model of init.from, a modernbert model",
    refused "model.hidden_dropout_prob=0.1")
  assert.matches("model.classifier_pooling is 'late'; with modernbert choose cls, mean",
    refused "model.classifier_pooling=late")
end)

describe("the keys of a model", function()
  local schema, rules = sr.run.schema(sr.tasks.pretraining)

  local function load(...)
    return config.load {
      schema = schema, rules = rules, arguments = { "data.file=x", "rate.peak=1", "rate.total=9", ... },
    }
  end

  it("are those of its family, with the defaults of that", function()
    local loaded = sr.must(load("model.family=distilbert", "model.dim=24"))
    local model = loaded.values.model
    assert.same({ 24, 6, nil }, { model.dim, model.n_layers, model.hidden_size })
    assert.matches("\n  dim: 24\n", loaded:dump())
    local again = sr.must(config.load {
      schema = schema, rules = rules, file = program.write(folder, "again.yaml", loaded:dump()),
    })
    assert.same(loaded.values, again.values)
    assert.equal("bert", sr.must(load()).values.model.family)
  end)

  it("are refused in another family, and unknown families with a hint", function()
    local _, message = load("model.family=roberta", "model.hiden_size=24")
    assert.matches("unknown key 'hiden_size'; did you mean 'hidden_size'", message)
    _, message = load("model.family=distilbert", "model.hidden_size=24")
    assert.matches("unknown key 'hidden_size' with family=distilbert; .*dim", message)
    _, message = load("model.family=robert")
    assert.matches("'family' is 'robert'", message)
  end)

  it("may stand in a preset whose file names the family", function()
    local text = "model:\n  family: distilbert\npresets:\n  tiny:\n    model:\n      dim: 16\n"
    local loaded = sr.must(config.load {
      schema = schema, rules = rules, file = program.write(folder, "preset.yaml", text),
      arguments = { "preset=tiny", "data.file=x", "rate.peak=1", "rate.total=9" },
    })
    assert.equal(16, loaded.values.model.dim)
  end)
end)
