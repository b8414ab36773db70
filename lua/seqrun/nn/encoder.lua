-- encoder.lua - the forward pass of an encoder: embeddings and layers, composed from coarse ops.
--
-- What differs between families is a table, encoder.design (nn/design.lua).  Names, shapes and config keys are those
-- of Hugging Face's models.  An encoder can be used alone or as a part of a model; heads read its `States`.

local check = require("seqrun.base.check")
local configs = require("seqrun.nn.config")
local counted = require("seqrun.base.format").counted
local expert_keys = require("seqrun.nn.keys.experts")
local make_design = require("seqrun.nn.design")
local merged = require("seqrun.base.merged")
local ops = require("seqrun.tensor.ops")
local parameters = require("seqrun.nn.parameters")
local part = require("seqrun.nn.model.part")
local states = require("seqrun.nn.states")
local strict = require("seqrun.base.strict")
local tensor = require("seqrun.tensor")

---@class seqrun.Encoder: seqrun.Part
---@field family seqrun.Family
---@field config table Hugging Face keys
---@field design seqrun.Design what the forward pass reads
---@field names seqrun.ParameterNames
---@field heads seqrun.FamilyHeads what its family has before the last layer of each head
---@field shared table<string, seqrun.ParamSpec> parameters that heads have in common
---@field prefix string of the names of its parameters
---@field whole? boolean a head reads whole sequences
---@field frozen? integer this number of lowest layers, and the embeddings, get no gradients
---@field token_drop? seqrun.TokenDrop drops tokens from layers in training
---@field gate? seqrun.Gate of experts, while it is not yet sparse
---@field teacher? seqrun.Teacher whose predictions it learns: sr.run.teacher
local Encoder = part.class()

Encoder.VOCAB_MULTIPLE, Encoder.PADDED = parameters.VOCAB_MULTIPLE, parameters.PADDED

-- ---- making one ------------------------------------------------------------------------------

local OPTIONS = { pooler = true, prefix = true }

---An encoder on the current device, parameters not yet initialised.
---@param config table keys of Hugging Face's config.json; missing keys: those of the family's base model;
---  family: its name, or a table; precision: "f32" or "bf16"; initializer: "normal", "depth" or "local"
---@param options? { pooler?: boolean, prefix?: string } pooler: add the pooling layer; prefix: of
---  parameter names, default "bert.", or as the family has it
---@return seqrun.Encoder
function Encoder.new(config, options)
  options = options or {}
  check.options("nn.encoder", options, OPTIONS)
  local whole, family = configs.whole(config, 4)
  if whole.heads ~= nil then check.fail("nn.encoder: an encoder has no heads; use sr.nn.bert") end
  if options.pooler and not family.names.pooler then check.fail("nn.encoder: %s has no pooler", family.name) end
  local precision, initializer = whole.precision, whole.initializer
  whole.precision, whole.initializer = nil, nil
  local prefix, design = options.prefix or family.prefix, make_design(family.design(whole), whole)
  if initializer == "local" then require("seqrun.nn.local_init").check(family, design) end
  if initializer == "depth" then design.deep_std = design.std / math.sqrt(2 * design.layers) end
  return setmetatable({
    name = "encoder", family = family, config = strict.fixed(whole, "the model: config", nil, true),
    design = design, names = family.names, prefix = prefix,
    heads = family.heads(whole, design), shared = {}, precision = precision, initializer = initializer,
    specs = parameters.list(design, family.names, prefix, options.pooler), has_pooler = options.pooler or false,
  }, Encoder)
end

---The published initialisation: truncated normal weights, zero biases, unit norms.  With `initializer = "depth"` the
---matrices that add to the hidden state have a standard deviation that is divided by sqrt(2 layers); see local_init.lua
---about "local".
---@param seed integer
---@return seqrun.Encoder
function Encoder:initialise(seed)
  self.params:initialise(seed)
  self:initialised()
  return self
end

---What a part does once its model has its initial values.
function Encoder:initialised()
  if self.initializer == "local" then require("seqrun.nn.local_init").apply(self) end
end

---The word embeddings, which tied heads read too.
---@return seqrun.Tensor # (V, H)
function Encoder:words() return self.params:get(self.prefix .. self.names.words .. ".weight") end

---Files repeat the word embeddings under this name, as the decoder of a head that is tied to them.
---@param name string
function Encoder:tie_words(name) table.insert(self.specs[1].tied, name) end

---The place of a parameter: 0 in the embeddings, i + 1 in layer i, nil above them.
---@param name string
---@return integer|nil
function Encoder:depth(name)
  if name:sub(1, #self.prefix) ~= self.prefix then return nil end
  local rest, names = name:sub(#self.prefix + 1), self.names
  local layer = rest:match("^" .. names.layer:gsub("%p", "%%%0"):gsub("%%%%d", "(%%d+)"))
  if layer then return math.tointeger(layer) + 1 end
  for _, above in ipairs { names.final_norm or false, names.pooler or false } do
    if above and rest:sub(1, #above + 1) == above .. "." then return nil end
  end
  return 0
end

-- ---- the forward pass -----------------------------------------------------------------------

---The norm of this design.
function Encoder:norm(x, residual, name, options)
  options.eps, options.kind = self.design.eps, self.design.norm_kind ~= "layer" and self.design.norm_kind or nil
  return part.norm(self, x, residual, name, options)
end

---The probability of dropout at a site.
local function dropout(self, site) return self.training and self.design.dropout[site] or 0 end

---x times the weights of one product, which may be stored as several tensors side by side.
local function product(self, x, prefix, names, group)
  if type(names) == "string" then return self:linear(x, prefix .. names) end
  local p, has_bias = self.params, self.params:has(prefix .. names[1] .. ".bias")
  local fused = prefix .. group
  return ops.linear(x, p:fused(fused .. ".weight"), has_bias and p:fused(fused .. ".bias") or nil)
end

---Token types, all of them 0 where a family has none for the second text of a pair.
local function types_of(self, batch)
  if self.design.types == 0 then return nil end
  if self.design.pairs then return batch.types end
  return tensor.zeros(batch.ids:size(1), { dtype = "i32" })
end

local function embed(self, batch)
  local d, names = self.design, self.names
  local function get(name, kind) return name and self:optional(self.prefix .. name .. "." .. kind) end
  local tables = {
    word = self:words(), position = d.position_rows and get(names.positions, "weight"),
    type = d.types > 0 and get(names.types, "weight") or nil,
    gamma = get(names.embedding_norm, "weight"), beta = get(names.embedding_norm, "bias"),
  }
  local positions = d.skip and require("seqrun.nn.positions")(batch, d.skip)
  local x = ops.embed(batch.ids, types_of(self, batch), tables, batch.layout, {
    eps = d.eps, dropout = dropout(self, "embedding"),
    positions = positions or batch.positions and batch.positions.positions,
  })
  if d.untrained then x = tensor.where(batch.ids:eq(d.untrained):reshape(-1, 1), x:detach(), x) end
  return d.embedding ~= d.hidden and self:linear(x, self.prefix .. names.project) or x
end

---What the heads of a layer read, side by side; only for some rows, if there is a list of them.
local function attend(self, x, layout, i, name, places, rows)
  local d = self.design
  local kv_heads = d.kv_heads ~= d.heads and d.kv_heads or nil
  local qkv = product(self, x, name, self.names.qkv, parameters.QKV)
  if d.theta then
    qkv = ops.rotary(qkv, layout, {
      heads = d.heads, kv_heads = kv_heads, theta = d.theta(i), in_place = true,
      positions = places and places.positions, limit = places and places.limit,
    })
  end
  local options = {
    heads = d.heads, kv_heads = kv_heads, window = d.window and d.window(i) or nil, causal = d.causal,
    dropout = dropout(self, "attention"), layer = i,
  }
  if self.attention then
    local mixed = self.attention(qkv, layout, options)
    return rows and ops.gather_rows(mixed, rows) or mixed
  end
  options.rows = rows
  return ops.attention(qkv, layout, options)
end

---x with dropout at a site of layer i.
local function drop(self, x, site, layout, i)
  local p = dropout(self, site)
  return p > 0 and ops.dropout(x, layout, { p = p, site = site, layer = i }) or x
end

---The feed-forward block, without its norm.
local function feed_dense(self, x, layout, i, name)
  local d, names = self.design, self.names
  local inner
  if d.gate then
    inner = ops.gated(product(self, x, name, names.up, parameters.UP), { act = d.act, gate = d.gate })
  else
    inner = self:linear(x, name .. names.up, { act = d.act })
  end
  return self:linear(drop(self, inner, "inner", layout, i), name .. names.down)
end

---The same, or experts, which give the losses of their router as well.
local function feed(self, x, layout, i, name)
  local d = self.design
  if expert_keys.of_layer(d, i) == 0 then return feed_dense(self, x, layout, i, name) end
  local dense = d.experts.residual and feed_dense(self, x, layout, i, name) or nil
  return require("seqrun.nn.experts").feed(self, x, layout, i, name, dense)
end

---One layer: attention, then the feed-forward block, each with its residual, and a norm after or before it.  Where
---norms come first, the last sum is left to the norm above, which adds and normalises in one pass.
---@param x seqrun.Tensor (T, H)
---@param layout seqrun.Layout
---@param i integer layer, from 0 as in the names
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor } continue with these rows after the keys and values
---@param fed? seqrun.Tensor (T, H) what the layer below has yet to add to x
---@param places? { positions: seqrun.Tensor, limit: integer } rotary positions of the rows, where they do not follow
---@return seqrun.Tensor # (T, H), or the needed rows of it
---@return seqrun.Tensor? fed what is yet to be added to it
---@return seqrun.Tensor[]? routed of experts in training: losses and load
function Encoder:layer(x, layout, i, needed, fed, places)
  local d, names = self.design, self.names
  local name, before = self.prefix .. names.layer:format(i), d.norm == "before"
  local normed = x
  if fed then
    normed, x = self:norm(fed, x, name .. names.attention_norm, { sum = true })
  elseif before and (d.first_norm or i > 0) then
    normed = self:norm(x, nil, name .. names.attention_norm, {})
  end
  local mixed = attend(self, normed, layout, i, name, places, needed and needed.rows)
  if needed then x, layout = ops.gather_rows(x, needed.rows), needed.layout end
  local projected = self:linear(mixed, name .. names.out)
  local attended, sum = self:norm(projected, x, name .. (before and names.feed_norm or names.attention_norm), {
    dropout = dropout(self, "projection"), layer = i, site = "projection", layout = layout, sum = before or nil,
  })
  local out, losses, load = feed(self, attended, layout, i, name)
  local routed = losses and { losses, load } or nil
  if before then return sum, drop(self, out, "feed", layout, i), routed end
  local y = self:norm(out, attended, name .. names.feed_norm, {
    dropout = dropout(self, "feed"), layer = i, site = "feed", layout = layout,
  })
  return y, nil, routed
end

---fn(...), without recording it if no gradient is wanted.
local function unrecorded_if(unwanted, fn, ...)
  if not unwanted then return fn(...) end
  local no_grad <close> = tensor.no_grad()
  return fn(...)
end

---Whether a parameter belongs to the layers of `frozen`, or to the embeddings below them.
---@param name string
---@return boolean
function Encoder:is_frozen(name)
  local depth = self.frozen and self:depth(name)
  return depth ~= nil and depth ~= false and depth <= self.frozen
end

---What a layer gives, as `frozen` and `recompute` ask for.
local function give(self, layer, i, x, fed)
  local frozen = self.frozen or -1
  if self.recompute and self.training and i >= frozen then return ops.recompute(layer, x, fed) end
  return unrecorded_if(i < frozen, layer, x, fed)
end

---Layer i; what its router did goes to the batch.
local function run_layer(self, x, fed, batch, layout, i, needed, places)
  local sums = self.design.norm == "before" and 2 or 1
  local function layer(input, more) -- tensors without gaps
    local y, rest, routed = self:layer(input, layout, i, needed, more, places)
    local list = { y, rest }
    return table.unpack(table.move(routed or {}, 1, 2, #list + 1, list))
  end
  local made = { give(self, layer, i, x, fed) }
  if made[sums + 1] then
    local of = needed and needed.layout or layout
    require("seqrun.nn.experts").note(batch, self, i, of, table.unpack(made, sums + 1))
  end
  return made[1], sums == 2 and made[2] or nil
end

---x and what is yet to be added to it.
local function added_up(x, fed) return fed and x + fed or x end

---Layer i on the rows that it keeps, in place: no op saves the hidden state between layers.
local function run_on_kept(self, x, batch, kept, i, needed)
  local places = self.design.theta and kept:places(i) or nil
  local function layer(taken) return added_up(run_layer(self, taken, nil, batch, kept.layout, i, nil, places)) end
  x = ops.on_rows(x, kept.rows[i], layer, { count = kept.layout:rows(), in_place = true })
  return needed and ops.gather_rows(x, needed.rows) or x
end

---Why layers of this encoder cannot drop tokens; nil if they can.
---@return string|nil
function Encoder:refuses_token_drop()
  if not self.design.window then return nil end
  return ("the family %s has local windows, which would reach further beside dropped tokens"):format(self.family.name)
end

---The rows that layers keep of a batch; nil if they keep all.
local function draw_kept(self, batch)
  if not self.token_drop or not self.training then return nil end
  local unfit = self:refuses_token_drop()
  if unfit then check.fail("nn.token_drop: %s; train it without token_drop", unfit) end
  return self.token_drop:draw(batch, self.design.layers)
end

---This encoder with attention to both sides: for the masked sequences that a causal one is trained on as well.
---@return seqrun.Encoder
function Encoder:both_sides()
  local design = setmetatable({ causal = false }, { __index = self.design })
  return setmetatable({ design = design }, { __index = self })
end

---The last hidden state of all rows, or only of the needed ones: of the others the last layer computes queries, keys
---and values, no more, which saves three quarters of its products and, on a CPU, most of its attention.
---@param batch { ids: seqrun.Tensor, types: seqrun.Tensor, layout: seqrun.Layout,
---  positions?: { positions: seqrun.Tensor, limit: integer } } positions: of sequences that do not begin at 0
---@param needed? { layout: seqrun.Layout, rows: seqrun.Tensor }
---@return seqrun.Tensor # (T, H), or the needed rows of it
function Encoder:encode(batch, needed)
  local d = self.design
  local last = d.layers - 1
  if self.frozen then check.integer("encoder.frozen, a number of layers,", self.frozen, 0, last + 1) end
  local kept = draw_kept(self, batch)
  batch.routed = nil
  local x = unrecorded_if((self.frozen or -1) >= 0, embed, self, batch)
  local fed
  for i = 0, last do
    local rows = i == last and needed or nil
    if kept and kept.rows[i] then
      x, fed = run_on_kept(self, added_up(x, fed), batch, kept, i, rows), nil
    else
      x, fed = run_layer(self, x, fed, batch, batch.layout, i, rows, batch.positions)
    end
  end
  batch.kept = kept
  if not d.final_norm then return added_up(x, fed) end
  return (self:norm(fed or x, fed and x, self.prefix .. self.names.final_norm, {}))
end

---Adds the losses of the routers of experts, "balance" and "router_z", in training; none without experts.
---@param batch seqrun.Batch as encoded last
---@param losses seqrun.Losses
function Encoder:add_losses(batch, losses)
  if self.training and self.design.experts then
    require("seqrun.nn.experts").add_losses(batch, self.design, losses)
  end
end

---The pooled output of sequences: tanh of a linear layer over [CLS].
---@param x seqrun.Tensor (N, H) rows of [CLS]
---@return seqrun.Tensor # (N, H)
function Encoder:pool(x)
  if not self.has_pooler then
    check.fail("the encoder (%s) has no pooler; a head that reads hidden:pooled() needs one", self.family.name)
  end
  return self:linear(x, self.prefix .. self.names.pooler, { act = "tanh" })
end

---Encodes a batch for heads: the last layer computes only the rows that targets read, unless a head reads whole
---sequences.
---@param batch seqrun.Batch
---@return seqrun.States
function Encoder:states(batch)
  local last = not self.whole and batch.last or nil
  local x = self:encode(batch, last)
  return states(self, x, last and "places" or "rows", last and last.layout or batch.layout)
end

-- ---- cost and config -------------------------------------------------------------------------

---Tokens that the layers process, in all layers together; those that a layer drops do not count.
---@param batch seqrun.Batch as encoded last
---@return integer
function Encoder:layer_tokens(batch) return require("seqrun.nn.cost").layer_tokens(self, batch) end

---FLOP of forward and backward: the tokens that layers process in every product, and 12 H for each pair of tokens in
---the attention of a layer.
---@param batch seqrun.Batch as encoded last
---@return number
function Encoder:flops(batch) return require("seqrun.nn.cost").flops(self, batch) end

---A lower bound of the bytes of activations that training keeps for this number of rows.
---@param rows integer
---@param recompute? boolean
---@return integer
function Encoder:activation_bytes(rows, recompute)
  return require("seqrun.nn.cost").activation_bytes(self, rows, recompute)
end

---config.json of Hugging Face.
---@param architecture? string "BertModel", or that of the family
---@return table
function Encoder:hf_config(architecture)
  local dtype, family = self.params:get(self.specs[1].name):dtype(), self.family
  return merged(self.config, {
    architectures = require("seqrun.core.json").array { architecture or family.class .. "Model" },
    model_type = family.name, dtype = dtype == "f64" and "float64" or "float32",
    tie_word_embeddings = family.only.tie_word_embeddings,
  }, family.write and family.write(self.config))
end

function Encoder:__tostring()
  local d, kind = self.design, self.family.name ~= "bert" and self.family.name .. ", " or ""
  return ("encoder: %s%s, hidden size %d, %s, %d tokens"):format(kind, counted(d.layers, "layer"), d.hidden,
    counted(d.heads, "attention head"), d.vocabulary)
end

return Encoder
