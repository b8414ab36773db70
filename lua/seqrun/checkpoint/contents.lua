-- contents.lua - every file and key of a directory of Transformers or sentence-transformers: it is read, or changes no
-- number, or is refused by name.  What these lists lack is a warning: it may change what those programs compute.

local configs = require("seqrun.nn.config")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local keys = require("seqrun.nn.keys")
local output = require("seqrun.base.output")
local sentences = require("seqrun.checkpoint.sentences")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

---Keys of config.json beside those of its family: of generation, and of programs that made it.
local CONFIG = keys.set [[ model_type max_length min_length do_sample early_stopping num_beams num_beam_groups
  diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
  encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate
  forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
  begin_suppress_tokens tie_encoder_decoder use_bfloat16 tf_legacy_loss xla_device language languages label_names
  _commit_hash _attn_implementation_autoset _attn_implementation_internal sentence_transformers seqrun_networks
  seqrun_head seqrun_heads seqrun_decide heads fused_bias_fc fused_dropout_add_ln fused_mlp use_flash_attn use_rms_norm
  use_xentropy layer_norm_training model_name sbert_ce_default_activation_function ]]

local TOKENIZER = keys.set [[ tokenizer_class do_lower_case strip_accents tokenize_chinese_chars add_prefix_space
  added_tokens_decoder additional_special_tokens extra_special_tokens model_max_length
  auto_map backend chat_template clean_up_tokenization_spaces do_basic_tokenize errors from_slow is_local legacy
  local_files_only max_length max_len merges_file model_input_names model_specific_special_tokens
  name_or_path never_split pad_to_multiple_of pad_token_type_id padding padding_side processor_class return_tensors
  sp_model_kwargs spaces_between_special_tokens special_tokens_map_file stride tokenizer_file tokenizer_type
  trim_offsets truncation truncation_side truncation_strategy unk_id use_fast verbose vocab_file vocab_size
  wordpieces_prefix add_bos_token add_eos_token added_tokens_file init_inputs split_special_tokens
  trust_remote_code remove_space keep_accents ]]

---Keys of the files of sentence-transformers.
local SENTENCES = keys.set [[ max_seq_length do_lower_case transformer_task modality_config processing_kwargs
  unpad_inputs query_length document_length query_expansion model_args model_kwargs tokenizer_args processor_kwargs
  __version__ prompts default_prompt_name similarity_fn_name model_type embedding_dimension word_embedding_dimension
  pooling_mode pooling_mode_cls_token pooling_mode_mean_tokens pooling_mode_max_tokens
  pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens pooling_mode_lasttoken include_prompt in_features
  out_features bias activation_function module_input_name module_output_name use_residual dropout activation_fn
  keep_in_fp32_modules ]]

---Files that look like settings and change no number.
local FILES = keys.set [[ modules.json generation_config.json preprocessor_config.json processor_config.json
  quantize_config.json ort_config.json ]]

local warned = {}

---A warning, once for each directory.
local function warn(folder, format, ...)
  local text = ("%s: %s"):format(folder, format:format(...))
  if not warned[text] then output.note("warning: %s", text) end
  warned[text] = true
end

---The keys of config.json that the family reads under names of older programs.
local function read_by(family, config)
  local seen = {}
  local given = setmetatable({}, { __index = function(_, key)
    seen[key] = true
    return config[key]
  end })
  if family.read then pcall(family.read, given) end
  return seen
end

---Whether a value says nothing.
local function is_empty(value) return value == json.null or type(value) == "table" and next(value) == nil end

---Warns of keys that nobody knows.
local function check_keys(folder, name, object, known)
  for _, key in ipairs(sorted(object)) do
    if not is_empty(object[key]) and not known(tostring(key)) then
      warn(folder, "%s has a key '%s' that is not known here; if it changes a number in Transformers, results differ",
        name, key)
    end
  end
end

---Which keys of a file are known; nil where none are looked at.
local function rule_of(name, facts, object)
  if name == "config.json" then
    local seen = read_by(facts.family, object)
    return function(key) return CONFIG[key] or seen[key] or configs.knows(facts.family, key) end
  elseif name == "tokenizer_config.json" or name == "special_tokens_map.json" then
    return function(key) return TOKENIZER[key] or key:find("_tokens?$") or key:find("_token_id$") end
  end
  return (name:find("/") or name:find("sentence_", 1, true)) and function(key) return SENTENCES[key] end or nil
end

---Looks at all files of a directory of others.
---@param facts seqrun.Pretrained
return function(facts)
  local folder = facts.path
  if sys.exists(folder .. "/MANIFEST") then return end
  if sys.exists(folder .. "/adapter_config.json") then
    failure.raise("data", "%s has an adapter (adapter_config.json), which is not supported; in Python, "
      .. "merge_and_unload().save_pretrained(NEW) makes a model of it", folder)
  end
  local names, done = sentences.names(folder), {}
  for _, name in ipairs(failure.must(sys.list(folder))) do
    if name:find("config%.json$") or name == "special_tokens_map.json" then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    local object = not done[name] and not FILES[name] and json_file.read(folder .. "/" .. name)
    local known = object and rule_of(name, facts, object)
    done[name] = true
    if known then check_keys(folder, name, object, known) end
    local inputs = object and type(object.model_input_names) == "table" and json.encode(object.model_input_names)
    if inputs and facts.design.types > 1 and not inputs:find("token_type_ids", 1, true) then
      warn(folder, "%s has model_input_names without token_type_ids; here pairs of texts get them", name)
    end
    if object and type(object.quantization_config) == "table" then
      warn(folder, "%s has a quantization_config; here the weights are used as they are stored", name)
    elseif object and object.truncation_side == "left" then
      warn(folder, "%s has truncation_side = left; here the end of longer texts is cut", name)
    elseif object and not known then
      warn(folder, "%s is a file that is not known here; if it changes a number in Transformers, results differ", name)
    end
  end
end
