-- amounts.lua - how much the updates of a run have, on average; from its config and the summary of its loader.

local text = require("seqrun.base.format")

local amounts = {}

---Sequences of an update.
---@param batch table of the config
---@param loader table
---@return number
function amounts.sequences(batch, loader)
  return loader.by == "sequences" and batch.sequences or loader.packs * loader.factor
end

---Micro-batches of an update; all shares have the same number.
---@param batch table of the config
---@param loader table
---@return integer
function amounts.micro_batches(batch, loader)
  if loader.arrange == "single" then return math.floor(amounts.sequences(batch, loader) + 0.5) end
  local micro, shares = math.ceil(loader.packs / loader.micro_packs), batch.shares or 1
  return math.ceil(micro / shares) * shares
end

---Shares of an update; nil if its order decides.
---@param batch table of the config
---@param loader table
---@return integer|nil shares
---@return integer packs, or rows of one sequence
function amounts.shares(batch, loader)
  if loader.by == "order" then return nil, 0 end
  local rows = loader.arrange == "packed" and loader.packs or math.floor(amounts.sequences(batch, loader))
  return math.min(batch.shares or 8, amounts.micro_batches(batch, loader), rows), rows
end

---Passes over the data in `updates` updates; nil where the order or a counter decides.
---@param batch table of the config
---@param loader table
---@param updates integer
---@return number|nil
function amounts.epochs(batch, loader, updates)
  if loader.by == "order" or updates >= text.UNLIMITED then return nil end
  if loader.by == "sequences" then return updates * amounts.sequences(batch, loader) / math.max(1, loader.sequences) end
  return updates * loader.packs / math.max(1, loader.packs_per_epoch)
end

return amounts
