-- tokenizer.lua - the tokenizer of a checkpoint: what is read of a directory, and its files as Transformers reads them.

local configs = require("seqrun.nn.config")
local json = require("seqrun.core.json")
local overrides = require("seqrun.text.overrides")
local pretty = require("seqrun.base.pretty_json")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")
local tokenizer_json = require("seqrun.text.tokenizer_json")

local tokenizer = {}

---The tokenizer of a directory, open; special tokens written in a text are plain text unless `specials`.
---@param facts seqrun.Pretrained
---@param specials? boolean
---@return seqrun.core.text.tokenizer|nil
---@return string? message
---@return string? code
function tokenizer.open(facts, specials)
  if not facts.tokenizer then
    return nil, ("%s has neither tokenizer.json nor vocab.txt; copy the tokenizer of the model there"):format(
      facts.path), "data"
  end
  return facts.tokenizer:open { literal = not specials }
end

-- ---- files -------------------------------------------------------------------------------------

---Tokens of the longest sequence of a model, and how many token types it has.
local function limits_of(config)
  local encoder = config and configs.encoder(config)
  if not encoder then return config and config.max_position_embeddings or 512, 2 end
  local design = configs.design(encoder)
  return design.longest, design.types
end

---Keys that every tokenizer_config.json has; models without token types must not be given any, and others are given
---them only if they are named.
local function config_of(class, roles, config)
  local longest, types = limits_of(config)
  local all = {
    tokenizer_class = class, model_max_length = longest,
    model_input_names = json.array { "input_ids", types < 2 and "attention_mask" or "token_type_ids",
      types > 1 and "attention_mask" or nil },
  }
  for role, token in pairs(roles) do all[role] = token end
  return all
end

local BERT = {
  cls_token = "[CLS]", sep_token = "[SEP]", pad_token = "[PAD]", unk_token = "[UNK]", mask_token = "[MASK]",
}

---tokenizer_config.json of a BertTokenizer.
local function bert_config(t, config)
  local all = config_of("BertTokenizer", BERT, config)
  all.do_lower_case = t.lowercase
  if t.lowercase and t.keep_accents then all.strip_accents = false end -- by default, lowercasing strips accents
  return all
end

---The files of a tokenizer, by name.
---@param t seqrun.text.Stored
---@param options { config?: table, complete?: boolean } config: config.json of the model; complete: for programs that
---  do not read vocab.txt, and that do not know that each word of a labelled text has a space before it
---@return table<string, string>
function tokenizer.files(t, options)
  local files = {}
  if t.json then
    local roles, classes = t.roles or {}, (options.config or {}).architectures
    local words = options.complete and classes and tostring(classes[1]):find("ForTokenClassification$")
    files["tokenizer.json"] = words and overrides.with_spaces(t.content) or t.content
    files["tokenizer_config.json"] = pretty.encode(config_of("PreTrainedTokenizerFast", roles, options.config))
    files["special_tokens_map.json"] = pretty.encode(roles)
    return files
  end
  files["vocab.txt"] = t.content
  files["tokenizer_config.json"] = pretty.encode(bert_config(t, options.config))
  files["tokenizer.json"] = options.complete and tokenizer_json(t.content, t) or nil
  return files
end

---What a recipe saves as the tokenizer: `tokenizer`, or the vocabulary `vocab_text`, or the path `vocab` of one.
---@param t seqrun.Saved
---@return seqrun.text.Stored|nil # nil without a message where there is none
---@return string? message
---@return string? code
function tokenizer.of_saved(t)
  if t.tokenizer then return type(t.tokenizer) == "userdata" and stored.of(t.tokenizer) or t.tokenizer end
  local text = t.vocab_text
  if t.vocab then
    local message, code
    text, message, code = sys.read_file(t.vocab)
    if not text then return nil, message, code end
  end
  return text and { content = text, json = false, lowercase = not t.cased, keep_accents = t.keep_accents } or nil
end

return tokenizer
