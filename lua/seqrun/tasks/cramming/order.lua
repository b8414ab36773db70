-- order.lua - which sequences each update has: the easiest to compress first, those that compress worst never.
--
-- A pass goes through the sequences in this order; the next begins again, with other masks.

local core = require("seqrun.core.batch")
local failure = require("seqrun.base.failure")
local measured = require("seqrun.curriculum.measured")

---The uids that are kept, by ascending compressed size.
local function kept(options, drop)
  local metric = measured.first({ data = options.data, options = options }, "compressibility", "compressibility", true)
  local count = metric:count()
  return metric:order(0, math.max(1, math.floor(count * (1 - drop) + 0.5)))
end

---The order of a pass that is not sorted: a keyed permutation.
local function shuffled(uids, seed)
  return function(pass, i) return uids[core.permuted(i, #uids, seed, pass) + 1] end
end

---The loader's option `order`.
---@param options table of sr.data.loader, which choose the sequences
---@param pace seqrun.Pace
---@param t { drop: number, sort: boolean, seed: integer }
---@return fun(update: integer): integer[]? order
---@return integer count of the sequences that are kept
return function(options, pace, t)
  local uids = kept(options, t.drop)
  local largest = pace.sizes[#pace.sizes]
  if largest > #uids then
    failure.raise("config", "batch.sequences: an update has %d sequences, but only %d are left of the training part of "
      .. "%s; lower batch.sequences to at most that, or cramming.drop", largest, #uids, options.data:info().path)
  end
  local at = t.sort and function(_, i) return uids[i + 1] end or shuffled(uids, t.seed)
  return function(update)
    local size, first, list = pace.sizes[update + 1], pace.before[update + 1], {}
    if not size then return nil end
    for i = 0, size - 1 do list[i + 1] = at((first + i) // #uids, (first + i) % #uids) end
    return list
  end, #uids
end
