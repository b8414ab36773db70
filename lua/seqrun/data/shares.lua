-- shares.lua - iterates over the micro-batches of an update and tells parameters when a share ends.
--
-- A share is a fixed part of an update: its micro-batches add up in order, and shares are summed in a binary
-- tree (core/train/shares.h).  So the gradient's bits depend on the shares, not on which process computes them.

local shares = {}

---Default maximum of shares.
local MOST = 8

---@param update table count, perhaps shares
---@return integer
function shares.count(update) return update.shares or math.max(1, math.min(MOST, update.count)) end

---The share of micro-batch i, from 1: neighbours, as evenly as may be.
local function share_of(update, batch, i)
  return batch.share or (i - 1) * shares.count(update) // update.count + 1
end

---The micro-batches of `update` in order; each share ends in `stores` when the loop comes back for more.
---@param update table batch(i), count
---@param stores seqrun.Params[] what the loop computes gradients of; may be empty
---@return fun(): seqrun.Batch?
function shares.each(update, stores)
  local i, share = 0, nil
  return function()
    if i == 0 then
      for _, params in ipairs(stores) do params:begin_update(shares.count(update)) end
    end
    i = i + 1
    local batch = i <= update.count and update:batch(i) or nil
    local next_share = batch and share_of(update, batch, i)
    if share and next_share ~= share then
      for _, params in ipairs(stores) do params:end_share(share) end
    end
    share = next_share
    return batch
  end
end

return shares
