-- keys.lua - the config keys of the optimizer.

local c = require("seqrun.config")

local MANY = 1 << 30
local later = true

local muon = c.map({
  { "momentum", c.number { default = 0.95, min = 0, below = 1, doc = "momentum of matrices" } },
  { "nesterov", c.boolean { default = true, doc = "Nesterov's momentum" } },
  { "scale", c.enum({ "rms", "shape" }, { default = "rms",
    doc = "factor on updates of matrices; rms: 0.2 sqrt(max(rows, columns)), which suits rates of adamw; shape: "
      .. "sqrt(max(1, rows / columns)), as published first" }) },
  { "matrix_rate", c.number { default = 1, min = 0,
    doc = "factor on the rate of matrices; scale=shape needs about 50" } },
  { "split", c.boolean { default = true, changeable = later,
    doc = "treat q, k and v stored in one matrix, and the two halves of a gated block, as separate matrices; false: "
      .. "one matrix, as in older runs, which resume with it" } },
}, { doc = "optimizer.name=muon: the matrices of hidden layers" })

local optimizer = c.map {
  { "name", c.enum({ "adamw", "lamb", "stable_adamw", "muon" }, { default = "adamw",
    doc = "optimizer; lamb: for very large batches; stable_adamw: lowers the rate of tensors whose gradients spike, "
      .. "and needs no clip; muon: orthogonal updates of the matrices of hidden layers, adamw for the rest" }) },
  { "betas", c.list(c.number { min = 0, below = 1 }, { default = { 0.9, 0.999 }, min = 2, max = 2,
    doc = "decay rates of the two moments (beta1, beta2)" }) },
  { "eps", c.number { default = 1e-6, min = 0, doc = "added to the denominator for numerical stability" } },
  { "decay", c.number { default = 0.01, min = 0, doc = "weight decay; not applied to biases and LayerNorm" } },
  { "decay_by", c.enum({ "rate", "peak" }, { default = "rate",
    doc = "rate: weights shrink by rate * decay an update; peak: by rate / rate.peak * decay, fully decoupled" }) },
  { "muon", muon },
  { "average", c.number { default = 0, min = 0,
    doc = "decay of an exponential moving average of the weights, such as 0.9999; 0: none" } },
  { "average_from", c.number { default = 0, min = 0,
    doc = "units of rate.by after which averaging begins" } },
  { "clip", c.number { default = 1.0, min = 0, doc = "maximum gradient norm; 0: no clipping" } },
  { "max_skipped", c.integer { default = 10, min = 1, max = MANY,
    doc = "stop after this many consecutive updates with NaN or infinity" } },
  { "shard", c.boolean { default = true, changeable = later,
    doc = "with several ranks, each keeps the optimizer state of its part of the parameters and updates that part "
      .. "(ZeRO-1); results are bit-identical" } },
}

local rules = {
  {
    keys = { "optimizer.betas" },
    check = function(betas)
      if betas[1] < 1 and betas[2] < 1 then return nil end
      return ("betas must be below 1, not %g and %g"):format(betas[1], betas[2])
    end,
  },
  {
    keys = { "optimizer.name", "optimizer.decay_by" },
    check = function(name, by)
      if name ~= "lamb" or by == "rate" then return nil end
      return "optimizer.decay_by=peak does not apply to lamb, whose trust ratio scales its decay; leave it out"
    end,
  },
  {
    keys = { "optimizer.muon.matrix_rate" },
    check = function(factor) return factor == 0 and "matrices would not be trained; use a positive factor" or nil end,
  },
  {
    keys = { "optimizer.eps" },
    check = function(eps)
      if eps > 0 then return nil end
      return "eps must be positive, such as 1e-6: it keeps the update finite where the second moment is zero"
    end,
  },
}

return { keys = { { "optimizer", optimizer } }, rules = rules }
