-- models.lua - the shapes of models and the figures of devices that the advisor knows by name.

local cost = require("seqrun.nn.cost")
local guess = require("seqrun.base.guess")
local json = require("seqrun.core.json")
local merged = require("seqrun.base.merged")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local models = {}

---@class seqrun.advise.Model
---@field name string
---@field hidden integer
---@field layers integer
---@field heads integer
---@field kv_heads? integer default: heads
---@field inner integer
---@field vocabulary integer
---@field blocks? number feed-forward blocks of a layer, on average: of experts, all of them
---@field used? number those that a token goes through
---@field kept? number elements that training keeps of a row of a layer, on average; default: of a dense encoder
---@field gated boolean the feed-forward part has three matrices instead of two
---@field causal boolean attention sees only what came before
---@field masked number share of the tokens that the output head reads
---@field positions? integer the longest sequence
---@field windows? integer[] by layer from 1: tokens that a token attends to at most; missing: no limit
---@field config? table keys for sr.nn.bert, of an encoder

local function llama(layers, hidden, heads, inner, vocabulary, kv_heads)
  return {
    layers = layers, hidden = hidden, heads = heads, inner = inner, vocabulary = vocabulary, kv_heads = kv_heads,
    gated = true, causal = true, masked = 1,
  }
end

---A model of the designs of nn/families.
local function of_design(name, design, config)
  local windows = {}
  for i = 0, design.window and design.layers - 1 or -1 do
    local window = design.window(i)
    windows[i + 1] = window and 2 * window + 1 or math.huge
  end
  local blocks, used, kept = 0, 0, 0
  for i = 0, design.layers - 1 do
    local all, some = cost.blocks(design, i)
    blocks, used = blocks + all / design.layers, used + some / design.layers
    kept = kept + cost.layer_elements(design, i) / design.layers
  end
  return {
    kept = kept,
    blocks = design.experts and blocks or nil, used = design.experts and used or nil,
    name = name, hidden = design.hidden, layers = design.layers, heads = design.heads, kv_heads = design.kv_heads,
    inner = design.inner, vocabulary = design.vocabulary, gated = design.gate ~= nil, causal = false, masked = 0.15,
    positions = design.longest, windows = windows, config = config,
  }
end

---An encoder that sr.nn.bert makes of these keys.
---@param name? string
---@param config table
---@return seqrun.advise.Model
function models.of_config(name, config)
  return of_design(name, (require("seqrun.nn.config").design(config)), config)
end

local function encoder(family, layers, hidden, heads, inner, vocabulary)
  return models.of_config(nil, {
    model_type = family, num_hidden_layers = layers, hidden_size = hidden, num_attention_heads = heads,
    intermediate_size = inner, vocab_size = vocabulary,
  })
end

local function bert(layers, hidden, heads, vocabulary)
  return encoder("bert", layers, hidden, heads, 4 * hidden, vocabulary or 30522)
end

---Published shapes.  llama-13b, -30b and -65b have the vocabulary of 128,000 with which their layouts were measured.
models.models = {
  ["bert-mini"] = bert(4, 256, 4), ["bert-small"] = bert(4, 512, 8), ["bert-medium"] = bert(8, 512, 8),
  ["bert-base"] = bert(12, 768, 12), ["bert-large"] = bert(24, 1024, 16),
  ["roberta-base"] = bert(12, 768, 12, 50265), ["roberta-large"] = bert(24, 1024, 16, 50265),
  ["modernbert-base"] = encoder("modernbert", 22, 768, 12, 1152),
  ["modernbert-large"] = encoder("modernbert", 28, 1024, 16, 2624),
  ["llama-13b"] = llama(40, 5120, 40, 13824, 128000), ["llama-30b"] = llama(60, 6656, 52, 17920, 128000),
  ["llama-65b"] = llama(80, 8192, 64, 22016, 128000),
  ["llama-2-7b"] = llama(32, 4096, 32, 11008, 32000), ["llama-2-13b"] = llama(40, 5120, 40, 13824, 32000),
  ["llama-2-70b"] = llama(80, 8192, 64, 28672, 32000, 8), ["llama-3-8b"] = llama(32, 4096, 32, 14336, 128256, 8),
}

---@class seqrun.advise.Device
---@field name string
---@field peak number dense bf16 FLOP/s
---@field mma number share of the peak that the instructions of an A100 reach on it
---@field memory number bytes
---@field copy number bytes/s of its memory, reads and writes counted
---@field link number bytes/s to another device of its node, one direction
---@field network number bytes/s to a device of another node, one direction
---@field node integer devices in a node

local GB, TERA = 1e9, 1e12

local function device(peak, mma, gib, copy, link, network)
  return {
    peak = peak * TERA, mma = mma, memory = gib * (1 << 30), copy = copy * TERA, link = link * GB,
    network = network * GB, node = 8,
  }
end

---Makers' figures; memory is what a driver reports as usable, copy what large copies reach.
models.devices = {
  ["a100"] = device(312, 1, 79.2, 1.75, 300, 25), ["a100-40gb"] = device(312, 1, 39.4, 1.35, 300, 25),
  ["h100"] = device(989.4, 0.5, 79.2, 3.0, 450, 50), ["h200"] = device(989.4, 0.5, 139.8, 4.3, 450, 50),
  ["b200"] = device(2250, 0.22, 178.0, 7.0, 900, 50),
}

---@param list table<string, any>
---@return string[]
models.names = sorted

local function known(list, kind, name)
  local found = list[name:lower()]
  if not found then
    local names = models.names(list)
    return nil, ("advise: unknown %s '%s'%s; known: %s"):format(kind, name, guess.hint(name, names),
      table.concat(names, ", ")), "config"
  end
  return merged({ name = name:lower() }, found)
end

---@param name string
---@return seqrun.advise.Device|nil, string? message, string? code
function models.device(name) return known(models.devices, "device", name) end

-- ---- config.json ---------------------------------------------------------------------------------

local KEYS = {
  hidden = "hidden_size", layers = "num_hidden_layers", heads = "num_attention_heads", inner = "intermediate_size",
  vocabulary = "vocab_size",
}

---The model of a family's config.json; nil if it is of none.
local function of_family(path, file, config)
  if not require("seqrun.nn.families").find(config.model_type or "bert") then return nil end
  local own, problem = require("seqrun.nn.config").encoder(config)
  if not own then return nil, ("%s: %s"):format(file, problem), "data" end
  return models.of_config(path, own)
end

---A config.json of Hugging Face, or the directory that holds one.
local function from_file(path)
  local file = sys.exists(path .. "/config.json") and path .. "/config.json" or path
  local text, message, code = sys.read_file(file)
  if not text then return nil, message, code end
  local config, problem = json.decode(text)
  if type(config) ~= "table" then
    return nil, ("%s: not a config.json%s"):format(file, problem and ": " .. problem or ""), "data"
  end
  for key, value in pairs(config) do
    if value == json.null then config[key] = nil end
  end
  local found, why, kind = of_family(path, file, config)
  if found or why then return found, why, kind end
  local model = {
    name = path, gated = true, causal = true, masked = 1, kv_heads = math.tointeger(config.num_key_value_heads),
  }
  for ours, theirs in pairs(KEYS) do
    local value = math.tointeger(config[theirs])
    if not value or value < 1 then
      return nil, ("%s: %s must be a positive integer, got %s"):format(file, theirs, tostring(config[theirs])), "data"
    end
    model[ours] = value
  end
  if model.hidden % model.heads ~= 0 or model.heads % (model.kv_heads or model.heads) ~= 0 then
    return nil, ("%s: hidden_size %d cannot be divided among %d heads with %d for keys"):format(file, model.hidden,
      model.heads, model.kv_heads or model.heads), "data"
  end
  return model
end

---A model by name, or the config.json (or its directory) at a path.
---@param name string
---@return seqrun.advise.Model|nil, string? message, string? code
function models.model(name)
  if name:find("[/%.]") or sys.exists(name) then return from_file(name) end
  return known(models.models, "model", name)
end

-- ---- counts --------------------------------------------------------------------------------------

---Tokens that a token attends to, on average over layers, some of which may have windows.
---@param m seqrun.advise.Model
---@param attended number without windows
---@return number
function models.attended(m, attended)
  local sum = 0
  for i = 1, m.layers do sum = sum + math.min(attended, m.windows and m.windows[i] or math.huge) end
  return sum / m.layers
end

---Parameters of the matrices of one layer that a token goes through.
---@param m seqrun.advise.Model
---@return number attention, number feed_forward
function models.matrices(m)
  local keys = m.hidden * (m.kv_heads or m.heads) // m.heads
  return 2 * m.hidden * m.hidden + 2 * m.hidden * keys, (m.used or 1) * (m.gated and 3 or 2) * m.hidden * m.inner
end

---Parameters: of one layer, of the input table, of the output head (an encoder's shares the table's matrix).
---@param m seqrun.advise.Model
---@return integer layer, integer table, integer head
function models.parameters(m)
  local attention, inner = models.matrices(m)
  inner = m.blocks and inner / m.used * m.blocks or inner
  local small = m.causal and 2 * m.hidden or 9 * m.hidden + m.inner
  local words = m.vocabulary * m.hidden
  return attention + inner + small, words, m.causal and words or m.hidden * m.hidden + m.vocabulary
end

---Elements that training keeps of a row of a layer, as the encoder counts them.
---@param m seqrun.advise.Model
---@return number
function models.kept(m)
  return m.kept or cost.layer_elements({
    heads = m.heads, head_size = m.hidden // m.heads, kv_heads = m.kv_heads or m.heads, hidden = m.hidden,
    inner = m.inner, gate = m.gated or nil,
  }, 0)
end

---@param m seqrun.advise.Model
---@return integer
function models.count(m)
  local layer, words, head = models.parameters(m)
  return m.layers * layer + words + head
end

---Model FLOP of a token, forward and backward, without recomputation.  For a decoder 6 N + 12 L H S, as is usual,
---with N the matrices and both tables; for an encoder the head counts at the tokens it reads.
---@param m seqrun.advise.Model
---@param attended number tokens that a token attends to, on average and ignoring causality
---@return number
function models.flop(m, attended)
  local attention, inner = models.matrices(m)
  local words = m.vocabulary * m.hidden
  local head = m.causal and 2 * words or m.masked * (words + m.hidden * m.hidden)
  return 6 * (m.layers * (attention + inner) + head) + 12 * m.layers * m.hidden * models.attended(m, attended)
end

return models
