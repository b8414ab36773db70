-- The recipes: presets have the published values, and each is a valid config.

local config = require("seqrun.config")
local run = require("seqrun.run")
local tasks = require("seqrun.tasks")

---The values of a recipe's preset.
local function values_of(recipe, preset)
  local schema, rules = run.schema(tasks.pretraining)
  local loaded, message = config.load {
    schema = schema, rules = rules, file = ("recipes/%s.yaml"):format(recipe),
    arguments = { "preset=" .. preset },
  }
  return assert(loaded, message).values
end

local function near(wanted, got)
  assert.is_true(math.abs(got / wanted - 1) < 1e-12, ("%g is not %g"):format(got, wanted))
end

---The published settings of BERT-Large; schedules scale with the steps of a baseline of as many tokens.
local PUBLISHED = {
  { "large", 1e-4, 2e6 }, { "large_cl", 1e-4, 2e6, 960000 }, { "large_cl_67", 1.5e-4, 1.34e6, 643200 },
  { "large_token_drop_50", 2e-4, 1e6, nil, 1e6 }, { "large_composed_50", 2e-4, 1e6, 480000, 1e6 },
}

describe("recipes", function()
  it("train BERT-Large with curricula and token dropping as published, scaled by steps and tokens", function()
    local schema, rules = run.schema(tasks.curriculum)
    for _, row in ipairs(PUBLISHED) do
      local name, peak, steps, curriculum, dropping = table.unpack(row, 1, 5)
      local v = assert(config.load { schema = schema, rules = rules, file = "recipes/curriculum.yaml",
        arguments = { "preset=" .. name } }).values
      assert.same({ peak, 10000, "effective_tokens", 1e-5 }, { v.rate.peak, v.rate.warmup, v.rate.by, v.rate.floor })
      assert.is_true(math.abs(v.rate.total / (steps * 1024 * 512) - 1) < 1e-9, name)
      assert.same({ 1024, 512, 24 }, { v.batch.sequences, v.data.max_len, v.model.num_hidden_layers })
      local length, rarity, keep = v.curriculum.length, v.curriculum.rarity, v.token_drop.keep
      if not curriculum then
        assert.is_nil(length or rarity)
      else
        assert.same({ 128, 512, 8, curriculum }, { length.min, length.max, length.quantum, length.total })
        assert.same({ "root", 2, 5, 100, curriculum },
          { rarity.type, rarity.degree, rarity.min, rarity.max, rarity.total })
      end
      assert.same(dropping and { 128, 512, 16, dropping } or {},
        keep and { keep.min, keep.max, keep.quantum, keep.total } or {})
    end
  end)

  it("train BERT-base as Google did: one schedule over both phases", function()
    for recipe, own in pairs {
      bert_phase1 = { len = 128, max = 20, steps = 900000, from = 0 },
      bert_phase2 = { len = 512, max = 80, steps = 100000, from = 900000 },
    } do
      for _, preset in ipairs { "base", "none" } do
        local v = values_of(recipe, preset)
        assert.same({ own.len, own.max, own.from }, { v.data.max_len, v.mask.max, v.rate.from })
        assert.equal(own.steps, v.steps or v.rate.total - v.rate.from)
        assert.same({ 256, "adamw", 0.01, 1e-6, 1.0 },
          { v.batch.sequences, v.optimizer.name, v.optimizer.decay, v.optimizer.eps, v.optimizer.clip })
        assert.same({ 0.9, 0.999 }, v.optimizer.betas)
        assert.same({ 12, 768, 12, 3072, 512 }, { v.model.num_hidden_layers, v.model.hidden_size,
          v.model.num_attention_heads, v.model.intermediate_size, v.model.max_position_embeddings })
        assert.same({ 0.1, 0.1, 0.02, 1e-12 }, { v.model.hidden_dropout_prob, v.model.attention_probs_dropout_prob,
          v.model.initializer_range, v.model.layer_norm_eps })
        assert.same({ 0.15, 0.1, true }, { v.mask.prob, v.data.short_seq_prob, v.data.nsp })
      end
    end
    local first, second = run.schedule(values_of("bert_phase1", "base")), run.schedule(values_of("bert_phase2", "base"))
    near(1e-8, first(1))
    near(1e-4, first(10000))
    near(1e-4 * (1 - 0.010001), first(10001))
    near(1e-4 * 0.1, first(900000))
    near(1e-4 * (1 - 0.900001), second(1))
    assert.equal(0, second(100000))
  end)

  it("train BERT-Large as NVIDIA does from scratch: LAMB, a schedule for each phase", function()
    for recipe, own in pairs {
      bert_phase1 = { len = 128, max = 20, batch = 65536, peak = 6e-3, warmup = 2001, total = 7038 },
      bert_phase2 = { len = 512, max = 80, batch = 32768, peak = 4e-3, warmup = 200, total = 1563 },
    } do
      local v = values_of(recipe, "large")
      assert.same({ own.len, own.max, own.batch, 0 }, { v.data.max_len, v.mask.max, v.batch.sequences, v.rate.from })
      assert.same({ "lamb", 0.01, 1.0 }, { v.optimizer.name, v.optimizer.decay, v.optimizer.clip })
      assert.same({ 0.9, 0.999 }, v.optimizer.betas)
      assert.same({ 24, 1024, 16, 4096 }, { v.model.num_hidden_layers, v.model.hidden_size,
        v.model.num_attention_heads, v.model.intermediate_size })
      local rate = run.schedule(v)
      near(own.peak, rate(own.warmup))
      near(own.peak * math.sqrt(1 - (own.warmup + 1) / own.total), rate(own.warmup + 1))
      assert.equal(0, rate(own.total))
      assert.is_nil(v.steps)
    end
    assert.equal("moments", values_of("bert_phase2", "large").init.carry)
  end)

  it("have the demo as a small preset", function()
    for _, recipe in ipairs { "bert_phase1", "bert_phase2" } do
      local v = values_of(recipe, "demo")
      assert.same({ 2, 128, 4, 512 }, { v.model.num_hidden_layers, v.model.hidden_size, v.model.num_attention_heads,
        v.model.intermediate_size })
      assert.same({ false, 0 }, { v.data.nsp, v.model.hidden_dropout_prob })
    end
  end)
end)
