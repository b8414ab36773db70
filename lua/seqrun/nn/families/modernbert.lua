-- modernbert.lua - ModernBERT, and with other sizes Ettin and mmBERT: pre-norm layers, rotary positions, local windows
-- in most layers, gated feed-forward blocks, no biases.
--
-- Source: Warner et al. 2024, arXiv:2412.13663.

local json = require("seqrun.core.json")
local keys = require("seqrun.nn.keys")
local rope = require("seqrun.nn.keys.rope")

local modernbert = {
  name = "modernbert", class = "ModernBert", prefix = "model.", token_ids = { "cls", "sep", "bos", "eos" },
  keys = {
    vocab_size = keys.size(50368), hidden_size = keys.size(768), intermediate_size = keys.size(1152),
    num_hidden_layers = keys.layers(22), num_attention_heads = keys.size(12),
    hidden_activation = keys.activation("gelu"), max_position_embeddings = keys.size(8192),
    initializer_range = keys.number(0.02, 0), norm_eps = keys.number(1e-5, 0), norm_bias = keys.flag(false),
    attention_bias = keys.flag(false),
    attention_dropout = keys.dropout(0), attn_out_dropout = keys.dropout(),
    embedding_dropout = keys.dropout(0), mlp_dropout = keys.dropout(0), mlp_bias = keys.flag(false),
    decoder_bias = keys.flag(true), classifier_pooling = keys.choice("cls", { "cls", "mean" }),
    classifier_dropout = keys.dropout(0), classifier_bias = keys.flag(false),
    classifier_activation = keys.activation("gelu"), local_attention = keys.integer(128, 0),
    global_attn_every_n_layers = keys.size(3), layer_types = keys.names(),
    global_rope_theta = keys.number(160000, 1), local_rope_theta = keys.number(10000, 1),
    pad_token_id = keys.integer(50283, 0),
  },
  only = keys.encoder_only { tie_word_embeddings = true },
  ignored = keys.set [[ initializer_cutoff_factor sparse_prediction sparse_pred_ignore_index deterministic_flash_attn
    reference_compile repad_logits_with_grad layer_norm_eps position_embedding_type rope_parameters rope_scaling ]],
  rename = { -- of Composer
    { "^bert%.", "model." }, { "^model%.encoder%.layers%.", "model.layers." }, { "^encoder%.layers%.", "layers." },
  },
}

local FULL, SLIDING = "full_attention", "sliding_attention"

---The kind of each layer.
local function kinds(c)
  local list = json.array()
  for i = 0, c.num_hidden_layers - 1 do
    local usual = i % c.global_attn_every_n_layers == 0 and FULL or SLIDING
    list[i + 1] = c.layer_types and c.layer_types[i + 1] or usual
  end
  return list
end

---Every how many layers one is global; nil if they follow no such rule.
local function period(list)
  for n = 1, #list do
    local fits = true
    for i, kind in ipairs(list) do fits = fits and (kind == FULL) == ((i - 1) % n == 0) end
    if fits then return n end
  end
end

function modernbert.read(given)
  local parameters = given.rope_parameters or {}
  for kind, key in pairs { [FULL] = "global_rope_theta", [SLIDING] = "local_rope_theta" } do
    local theta, problem = rope.theta(parameters[kind], given.rope_scaling, given[key])
    if problem then return nil, problem end
    given[key] = theta
  end
  local types = type(given.layer_types) == "table" and given.layer_types
  local every = types and #types == given.num_hidden_layers and period(types)
  if every then given.layer_types, given.global_attn_every_n_layers = nil, every end
  return given
end

function modernbert.write(c)
  return {
    layer_types = kinds(c),
    rope_parameters = { [FULL] = rope.write(c.global_rope_theta), [SLIDING] = rope.write(c.local_rope_theta) },
  }
end

function modernbert.check(c)
  for i, kind in ipairs(c.layer_types or {}) do
    if kind ~= FULL and kind ~= SLIDING then
      return ("layer_types[%d] is '%s'; choose %s or %s"):format(i, tostring(kind), FULL, SLIDING)
    end
  end
  if c.layer_types and #c.layer_types ~= c.num_hidden_layers then
    return ("layer_types has %d layers, but num_hidden_layers is %d"):format(#c.layer_types, c.num_hidden_layers)
  end
end

function modernbert.design(c)
  local kind_of = kinds(c)
  local function is_global(i) return kind_of[i + 1] == FULL end
  return {
    vocabulary = c.vocab_size, hidden = c.hidden_size, layers = c.num_hidden_layers, heads = c.num_attention_heads,
    inner = c.intermediate_size, longest = c.max_position_embeddings, norm = "before", first_norm = false,
    eps = c.norm_eps, act = keys.ACTIVATIONS[c.hidden_activation], gate = "second", std = c.initializer_range,
    deep_std = c.initializer_range / math.sqrt(2 * c.num_hidden_layers),
    theta = function(i) return is_global(i) and c.global_rope_theta or c.local_rope_theta end,
    window = function(i) return not is_global(i) and c.local_attention // 2 or nil end,
    bias = {
      norm = c.norm_bias, qkv = c.attention_bias, out = c.attention_bias, up = c.mlp_bias, down = c.mlp_bias,
    },
    dropout = {
      embedding = c.embedding_dropout, attention = c.attention_dropout,
      projection = c.attn_out_dropout or c.attention_dropout, inner = c.mlp_dropout,
    },
  }
end

modernbert.names = {
  words = "embeddings.tok_embeddings", embedding_norm = "embeddings.norm", layer = "layers.%d.",
  attention_norm = "attn_norm", qkv = "attn.Wqkv", out = "attn.Wo", feed_norm = "mlp_norm", up = "mlp.Wi",
  down = "mlp.Wo", final_norm = "final_norm",
}

function modernbert.heads(c)
  local function place(pool)
    return {
      pool = pool, dense = "head.dense", dense_bias = c.classifier_bias, norm = "head.norm",
      act = keys.ACTIVATIONS[c.classifier_activation], drop = c.classifier_dropout, layer = "classifier",
      std = c.hidden_size ^ -0.5,
    }
  end
  local mlm, each = place(), place()
  mlm.bias, mlm.repeats = c.decoder_bias and "decoder.bias" or nil, "decoder"
  local pooled = place(c.classifier_pooling == "mean" and "mean" or nil)
  return { mlm = mlm, sequence = pooled, choice = pooled, tokens = each, spans = each }
end

return modernbert
