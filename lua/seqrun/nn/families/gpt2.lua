-- gpt2.lua - GPT-2: a causal decoder with a norm before each block, learned positions, and matrices that its files hold
-- the other way round.
--
-- Source: Radford et al. 2019, "Language models are unsupervised multitask learners".

local keys = require("seqrun.nn.keys")

local gpt2 = {
  name = "gpt2", class = "GPT2", prefix = "transformer.", causal = true, classes = { CausalLM = "GPT2LMHeadModel" },
  keys = {
    vocab_size = keys.size(50257), n_embd = keys.size(768), n_layer = keys.layers(12), n_head = keys.size(12),
    n_inner = keys.integer(nil, 1), n_positions = keys.size(1024),
    activation_function = keys.activation("gelu_new"), embd_pdrop = keys.dropout(0.1),
    resid_pdrop = keys.dropout(0.1), attn_pdrop = keys.dropout(0.1), layer_norm_epsilon = keys.number(1e-5, 0),
    initializer_range = keys.number(0.02, 0),
    tie_word_embeddings = keys.flag(true), bos_token_id = keys.integer(nil, 0), eos_token_id = keys.integer(nil, 0),
  },
  only = {
    add_cross_attention = false, is_encoder_decoder = false, scale_attn_weights = true,
    scale_attn_by_inverse_layer_idx = false,
  },
  ignored = keys.set [[ n_ctx reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels
    summary_type summary_use_proj is_decoder pad_token_id ]],
  rename = { { "^transformer%.transformer%.", "transformer." } },
}

function gpt2.read(given)
  for _, key in ipairs { "bos_token_id", "eos_token_id" } do
    if not math.tointeger(given[key]) then given[key] = nil end -- several ids end texts of some models
  end
  return given
end

function gpt2.design(c)
  return {
    vocabulary = c.vocab_size, hidden = c.n_embd, layers = c.n_layer, heads = c.n_head,
    inner = c.n_inner or 4 * c.n_embd, longest = c.n_positions, position_rows = c.n_positions, causal = gpt2.causal,
    norm = "before", eps = c.layer_norm_epsilon, embedding_norm = false, act = keys.ACTIVATIONS[c.activation_function],
    std = c.initializer_range, deep_std = c.initializer_range / math.sqrt(2 * c.n_layer),
    dropout = {
      embedding = c.embd_pdrop, attention = c.attn_pdrop, projection = c.resid_pdrop, feed = c.resid_pdrop,
    },
  }
end

gpt2.names = {
  words = "wte", positions = "wpe", layer = "h.%d.", attention_norm = "ln_1", qkv = "attn.c_attn", out = "attn.c_proj",
  feed_norm = "ln_2", up = "mlp.c_fc", down = "mlp.c_proj", final_norm = "ln_f", transposed = true,
}

function gpt2.heads(c)
  local tied = c.tie_word_embeddings
  return { causal = { weight = not tied and "lm_head.weight" or nil, repeats = tied and "lm_head" or nil } }
end

return gpt2
