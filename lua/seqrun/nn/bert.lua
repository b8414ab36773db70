-- bert.lua - an encoder with heads; those that its family is pretrained with by default.
--
--     sr.nn.bert { hidden_size = 256, heads = { "mlm", my_head } }
--
-- A head is a part with `name`, `specs` and loss(hidden, target, batch); it reads the target with the
-- same name.  Names, shapes and config keys are Hugging Face's, so a checkpoint needs no conversion.

local check = require("seqrun.base.check")
local configs = require("seqrun.nn.config")
local counted = require("seqrun.base.format").counted
local directions = require("seqrun.nn.directions")
local Encoder = require("seqrun.nn.encoder")
local guess = require("seqrun.base.guess")
local losses = require("seqrun.nn.losses")
local make_design = require("seqrun.nn.design")
local Model = require("seqrun.nn.model")

local HEADS = require("seqrun.nn.heads.pretraining")
local sorted = require("seqrun.base.sorted")
local strict = require("seqrun.base.strict")

---@class seqrun.Head: seqrun.Part
---@field pooler? boolean it reads hidden:pooled(target)
---@field loss fun(self: table, hidden: seqrun.States, target: seqrun.Target, batch: seqrun.Batch): table
---@field flops_of? fun(self: table, batch: seqrun.Batch, count: integer): number FLOP of `count` rows
---@field baseline? fun(self: table, corpus: seqrun.Corpus): seqrun.Baseline

---@class seqrun.Bert: seqrun.Model
---@field encoder seqrun.Encoder
---@field heads seqrun.Head[]
---@field config table Hugging Face keys
---@field design seqrun.Design sizes and parts of the encoder, whatever the names of the keys
local Bert = setmetatable({}, { __index = Model })
Bert.__index, Bert.__newindex = Bert, Model.__newindex

-- ---- making one ------------------------------------------------------------------------------

local function check_head(i, head)
  local good = type(head) == "table" and type(head.name) == "string" and type(head.specs) == "table"
  if not good or not head.loss then
    check.fail("bert: head %d must have `name`, `specs` and loss(self, hidden, target, batch)", i)
  end
end

---Makes a head from a name, a head, or a function of the encoder.
local function make_head(i, wanted, encoder)
  if type(wanted) == "string" then
    if HEADS[wanted] then return HEADS[wanted](encoder) end
    local names = sorted(HEADS)
    local hint = guess.hint(wanted, names)
    check.fail("bert: unknown head '%s'%s", wanted, hint ~= "" and hint
      or ("; use %s or a head"):format(table.concat(names, ", ")))
  end
  local head = wanted
  if check.is_callable(wanted) then head = wanted(encoder) end -- as those of sr.nn.heads
  check_head(i, head)
  head.number = head.number or i
  return head
end

---Whether any of these heads reads the pooled state; functions may, so they get one where the family has it.
local function wants_pooler(list, family, config)
  local heads = family.heads(config, make_design(family.design(config), config))
  for _, head in ipairs(list) do
    if head == "nsp" and heads.nsp or type(head) == "function" and family.names.pooler then return true end
    local maker = type(head) == "table" and getmetatable(head)
    if maker and maker.wants_pooler and head:wants_pooler(heads) or type(head) == "table" and head.pooler then
      return true
    end
  end
  return false
end

---The heads that a family is pretrained with.
local function pretraining_heads(family, config)
  local heads = family.heads(config, make_design(family.design(config), config))
  local names = {}
  for _, name in ipairs { "mlm", "nsp", "causal" } do
    if heads[name] then names[#names + 1] = name end
  end
  return names
end

---A BERT, or an encoder of another family, on the current device, parameters not yet initialised.
---@param config table keys of Hugging Face's config.json; missing keys are those of the family's base model; family:
---  its name, or a table (nn/families); heads: those that the family is pretrained with; precision: "f32" (the default)
---  or "bf16", dtype of the parameters that ops read
---@return seqrun.Bert
function Bert.new(config)
  local whole, family = configs.whole(config, 4)
  local wanted = whole.heads or pretraining_heads(family, whole)
  if type(wanted) ~= "table" then
    check.fail("bert: heads is a %s; expected a list such as { 'mlm', 'nsp' }", type(wanted))
  end
  whole.heads = nil
  local pooler = wants_pooler(wanted, family, whole)
  whole.family = family.name
  local encoder = Encoder.new(whole, { pooler = pooler })
  local parts, heads = { encoder }, {}
  for i, name in ipairs(wanted) do
    heads[i] = make_head(i, name, encoder)
    parts[i + 1] = heads[i]
  end
  local self = setmetatable(Model.new(parts, { precision = encoder.precision, rename = family.rename_tensor }), Bert)
  self.encoder, self.config, self.design = encoder, encoder.config, encoder.design
  self.heads = strict.fixed(heads, "the model: heads", "give all to sr.nn.bert { heads = }", true)
  return strict.keep(self, { "encoder", "heads", "config", "design", "params", "parts" })
end

-- ---- what it computes ------------------------------------------------------------------------

---@param batch { ids: seqrun.Tensor, types: seqrun.Tensor, layout: seqrun.Layout }
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor }
---@return seqrun.Tensor # (T, H), or the needed rows of it
function Bert:encode(batch, needed) return self.encoder:encode(batch, needed) end

---The head of this name, or nil.
---@param name string
---@return seqrun.Head|nil
function Bert:head(name)
  for _, head in ipairs(self.heads) do
    if head.name == name then return head end
  end
end

---Items of a target.
local function count_of(target) return target.count or target.labels:size(1) end

---Fails if no head has a target, or if a head lacks its target while a target lacks its head: names that do not match.
local function check_targets(self, batch)
  local names, idle, found = {}, nil, false
  for i, head in ipairs(self.heads) do
    names[i] = head.name
    if batch.targets[head.name] then found = true else idle = idle or head.name end
  end
  if not found then
    check.fail("bert: the batch has no target for any of the heads %s, so nothing can be trained",
      table.concat(names, ", "))
  end
  for name in pairs(idle and batch.targets or {}) do
    if not self:head(name) then
      check.fail("bert: the head '%s' has no target, and no head reads the target '%s'; a head and its target must "
        .. "have the same name", idle, name)
    end
  end
end

---A target whose items weigh what part of a document they are, as a multiple of the mean part; the target itself where
---they are no windows.
local function shared(target, share, mean)
  if not share then return target end
  local weights = target.weights * share.labels:to(target.weights:dtype()):reshape(-1) * (1 / (mean or 1))
  return setmetatable({ weights = weights }, { __index = target })
end

---The losses of a micro-batch, one for each head that has a target.
---@param batch seqrun.Batch
---@param see? fun(head: seqrun.Head, hidden: seqrun.States, target: seqrun.Target) called for each of these heads
---@return seqrun.Losses
function Bert:losses(batch, see)
  check_targets(self, batch)
  local all, states_of = losses.new(batch), directions(self.encoder, batch)
  for _, head in ipairs(self.heads) do
    local target = batch.targets[head.name]
    if target then
      local hidden, own = states_of(target)
      own = shared(own, batch.targets.window_share, self.mean_share)
      local loss = head:loss(hidden, own, batch)
      if type(loss) ~= "table" then
        check.fail("bert: the head '%s': loss(self, hidden, target, batch)%s returned %s; return { total =, items = }",
          head.name, check.place(head.loss), check.show(loss))
      end
      loss.count = loss.count or count_of(target)
      all:add(head.name, loss)
      if see then see(head, hidden, own) end
    end
  end
  self.encoder:add_losses(batch, all)
  return all
end

-- ---- what only it knows ----------------------------------------------------------------------

---A lower bound of the bytes of activations that training keeps for this number of rows.
---@param rows integer
---@return integer
function Bert:activation_bytes(rows) return self.encoder:activation_bytes(rows, self.recompute) end

---Tokens that the layers process, in all layers together; see sr.nn.token_drop.
---@param batch seqrun.Batch as encoded last
---@return integer
function Bert:layer_tokens(batch) return self.encoder:layer_tokens(batch) end

---FLOP of forward and backward for MFU; heads count the rows that they read.
---@param batch seqrun.Batch
---@return number
function Bert:flops(batch)
  local sum = self.encoder:flops(batch)
  for _, head in ipairs(self.heads) do
    local target = head.flops_of and batch.targets[head.name]
    if target then sum = sum + head:flops_of(batch, count_of(target)) end
  end
  return sum
end

---Groups for sr.optim that freeze the layers of encoder.frozen with the embeddings, and the parameters without
---gradient if the batches have only these targets: weight decay would shrink them to zero.
---@param targets string[]
---@return seqrun.OptimGroup[]|nil
function Bert:frozen(targets)
  local present, pooler, groups, used = {}, false, {}, {}
  for _, name in ipairs(targets) do present[name] = true end
  local function freeze(name) groups[#groups + 1] = { match = "^" .. name:gsub("%p", "%%%0") .. "$", frozen = true } end
  for _, head in ipairs(self.heads) do
    pooler = pooler or present[head.name] and head.pooler
    for _, spec in ipairs(present[head.name] and head.specs or {}) do used[spec] = true end
  end
  for _, head in ipairs(self.heads) do
    for _, spec in ipairs(present[head.name] and {} or head.specs) do
      if not used[spec] then freeze(spec.name) end
    end
  end
  for _, spec in ipairs(self.encoder.specs) do
    local lost = not pooler and self.encoder.names.pooler and spec.name:find(self.encoder.names.pooler, 1, true)
    if lost or self.encoder:is_frozen(spec.name) then freeze(spec.name) end
  end
  return #groups > 0 and groups or nil
end

---config.json of Hugging Face.
---@return table
function Bert:hf_config() return require("seqrun.nn.hf_config")(self) end

---Names of the losses, in order.
---@return string[]
function Bert:loss_names()
  local names = {}
  for i, head in ipairs(self.heads) do names[i] = head.name end
  return names
end

function Bert:__tostring()
  local d = self.encoder.design
  return ("%s: %s, hidden size %d, %s, %s%d tokens, %d parameters"):format(self.encoder.family.name,
    counted(d.layers, "layer"), d.hidden, counted(d.heads, "attention head"), d.experts and "experts, " or "",
    d.vocabulary, self.params:count())
end

return Bert
