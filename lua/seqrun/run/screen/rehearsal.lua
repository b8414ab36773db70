-- rehearsal.lua - the loop of a dry run: a few micro-batches, timed.

local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")

---Steps, each of one micro-batch: the first is a warmup and is not counted; the others take some seconds, until timings
---are steady.
local FEWEST, MOST, SECONDS = 3, 50, 3

---An update that returns only its first micro-batch, and calls `done` when asked for the next.
local function shortened(update, done)
  return setmetatable({
    batches = function()
      local batches, given = update:batches(), false
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
---@param update seqrun.Update|nil nil: the data has too few examples for one
---@param begin fun(update: seqrun.Update) called before each step
---@param tell fun(micros: number[], rests: number[]) called at the end, with the seconds of each micro-batch and of the
---  rest of each step
---@return fun(): integer?, seqrun.Update?
return function(update, begin, tell)
  local micros, rests = {}, {}
  local first, began, half = sys.now(), nil, nil
  if not update then failure.raise("data", "too few examples for one update; lower batch.sequences") end
  return function()
    local now = sys.now()
    if began then micros[#micros + 1], rests[#rests + 1] = (half or now) - began, now - (half or now) end
    if sys.caught() then failure.raise("stopped", "stopped; nothing was written") end
    if #micros >= MOST or #micros >= FEWEST and now - first >= SECONDS then
      tell(micros, rests)
      return nil
    end
    began, half = sys.now(), nil
    begin(update)
    return 1, shortened(update, function() half = sys.now() end)
  end
end
