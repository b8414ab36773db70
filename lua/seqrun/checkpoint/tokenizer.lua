-- tokenizer.lua - the tokenizer of a directory: what is read from it, and what is written for Hugging Face's libraries.

local json_file = require("seqrun.base.json_file")
local vocabulary = require("seqrun.checkpoint.vocabulary")

local tokenizer = {}

---Adds the options and the vocabulary of a directory's tokenizer; a null means the default.
---@param facts table gets `lowercase`, `keep_accents`, `vocab_text`
---@param folder string
---@return boolean|nil
---@return string? problem
function tokenizer.read(facts, folder)
  local config = json_file.read(folder .. "/tokenizer_config.json") or {}
  if config.do_lower_case == nil then
    local normalizer = (json_file.read(folder .. "/tokenizer.json") or {}).normalizer
    if type(normalizer) == "table" then
      config = {
        do_lower_case = normalizer.lowercase, strip_accents = normalizer.strip_accents,
        tokenize_chinese_chars = normalizer.handle_chinese_chars,
      }
    end
  end
  if config.tokenize_chinese_chars == false then return nil, "its tokenizer does not split Chinese characters" end
  facts.lowercase = config.do_lower_case ~= false
  if not facts.lowercase and config.strip_accents == true then return nil, "its tokenizer strips accents only" end
  facts.keep_accents = facts.lowercase and config.strip_accents == false
  facts.vocab_text = vocabulary.read(folder)
  return true
end

---tokenizer_config.json of a BertTokenizer.
---@param t { cased?: boolean, keep_accents?: boolean, config?: table }
---@return table
function tokenizer.config(t)
  local strip = nil -- by default, lowercasing strips accents
  if t.keep_accents and not t.cased then strip = false end
  return {
    do_lower_case = not t.cased, strip_accents = strip, tokenizer_class = "BertTokenizer",
    model_max_length = t.config and t.config.max_position_embeddings or 512,
    cls_token = "[CLS]", sep_token = "[SEP]", pad_token = "[PAD]", unk_token = "[UNK]", mask_token = "[MASK]",
  }
end

return tokenizer
