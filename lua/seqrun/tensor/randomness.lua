-- randomness.lua - the random numbers that a recipe draws itself, by math.random and sr.rand: a function of the seed of
-- the run, and kept in its checkpoints, so that they go on after a stop.

local ops = require("seqrun.core.ops")

local randomness = {}

---Begins both from a seed.
---@param seed integer
function randomness.begin(seed)
  math.randomseed(seed)
  ops.manual_seed(seed)
end

---@return { lua?: string, seed: integer, draws: integer } # plain values; lua: nil where math.random is not Lua's
function randomness.state()
  local bytes, seed, draws = ops.math_random_state(), ops.random_state()
  local text = bytes and bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
  return { lua = text, seed = seed, draws = draws }
end

---@param state? table of state(); nil in checkpoints of earlier versions
function randomness.restore(state)
  if not state then return end
  if state.lua then
    ops.math_random_state((state.lua:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)))
  end
  ops.random_state(state.seed, state.draws)
end

return randomness
