-- playback.lua - recorded steps that a run is to compute again from a checkpoint, for `seqrun verify`.

local failure = require("seqrun.base.failure")
local hashes = require("seqrun.run.verify.hashes")

local playback = {}

---@class seqrun.Playback
---@field checkpoint string where the run begins
---@field wanted table<integer, true> steps to compare
---@field recorded table<integer, table> the lines of metrics of these steps
---@field last integer the last of them
---@field results table[] { step, equal, what, tensor }
local Playback = {}
Playback.__index = Playback

local open

---Makes the next run of this process one that compares recorded steps.
---@param checkpoint string
---@param lines table[] of metrics, by step
---@return seqrun.Playback
function playback.open(checkpoint, lines)
  local self = setmetatable({
    checkpoint = checkpoint, wanted = {}, recorded = {}, last = lines[#lines].step, results = {},
  }, Playback)
  for _, line in ipairs(lines) do self.wanted[line.step], self.recorded[line.step] = true, line end
  open = self
  return self
end

---@return seqrun.Playback|nil
function playback.current() return open end

function playback.close() open = nil end

---In the order in which they are computed.
local KINDS = { "loss", "gradient", "weights", "moments" }

---What differs from the recorded hashes first, and in which tensor.
local function compare(line, recorded, params)
  for _, what in ipairs(KINDS) do
    local key, tensors = what .. "_hash", what .. "_tensors"
    if line[key] ~= recorded[key] then
      return what, line[tensors] and recorded[tensors] and hashes.first_tensor(params, line[tensors], recorded[tensors])
    end
  end
end

---Takes the hashes of a step; ends the run after the last.
---@param line table
---@param params seqrun.Params
function Playback:take(line, params)
  local what, tensor = compare(line, self.recorded[line.step], params)
  self.results[#self.results + 1] = { step = line.step, equal = what == nil, what = what, tensor = tensor }
  if what or line.step >= self.last then failure.raise("ok", "") end -- after a difference all steps differ
end

return playback
