-- update.lua - the micro-batches between two steps of the optimizer, and their totals.

local counted = require("seqrun.base.format").counted
local new_batch = require("seqrun.data.loader.batch")
local shares = require("seqrun.data.loader.shares")

---@class seqrun.Update
---@field index integer from 0
---@field packs integer
---@field sequences integer
---@field tokens integer
---@field slots integer
---@field masked integer
---@field sources? string[] names of the sources of a data set that has several
---@field words integer as white space separates them; 0 where the data set has not counted them
---@field shares integer parts whose gradients are summed in a tree; batches come share by share
---@field imbalance number cost of the most expensive micro-batch over the mean; 1 is even
---@field schedule_step number steps of the schedule after it: sequences drawn so far, divided by the batch size in
---sequences; updates, if no such size was given
---@field rank? integer from 0, of `ranks`: batches() goes through the micro-batches of its shares only
---@field ranks? integer
---@field ended? fun() called at the end of batches()
---@field again? boolean its step is being computed once more (key verify.every)
---@field backwards? boolean batches() begins with the last share; the sum is the same
---@field late? boolean gradients are exchanged when all are there, not during the backward pass
---@field stores? seqrun.Params[] whose gradients are summed by shares
---@field counters? seqrun.Counters totals of the run with this update; run:steps sets them
---@field window? seqrun.Window of a curriculum: lengths, difficulties and what is unlocked
---@field max_len? integer of a curriculum: longer sequences were cut
---@field book? table of the run that gave it (run/checks/loop.lua), until its step is done
---@field from table the cursor before it
---@field upto table the cursor after it
local Update = {}
Update.__index = Update
Update.__name = "seqrun.Update"
require("seqrun.base.strict").seal(Update, "the update", {
  "index", "sequences", "packs", "tokens", "slots", "masked", "words", "count", "schedule_step", "counters", "window",
  "max_len", "stores", "sources", "imbalance", "from", "upto", "ended",
  "again", "backwards", "late",
})

function Update:__tostring()
  return ("update %d: %s in %s, %d tokens in %d slots, %d masked"):format(self.index,
    counted(self.sequences, "sequence"), counted(self.packs, "pack"), self.tokens, self.slots, self.masked)
end

---Notes in the run's book what becomes of each batch, and calls `ended` when there are no more.
local function observed(update, stores, each)
  return function()
    local book, ended = update.book, update.ended
    if book then book:note(stores) end
    local batch = each()
    if book then book:give(batch, stores) end
    if not batch and ended then ended() end
    return batch
  end
end

---Goes through the micro-batches: `for batch in update:batches() do`.  Gradients of the parameters are summed
---by shares; run:steps sets those of its model, another loop passes them: `update:batches(bert.params)`.
---@param ... seqrun.Params
---@return fun(): seqrun.Batch?
function Update:batches(...)
  local stores = select("#", ...) > 0 and { ... } or self.stores or {}
  return observed(self, stores, shares.each(self, stores))
end

---Says that a micro-batch is left out of an update of run:steps on purpose; without one, all that have not been given
---out yet, and the step.  The others keep their weights.
---@param batch? seqrun.Batch
function Update:skip(batch)
  if self.book then self.book:skip(batch) end
end

---Micro-batch number i, from 1.
---@param i integer
---@return seqrun.Batch
function Update:batch(i)
  local batch = new_batch(self.core, i)
  batch.sources = self.sources
  return batch
end

---@param object seqrun.core.batch.update
---@param sequences? integer batch size in sequences
---@param sources? string[]
---@return seqrun.Update
return function(object, sequences, sources)
  local update = object:info()
  update.sources = sources
  update.schedule_step = sequences and update.upto.sequences / sequences or update.upto.update
  update.core, update.count = object, update.batches
  update.batches = nil -- the method
  return setmetatable(update, Update)
end
