-- config.lua - the config keys of a BERT: Hugging Face's names, with types, ranges and BERT-base defaults.
--
-- Unknown keys are rejected, also inherited ones: a misspelled key would silently train BERT-base.

local guess = require("seqrun.base.guess")

local config = {}

local function integer(default, min) return { default = default, min = min, integer = true } end
local function number(default, min, below) return { default = default, min = min, below = below } end

---Keys, with defaults of the published BERT-base.
local KEYS = {
  vocab_size = integer(30522, 1),
  hidden_size = integer(768, 1),
  num_hidden_layers = integer(12, 1),
  num_attention_heads = integer(12, 1),
  intermediate_size = integer(3072, 1),
  hidden_act = { default = "gelu" },
  hidden_dropout_prob = number(0.1, 0, 1),
  attention_probs_dropout_prob = number(0.1, 0, 1),
  max_position_embeddings = integer(512, 1),
  type_vocab_size = integer(2, 1),
  initializer_range = number(0.02, 0),
  layer_norm_eps = number(1e-12, 0),
  pad_token_id = integer(0, 0),
}

---Hugging Face's names of activations, and those of the ops.
config.ACTIVATIONS = {
  gelu = "gelu",
  gelu_new = "gelu_tanh",
  gelu_pytorch_tanh = "gelu_tanh",
  relu = "relu",
}

---Hugging Face keys that select another architecture, with the only supported value.
local ONLY = {
  position_embedding_type = "absolute", tie_word_embeddings = true, is_decoder = false, add_cross_attention = false,
  is_encoder_decoder = false, model_type = "bert",
}

---Hugging Face keys that do not affect the encoder.
local IGNORED = {}
for key in ([[ architectures dtype torch_dtype transformers_version use_cache classifier_dropout id2label label2id
  problem_type num_labels directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
  pooler_size_per_head pooler_type gradient_checkpointing output_past output_attentions output_hidden_states
  return_dict torchscript bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id
  decoder_start_token_id finetuning_task task_specific_params tokenizer_class prefix chunk_size_feed_forward
  cross_attention_hidden_size pruned_heads name_or_path _name_or_path _num_labels _attn_implementation
  attn_implementation quantization_config ]]):gmatch("%S+") do
  IGNORED[key] = true
end

---Additional keys, which are not checked here.
local OWN = { "heads", "precision", "initializer" }
local IS_OWN = { heads = true, precision = true, initializer = true }

---The keys of a table and of those that it inherits from.
local function inherited(given, level)
  if type(given) ~= "table" then
    error(("bert: the config is a %s; expected a table such as { hidden_size = 768 }"):format(type(given)), level)
  end
  local meta = getmetatable(given)
  local parent = type(meta) == "table" and meta.__index or nil
  if parent ~= nil and type(parent) ~= "table" then
    error("bert: the config inherits keys through a function; copy them into a plain table", level)
  end
  local whole = parent and inherited(parent, level + 1) or {}
  for key, value in pairs(given) do whole[key] = value end
  return whole
end

---Those that change the model.
local function own_keys()
  local names = table.move(OWN, 1, #OWN, 1, {})
  for name in pairs(KEYS) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function known_keys()
  local names = {}
  for _, keys in ipairs { KEYS, ONLY, IGNORED } do
    for name in pairs(keys) do names[#names + 1] = name end
  end
  table.move(OWN, 1, #OWN, #names + 1, names)
  table.sort(names)
  return names
end

---What was expected instead of an invalid value, or nil.
local function fault(rule, value)
  if type(rule.default) == "string" then return type(value) ~= "string" and "a string" or nil end
  local kind = rule.integer and "an integer" or "a number"
  local good = type(value) == "number" and value == value and value >= rule.min and value < (rule.below or math.huge)
    and (not rule.integer or math.tointeger(value) ~= nil)
  if good then return nil end
  return rule.below and ("%s in [%g, %g)"):format(kind, rule.min, rule.below) or ("%s >= %g"):format(kind, rule.min)
end

local function check_key(key, value, level)
  if ONLY[key] ~= nil and value ~= ONLY[key] then
    local text = "bert: '%s = %s' is not supported; only %s is"
    error(text:format(key, tostring(value), tostring(ONLY[key])), level)
  end
  local rule = KEYS[key]
  if not rule then
    if ONLY[key] ~= nil or IGNORED[key] then return end
    local hint = guess.hint(tostring(key), known_keys())
    if hint == "" then hint = "; use " .. table.concat(own_keys(), ", ") end
    error(("bert: unknown key '%s'%s"):format(tostring(key), hint), level)
  end
  local wanted = fault(rule, value)
  if wanted then error(("bert: %s is %s; expected %s"):format(key, tostring(value), wanted), level) end
end

local function check_whole(whole, level)
  local hidden, heads = whole.hidden_size, whole.num_attention_heads
  if hidden % heads ~= 0 then
    local text = "bert: hidden_size %d is not a multiple of num_attention_heads %d; choose one that divides it"
    error(text:format(hidden, heads), level)
  end
  if not config.ACTIVATIONS[whole.hidden_act] then
    local text = "bert: hidden_act '%s' is not supported; choose gelu, gelu_new, gelu_pytorch_tanh or relu"
    error(text:format(whole.hidden_act), level)
  end
  local initializer = whole.initializer or "normal"
  if initializer ~= "normal" and initializer ~= "local" then
    error(("bert: initializer is '%s'; choose normal or local"):format(tostring(initializer)), level)
  end
  local precision = whole.precision
  if precision ~= nil and precision ~= "f32" and precision ~= "bf16" then
    error(("bert: precision is '%s'; choose f32 or bf16"):format(tostring(precision)), level)
  end
end

---The keys of the encoder in somebody's config.json, and the dropout of its head; other keys are left out.
---@param given table
---@return table|nil
---@return string? problem if it is another architecture
function config.encoder(given)
  local own = { classifier_dropout = given.classifier_dropout }
  for key, value in pairs(ONLY) do
    if given[key] ~= nil and given[key] ~= value then
      return nil, ("'%s = %s' is not supported; only %s is"):format(key, tostring(given[key]), tostring(value))
    end
  end
  for key in pairs(KEYS) do own[key] = given[key] end
  local checked, problem = pcall(config.whole, own, 0)
  if not checked then return nil, (tostring(problem):gsub("^bert: ", "")) end
  return own
end

---A config with all keys of the encoder, checked.  `heads`, `precision`, `initializer` and ignored
---Hugging Face keys are kept.
---@param given table|nil missing keys are those of BERT-base
---@param level integer stack level of errors, as for error()
---@return table
function config.whole(given, level)
  given = inherited(given or {}, level + 1)
  local whole = {}
  for key, rule in pairs(KEYS) do whole[key] = rule.default end
  for key, value in pairs(given) do
    if not IS_OWN[key] then check_key(key, value, level + 1) end
    whole[key] = KEYS[key] and KEYS[key].integer and math.tointeger(value) or value
  end
  check_whole(whole, level + 1)
  return whole
end

return config
