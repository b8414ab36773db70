-- rate_keys.lua - the config keys of the learning rate, and of the counters that end a run.

local c = require("seqrun.config")
local counted = require("seqrun.base.format").counted
local counters = require("seqrun.schedule.counters")

local later = true

local function goal(unit)
  return c.number { optional = true, min = 0, changeable = later, doc = "end the run when it reaches this " .. unit }
end

local stop = c.map {
  { "sequences", goal "number of sequences" },
  { "raw_tokens", goal "number of tokens, before sequences are truncated" },
  { "real_tokens", goal "number of tokens, without padding" },
  { "masked_tokens", goal "number of masked tokens" },
  { "words", goal "number of words, as white space separates them" },
  { "layer_tokens", goal "number of tokens processed by layers, summed over layers" },
  { "effective_tokens", goal "number of layer tokens divided by the number of layers" },
  { "flops", goal "model FLOP" },
  { "seconds", goal "time, in seconds" },
}

local rate = c.map {
  { "peak", c.number { required = true, min = 0, doc = "peak learning rate, at the end of the warmup" } },
  { "warmup", c.integer { default = 0, min = 0, doc = "steps of linear warmup; units of rate.warmup_by" } },
  { "warmup_by", c.enum(counters.NAMES, { default = "step",
    doc = "counter that the warmup depends on: step, or that of rate.by" }) },
  { "total", c.integer { required = true, min = 1,
    doc = "steps of the schedule, of batch.sequences sequences each; the rate reaches zero there; units of rate.by" } },
  { "by", c.enum(counters.NAMES, { default = "step",
    doc = "counter that the decay depends on; unless it is step, the run ends where it reaches rate.total" }) },
  { "floor", c.number { default = 0, min = 0, doc = "rate at the end of the decay" } },
  { "decay", c.enum({ "poly", "linear", "cosine", "1-sqrt", "constant", "cosine_inverse_sqrt" }, { default = "poly",
    doc = "shape of the decay; poly: by steps, see rate.power, and linear by other counters; 1-sqrt: one minus the "
      .. "square root of the completed fraction; cosine_inverse_sqrt: half a cosine, then an inverse square root" }) },
  { "last", c.number { optional = true, min = 0,
    doc = "length of the decay before rate.total, in units of rate.by; until then the rate is constant (WSD) or "
      .. "follows the inverse square root; none: it begins where the warmup ends" } },
  { "cosine", c.number { optional = true, min = 0,
    doc = "decay=cosine_inverse_sqrt: units of rate.by from the warmup to where the inverse square root begins" } },
  { "bend", c.number { default = 0.1, min = 0, max = 1,
    doc = "decay=cosine_inverse_sqrt: fraction of rate.peak to which the whole cosine would fall; half way down, the "
      .. "inverse square root takes over" } },
  { "from", c.integer { default = 0, min = 0, doc = "steps of the schedule completed by an earlier phase" } },
  { "power", c.number { default = 1.0, min = 0, doc = "power of the polynomial decay: 1 linear, 0.5 square root" } },
  { "decay_from", c.enum({ "warmup", "start" }, { default = "warmup",
    doc = "where the decay begins; start: step 0, as in the published BERT code" }) },
}

---What is wrong with a shape of the decay and the keys that belong to one; nil if nothing is.
---@param decay string
---@param last number? rate.last
---@param cosine number? rate.cosine
---@param bend number
---@param by string
---@param warmup_by string
---@return string?
local function shape(decay, last, cosine, bend, by, warmup_by)
  local inverse = decay == "cosine_inverse_sqrt"
  if last and (decay == "constant" or decay == "poly") then
    return ("rate.last is the length of a decay at the end; rate.decay=%s has none: choose linear, cosine, 1-sqrt or "
      .. "cosine_inverse_sqrt"):format(decay)
  end
  if inverse ~= (cosine ~= nil) then
    return "rate.decay=cosine_inverse_sqrt and rate.cosine, the length of its cosine, belong together"
  end
  if not inverse then return nil end
  if by ~= warmup_by then return "rate.decay=cosine_inverse_sqrt needs rate.warmup_by equal to rate.by" end
  if bend > 0 and bend < 1 and cosine > 0 then return nil end
  return "rate.bend must be above 0 and below 1, and rate.cosine above 0"
end

---Rules that fine-tuning has too.
local shared = {
  { -- powers belong to polynomials of steps
    keys = { "rate.decay", "rate.power", "rate.by", "rate.floor", "rate.peak" },
    check = function(decay, power, by, floor, peak)
      if floor > peak then return ("rate.floor %g exceeds rate.peak %g"):format(floor, peak) end
      if power == 1 or decay == "poly" and by == "step" then return nil end
      return "rate.power applies to rate.decay=poly by steps only; leave it out"
    end,
  },
  { keys = { "rate.decay", "rate.last", "rate.cosine", "rate.bend", "rate.by", "rate.warmup_by" }, check = shape },
}

local rules = {
  shared[1], shared[2],
  {
    keys = { "rate.by", "rate.decay", "rate.from", "rate.decay_from" },
    check = function(by, decay, from, decay_from)
      if by ~= "step" and from ~= 0 then return "rate.from applies to rate.by=step only; leave it out" end
      if decay_from == "warmup" or decay == "poly" and by == "step" then return nil end
      return "rate.decay_from=start applies to rate.decay=poly by steps only; leave it out"
    end,
  },
  {
    keys = { "rate.warmup", "rate.last", "rate.total", "rate.by", "rate.warmup_by" },
    check = function(warmup, last, total, by, warmup_by)
      if not last or (by == warmup_by and warmup or 0) + last <= total then return nil end
      return ("rate.warmup %g and rate.last %g exceed the %g %s of rate.total"):format(warmup, last, total,
        by == "step" and "steps" or by)
    end,
  },
  {
    keys = { "rate.warmup_by", "rate.by" },
    check = function(warmup_by, by)
      if warmup_by == "step" or warmup_by == by then return nil end
      local text = "rate.warmup_by is %s, but rate.by is %s; the warmup is in steps or in units of rate.by"
      return text:format(warmup_by, by)
    end,
  },
  {
    keys = { "rate.warmup", "rate.total", "rate.by", "rate.warmup_by" },
    check = function(warmup, total, by, warmup_by)
      if by ~= warmup_by or warmup < total then return nil end
      return ("warmup is %d of %d %s; lower rate.warmup or raise rate.total"):format(warmup, total,
        by == "step" and "steps" or by)
    end,
  },
  {
    keys = { "rate.from", "rate.total", "steps", "rate.by" },
    check = function(from, total, steps, by)
      if by ~= "step" or from + (steps or 1) <= total then return nil end
      return ("%s after the first %d exceed the %d of the schedule; raise rate.total"):format(
        counted(steps or 1, "step"), from, total)
    end,
  },
}

return { keys = { { "rate", rate }, { "stop", stop } }, rules = rules, shared = shared }
