-- saving_arms.lua - the arms of recipes/bench/saving.lua: what each changes.

local arms = {}

---The arms in the order of the report; `order` marks controls of the same pace.
arms.NAMES = { "baseline", "length", "rarity", "length_rarity", "token_drop", "composed", "random", "reversed" }

---Those of the question itself: what saves, all of it together, and a control.
arms.USUAL = { "baseline", "rarity", "token_drop", "composed", "random" }

arms.TITLES = {
  baseline = "baseline", length = "length, 32 to 128", rarity = "rarity, 5 to 100 %",
  length_rarity = "length + rarity", token_drop = "token dropping", composed = "length + rarity + token dropping",
  random = "control: random order, pace of rarity", reversed = "control: reversed rarity",
}

---A schedule over a part of the effective tokens of the run, as arguments.
local function keys_of(key, tokens, fields)
  local words = { ("%s.by=effective_tokens"):format(key), ("%s.total=%d"):format(key, math.floor(tokens)) }
  for name, value in pairs(fields) do words[#words + 1] = ("%s.%s=%s"):format(key, name, value) end
  return words
end

---Fraction of the baseline's tokens over which curricula rise, as published for BERT-Large.
local PACE = 0.48

local function length(t) return keys_of("curriculum.length", t.tokens * PACE, { min = 32, max = 128, quantum = 8 }) end

local function rarity(t, order)
  local words = keys_of("curriculum.rarity", t.tokens * PACE, { type = "root", degree = 2, min = 5, max = 100 })
  words[#words + 1] = "curriculum.rarity.file=" .. t.rarity
  if order then words[#words + 1] = "curriculum.order=" .. order end
  return words
end

local function dropping(t) return keys_of("token_drop.keep", t.tokens, { min = 32, max = 128, quantum = 8 }) end

local function joined(...)
  local all = {}
  for i = 1, select("#", ...) do
    local list = select(i, ...)
    table.move(list, 1, #list, #all + 1, all)
  end
  return all
end

---What changes in pretraining, by arm; t has the effective tokens of the run and the metric file of its seed.
local WORDS = {
  baseline = function() return {} end, length = length, rarity = rarity, token_drop = dropping,
  length_rarity = function(t) return joined(length(t), rarity(t)) end,
  composed = function(t) return joined(length(t), rarity(t), dropping(t)) end,
  random = function(t) return rarity(t, "random") end, reversed = function(t) return rarity(t, "reversed") end,
}

---Arguments of recipes/curriculum.lua.
---@param name string
---@param t { tokens: number, rarity: string } tokens: effective ones of the run; rarity: metric file of its seed
---@return string[]
function arms.words(name, t) return WORDS[name](t) end

-- ---- fine-tuning ---------------------------------------------------------------------------------

---The arms of fine-tuning, in the order of the report.
arms.TUNING = { "baseline", "length", "loss", "token_drop", "composed" }

arms.TUNING_TITLES = {
  baseline = "baseline", length = "length, to the longest", loss = "loss under the baseline, 20 to 100 %",
  token_drop = "token dropping", composed = "length + loss + token dropping",
}

---The longest sequence that a curriculum of lengths begins with, and that layers keep at first: an eighth of the
---length of packs, as a multiple of 8.
local function shortest(t) return math.max(8, t.max_len // 8 // 8 * 8) end

local function tuned_length(t)
  return keys_of("curriculum.length", t.tokens * PACE, { min = shortest(t), max = t.max_len, quantum = 8 })
end

local function tuned_loss(t)
  local words = keys_of("curriculum.loss", t.tokens * PACE, { type = "root", degree = 2, min = 20, max = 100 })
  words[#words + 1] = "curriculum.loss.file=" .. t.loss
  return words
end

local function tuned_dropping(t)
  return keys_of("token_drop.keep", t.tokens, { min = shortest(t), max = t.max_len, quantum = 8 })
end

local TUNED = {
  baseline = function() return {} end, length = tuned_length, loss = tuned_loss, token_drop = tuned_dropping,
  composed = function(t) return joined(tuned_length(t), tuned_loss(t), tuned_dropping(t)) end,
}

---Arguments of recipes/finetune.lua.
---@param name string
---@param t { tokens: number, max_len: integer, loss: string } loss: metric file of the seed's baseline
---@return string[]
function arms.tuned_words(name, t) return TUNED[name](t) end

return arms
