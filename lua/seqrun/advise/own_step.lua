-- own_step.lua - training steps of this program on made-up packs, timed.
--
-- Every pack holds two sequences, of 3/4 and 1/4 of its tokens, so that a token attends to 5/8 of a pack on average;
-- 15 % of the rows are masked.

local nn = require("seqrun.nn")
local optim = require("seqrun.optim")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local own_step = {}

---Mean number of tokens that a token of a made-up pack attends to, over the tokens of the pack.
own_step.ATTENDED = (0.75 ^ 2 + 0.25 ^ 2)

local SEED, MASKED = 1, 0.15

local function layout_of(seq, packs, uid)
  local first, lens, starts, uids = seq * 3 // 4, {}, {}, {}
  for p = 0, packs - 1 do
    for half, len in ipairs { first, seq - first } do
      lens[#lens + 1], starts[#starts + 1] = len, p * seq + (half - 1) * first
      uids[#uids + 1] = uid + 2 * p + half
    end
  end
  return { lens = lens, starts = starts, uids = uids, rows = packs * seq, seed = SEED }
end

---A micro-batch of an update of `all` packs.
local function batch_of(vocabulary, seq, packs, all, uid)
  local rows, spec = packs * seq, layout_of(seq, packs, uid)
  local ids, types, masked, labels, weights, nsp, halves = {}, {}, {}, {}, {}, {}, {}
  for r = 1, rows do
    ids[r], types[r] = (r * 7919 + uid * 104729) % vocabulary, r % 2
    if math.floor(r * MASKED) > math.floor((r - 1) * MASKED) then
      masked[#masked + 1], labels[#labels + 1] = r - 1, (r * 31) % vocabulary
    end
  end
  for i = 1, #masked do weights[i] = 1 / (#masked * all / packs) end
  for i = 1, #spec.lens do nsp[i], halves[i] = i % 2, 1 / (2 * all) end
  local int = { dtype = "i32" }
  local function kept(list, options) return tensor.tensor(list, options):keep() end
  return {
    layout = tensor.layout(spec), ids = kept(ids, int), types = kept(types, int),
    targets = {
      mlm = { rows = kept(masked, int), labels = kept(labels, int), weights = kept(weights) },
      nsp = { rows = kept(spec.starts, int), labels = kept(nsp, int), weights = kept(halves) },
    },
  }
end

---The least of some timings of a function.
---@param repeats integer
---@param fn fun()
---@return number
function own_step.least(repeats, fn)
  local least = math.huge
  for _ = 1, repeats do
    local begin = sys.now()
    fn()
    least = math.min(least, sys.now() - begin)
  end
  return least
end

---@class seqrun.advise.OwnStep
---@field bert seqrun.Bert
---@field update fun() the optimizer
---@field pass fun() forward and backward of all micro-batches
---@field kept integer bytes of activations after the forward of a micro-batch; 0 before the first pass
local OwnStep = {}
OwnStep.__index = OwnStep

local function passes(self, batches)
  for _, batch in ipairs(batches) do
    local scope <close> = tensor.scope()
    local before = tensor.memory().used
    local loss = self.bert:losses(batch).total
    self.kept = math.max(self.kept, tensor.memory().used - before)
    loss:backward()
  end
  tensor.synchronize()
end

---@param m seqrun.advise.Model an encoder
---@param o { seq: integer, batch: integer, micro_batch: integer, recompute?: boolean, layers?: integer }
---@return seqrun.advise.OwnStep
function own_step.new(m, o)
  local bert = nn.bert {
    hidden_size = m.hidden, num_hidden_layers = o.layers or m.layers, num_attention_heads = m.heads,
    intermediate_size = m.inner, vocab_size = m.vocabulary, max_position_embeddings = math.max(512, o.seq),
  }
  bert:initialise(SEED)
  bert.recompute = o.recompute or false
  local optimizer, batches = optim.adamw(bert.params, {}), {}
  for first = 0, o.batch - 1, o.micro_batch do
    batches[#batches + 1] = batch_of(m.vocabulary, o.seq, o.micro_batch, o.batch, 2 * first)
  end
  local self = setmetatable({ bert = bert, kept = 0 }, OwnStep)
  function self.update() optimizer:step { rate = 1e-5, clip = 1.0 } tensor.synchronize() end
  function self.pass() passes(self, batches) end
  return self
end

---Seconds of a step: the least of some, after one that is not counted.
---@param repeats integer
---@return number
function OwnStep:seconds(repeats)
  local function step()
    self.pass()
    self.update()
  end
  step()
  return own_step.least(repeats, step)
end

return own_step
