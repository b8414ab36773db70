-- rates.lua - how long an op of traffic.lua takes on a GPU.  Nothing here was measured with seqrun.
--
-- The time of an op is the larger of what it moves and what it computes, and what its launches cost:
--
--   moved      bytes / (rate of a copy x the share of it that such a pass reaches)
--   product    FLOP / (rate of a full chip x the share of its processors that have a tile), for the best of some
--              tiles; a deep product of few elements may be cut into parts, whose sums are moved once more
--   attention  FLOP / (rate at 512 tokens x what is left of it for shorter sequences), by sequence, and what is lost
--              where the last blocks end; backward, a block has a sequence, or a part of one: rounds.lua
--   launches   a gap to the kernel before, and the time in which blocks start and end

local rounds = require("rounds")
local sr = require("seqrun")

local rates = {}

---Rates: FLOP/s of products on a full chip, and of attention's kernels for sm_80 at 512 tokens with dropout; bytes/s
---of a copy and `peak`, the chip's dense bf16 rate, are those of the advisor.
---
---The copies of H100 and H200 were measured, by others.  Products of a layer's shapes are expected at 600 TFLOP/s,
---where 97 % of the processors have work; attention at the middle of what the design expects: 4 warps in a block would
---give the backward pass 170 TFLOP/s on an H100, 8 warps are assumed to give it 15 % more.
rates.DEVICES = {
  h100 = { product = 620e12, attention = 235e12, backward = 195e12, processors = 132 },
  h200 = { product = 620e12, attention = 235e12, backward = 195e12, processors = 132 },
  a100 = { product = 237e12, attention = 155e12, backward = 120e12, processors = 108 },
}
for name, device in pairs(rates.DEVICES) do
  device.copy, device.peak = sr.advise.devices[name].copy, sr.advise.devices[name].peak
end

---@class seqrun.Rates
---@field copy number
---@field product number
---@field attention number
---@field backward number
---@field peak number
---@field processors integer

local GAP, RAMP = 1.2e-6, 1.0e-6 -- seconds: from one kernel to the next, in which blocks start and end
rates.LAUNCH = GAP + RAMP

local TILES = { { 128, 256, 1 }, { 256, 128, 1 }, { 128, 128, 0.92 } } -- and what smaller ones reach
local PARTS = { 1, 2, 3, 4, 6 } -- into which a depth may be cut (kernels/cuda/split_cuda.cu)
local DEEP = 512 -- at least in a part
local BLOCK = 64 -- rows and columns of a tile of attention
local SUMS = 0.2 -- of a visit: what sums for a bias cost a block of rows, whose 24 KB come from the L2 cache in a third
-- of the time of one, partly while the processor's other block computes
local LOST = 1.03 -- where the last blocks of the forward pass end
local BLOCKS = 2 -- of the backward pass, on a processor

---Seconds of one product (m, n, k).
---@param m integer
---@param n integer
---@param k integer
---@param device seqrun.Rates
function rates.product(m, n, k, device)
  local best = math.huge
  for _, tile in ipairs(TILES) do
    for _, parts in ipairs(PARTS) do
      local tiles = math.ceil(m / tile[1]) * math.ceil(n / tile[2]) * parts
      local busy = tiles / (math.ceil(tiles / device.processors) * device.processors)
      local seconds = 2 * m * n * k / (device.product * tile[3] * busy)
      if parts > 1 then seconds = seconds + 8 * m * n * parts / device.copy + rates.LAUNCH end
      if parts == 1 or (k >= parts * DEEP and tiles / parts < 4 * device.processors) then
        best = math.min(best, seconds)
      end
    end
  end
  return best
end

---What a sequence of `n` tokens leaves of attention's rate at 512.  A tile of queries costs a visit of a block of keys
---more than it visits; in the backward pass a sequence costs one and a half, and each block of keys a half, on top of
---the sums for a bias, which the rate at 512 does not have.
---@param kind "attention"|"attention_backward"
---@param n integer
function rates.share_at(kind, n)
  local function share(blocks, sums)
    if kind == "attention" then return blocks / (blocks + 1) end
    return blocks * blocks / rounds.visits(blocks, sums)
  end
  return share(math.ceil(n / BLOCK), SUMS) / share(512 / BLOCK, 0)
end

---Seconds of all calls, and further launches of each.
local function attention(op, device)
  local total, seconds, lengths = 0, {}, {}
  local rate = op.kind == "attention" and device.attention or device.backward
  for i, part in ipairs(op.sequences) do
    lengths[i] = part.length
    seconds[i] = part.flops / (rate * rates.share_at(op.kind, part.length))
    total = total + seconds[i]
  end
  if op.kind == "attention" then return total * LOST, 0 end
  local last, split = rounds.seconds(lengths, seconds, op.heads, BLOCKS * device.processors, SUMS)
  return last, split > 0 and 1 or 0 -- of split sequences, what all of their blocks need
end

---Seconds of all calls of an op of traffic.lua, and what binds it.
---@param op table
---@param device seqrun.Rates
---@return number seconds, string bound
function rates.seconds(op, device)
  local moved, computed = op.bytes / (device.copy * op.share), 0
  local launches = op.launches
  if op.kind == "product" then
    for _, p in ipairs(op.products) do computed = computed + p.calls * rates.product(p.m, p.n, p.k, device) end
  elseif op.sequences then
    local more
    computed, more = attention(op, device)
    launches = launches + more * op.calls
  end
  launches = launches * rates.LAUNCH
  local work = math.max(moved, computed)
  local bound = launches > work and "launch" or computed > moved and "compute" or "memory"
  return work + launches, bound
end

return rates
