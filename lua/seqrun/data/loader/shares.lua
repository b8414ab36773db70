-- shares.lua - iterates over the micro-batches of an update and notifies parameters when a share ends.
--
-- A share is a fixed part of an update: its micro-batches add up in order, and shares are summed in a binary
-- tree (core/train/shares.h).  So the gradient's bits depend on the shares, not on which process computes them.

local shares = {}

---Default maximum of shares.
local MOST = 8

---@param update table count, perhaps shares
---@return integer
function shares.count(update) return update.shares or math.max(1, math.min(MOST, update.count)) end

---The shares that a rank computes: neighbours, as many as the others' or one more (core/loader/update.h).
---@param update table count, perhaps shares, rank (from 0) and ranks
---@return integer first from 1
---@return integer last below first if it has none
function shares.own(update)
  local all, rank, ranks = shares.count(update), update.rank or 0, update.ranks or 1
  return (all * rank + ranks - 1) // ranks + 1, (all * (rank + 1) + ranks - 1) // ranks
end

---The share of micro-batch i, from 1: neighbours, as evenly as may be.
local function share_of(update, batch, i)
  return batch.share or (i - 1) * shares.count(update) // update.count + 1
end

---The numbers of the micro-batches that a rank computes, in order.
---@param update table batch(i), count, perhaps rank and ranks
---@return integer[]
function shares.numbers(update)
  local first, last = shares.own(update)
  local list = {}
  for i = 1, update.count do
    local share = share_of(update, update:batch(i), i)
    if share >= first and share <= last then list[#list + 1] = i end
  end
  return list
end

---The numbers of the micro-batches with the last share first, each share in order: the same sum.
local function backwards(update)
  local list, by = {}, {}
  for i = 1, update.count do
    local share = share_of(update, update:batch(i), i)
    by[share] = by[share] or {}
    table.insert(by[share], i)
  end
  for share = shares.count(update), 1, -1 do table.move(by[share] or {}, 1, #(by[share] or {}), #list + 1, list) end
  return list
end

---The micro-batches of `update` that are this rank's, in order; each share ends in `stores` when the loop comes back
---for more.
---@param update table batch(i), count
---@param stores seqrun.Params[] what the loop computes gradients of; may be empty
---@return fun(): seqrun.Batch?
function shares.each(update, stores)
  local i, share = 0, nil
  local first, last = shares.own(update)
  local order = update.backwards and backwards(update)
  ---The next micro-batch of this rank, and its share.
  local function draw()
    while i < update.count do
      i = i + 1
      local number = order and order[i] or i
      local batch = update:batch(number)
      local its_share = share_of(update, batch, number)
      if its_share >= first and its_share <= last then return batch, its_share end
    end
  end
  local during = not update.late
  local function all(method, ...)
    for _, params in ipairs(stores) do params[method](params, ...) end
  end
  local begun, coming, its_share = false, nil, nil
  return function()
    if not begun then
      all("begin_update", shares.count(update))
      coming, its_share = draw()
      begun = true
    end
    if share and its_share ~= share then all("end_share", share) end
    local batch = coming
    share = its_share
    if not batch then
      if during then all("end_batches") end
      return nil
    end
    coming, its_share = draw()
    if during then all("begin_batch", share, not coming) end
    return batch
  end
end

return shares
