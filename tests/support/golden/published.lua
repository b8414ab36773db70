-- published.lua - tokens as DeepSpeed's programs count them, to compare with their numbers: every sequence counts with
-- the length of the update, padding included.
--
--     local count = published { full = 512, layers = 24, dropping = 22 }
--     count:layer_tokens(1024, 128)            -- 1024 sequences, 128 tokens kept
--     count:effective_tokens(1024, 256, 128)   -- of length 256
--
-- The counters of a run (effective_tokens, layer_tokens) count the tokens that layers really processed.

local check = require("seqrun.base.check")

---@class tests.PublishedTokens
---@field full integer full length of a sequence
---@field layers integer
---@field dropping integer layers that drop tokens
local Published = {}
Published.__index = Published
Published.__name = "tests.PublishedTokens"

---Token counts as DeepSpeed's programs have them, to compare with their numbers.
---@param t { full: integer, layers: integer, dropping?: integer }
---@return tests.PublishedTokens
local function new(t)
  check.options("published", t, { full = true, layers = true, dropping = true })
  local self = setmetatable({ full = check.integer("published: full", t.full, 1) }, Published)
  self.layers = check.integer("published: layers", t.layers, 1)
  self.dropping = check.integer("published: dropping", t.dropping or 0, 0, self.layers)
  return self
end

---Layer tokens of an update, as the scheduler of token dropping counts them: layers that do not drop always count with
---the full length, even while a curriculum truncates.
---@param sequences integer
---@param kept integer tokens that dropping layers keep of each
---@return integer
function Published:layer_tokens(sequences, kept)
  return sequences * (kept * self.dropping + self.full * (self.layers - self.dropping))
end

---Effective tokens of an update, as the training loop counts them: the mean over layers of each sequence, rounded down.
---@param sequences integer
---@param length integer of the update
---@param kept? integer tokens that dropping layers keep of each; all by default
---@return integer
function Published:effective_tokens(sequences, length, kept)
  if not kept or kept >= length then return sequences * length end
  return sequences * ((length * (self.layers - self.dropping) + kept * self.dropping) // self.layers)
end

return new
