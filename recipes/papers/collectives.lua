-- collectives.lua - what many ranks add to the step of one: collectives in two levels, and waiting for the slowest.
--
-- Compute and the optimizer's pass are lua/seqrun/advise/time.lua's, of the rank with the most work.  Gradients are
-- reduce-scattered and weights all-gathered in two levels: inside a node over its links, then each device of a node
-- with its counterparts over a network link of its own.  The reduce-scatter goes in buckets behind backward, the
-- all-gather behind the next forward if `gather_hidden`; what does not fit behind shows, and so does the last bucket.

local advise = require("seqrun.advise")
local models = require("seqrun.advise.models")
local time = require("seqrun.advise.time")

local scale = {}

---@class seqrun.papers.Links
---@field link number share of a link inside a node that collectives reach
---@field network number share of a network link
---@field hop number seconds of a level of a tree over nodes
---@field inner_hop number seconds of a step of a ring inside a node
---@field buckets integer of the gradients
---@field gradient integer bytes of a gradient
---@field gather_hidden boolean
---@field jitter number standard deviation of a rank's step over its mean
scale.links = {
  link = 0.7, network = 0.7, hop = 10e-6, inner_hop = 3e-6, buckets = 8, gradient = 4, gather_hidden = false,
  jitter = 0.005,
}

---Seconds of a reduce-scatter, or of an all-gather, of `bytes` over n devices in `calls` pieces.
---@param device seqrun.advise.Device
---@param links seqrun.papers.Links
function scale.collective(device, links, bytes, n, calls)
  local inside = math.min(n, device.node)
  local nodes = math.ceil(n / device.node)
  local seconds = bytes * (inside - 1) / inside / (links.link * device.link)
    + bytes / inside * (nodes - 1) / nodes / (links.network * device.network)
  return seconds + calls * ((inside - 1) * links.inner_hop + math.ceil(math.log(nodes, 2)) * links.hop)
end

---What of `seconds` in `calls` pieces shows, if they may hide behind `behind` seconds: the last piece always.
local function shown(seconds, calls, behind)
  return math.max(seconds / calls, seconds - behind * (1 - 1 / calls))
end

---Expected largest of n normal deviates, in standard deviations.
local function largest(n) return n > 1 and math.sqrt(2 * math.log(n)) or 0 end

---@class seqrun.papers.Scene
---@field model seqrun.advise.Model
---@field device seqrun.advise.Device
---@field ranks integer
---@field packs number packs of a rank in an update, on average
---@field attended number tokens that a row attends to
---@field uneven number work of the slowest rank over the mean
---@field links seqrun.papers.Links

---Seconds of a step by cause, and their sum.
---@param s seqrun.papers.Scene
---@return table<string, number> parts, number seconds
function scale.step(s)
  local most = 128 -- packs of a micro-batch; more are several
  local count = math.ceil(s.packs / most)
  local alone, found = time.step(
    { model = s.model, device = s.device, seq = 512, batch = s.packs * s.ranks, devices = s.ranks, kernel = "packed",
      attended = s.attended },
    { micro_batch = s.packs / count, data = s.ranks, tensor = 1, pipeline = 1, zero = 1 },
    advise.coefficients("packed").time)
  local compute = alone - found.data - found.optimizer
  local parameters, last = models.count(s.model), compute / count
  local reduce = scale.collective(s.device, s.links, s.links.gradient * parameters, s.ranks, s.links.buckets)
  local gather = scale.collective(s.device, s.links, 2 * parameters, s.ranks, s.links.buckets)
  local parts = {
    compute = compute, waiting = compute * (s.uneven - 1 + s.links.jitter * largest(s.ranks)),
    reduce = s.ranks > 1 and shown(reduce, s.links.buckets, last * 2 / 3) or 0,
    gather = s.ranks > 1 and (s.links.gather_hidden and shown(gather, s.links.buckets, last / 3) or gather) or 0,
    optimizer = found.optimizer,
  }
  local total = 0
  for _, seconds in pairs(parts) do total = total + seconds end
  return parts, total
end

-- ---- MLPerf's target -----------------------------------------------------------------------------

---Sequences to a masked accuracy of 0.720 from the phase-1 checkpoint, by global batch: medians of public results.
local POINTS = { { 448, 2.55e6 }, { 768, 2.475e6 }, { 3072, 2.72e6 }, { 4608, 2.80e6 }, { 8192, 4.05e6 },
  { 13888, 5.40e6 } }

---Sequences to the target at a global batch (interpolated in its logarithm, up to an evaluation), and the interval.
---@return number sequences, number interval
function scale.to_target(batch)
  local interval = math.floor(0.05 * (230.23 * batch + 3e6) / 25000) * 25000
  local before = POINTS[1]
  local needed = batch < before[1] and before[2] or POINTS[#POINTS][2]
  for _, point in ipairs(POINTS) do
    if before[1] <= batch and batch <= point[1] and point ~= before then
      local part = math.log(batch / before[1]) / math.log(point[1] / before[1])
      needed = before[2] + part * (point[2] - before[2])
      break
    end
    before = point
  end
  return math.ceil(needed / interval) * interval, interval
end

---Minutes to the target: training, and an evaluation of 10,000 sequences every interval at a third of a step's cost.
---@param batch integer sequences of an update
---@param seconds number of an update
function scale.minutes(batch, seconds)
  local needed, interval = scale.to_target(batch)
  local training = needed / batch * seconds
  local evaluation = needed / interval * 10000 / batch * seconds / 3
  return (training + evaluation) / 60
end

return scale
