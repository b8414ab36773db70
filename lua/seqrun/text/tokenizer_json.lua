-- tokenizer_json.lua - tokenizer.json of Hugging Face's tokenizers, for programs that do not read vocab.txt.

local json = require("seqrun.core.json")

local SPECIALS = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }

---Ids by token.
local function ids_of(vocab_text)
  local ids, count = {}, 0
  for line in vocab_text:gmatch("([^\n]*)\n?") do
    local token = line:gsub("\r$", "")
    if token ~= "" then ids[token] = count end
    count = count + 1
  end
  return ids
end

local function added(ids)
  local list = json.array()
  for _, token in ipairs(SPECIALS) do
    list[#list + 1] = {
      id = ids[token], content = token, single_word = false, lstrip = false, rstrip = false, normalized = false,
      special = true,
    }
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

local function special(token, type_id) return { SpecialToken = { id = token, type_id = type_id } } end
local function sequence(name, type_id) return { Sequence = { id = name, type_id = type_id } } end

---[CLS] A [SEP], and [CLS] A [SEP] B [SEP].
local function frame(ids)
  local function token(name) return { id = name, ids = { ids[name] }, tokens = { name } } end
  return {
    type = "TemplateProcessing",
    single = { special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0) },
    pair = { special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0), sequence("B", 1), special("[SEP]", 1) },
    special_tokens = { ["[CLS]"] = token("[CLS]"), ["[SEP]"] = token("[SEP]") },
  }
end

---@param vocab_text string
---@param t { lowercase: boolean, keep_accents?: boolean, strip_accents?: boolean, whole_chinese?: boolean }
---  strip_accents: also without lowercasing; whole_chinese: Chinese characters are not words of their own
---@return string|nil # nil if a special token is missing
return function(vocab_text, t)
  local ids = ids_of(vocab_text)
  for _, token in ipairs(SPECIALS) do
    if not ids[token] then return nil end
  end
  local strip = json.null -- as lowercasing does
  if t.lowercase and t.keep_accents then strip = false end
  if t.strip_accents then strip = true end
  return json.encode {
    version = "1.0", truncation = json.null, padding = json.null, added_tokens = added(ids),
    normalizer = {
      type = "BertNormalizer", clean_text = true, handle_chinese_chars = not t.whole_chinese, strip_accents = strip,
      lowercase = t.lowercase,
    },
    pre_tokenizer = { type = "BertPreTokenizer" }, post_processor = frame(ids),
    decoder = { type = "WordPiece", prefix = "##", cleanup = true },
    model = {
      type = "WordPiece", unk_token = "[UNK]", continuing_subword_prefix = "##", max_input_chars_per_word = 100,
      vocab = ids,
    },
  } .. "\n"
end
