-- model.lua - a discriminator, and what replaces tokens in its input: a generator that shares its embeddings, or what
-- the network itself has predicted.
--
-- A batch has the target `mlm`, its masked tokens, and `replaced`, all tokens with their ids before masking.

local Encoder = require("seqrun.nn.encoder")
local expert_keys = require("seqrun.nn.keys.experts")
local Model = require("seqrun.nn.model")
local Predictions = require("seqrun.tasks.electra.predictions")
local losses = require("seqrun.nn.losses")
local mlm = require("seqrun.nn.heads.mlm")
local ops = require("seqrun.tensor.ops")
local replaced = require("seqrun.nn.heads.replaced")
local tensor = require("seqrun.tensor")

---Names of the generator's parameters begin with this, in files of the discriminator.
local GENERATOR = "generator."

---Rows whose logits are made at a time to draw from.
local ROWS = 1024

---@class seqrun.Electra: seqrun.Model
---@field encoder seqrun.Encoder the discriminator
---@field generator seqrun.Encoder|false false: predictions of the network itself are used
---@field heads seqrun.Head[] mlm, replaced
---@field predictions seqrun.Predictions|false
local Electra = setmetatable({}, { __index = Model })
Electra.__index, Electra.__newindex = Electra, Model.__newindex

-- ---- the generator -----------------------------------------------------------------------------

---The config of a generator of another width: layers and embeddings are those of the discriminator, which alone has
---experts.
local function narrower(config, width)
  local own = {}
  for key, value in pairs(config) do own[key] = value end
  for _, key in ipairs(expert_keys.NAMES) do own[key] = nil end
  own.hidden_size = math.max(8, math.floor(width * config.hidden_size / 8 + 0.5) * 8)
  own.intermediate_size = math.max(8, math.floor(width * config.intermediate_size + 0.5))
  local heads = math.max(1, math.floor(width * config.num_attention_heads + 0.5))
  while own.hidden_size % heads ~= 0 do heads = heads - 1 end
  own.num_attention_heads = heads
  return own
end

---Whether a parameter of an encoder is one of its embeddings, which the generator has from the discriminator.
local function is_shared(name, prefix)
  local start = prefix .. "embeddings."
  return name:sub(1, #start) == start
end

---The parameters of the model as the generator sees them: embeddings are the discriminator's.
local function borrowed(params, from, to)
  local function own(name) return is_shared(name, from) and to .. name:sub(#from + 1) or name end
  return {
    get = function(_, name) return params:get(own(name)) end,
    has = function(_, name) return params:has(own(name)) end,
    fused = function(_, group) return params:fused(group) end,
  }
end

---A generator without embeddings of its own, and its head.
local function make_generator(config, encoder)
  local generator = Encoder.new(config, { prefix = GENERATOR .. encoder.prefix })
  local head, own = mlm.new(generator, GENERATOR), {}
  for _, spec in ipairs(generator.specs) do
    if not is_shared(spec.name, generator.prefix) then own[#own + 1] = spec end
  end
  generator.specs = own
  return generator, head
end

-- ---- making one --------------------------------------------------------------------------------

---@param config table of sr.nn.encoder
---@param options { width?: number, weight: number, seed: integer, counts?: integer[] } width: of a generator; counts:
---  of tokens, without a generator
---@return seqrun.Electra
function Electra.new(config, options)
  local encoder = Encoder.new(config)
  local generator, head
  if options.width then
    local own = narrower(encoder.config, options.width)
    own.family, own.initializer = config.family, config.initializer
    generator, head = make_generator(own, encoder)
  end
  head = head or mlm.new(encoder)
  local tell = replaced.new(encoder)
  tell.factor = options.weight
  local self = setmetatable(Model.new({ encoder, tell, head, generator }, { precision = encoder.precision }), Electra)
  self.encoder, self.design, self.config, self.heads = encoder, encoder.design, encoder.config, { head, tell }
  self.generator, self.predictions = generator or false, false
  if generator then
    generator.params = borrowed(self.params, generator.prefix, encoder.prefix)
  else
    self.predictions = Predictions.new(options.counts, options.seed)
    tell.files = function() return { [Predictions.FILE] = self.predictions:pack() } end
  end
  return self
end

-- ---- what it computes --------------------------------------------------------------------------

---Rows of a target, on the host.
local function rows_of(batch, name)
  return batch.host_rows and batch:host_rows(name) or batch.targets[name].rows:totable()
end

---The ids of a batch with others in these rows.
local function with(batch, target, ids) return ops.put_rows(batch.ids, target.rows, ids) end

---Ids drawn from what a head predicts of some rows, (M, H).
local function drawn(head, x, rows, layout)
  local quiet <close> = tensor.no_grad()
  local list = {}
  for first = 1, #rows, ROWS do
    local last = math.min(#rows, first + ROWS - 1)
    local logits = head:logits(x:detach():narrow(1, first, last - first + 1))
    list[#list + 1] = ops.sample(logits, table.move(rows, first, last, 1, {}), layout)
  end
  return #list > 1 and tensor.cat(list) or list[1]
end

---The discriminator's loss over all tokens of the input that it gets.
local function add_replaced(self, all, batch, hidden, ids)
  local target, own = batch.targets.replaced, {}
  for key, value in pairs(target) do own[key] = value end
  own.labels = ops.gather_rows(ids, target.rows):ne(target.labels):to(target.weights:dtype())
  local loss = self.heads[2]:loss(hidden, own)
  loss.count = target.count or target.labels:size(1)
  all:add("replaced", loss)
end

local function add_masked(head, all, hidden, target)
  local loss = head:loss(hidden, target)
  loss.count = target.count or target.labels:size(1)
  all:add("mlm", loss)
end

---The batch that the discriminator reads.
local function seen(batch, ids)
  return { ids = ids, types = batch.types, layout = batch.layout, update_sequences = batch.update_sequences }
end

---With a generator: it fills the masks, and the discriminator judges the result.
local function with_generator(self, batch, rows)
  local all, target, ids, head = losses.new(), batch.targets.mlm, batch.ids, self.heads[1]
  if #rows > 0 then
    local layout, order = batch.layout:shorten(rows)
    local int = { dtype = "i32" }
    local own = {}
    for key, value in pairs(target) do own[key] = value end
    own.places = tensor.arange(0, #rows - 1, 1, int)
    local read = {
      ids = batch.ids, types = batch.types, layout = batch.layout,
      last = { layout = layout, rows = tensor.tensor(order, int) },
    }
    local hidden = self.generator:states(read)
    add_masked(head, all, hidden, own)
    ids = with(batch, target, drawn(head, hidden:rows(own), rows, batch.layout))
  end
  local read = seen(batch, ids)
  add_replaced(self, all, batch, self.encoder:states(read), ids)
  self.encoder:add_losses(read, all)
  return all
end

---The masked rows of each sequence of a batch: { uid, epoch, count } in order.  Where an update has the end of one
---epoch and the beginning of the next, a sequence may occur twice.
local function by_sequence(batch, rows)
  local layout = batch.layout
  local owners, uids, epochs, list, before = layout:owners(), layout:uids(), layout:epochs(), {}, nil
  for _, row in ipairs(rows) do
    local owner = owners[row + 1]
    if owner ~= before then list[#list + 1] = { uid = uids[owner + 1], epoch = epochs[owner + 1], count = 0 } end
    list[#list].count, before = list[#list].count + 1, owner
  end
  return list
end

---Keeps what was predicted of each sequence.
local function keep(self, sequences, ids)
  local at = 0
  for _, one in ipairs(sequences) do
    self.predictions:add(one.uid, one.epoch, table.move(ids, at + 1, at + one.count, 1, {}))
    at = at + one.count
  end
end

---Without one: what was predicted before is in the place of the masks, and the network judges and predicts.
local function by_itself(self, batch, rows)
  local all, target, ids, head = losses.new(), batch.targets.mlm, batch.ids, self.heads[1]
  local sequences, list = by_sequence(batch, rows), {}
  for _, one in ipairs(sequences) do
    local before = self.predictions:of(one.uid, one.count, not self.training)
    table.move(before, 1, #before, #list + 1, list)
  end
  if #rows > 0 then ids = with(batch, target, tensor.tensor(list, { dtype = "i32" })) end
  local read = seen(batch, ids)
  local hidden = self.encoder:states(read)
  if #rows > 0 then
    add_masked(head, all, hidden, target)
    if self.training then keep(self, sequences, drawn(head, hidden:rows(target), rows, batch.layout):totable()) end
  end
  add_replaced(self, all, batch, hidden, ids)
  self.encoder:add_losses(read, all)
  return all
end

---The losses of a micro-batch: mlm of the masked tokens, replaced of all.
---@param batch seqrun.Batch
---@return seqrun.Losses
function Electra:losses(batch)
  local rows = rows_of(batch, "mlm")
  if self.generator then return with_generator(self, batch, rows) end
  return by_itself(self, batch, rows)
end

-- ---- what a run asks for -----------------------------------------------------------------------

---An update begins.
---@param update seqrun.Update
function Electra:begin(update)
  if self.predictions then self.predictions:begin(update) end
end

---The micro-batches of an update have been computed.
---@param ranks seqrun.RunRanks
function Electra:finish(ranks)
  if self.predictions then self.predictions:share(ranks) end
end

---Goes on with the predictions of a checkpoint.
---@param saved string|nil
function Electra:restore(saved)
  if self.predictions and saved then self.predictions:unpack(saved) end
end

---Tokens that the layers of the discriminator process.
---@param batch seqrun.Batch
---@return integer
function Electra:layer_tokens(batch) return self.encoder:layer_tokens(batch) end

---@param batch seqrun.Batch
---@return number
function Electra:flops(batch)
  local sum = self.encoder:flops(batch) + (self.generator and self.generator:flops(batch) or 0)
  for _, head in ipairs(self.heads) do
    local target = batch.targets[head.name]
    if target then sum = sum + head:flops_of(batch, target.count or target.labels:size(1)) end
  end
  return sum
end

---A lower bound of the bytes of activations that training keeps for this number of rows.
---@param rows integer
---@return integer
function Electra:activation_bytes(rows)
  local sum = self.encoder:activation_bytes(rows, self.recompute)
  return sum + (self.generator and self.generator:activation_bytes(rows, self.recompute) or 0)
end

---config.json of the discriminator, and which tensors are whose, for `seqrun export --network`.
---@return table
function Electra:hf_config()
  local class, prefix = self.encoder.family.class, self.encoder.prefix
  local whole = self.encoder:hf_config(class .. "ForPreTraining")
  local masked = (self.generator or self.encoder):hf_config(class .. "ForMaskedLM")
  local names = { ["generator_predictions."] = "generator_predictions.", ["generator_lm_head."] = "generator_lm_head." }
  local takes = self.generator and { [GENERATOR] = "", [prefix .. "embeddings."] = prefix .. "embeddings." } or names
  if not self.generator then takes[prefix] = prefix end
  whole.seqrun_networks = {
    main = "discriminator",
    discriminator = { takes = { [prefix] = prefix, ["discriminator_predictions."] = "discriminator_predictions." } },
    generator = { takes = takes, config = masked },
  }
  return whole
end

---Names of the losses, in order.
---@return string[]
function Electra:loss_names() return { "mlm", "replaced" } end

function Electra:__tostring()
  local d, g = self.design, self.generator and self.generator.design
  return ("%s: %d layers, hidden size %d, %s, %d parameters"):format(self.encoder.family.name, d.layers, d.hidden,
    g and ("a generator of %d"):format(g.hidden) or "replaced by itself", self.params:count())
end

return Electra
