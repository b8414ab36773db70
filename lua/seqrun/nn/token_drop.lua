-- token_drop.lua - random layerwise token dropping: layers in the middle of an encoder train on some tokens of each
-- sequence.
--
--     bert.encoder.token_drop = sr.nn.token_drop { keep = 0.5 }
--
-- Each of these layers keeps max(forced, round(keep * length)) random positions of every sequence, its own ones; the
-- other rows bypass it.  Kept tokens keep their rotary positions.  What is kept is a function of (seed, uid, epoch,
-- layer), not of packs.  Evaluation is dense.
--
-- Source: Yao et al. 2022, arXiv:2211.11586.

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

---@class seqrun.TokenDrop
---@field keep number share of the tokens that the next batches keep; 1: all
---@field layers? integer[] first and last layer that drops tokens, from 0; by default all but the first and the last
---@field first boolean every layer keeps the first token of each sequence, [CLS]
---@field last boolean every layer keeps the last token of each segment, [SEP]
---@field masked boolean every layer keeps the masked tokens
local TokenDrop = {}
TokenDrop.__index = TokenDrop

local OPTIONS = { keep = true, layers = true, first = true, last = true, masked = true }

---Rows of a shortened layout are a multiple of this: a GPU has fast products, and few shapes of them, to choose from.
local UNITS = { cpu = 16, ref = 1 }
local UNIT = 128

---@param options { keep: number, layers?: integer[], first?: boolean, last?: boolean, masked?: boolean } first, last:
---  default true; masked: default false
---@return seqrun.TokenDrop
function TokenDrop.new(options)
  check.options("nn.token_drop", options, OPTIONS)
  local self = setmetatable({
    layers = options.layers, first = options.first ~= false, last = options.last ~= false,
    masked = options.masked or false,
  }, TokenDrop)
  self:set(options.keep)
  return self
end

---Sets the share of the tokens that the next batches keep.
---@param keep number in (0, 1]
function TokenDrop:set(keep)
  if type(keep) ~= "number" or not (keep > 0 and keep <= 1) then
    check.fail("nn.token_drop: keep is %s; choose a share of the tokens in (0, 1], such as 0.5", check.show(keep))
  end
  self.keep = keep
end

---First and last layer that drops tokens in an encoder, by its number of layers.
---@param layers integer
---@return integer first from 0
---@return integer last below `first` if there are none
function TokenDrop:range(layers)
  local first, last = 1, layers - 2
  if self.layers then first, last = self.layers[1], self.layers[2] end
  if not self.layers and last < first then
    check.fail("nn.token_drop: %d layers have none between the first and the last; set the layers, as in layers = "
      .. "[0, %d]", layers, layers - 1)
  end
  local good = math.type(first) == "integer" and math.type(last) == "integer" and first >= 0 and first <= last
  if not good or last >= layers then
    check.fail("nn.token_drop: layers is [%s, %s]; expected the first and last layer, in order, from 0 to %d",
      check.show(first), check.show(last), layers - 1)
  end
  return first, last
end

---Rows of the masked tokens.
local function masked_rows(batch)
  local target = batch.targets and batch.targets.mlm
  if not target then
    check.fail("nn.token_drop: masked is set, but the batch has no masked tokens, the target 'mlm'")
  end
  return batch.host_rows and batch:host_rows("mlm") or target.rows:totable()
end

---The rows that must be kept, other than the first and last of a sequence; nil if there are none.
local function forced_rows(self, batch)
  local rows = self.last and batch.host and batch:host("separators") or {}
  local masked = self.masked and masked_rows(batch) or {}
  return table.move(masked, 1, #masked, #rows + 1, rows)
end

---@class seqrun.Kept
---@field layout seqrun.Layout of the rows that a layer keeps
---@field first integer first layer that drops tokens, from 0
---@field last integer
---@field rows table<integer, seqrun.Tensor> (M) i32 by layer
---@field whole seqrun.Layout of the batch
local Kept = {}
Kept.__index = Kept

---Draws what the layers of an encoder keep of a batch, all at once: one upload, and no wait for the device.
---@param batch seqrun.Batch
---@param layers integer of the encoder
---@return seqrun.Kept|nil # nil if all tokens are kept
function TokenDrop:draw(batch, layers)
  local first, last = self:range(layers)
  if self.keep == 1 then return nil end
  local count = last - first + 1
  local layout, all = batch.layout:shorten {
    fraction = self.keep, layer = first, layers = count, first = self.first, last = self.last,
    rows = forced_rows(self, batch), unit = UNITS[tensor.device()] or UNIT,
  }
  local rows = {}
  for k = 1, count do rows[first + k - 1] = all:select(1, k) end
  return setmetatable({ layout = layout, first = first, last = last, rows = rows, whole = batch.layout }, Kept)
end

---The positions that the rows of a layer had in their sequences, for rotary positions.
---@param i integer layer
---@return { positions: seqrun.Tensor, limit: integer } # positions (T) i32 of the shortened layout, 0 on slack
function Kept:places(i)
  local int = { dtype = "i32" }
  if not self.positions then
    self.positions, self.limit = tensor.tensor(self.whole:positions(), int), 1
    for _, length in ipairs(self.whole:lengths()) do self.limit = math.max(self.limit, length) end
  end
  local found, count = ops.gather_rows(self.positions, self.rows[i]), self.layout:rows()
  local slack = count - found:size(1)
  if slack > 0 then found = tensor.cat({ found, tensor.zeros(slack, int) }, 1) end
  return { positions = found, limit = self.limit }
end

---Tokens that the layers of an encoder process: those of a batch, in all layers together.
---@param batch seqrun.Batch
---@param layers integer
---@return integer
function Kept:layer_tokens(batch, layers)
  local dropping = self.last - self.first + 1
  return (layers - dropping) * batch.layout:tokens() + dropping * self.layout:tokens()
end

---The same for the sums of squared lengths, the cost of attention.
function Kept:layer_squares(batch, layers)
  local dropping = self.last - self.first + 1
  return (layers - dropping) * batch.layout:squares() + dropping * self.layout:squares()
end

return TokenDrop
