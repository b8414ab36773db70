-- head.lua - the vector of a text: a pooling of its hidden states, perhaps a linear layer, its length perhaps made 1.
--
-- It is what sentence-transformers keeps in modules.json: Pooling, Dense, Normalize.

local check = require("seqrun.base.check")
local json = require("seqrun.core.json")
local objective = require("seqrun.tasks.embed.objective")
local part = require("seqrun.nn.model.part")
local pretty = require("seqrun.base.pretty_json")
local specs = require("seqrun.nn.model.specs")
local tensor = require("seqrun.tensor")
local texts = require("seqrun.tasks.embed.texts")

---@class seqrun.EmbedHead: seqrun.Head
---@field pool "mean"|"cls"|"last"
---@field normalise boolean vectors have length 1
---@field dense? { outputs: integer, activation: "identity"|"tanh", residual?: boolean } residual: plus what it reads
---@field size integer numbers of a vector
local Head = part.class()
Head.kind, Head.outputs, Head.LAYER, Head.SCALE = "embed", 1, "2_Dense.linear", "embed.log_scale"
Head.RESIDUAL = "2_Dense.residual"

local OPTIONS = {
  pool = true, normalise = true, dense = true, objective = true, max_len = true, prompts = true, name = true,
  prefix = true, labels = true, outputs = true, skips_prompt = true, prompt = true,
}

local INT = { dtype = "i32" }

local function make(options, encoder)
  local dense, learn = options.dense, options.objective and options.objective.learn
  local list, add = specs.new(encoder.design.std)
  if dense then
    local hidden = encoder.design.hidden
    add.linear(Head.LAYER, dense.outputs, hidden, dense.bias ~= false, hidden ^ -0.5)
    if dense.residual and dense.outputs ~= hidden then
      add.linear(Head.RESIDUAL, dense.outputs, hidden, false, hidden ^ -0.5)
    end
  end
  if learn then add.bias(Head.SCALE, { 1 }, { keep = "f32" }) end
  local pool = options.pool or "mean"
  encoder.whole = encoder.whole or pool ~= "cls"
  return setmetatable({
    name = "embed", encoder = encoder, specs = list, pool = pool, normalise = options.normalise ~= false, dense = dense,
    learn = learn, max_len = options.max_len, prompts = options.prompts, skips_prompt = options.skips_prompt,
    prompt = options.prompt,
    size = dense and dense.outputs or encoder.design.hidden,
    objective = objective.new(options.objective or { loss = "mnrl", temperature = 0.05 }),
  }, Head)
end

---A head for the option `heads` of sr.nn.bert.
---@param options? { pool?: "mean"|"cls"|"last", normalise?: boolean,
---  dense?: { outputs: integer, activation: "identity"|"tanh", bias?: boolean, residual?: boolean },
---  objective?: seqrun.EmbedOptions,
---  max_len?: integer, prompts?: table<string, string>, skips_prompt?: boolean, prompt?: string } prompts:
---  files of sentence-transformers to keep; prompt: the default one
---@return fun(encoder: seqrun.Encoder): seqrun.EmbedHead
function Head.new(options)
  options = check.options("nn.heads.embed", options or {}, OPTIONS)
  return setmetatable({}, {
    __call = function(_, encoder) return make(options, encoder) end,
    __index = { wants_pooler = function() return false end },
  })
end

-- ---- vectors -------------------------------------------------------------------------------------

---The last row of the sequences that a target's rows begin.
local function last_rows(hidden, target)
  local starts, lengths, last = hidden.layout:starts(), hidden.layout:lengths(), {}
  for i, start in ipairs(starts) do last[start] = start + lengths[i] - 1 end
  local rows = target[hidden.key]:totable()
  for i, row in ipairs(rows) do rows[i] = last[row] end
  return tensor.tensor(rows, INT)
end

local POOLS = {
  cls = function(hidden, target) return hidden:rows(target) end,
  mean = function(hidden, target) return hidden:mean(hidden.x, target, target.weights:dtype()) end,
  last = function(hidden, target)
    return require("seqrun.tensor.ops").gather_rows(hidden.x, last_rows(hidden, target))
  end,
}

---The linear layer over pooled states.
---@param x seqrun.Tensor (M, H)
---@param dtype string of the encoder's states
---@return seqrun.Tensor # (M, D)
function Head:project(x, dtype)
  if not self.dense then return x end
  x = x:to(dtype)
  local y = self:linear(x, Head.LAYER)
  if self.dense.activation == "tanh" then y = y:tanh() end
  if not self.dense.residual then return y end
  return y + (self:optional(Head.RESIDUAL .. ".weight") and self:linear(x, Head.RESIDUAL) or x)
end

---The vectors of a target's texts.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Tensor # (M, D) f32
function Head:vectors(hidden, target)
  local x = self:project(POOLS[self.pool](hidden, target), hidden.x:dtype()):to(target.weights:dtype())
  return self.normalise and objective.unit(x) or x
end

Head.logits = Head.vectors

---What the loss knows of each text of a target.
---@param target seqrun.Target
---@return seqrun.EmbedText[]
function Head:texts(target)
  local list = target.labels:totable()
  for i, row in ipairs(list) do list[i] = texts.unpack(row) end
  return list
end

-- ---- the loss of a micro-batch by itself ---------------------------------------------------------

---Whether these texts have what the loss compares.
local function is_complete(self, list)
  local parts = {}
  for _, text in ipairs(list) do parts[text.part] = (parts[text.part] or 0) + 1 end
  if self.objective.options.loss == "mse" then return self.objective.options.teacher ~= nil end
  if (self.objective.options.loss == "cosent") ~= (list[1].score ~= nil) then return false end
  return parts[0] ~= nil and parts[0] == parts[1]
end

---A scalar of this value whose gradient to the vectors is the one that was found.
---@param vectors seqrun.Tensor (M, D)
---@param gradient seqrun.Tensor (M, D)
---@param value number
---@return seqrun.Tensor
function Head.surrogate(vectors, gradient, value)
  local product = (vectors * gradient):sum()
  return product - product:detach() + value
end

---The loss over a micro-batch alone; that of an update of several is in contrast.lua.
---@param hidden seqrun.States
---@param target seqrun.Target
---@return seqrun.Loss
function Head:loss(hidden, target)
  local vectors, list = self:vectors(hidden, target), self:texts(target)
  if not is_complete(self, list) then return { total = vectors:sum() * 0, count = 0 } end
  local order, sorted, back = texts.order(list), {}, {}
  for k, i in ipairs(order) do
    sorted[k], back[i], order[k] = list[i], k - 1, i - 1
  end
  local gather = require("seqrun.tensor.ops").gather_rows
  local scale = self:optional(Head.SCALE)
  local found = self.objective:of(gather(vectors:detach(), tensor.tensor(order, INT)), sorted, scale)
  local total = Head.surrogate(vectors, gather(found.gradient, tensor.tensor(back, INT)), found.value)
  if scale then total = total + Head.surrogate(scale, found.scale, 0) end
  local sums = self.objective.options.loss == "mnrl" and { nearest = { found.correct, found.count } } or nil
  return { total = total, count = found.count, sums = sums }
end

---@return number FLOP
function Head:flops_of(_, count)
  return self.dense and 6 * self.encoder.design.hidden * self.dense.outputs * count or 0
end

-- ---- files of sentence-transformers --------------------------------------------------------------

local MODULES = "sentence_transformers.models."
local ACTIVATIONS = { identity = "torch.nn.modules.linear.Identity", tanh = "torch.nn.modules.activation.Tanh" }

---The names of the modules, in their order.
local function modules_of(self)
  local list = { { "Transformer", "" }, { "Pooling", "1_Pooling" } }
  if self.dense then list[#list + 1] = { "Dense", "2_Dense" } end
  if self.normalise then list[#list + 1] = { "Normalize", ("%d_Normalize"):format(#list) } end
  local out = json.array()
  for i, module in ipairs(list) do
    out[i] = { idx = i - 1, name = tostring(i - 1), path = module[2], type = MODULES .. module[1] }
  end
  return out
end

---The files beside a checkpoint's weights that say how vectors are made.
---@return table<string, string>
function Head:files()
  local hidden = self.encoder.design.hidden
  local files = {}
  for name, text in pairs(self.prompts or {}) do files[name] = text end
  files["modules.json"] = pretty.encode(modules_of(self))
  files["1_Pooling/config.json"] = pretty.encode {
    word_embedding_dimension = hidden, pooling_mode_cls_token = self.pool == "cls",
    pooling_mode_mean_tokens = self.pool == "mean", pooling_mode_max_tokens = false,
    pooling_mode_mean_sqrt_len_tokens = false, pooling_mode_weightedmean_tokens = false,
    pooling_mode_lasttoken = self.pool == "last", include_prompt = not self.skips_prompt,
  }
  files["sentence_bert_config.json"] = pretty.encode { max_seq_length = self.max_len, do_lower_case = false }
  if self.dense then
    files["2_Dense/config.json"] = pretty.encode {
      in_features = hidden, out_features = self.dense.outputs, bias = self.dense.bias ~= false,
      activation_function = ACTIVATIONS[self.dense.activation], use_residual = self.dense.residual or nil,
    }
  end
  return files
end

return Head
