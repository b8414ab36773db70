-- sentences.lua - what sentence-transformers stores beside a model: how a vector is made of a text.
--
-- modules.json lists the modules that a text goes through: a transformer, a pooling, perhaps a normalisation.  What
-- seqrun encode cannot do is a `problem`, so that no vectors are made that differ from theirs.

local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local sentences = {}

---@class seqrun.Sentences
---@field pool? "mean"|"cls"|"last"
---@field skips_prompt? boolean the tokens of the prompt are not pooled
---@field dense? { path: string, outputs: integer, activation: "identity"|"tanh", bias: boolean, residual: boolean } a
---  linear layer after the pooling
---@field normalise? boolean nil if there is no modules.json
---@field files table<string, string> prompts, to be kept as they are
---@field max_len? integer longer texts are truncated
---@field lower? boolean texts are lowercased before they are tokenized
---@field prompts table<string, string> by name; many are empty
---@field prompt? string put before each text
---@field activation? string of a cross-encoder
---@field problem? string why its vectors cannot be made here

---A file of JSON that may be missing, without its nulls; an unusable one is an error, since other vectors would be
---made without it.
local function read(path)
  local text = failure.there(sys.read_file(path, 1 << 20))
  local value = text and json.decode(text)
  if text and type(value) ~= "table" then
    failure.raise("data", "%s is damaged: it is not an object or a list; copy the directory again, or remove "
      .. "it", path)
  end
  for key, given in pairs(value or {}) do
    if given == json.null then value[key] = nil end
  end
  return value
end

---"sentence_transformers.models.Pooling" -> "Pooling"; nil of code that comes with the directory.
local function kind_of(module)
  local name = tostring(type(module) == "table" and module.type)
  return name:find("^sentence_transformers%.") and name:match("[^.]*$"), name
end

---What a module reads and writes, where that is not the vector of a text.
local function place_of(config)
  for _, key in ipairs { "module_input_name", "module_output_name" } do
    local name = config[key] or "sentence_embedding"
    if name ~= "sentence_embedding" then return ("%s = %s"):format(key, tostring(name)) end
  end
end

-- ---- modules ---------------------------------------------------------------------------------------

local POOLS = {
  cls_token = "cls", mean_tokens = "mean", cls = "cls", mean = "mean", lasttoken = "last", last_token = "last",
}

---The modes of a pooling: those of today's key, else of the older ones; the mean if none of them is on.
local function modes_of(config)
  local given, any = config.pooling_mode, false
  if given then return type(given) == "table" and given or { given } end
  local modes = {}
  for _, key in ipairs(sorted(config)) do
    local mode = tostring(key):match("^pooling_mode_(.*)$")
    any = any or mode ~= nil
    if mode and config[key] == true then modes[#modes + 1] = mode end
  end
  return #modes == 0 and any and { "mean" } or modes
end

local function add_pooling(found, config)
  local modes = modes_of(config)
  for i, mode in ipairs(modes) do modes[i] = tostring(mode) end
  found.pool, found.skips_prompt = #modes == 1 and POOLS[modes[1]] or nil, config.include_prompt == false
  if #modes > 0 and not found.pool then
    found.problem = ("its pooling is %s%s; only one of cls, mean and last token is supported"):format(
      table.concat(modes, " and "), #modes > 1 and ", concatenated" or "")
  end
end

local ACTIVATIONS = { Identity = "identity", Tanh = "tanh" }

---A linear layer after the pooling.
local function add_dense(found, folder, path)
  local config = read(("%s/%s/config.json"):format(folder, path)) or {}
  local activation = ACTIVATIONS[tostring(config.activation_function or "Tanh"):match("[^.]*$")]
  local outputs = math.tointeger(config.out_features)
  if found.dense or found.normalise or not path:find("^[%w_-][%w_.-]*$") then
    found.problem = ("it has a module %s; only one Dense after the pooling is supported"):format(path)
  elseif not outputs then
    found.problem = ("%s/config.json has no out_features"):format(path)
  elseif not activation then
    found.problem = ("the activation of %s is %s; only Tanh and Identity are supported"):format(path,
      tostring(config.activation_function))
  elseif place_of(config) then
    found.problem = ("%s has %s; only Dense on the vector of a text is supported"):format(path, place_of(config))
  elseif sys.exists(("%s/%s/pytorch_model.bin"):format(folder, path))
    and not sys.exists(("%s/%s/model.safetensors"):format(folder, path)) then
    found.problem = ("%s has no model.safetensors; save it again with sentence-transformers"):format(path)
  else
    found.dense = {
      path = path, outputs = outputs, activation = activation, bias = config.bias ~= false,
      residual = config.use_residual == true,
    }
  end
end

---What the modules after the transformer do.
local function add_modules(found, folder, modules)
  found.normalise, found.problem = false, #modules == 0 and "its modules.json lists no modules" or nil
  for i, module in ipairs(modules) do
    local kind, name = kind_of(module)
    local path = type(module) == "table" and module.path or ""
    if i == 1 and path ~= "" and path ~= "." then
      found.problem = ("its model is in %s/%s; give that directory"):format(folder, path)
    elseif kind == "Pooling" then
      add_pooling(found, read(("%s/%s/config.json"):format(folder, path)) or {})
    elseif kind == "Dense" then
      add_dense(found, folder, path)
    elseif kind == "Normalize" then
      local place = place_of(read(("%s/%s/config.json"):format(folder, path)) or {})
      found.normalise, found.problem = true, found.problem or place and ("%s has %s; only the vector of a text can be "
        .. "normalised"):format(path, place) or nil
    elseif kind ~= "Transformer" and kind ~= "Dropout" then -- Dropout is for training
      found.problem = ("it has a module %s, which is not supported"):format(kind or name)
    end
  end
end

-- ---- the transformer, the prompts ------------------------------------------------------------------

---The names of the transformer's settings; the first file that says something wins, as there.
local SETTINGS = { "bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet" }

local function settings_of(folder)
  for _, name in ipairs(SETTINGS) do
    local found = read(("%s/sentence_%s_config.json"):format(folder, name))
    if found and next(found) then return found end
  end
  return {}
end

---A number of tokens that somebody has set: where nobody has, Transformers writes 1e30.
local function length(number)
  number = math.tointeger(number)
  return number and number > 0 and number or nil
end

local function add_settings(found, folder, options)
  local function part(...)
    local at = options
    for _, key in ipairs { ... } do at = type(at[key]) == "table" and at[key] or {} end
    return at
  end
  local stored = read(folder .. "/tokenizer_config.json") or {}
  found.max_len = length(part("processing_kwargs", "text").max_length)
    or length(part(options.processor_kwargs and "processor_kwargs" or "tokenizer_args").model_max_length)
    or length(options.max_seq_length) or length(stored.model_max_length)
  found.lower = options.do_lower_case == true
  local wanted = options.transformer_task or "feature-extraction"
  if wanted ~= "feature-extraction" then
    found.problem = ("its transformer_task is %s; only feature-extraction is supported"):format(tostring(wanted))
  end
end

local PROMPTS = "config_sentence_transformers.json"

---The prompts, and the default one.
local function add_prompts(found, folder)
  local config = read(folder .. "/" .. PROMPTS) or {}
  found.prompts, found.activation = {}, config.activation_fn
  for name, text in pairs(type(config.prompts) == "table" and config.prompts or {}) do
    if type(text) == "string" then found.prompts[name] = text end
  end
  found.prompt = found.prompts[config.default_prompt_name or 0]
  if found.prompt == "" then found.prompt = nil end
  local kind = config.model_type or "SentenceTransformer"
  if kind ~= "SentenceTransformer" then
    found.problem = ("its model_type is %s; only SentenceTransformer is supported"):format(tostring(kind))
  end
end

---@param folder string
---@return seqrun.Sentences
function sentences.read(folder)
  local found, modules = {}, read(folder .. "/modules.json")
  if modules then
    add_modules(found, folder, modules)
  else
    add_pooling(found, read(folder .. "/1_Pooling/config.json") or {})
  end
  add_settings(found, folder, settings_of(folder))
  add_prompts(found, folder)
  found.files = { [PROMPTS] = failure.there(sys.read_file(folder .. "/" .. PROMPTS, 1 << 20)) }
  return found
end

---The folder of the linear layer after the pooling, which has a file of weights of its own; nil without such a layer.
---@param folder string
---@return string|nil
function sentences.dense_folder(folder)
  for _, module in ipairs(read(folder .. "/modules.json") or {}) do
    if kind_of(module) == "Dense" then return tostring(module.path) end
  end
end

---The names of the files that there may be.
---@param folder string
---@return string[]
function sentences.names(folder)
  local names = { "modules.json", PROMPTS, "1_Pooling/config.json" }
  for _, name in ipairs(SETTINGS) do names[#names + 1] = ("sentence_%s_config.json"):format(name) end
  for _, module in ipairs(read(folder .. "/modules.json") or {}) do
    local path = type(module) == "table" and module.path or ""
    if type(path) == "string" and path:find("^[%w_-][%w_.-]*$") then names[#names + 1] = path .. "/config.json" end
  end
  return names
end

return sentences
