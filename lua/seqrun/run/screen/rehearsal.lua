-- rehearsal.lua - the loop of a dry run: a few micro-batches, or parts of one that is large, timed.

local failure = require("seqrun.base.failure")
local peak = require("seqrun.run.measure.peak")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

---Steps, each of one micro-batch: the first is a warmup and is not counted; the others take two seconds, until timings
---are steady.
local FEWEST, MOST, SECONDS = 2, 50, 2

---Seconds that a micro-batch may take to be measured whole, at this share of the peak; FLOP that always are.
local LONG, USUAL, SMALL = 0.4, 0.5, 5e9

---The sequences of a batch, in order, that have at most this many tokens; the shortest, if all have more.
local function some_of(layout, most)
  local lengths, uids, some, least = layout:lengths(), layout:uids(), {}, 1
  for i, length in ipairs(lengths) do
    if length < lengths[least] then least = i end
    if length <= most then some[#some + 1], most = uids[i], most - length end
  end
  return #some > 0 and some or { uids[least] }
end

---What is measured of an update: its first micro-batch, or some of its sequences if that takes long.
---@param t { loader: seqrun.Loader, model: table }
---@param update seqrun.Update
---@return seqrun.Update
---@return integer? rows that are measured; nil: the whole micro-batch
---@return integer rows of the micro-batch
local function part_of(t, update)
  if not t.loader.update_of or not t.loader.draws_by then return update, nil, 0 end -- a loader of one's own
  local scope <close> = tensor.scope()
  local batch = update:batch(1)
  local flops = t.model.flops and t.model:flops(batch) or 0
  local most_flops = flops > SMALL and peak.measure(t.model.params.precision)
  local share, rows = most_flops and LONG * USUAL * most_flops / flops or 1, batch.layout:rows()
  if share >= 1 or t.loader:draws_by() == "order" then return update, nil, rows end
  local most, arrange = share * batch.tokens, nil
  if most < t.loader:summary().max_len then arrange = "single" end
  local some = some_of(batch.layout, most)
  if arrange then some = { some[1] } end
  local part = t.loader:update_of(some, { epoch = batch.epoch, arrange = arrange })
  return part, part:batch(1).layout:rows(), rows
end

---An update that returns only the first micro-batch of `part`, and calls `done` when asked for the next.
local function shortened(update, part, done)
  local other = part ~= update
  return setmetatable({
    count = other and 1 or nil, batch = other and function() return part:batch(1) end or nil, batches = function()
      part.stores = update.stores
      local batches, given = part:batches(), false
      return function()
        if given then
          done()
          return nil
        end
        given = true
        return batches()
      end
    end,
  }, { __index = update })
end

---Replaces the loop of a run.
---@param t { update?: seqrun.Update, loader: seqrun.Loader, model: table, begin: fun(update: seqrun.Update) }
---  update: nil if the data has too few examples for one; begin: called before each step
---@param tell fun(micros: number[], rests: number[], rows?: integer, whole: integer) called at the end, with the
---  seconds of each micro-batch and of the rest of each step, and the rows measured instead of all of a micro-batch
---@return fun(): integer?, seqrun.Update?
return function(t, tell)
  local micros, rests = {}, {}
  local first, began, half = nil, nil, nil
  if not t.update then failure.raise("data", "too few examples for one update; lower batch.sequences") end
  local part, rows, whole = part_of(t, t.update)
  return function()
    local now = sys.now()
    first = first or now
    if began then
      local micro = (half or now) - began
      micros[#micros + 1], rests[#rests + 1] = rows and micro * whole / rows or micro, now - (half or now)
    end
    if sys.caught() then failure.raise("stopped", "stopped; nothing was written") end
    if #micros >= MOST or #micros >= FEWEST and now - first >= SECONDS then
      tell(micros, rests, rows, whole)
      return nil
    end
    began, half = sys.now(), nil
    t.begin(t.update)
    return 1, shortened(t.update, part, function() half = sys.now() end)
  end
end
