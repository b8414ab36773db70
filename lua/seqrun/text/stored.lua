-- stored.lua - a tokenizer as texts: what a directory, a data set or a checkpoint holds of it.
--
--     local stored = sr.must(stored.read("some/model"))      tokenizer.json, else vocab.txt; nil where there is neither
--     local tokenizer = sr.must(stored:open { literal = true })

local core = require("seqrun.core.text")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local overrides = require("seqrun.text.overrides")
local sys = require("seqrun.core.sys")
local tokenizer_json = require("seqrun.text.tokenizer_json")

---@class seqrun.text.Stored
---@field content string the text of a tokenizer.json or a vocab.txt
---@field json boolean it is a tokenizer.json
---@field name string the file, for messages
---@field roles? table the special tokens by role, with the keys of tokenizer_config.json
---@field lowercase? boolean of a vocab.txt
---@field keep_accents? boolean
local Stored = {}
Stored.__index = Stored
Stored.__name = "seqrun.text.Stored"

local stored = {}

local MOST_BYTES = 1 << 28

---Keys of tokenizer_config.json and special_tokens_map.json that name special tokens.
local ROLES = { "pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token" }

---The special tokens that the files beside a tokenizer.json name; the first file wins.
local function roles_of(...)
  local roles = {}
  for _, file in ipairs { ... } do
    for _, key in ipairs(ROLES) do
      if roles[key] == nil and file[key] ~= json.null then roles[key] = file[key] end
    end
  end
  return roles
end

---Of the tokens of a vocabulary, those with capital letters that make it a cased one; uncased ones have none.
local CASED = 0.01

---How many tokens of a vocab.txt have capital letters, and how many it has; special tokens do not count.
---@param content string
---@return integer capitals
---@return integer tokens
function stored.capitals(content)
  local capitals, tokens = 0, 0
  for token in content:gmatch("[^\r\n]+") do
    if not token:find("^%[.*%]$") then
      tokens = tokens + 1
      if token:find("%u") then capitals = capitals + 1 end
    end
  end
  return capitals, tokens
end

---Whether a vocab.txt was made of texts with their capital letters.
local function is_cased(content)
  local capitals, tokens = stored.capitals(content)
  return capitals > CASED * tokens
end

---The text of a vocab.txt as that of a tokenizer.json where the files beside it say what a vocab.txt cannot.
local function of_vocabulary(found, config, tokens)
  found.lowercase = config.do_lower_case
  if type(found.lowercase) ~= "boolean" then -- only the tokens show it
    found.lowercase = not is_cased(found.content)
  end
  found.keep_accents = found.lowercase and config.strip_accents == false
  local lines, further = "\n" .. found.content:gsub("\r\n", "\n") .. "\n", false
  for _, token in ipairs(tokens) do
    further = further or not (token.named and lines:find("\n" .. token.content .. "\n", 1, true))
  end
  local strips, whole = not found.lowercase and config.strip_accents == true, config.tokenize_chinese_chars == false
  if not strips and not whole and not further then return end
  found.content = tokenizer_json(found.content, {
    lowercase = found.lowercase, keep_accents = found.keep_accents, strip_accents = strips, whole_chinese = whole,
  })
  if not found.content then
    failure.raise("data", "%s: it lacks one of [PAD], [UNK], [CLS], [SEP] and [MASK], which the files beside it need; "
      .. "save the tokenizer again with Transformers, which writes a tokenizer.json", found.name)
  end
  found.json, found.lowercase, found.keep_accents = true, nil, nil
end

---Fails where a vocab.txt is not enough: its frames have [CLS] and [SEP], unknown words are [UNK].
local function check_frame(found)
  for role, usual in pairs { cls_token = "[CLS]", sep_token = "[SEP]", unk_token = "[UNK]" } do
    local given = found.roles[role]
    given = type(given) == "table" and given.content or given or usual
    if given ~= usual then
      failure.raise("data", "%s: tokenizer_config.json has the %s '%s', which with a vocab.txt can only be %s; save "
        .. "the tokenizer again with Transformers, which writes a tokenizer.json", found.name, role, tostring(given),
        usual)
    end
  end
end

---The objects in the files beside a tokenizer, by name; {} for those that are not there.
local function all_beside(folder)
  local all = {}
  for _, name in ipairs { "tokenizer_config", "special_tokens_map", "added_tokens", "config" } do
    all[name] = failure.there(json_file.read(("%s/%s.json"):format(folder, name))) or {}
  end
  return all
end

local function read(folder, names)
  local files = all_beside(folder)
  local config = files.tokenizer_config
  local found = setmetatable({ roles = roles_of(config, files.special_tokens_map) }, Stored)
  for _, name in ipairs(names or { "tokenizer.json", "vocab.txt" }) do
    found.name, found.json = folder .. "/" .. name, name:find("%.json$") ~= nil
    found.content = failure.there(sys.read_file(found.name, MOST_BYTES))
    if found.content then break end
  end
  if not found.content then return nil end
  local tokens = overrides.tokens(config, files.special_tokens_map, files.added_tokens)
  if not found.json then
    check_frame(found)
    of_vocabulary(found, config, tokens)
  else
    found.content = overrides.apply(found.content, config, files.config.model_type)
  end
  if found.json then found.content = overrides.add(found.content, tokens) end
  return found
end

---What a directory holds of a tokenizer.
---@param folder string
---@param names? string[] the files that may have it, the first of which counts
---@return seqrun.text.Stored|nil # nil without a message where there is none
---@return string? message
---@return string? code
function stored.read(folder, names) return failure.returned(read, folder, names) end

---The tokenizer in a file, with the files beside it if it is a tokenizer.json.
local function load_file(path, how)
  local content = failure.must(sys.read_file(path, MOST_BYTES))
  if not path:find("%.json$") then return core.parse_tokenizer(content, path, how) end
  local folder, name = ("./" .. path):match("^%./(.*)/([^/]*)$")
  local found = read(folder or ".", { name or path })
  found.name = path
  return found:open { literal = not how.specials }
end

---The tokenizer of a vocabulary, or of a file.  Without `lowercase`, its tokens decide; a cased vocabulary with
---lower-cased text is refused.
local function of_file(given, options)
  local make = type(given) == "userdata" and core.tokenizer or load_file
  local how = {
    lowercase = options.lowercase ~= false, keep_accents = options.keep_accents, specials = not options.literal,
  }
  local tokenizer = failure.must(make(given, how))
  local content, lowercase = tokenizer:plain()
  if not content or not lowercase or not is_cased(content) then return tokenizer end
  if options.lowercase == nil then
    how.lowercase = false
    return make(given, how)
  end
  failure.raise("config", "%s: %d of its %d tokens have capital letters, which lower-cased text never has: the "
    .. "vocabulary is cased; set text.lowercase=false (in Lua lowercase=false; --cased)",
    type(given) == "string" and given or "the vocabulary", stored.capitals(content))
end

---A tokenizer as texts: a vocabulary where that says everything.
---@param tokenizer seqrun.core.text.tokenizer
---@return seqrun.text.Stored
function stored.of(tokenizer)
  local vocab, lowercase, keep_accents = tokenizer:plain()
  local content, is_json, roles = tokenizer:text()
  if vocab then content, is_json = vocab, false end
  return setmetatable({
    content = content, json = is_json, name = "tokenizer", roles = json.decode(roles), lowercase = lowercase,
    keep_accents = keep_accents,
  }, Stored)
end

---The tokenizer.  Special tokens written in a text, such as [MASK], are plain text if `literal`.
---@param options { literal: boolean, lowercase?: boolean } lowercase: also where it is cased
---@return seqrun.core.text.tokenizer|nil
---@return string? message
---@return string? code
function Stored:open(options)
  local lowercase, keep, content = self.lowercase, self.keep_accents, self.content
  if options.lowercase and self.json then content = overrides.lowercased(content) end
  if options.lowercase and not lowercase then lowercase, keep = true, true end
  return core.parse_tokenizer(content, self.name, {
    lowercase = lowercase, keep_accents = keep, specials = not options.literal,
    config = self.json and self.roles and next(self.roles) and json.encode(self.roles) or nil,
  })
end

local function tokenizer_of(given, options)
  if type(given) == "table" then return stored.of(given.core):open { literal = options.literal } end
  if type(given) == "userdata" and given.frame then return given end
  if type(given) == "userdata" or not sys.is_dir(given) then return of_file(given, options) end
  if sys.exists(given .. "/MANIFEST") then -- a checkpoint: its files are as they were saved, or are not read
    failure.must(require("seqrun.core.train").checkpoint_verify(given))
  end
  local found = read(given)
  if found then return found:open { literal = options.literal } end
  local newest = require("seqrun.core.train").checkpoint_latest(given) -- of a run
  if newest then return tokenizer_of(newest, options) end
  failure.raise("missing", "%s: no tokenizer.json and no vocab.txt in this directory", given)
end

---The core tokenizer of what a caller gives: a core tokenizer, which is taken as it is, one of sr.text.tokenizer, a
---vocabulary of BERT, or the path of a directory (also of a run), a tokenizer.json or a vocab.txt.  `lowercase` (by
---default unless the tokens have capital letters) and `keep_accents` are of a vocabulary.
---@param given any
---@param options { lowercase?: boolean, keep_accents?: boolean, literal: boolean }
---@return seqrun.core.text.tokenizer|nil
---@return string? message
---@return string? code
function stored.tokenizer(given, options) return failure.returned(tokenizer_of, given, options) end

---The tokenizer of options that have vocab, lowercase and keep_accents; special tokens in texts are plain text.
---@param options table
---@return seqrun.core.text.tokenizer
function stored.literal(options)
  return tokenizer_of(options.vocab, {
    lowercase = options.lowercase, keep_accents = options.keep_accents, literal = true,
  })
end

return stored
