-- sentences.lua - what sentence-transformers stores beside a model: how a vector is made of a text.
--
-- modules.json lists the modules that a text goes through: a transformer, a pooling, perhaps a normalisation.  What
-- seqrun encode cannot do is a `problem`, so that no vectors are made that differ from theirs.

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

---@class seqrun.Sentences
---@field pool? "mean"|"cls"
---@field normalise? boolean nil if there is no modules.json
---@field max_len? integer longer texts are truncated
---@field lower? boolean texts are lowercased before they are tokenized
---@field prompt? string put before each text
---@field problem? string why its vectors cannot be made here

local function read(path)
  local text = sys.read_file(path, 1 << 20)
  local value = text and json.decode(text)
  return type(value) == "table" and value or nil
end

---"sentence_transformers.models.Pooling" -> "Pooling".
local function kind_of(module) return tostring(type(module) == "table" and module.type):match("[^.]*$") end

local POOLS = { cls_token = "cls", mean_tokens = "mean", cls = "cls", mean = "mean" }

---The pooling of a config, which may name several.
local function add_pooling(found, config)
  local names = {}
  for key, value in pairs(config) do
    local name = key:match("^pooling_mode_(.*)$")
    if name and value == true then names[#names + 1] = name end
  end
  if #names == 0 and type(config.pooling_mode) == "string" then names[1] = config.pooling_mode end
  table.sort(names)
  if #names == 1 and POOLS[names[1]] then
    found.pool = POOLS[names[1]]
  elseif #names > 0 then
    found.problem = ("its pooling is %s; only cls and mean are supported"):format(table.concat(names, " and "))
  end
end

---What the modules after the transformer do.
local function add_modules(found, folder, modules)
  found.normalise = false
  for i, module in ipairs(modules) do
    local kind, path = kind_of(module), type(module) == "table" and module.path or ""
    if i == 1 and path ~= "" and path ~= "." then
      found.problem = ("its model is in %s/%s; give that directory"):format(folder, path)
    elseif kind == "Pooling" then
      add_pooling(found, read(("%s/%s/config.json"):format(folder, path)) or {})
    elseif kind == "Normalize" then
      found.normalise = true
    elseif kind ~= "Transformer" then
      found.problem = ("it has a module %s, which is not supported"):format(kind)
    end
  end
end

---The default prompt, if there is one.
local function add_prompt(found, folder)
  local config = read(folder .. "/config_sentence_transformers.json") or {}
  local name = config.default_prompt_name
  local prompt = type(name) == "string" and type(config.prompts) == "table" and config.prompts[name]
  if type(prompt) == "string" and prompt ~= "" then found.prompt = prompt end
end

---@param folder string
---@return seqrun.Sentences
return function(folder)
  local found, options = {}, read(folder .. "/sentence_bert_config.json") or {}
  found.max_len, found.lower = math.tointeger(options.max_seq_length), options.do_lower_case == true
  local modules = read(folder .. "/modules.json")
  if modules then
    add_modules(found, folder, modules)
  else
    add_pooling(found, read(folder .. "/1_Pooling/config.json") or {})
  end
  add_prompt(found, folder)
  return found
end
