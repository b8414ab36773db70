-- saving_arms.lua - the arms of recipes/papers/saving.lua: what each changes.

local arms = {}

---The arms in the order of the report; `order` marks controls of the same pace.
arms.NAMES = { "baseline", "length", "rarity", "length_rarity", "token_drop", "composed", "random", "reversed" }

---Those of the question itself: all that saves together.
arms.USUAL = { "baseline", "composed" }

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

---What the arms of a run differ in.
---@class seqrun.papers.Setting
---@field tokens number effective tokens of the run
---@field least integer the longest sequence that a curriculum of lengths begins with, and that layers keep at first
---@field max_len integer
---@field metric "rarity"|"loss" what orders the examples
---@field easiest number percentile that it begins with
---@field file? string of the metric

local function length(t)
  return keys_of("curriculum.length", t.tokens * PACE, { min = t.least, max = t.max_len, quantum = 8 })
end

local function metric(t, order)
  local key = "curriculum." .. t.metric
  local words = keys_of(key, t.tokens * PACE, { type = "root", degree = 2, min = t.easiest, max = 100 })
  words[#words + 1] = ("%s.file=%s"):format(key, t.file)
  if order then words[#words + 1] = "curriculum.order=" .. order end
  return words
end

local function dropping(t)
  return keys_of("token_drop.keep", t.tokens, { min = t.least, max = t.max_len, quantum = 8 })
end

---The functions of an arm, one after the other.
local WORDS = {
  baseline = {}, length = { length }, rarity = { metric }, loss = { metric }, token_drop = { dropping },
  length_rarity = { length, metric }, composed = { length, metric, dropping },
  random = { function(t) return metric(t, "random") end }, reversed = { function(t) return metric(t, "reversed") end },
}

---Arguments of recipes/curriculum.lua, or of recipes/finetune.lua.
---@param name string
---@param t seqrun.papers.Setting
---@return string[]
function arms.words(name, t)
  local all = {}
  for _, part in ipairs(WORDS[name]) do
    local list = part(t)
    table.move(list, 1, #list, #all + 1, all)
  end
  return all
end

-- ---- fine-tuning ---------------------------------------------------------------------------------

---The arms of fine-tuning, in the order of the report.
arms.TUNING = { "baseline", "length", "loss", "token_drop", "composed" }

arms.TUNING_TITLES = {
  baseline = "baseline", length = "length, to the longest", loss = "loss under the baseline, 20 to 100 %",
  token_drop = "token dropping", composed = "length + loss + token dropping",
}

return arms
