-- rate_rules.lua - which keys of the learning rate go together, for pretraining and fine-tuning.

local rate_rules = {}

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

rate_rules.shape = {
  keys = { "rate.decay", "rate.last", "rate.cosine", "rate.bend", "rate.by", "rate.warmup_by" }, check = shape,
}

---Powers belong to polynomials of steps.
rate_rules.power = {
  keys = { "rate.decay", "rate.power", "rate.by", "rate.floor", "rate.peak" },
  check = function(decay, power, by, floor, peak)
    if floor > peak then return ("rate.floor %g exceeds rate.peak %g"):format(floor, peak) end
    if power == 1 or decay == "poly" and by == "step" then return nil end
    return "rate.power applies to rate.decay=poly by steps only; leave it out"
  end,
}

return rate_rules
