-- overrides.lua - what the files beside a tokenizer change of it, as Transformers 5 applies them: tokens that are
-- added, and what its classes make anew, whatever tokenizer.json says.  PreTrainedTokenizerFast takes it as it is.

local json = require("seqrun.core.json")
local sorted = require("seqrun.base.sorted")

local overrides = {}

local KINDS = {
  BertTokenizer = "bert", DistilBertTokenizer = "bert", ElectraTokenizer = "bert", RobertaTokenizer = "bytes",
  GPT2Tokenizer = "bytes", CamembertTokenizer = "pieces", XLMRobertaTokenizer = "pieces",
}

---Those of directories that name no class, by their model_type.
local MODELS = {
  bert = "bert", distilbert = "bert", electra = "bert", nomic_bert = "bert", roberta = "bytes", gpt2 = "bytes",
  camembert = "pieces", ["xlm-roberta"] = "pieces",
}

---What a class makes anew: "bert", "bytes" or "pieces"; nil for the others.
local function kind_of(config, model_type)
  local class = config.tokenizer_class
  if type(class) ~= "string" then return MODELS[model_type or 0] end
  return model_type ~= "modernbert" and KINDS[class:gsub("Fast$", "")] or nil
end

-- ---- sections of a tokenizer.json ------------------------------------------------------------------

---A section with its changed value, without reading the rest, which may be long.
---@param content string
---@param name string
---@param change fun(section: table|nil): table|nil nil: as it is
local function change_section(content, name, change)
  local first, value, last = content:match('"' .. name .. '"%s*:%s*()(%b{})()')
  if not first then
    first, last = content:match('"' .. name .. '"%s*:%s*()null()')
    value = "null"
  end
  local section = first and json.decode(value)
  local before, changed = first and json.encode(section), first and change(section ~= json.null and section or nil)
  if not changed or json.encode(changed) == before then return content end
  return content:sub(1, first - 1) .. json.encode(changed) .. content:sub(last)
end

---The normalizer of BERT with the casing of a tokenizer_config.json.
local function recase(content, config)
  return change_section(content, "normalizer", function(section)
    if not section or section.type ~= "BertNormalizer" then return nil end
    local function set(key, value)
      if type(value) == "boolean" then section[key] = value end
    end
    if type(config.do_lower_case) == "boolean" then section.strip_accents = json.null end -- as lowercasing does
    set("lowercase", config.do_lower_case)
    set("strip_accents", config.strip_accents)
    set("handle_chinese_chars", config.tokenize_chinese_chars)
    return section
  end)
end

---Whether a text begins with a space, as its other words do.
local function prefix(content, key, value)
  local first, section, last = content:match('"pre_tokenizer"%s*:%s*()(%b{})()')
  if not first then return content end
  return content:sub(1, first - 1) .. section:gsub(('("%s"%%s*:%%s*)"?%%l+"?'):format(key), "%1" .. value)
    .. content:sub(last)
end

---A tokenizer.json of bytes that gives each text, and each word of a text that is split, the space before it.
---@param content string
---@return string
function overrides.with_spaces(content)
  local section = content:match('"pre_tokenizer"%s*:%s*(%b{})') or ""
  if not section:find('"ByteLevel"', 1, true) then return content end
  if section:find('"Sequence"', 1, true) then -- parts of a text would all get one
    return change_section(content, "normalizer", function(normalizer)
      local list = json.array { { type = "Prepend", prepend = " " }, normalizer }
      return { type = "Sequence", normalizers = list }
    end)
  end
  return prefix(content, "add_prefix_space", "true")
end

---A tokenizer.json that lowercases texts first.
---@param content string
---@return string
function overrides.lowercased(content)
  return change_section(content, "normalizer", function(section)
    if section and (section.type == "Lowercase" or section.lowercase == true
      or json.encode(section):find('"Lowercase"', 1, true)) then
      return nil
    end
    if section and section.type == "BertNormalizer" then
      section.lowercase, section.strip_accents = true, section.strip_accents == true
      return section
    end
    return { type = "Sequence", normalizers = json.array { { type = "Lowercase" }, section } }
  end)
end

-- ---- added tokens ----------------------------------------------------------------------------------

local FLAGS = { "single_word", "lstrip", "rstrip" }

---The entry of a token: a string, or an object with its flags.
local function entry_of(token, more)
  local given = type(token) == "table" and token or { content = token }
  local entry = { content = given.content, special = given.special == true or more.special == true }
  for _, flag in ipairs(FLAGS) do entry[flag] = given[flag] == true end
  entry.normalized = not entry.special
  if type(given.normalized) == "boolean" then entry.normalized = given.normalized end
  return type(entry.content) == "string" and entry.content ~= "" and entry or nil
end

local ROLES = { "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token" }

---The tokens of an object by id in the order of the ids.
local function by_id(object, ids)
  local list = {}
  for key, value in pairs(object) do list[#list + 1] = { id = tonumber(ids and key or value) or -1, key = key } end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

---The special tokens of a tokenizer_config.json, or of a special_tokens_map.json: those with a role, then others.
local function specials_of(config)
  local list, is_role = {}, {}
  local function add(token, named)
    local entry = token ~= json.null and entry_of(token, { special = true })
    if entry then list[#list + 1], entry.named = entry, named end
  end
  for _, role in ipairs(ROLES) do
    is_role[role] = true
    if config[role] ~= nil then add(config[role], true) end
  end
  for _, key in ipairs(sorted(config)) do
    local value = config[key]
    if key == "additional_special_tokens" or key == "extra_special_tokens" then
      local tokens = type(value) == "table" and value or {}
      for _, at in ipairs(sorted(tokens)) do add(tokens[at]) end
    elseif key:find("_token$") and not is_role[key] and type(value) ~= "boolean" then
      add(value)
    end
  end
  return list
end

---The tokens that the files beside a tokenizer add, in the order in which they get their ids.
---@param config table tokenizer_config.json
---@param map table special_tokens_map.json, which counts, as added_tokens.json does, where config names no ids
---@param added table added_tokens.json
---@return table[]
function overrides.tokens(config, map, added)
  local list, decoder = {}, config.added_tokens_decoder
  local last, special = specials_of(config), {}
  for _, token in ipairs(last) do special[token.content] = true end
  if type(decoder) == "table" then
    for _, one in ipairs(by_id(decoder, true)) do list[#list + 1] = entry_of(decoder[one.key], {}) end
  else
    for _, one in ipairs(by_id(added)) do list[#list + 1] = entry_of(one.key, { special = special[one.key] }) end
    local more = specials_of(map)
    table.move(more, 1, #more, #last + 1, last)
  end
  return table.move(last, 1, #last, #list + 1, list)
end

---The ids of a model's vocabulary, which is an object, or a list of pieces with scores.
local function vocabulary_of(model)
  local ids, size = {}, 0
  for key, value in pairs(model.vocab) do
    if type(value) == "table" then ids[value[1]] = key - 1 else ids[key] = value end
    size = size + 1
  end
  return ids, size
end

---A tokenizer.json with further tokens.
---@param content string
---@param tokens table[] of overrides.tokens
---@return string
function overrides.add(content, tokens)
  local missing = {}
  for _, token in ipairs(tokens) do
    local spelled = json.encode(token.content)
    local found = token.named and content:find(spelled, 1, true) or content:find('"content": ' .. spelled, 1, true)
      or content:find('"content":' .. spelled, 1, true)
    token.named = nil -- by its role: such a token of the vocabulary stays what it is
    if not found then
      missing[#missing + 1] = token
    end
  end
  local tree = #missing > 0 and json.decode(content)
  if type(tree) ~= "table" or type(tree.model) ~= "table" or type(tree.model.vocab) ~= "table" then return content end
  local ids, size = vocabulary_of(tree.model)
  local list, known = type(tree.added_tokens) == "table" and tree.added_tokens or json.array(), {}
  for _, token in ipairs(list) do
    known[token.content], size = true, math.max(size, token.id + 1)
  end
  for _, token in ipairs(missing) do
    if not known[token.content] then
      token.id, known[token.content] = ids[token.content] or size, true
      size = math.max(size, token.id + 1)
      list[#list + 1] = token
    end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  tree.added_tokens = list
  return json.encode(tree)
end

---A tokenizer.json as a class of Transformers makes it anew.
---@param content string
---@param config table tokenizer_config.json
---@param model_type? string of config.json
---@return string
function overrides.apply(content, config, model_type)
  local kind, spaces = kind_of(config, model_type), config.add_prefix_space
  if kind == "bert" then return recase(content, config) end
  if kind == "bytes" then return prefix(content, "add_prefix_space", tostring(spaces == true)) end
  if kind == "pieces" then return prefix(content, "prepend_scheme", spaces == false and '"never"' or '"always"') end
  return content
end

return overrides
