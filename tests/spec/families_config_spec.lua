-- Configs as models are published with, old and new: what is read of them, and which are refused, by name.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local mlm = require("seqrun.nn.heads.mlm")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local with = require("tests.support.with")

local CONFIGS = "tests/data/configs/"

local function read(name) return json.decode(sr.must(sys.read_file(CONFIGS .. name .. ".json"))) end

---What a directory with this config holds.
local function pretrained(config)
  local folder = program.folder()
  program.write(folder, "config.json", json.encode(config))
  program.write(folder, "model.safetensors", ("<s8"):pack "{}") -- no tensors
  return sr.checkpoint.pretrained(folder)
end

---Parameters of the encoder with a masked-LM head, if the model has one; nothing is allocated.
local function parameters_of(facts)
  local encoder = sr.nn.encoder(facts.config)
  local lists, seen, count = { encoder.specs }, {}, 0
  if facts.heads[1] == "mlm" then lists[2] = mlm.new(encoder).specs end
  for _, list in ipairs(lists) do
    for _, spec in ipairs(list) do
      local size = 1
      for _, n in ipairs(spec.shape) do size = size * n end
      count, seen[spec.name] = count + (seen[spec.name] and 0 or size), true
    end
  end
  return count
end

---Fields of the design; theta and window: of the layers 0, 1 and 3; false: none.
local MODELS = {
  ["ModernBERT-base"] = {
    parameters = 149655232, layers = 22, hidden = 768, heads = 12, kv_heads = 12, head_size = 64, inner = 1152,
    longest = 8192, norm = "before", eps = 1e-5, first_norm = false, final_norm = true, embedding_norm = true,
    types = 0, theta = { 160000, 10000, 160000 }, window = { false, 64, false }, act = "gelu", gate = "second",
    bias = { norm = false, qkv = false, out = false, up = false, down = false },
  },
  ["ModernBERT-large"] = {
    parameters = 395881664, layers = 28, hidden = 1024, heads = 16, inner = 2624, window = { false, 64, false },
  },
  ["ettin-encoder-17m"] = {
    parameters = 16913600, layers = 7, hidden = 256, heads = 4, inner = 384, theta = { 160000, 160000, 160000 },
    window = { false, 64, false }, longest = 7999,
  },
  ["mmBERT-base"] = {
    parameters = 307786240, vocabulary = 256000, theta = { 160000, 160000, 160000 }, window = { false, 64, false },
  },
  ["bert-base-uncased"] = {
    parameters = 109514298, longest = 512, norm = "after", eps = 1e-12, types = 2, pairs = true, theta = false,
    window = false, act = "gelu", gate = false,
    dropout = { embedding = 0.1, attention = 0.1, projection = 0.1, feed = 0.1 },
  },
  ["roberta-base"] = { parameters = 124697433, longest = 512, position_rows = 514, eps = 1e-5, pairs = false },
  ["xlm-roberta-base"] = { parameters = 278295186, vocabulary = 250002, longest = 512, eps = 1e-5, pairs = false },
  ["camembert-base"] = { parameters = 110655493, vocabulary = 32005, longest = 512, eps = 1e-5, pairs = false },
  ["distilbert-base-uncased"] = {
    parameters = 66985530, layers = 6, hidden = 768, heads = 12, inner = 3072, eps = 1e-12, types = 0, pairs = false,
  },
  ["electra-small-generator"] = {
    parameters = 13546682, embedding = 128, hidden = 256, heads = 4, inner = 1024, types = 2,
  },
  ["electra-base-discriminator"] = { parameters = 108891648, embedding = 768, hidden = 768 },
  ["nomic-bert-2048"] = {
    parameters = 137354304, layers = 12, hidden = 768, heads = 12, inner = 3072, longest = 2048, norm = "after",
    eps = 1e-12, types = 2, theta = { 1000, 1000, 1000 }, act = "silu", vocabulary = 30528,
    bias = { norm = true, qkv = false, out = false, up = false, down = false },
  },
  ["gte-multilingual-mlm-base"] = {
    parameters = 306210496, theta = { 160000, 160000, 160000 }, act = "gelu", norm = "after", types = 1, pairs = false,
    bias = { norm = true, qkv = true, out = true, up = false, down = true },
  },
  ["EuroBERT-210m"] = {
    parameters = 310266624, layers = 12, heads = 12, kv_heads = 12, head_size = 64, norm = "before", norm_kind = "rms",
    eps = 1e-5, theta = { 250000, 250000, 250000 }, act = "silu", final_norm = true, first_norm = true,
    embedding_norm = false,
  },
  ["EuroBERT-610m"] = { parameters = 755625600, layers = 26, hidden = 1152, heads = 18, kv_heads = 6, head_size = 64 },
}

---The fields of a design that are functions of the layer, as lists.
local function by_layer(fn)
  if not fn then return false end
  local list = {}
  for i, layer in ipairs { 0, 1, 3 } do list[i] = fn(layer) or false end
  return list
end

local function check(design, wanted, facts)
  for field, value in pairs(wanted) do
    local got = design[field]
    if field == "parameters" then got = parameters_of(facts) end
    if field == "theta" or field == "window" then got = by_layer(got) end
    if type(value) == "table" and field ~= "theta" and field ~= "window" then
      for key, one in pairs(value) do assert.equal(one, got[key], field .. "." .. key) end
    else
      assert.same(value, got or false, field)
    end
  end
end

describe("the published config", function()
  for name, wanted in pairs(MODELS) do
    it(name .. " gives the model that Transformers makes of it", function()
      local facts = sr.must(pretrained(read(name)))
      check(facts.design, wanted, facts)
    end)
  end

  it("gives the same model in the keys of today", function()
    local old, new = read "ModernBERT-base", read "ModernBERT-base"
    for _, key in ipairs { "global_rope_theta", "local_rope_theta", "layer_norm_eps", "global_attn_every_n_layers" } do
      new[key] = nil
    end
    new.layer_types = {}
    for i = 1, 22 do new.layer_types[i] = i % 3 == 1 and "full_attention" or "sliding_attention" end
    new.rope_parameters = {
      full_attention = { rope_type = "default", rope_theta = 160000 },
      sliding_attention = { rope_type = "default", rope_theta = 10000 },
    }
    assert.same(sr.must(pretrained(old)).config, sr.must(pretrained(new)).config)
    new.layer_types[2], new.global_attn_every_n_layers = "full_attention", 3
    assert.is_nil(sr.must(pretrained(new)).design.window(1))
  end)

  it("prefers norm_eps to the key that stands beside it", function()
    local config = read "ModernBERT-base"
    config.norm_eps = 1e-6
    assert.equal(1e-6, sr.must(pretrained(config)).design.eps)
    config.norm_eps = nil -- the older key alone
    assert.equal(1e-5, sr.must(pretrained(config)).design.eps)
  end)
end)

---Changes that would change numbers, and words of the message.
local REFUSED = {
  { "ModernBERT-base", { rope_scaling = { type = "linear", factor = 2 } }, "rope_scaling" },
  { "ModernBERT-base", { hidden_activation = "quick_gelu" }, "hidden_activation" },
  { "ModernBERT-base", { classifier_pooling = "max" }, "classifier_pooling" },
  { "ModernBERT-base", { layer_types = { "full_attention" } }, "layer_types" },
  { "ModernBERT-base", { num_attention_heads = 5 }, "num_attention_heads" },
  { "ModernBERT-base", { rope_parameters = {
    full_attention = { rope_type = "yarn", factor = 4, rope_theta = 1 },
    sliding_attention = { rope_type = "default", rope_theta = 1 },
  } }, "yarn" },
  { "gte-base-en-v1.5", {}, "ntk" },
  { "gte-multilingual-mlm-base", { logn_attention_scale = true }, "logn_attention_scale" },
  { "gte-multilingual-mlm-base", { layer_norm_type = "rms_norm" }, "layer_norm_type" },
  { "gte-multilingual-mlm-base", { position_embedding_type = "absolute" }, "position_embedding_type" },
  { "nomic-bert-2048", { rotary_emb_interleaved = true }, "rotary_emb_interleaved" },
  { "nomic-bert-2048", { rotary_emb_fraction = 0.5 }, "rotary_emb_fraction" },
  { "nomic-bert-2048", { rotary_scaling_factor = 2 }, "rotary_scaling_factor" },
  { "nomic-bert-2048", { prenorm = true }, "prenorm" },
  { "nomic-bert-2048", { qkv_proj_bias = true }, "qkv_proj_bias" },
  { "nomic-bert-2048", { activation_function = "gelu_new" }, "activation_function" },
  { "nomic-bert-2048", { causal = true }, "causal" },
  { "nomic-bert-2048", { use_rms_norm = true }, "use_rms_norm" },
  { "xlm-roberta-base", { position_embedding_type = "relative_key" }, "position_embedding_type" },
  { "roberta-base", { is_decoder = true }, "is_decoder" },
  { "EuroBERT-210m", { hidden_act = "mish" }, "hidden_act" },
  { "EuroBERT-210m", { rope_scaling = { rope_type = "llama3", factor = 8 } }, "rope_scaling" },
  { "EuroBERT-210m", { num_key_value_heads = 5 }, "num_key_value_heads" },
  { "distilbert-base-uncased", { activation = "swish1702" }, "activation" },
  { "electra-small-generator", { summary_type = "mean" }, "summary_type" },
  { "bert-base-uncased", { model_type = "deberta-v2" }, "deberta%-v2.*disentangled" },
  { "bert-base-uncased", { model_type = "albert" }, "albert.*share" },
  { "ModernBERT-base", { model_type = "modernbrt" }, "modernbrt.*modernbert" },
}

describe("a config that would change numbers", function()
  for _, case in ipairs(REFUSED) do
    local name, changes, words = table.unpack(case)
    it(("of %s is refused by name: %s"):format(name, words), function()
      fails.returning("data", words, pretrained(with(read(name), changes)))
    end)
  end
end)
