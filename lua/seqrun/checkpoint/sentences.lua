-- sentences.lua - what sentence-transformers stores beside a model: how a vector is made of a text.
--
-- modules.json lists the modules that a text goes through: a transformer, a pooling, perhaps a normalisation.  What
-- seqrun encode cannot do is a `problem`, so that no vectors are made that differ from theirs.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

---@class seqrun.Sentences
---@field pool? "mean"|"cls"|"last"
---@field dense? { outputs: integer, activation: "identity"|"tanh", bias: boolean } a linear layer after the pooling
---@field normalise? boolean nil if there is no modules.json
---@field files table<string, string> prompts, to be kept as they are
---@field max_len? integer longer texts are truncated
---@field lower? boolean texts are lowercased before they are tokenized
---@field prompt? string put before each text
---@field problem? string why its vectors cannot be made here

---A file of JSON that may be missing; an unusable one is an error, since other vectors would be
---made without it.
local function read(path)
  local text = failure.there(sys.read_file(path, 1 << 20))
  local value = text and json.decode(text)
  if text and type(value) ~= "table" then
    failure.raise("data", "%s is damaged: it is not an object or a list; copy the directory again, or remove "
      .. "it", path)
  end
  return value
end

---"sentence_transformers.models.Pooling" -> "Pooling".
local function kind_of(module) return tostring(type(module) == "table" and module.type):match("[^.]*$") end

local POOLS = {
  cls_token = "cls", mean_tokens = "mean", cls = "cls", mean = "mean", lasttoken = "last", last_token = "last",
}

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
    local text = "its pooling is %s; only cls, mean and last token are supported"
    found.problem = text:format(table.concat(names, " and "))
  end
end

local ACTIVATIONS = { Identity = "identity", Tanh = "tanh" }

---A linear layer after the pooling.
local function add_dense(found, folder, path)
  local config = read(("%s/%s/config.json"):format(folder, path)) or {}
  local activation = ACTIVATIONS[tostring(config.activation_function or "Tanh"):match("[^.]*$")]
  local outputs = math.tointeger(config.out_features)
  if found.dense or path ~= "2_Dense" or found.normalise then
    found.problem = ("it has a module %s; only one Dense after the pooling is supported"):format(path)
  elseif not outputs then
    found.problem = ("%s/config.json has no out_features"):format(path)
  elseif not activation then
    found.problem = ("the activation of %s is %s; only Tanh and Identity are supported"):format(path,
      tostring(config.activation_function))
  elseif sys.exists(("%s/%s/pytorch_model.bin"):format(folder, path))
    and not sys.exists(("%s/%s/model.safetensors"):format(folder, path)) then
    found.problem = ("%s has no model.safetensors; save it again with sentence-transformers"):format(path)
  else
    found.dense = { outputs = outputs, activation = activation, bias = config.bias ~= false }
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
    elseif kind == "Dense" then
      add_dense(found, folder, path)
    elseif kind == "Normalize" then
      found.normalise = true
    elseif kind ~= "Transformer" then
      found.problem = ("it has a module %s, which is not supported"):format(kind)
    end
  end
end

local PROMPTS = "config_sentence_transformers.json"

---The default prompt, if there is one.
local function add_prompt(found, folder)
  local config = read(folder .. "/" .. PROMPTS) or {}
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
  found.files = { [PROMPTS] = failure.there(sys.read_file(folder .. "/" .. PROMPTS, 1 << 20)) }
  return found
end
