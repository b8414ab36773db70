-- config.lua - the config of an encoder: the keys of its family's config.json, with types, ranges and defaults.
--
-- Unknown keys are rejected, also inherited ones: a misspelled key would silently train the default model.

local experts = require("seqrun.nn.keys.experts")
local families = require("seqrun.nn.families")
local guess = require("seqrun.base.guess")
local keys = require("seqrun.nn.keys")
local make_design = require("seqrun.nn.design")
local merged = require("seqrun.base.merged")
local sorted = require("seqrun.base.sorted")

local config = {}

---Additional keys, which are not checked with those of the family.
local OWN = { "family", "heads", "initializer", "model_type", "precision", table.unpack(experts.NAMES) }
local IS_OWN = keys.set(table.concat(OWN, " "))

---The keys of a table and of those that it inherits from.
local function inherited(given, level)
  if type(given) ~= "table" then
    error(("bert: the config is a %s; expected a table such as { hidden_size = 768 }"):format(type(given)), level)
  end
  local meta = getmetatable(given)
  local parent = type(meta) == "table" and meta.__index or nil
  if parent ~= nil and type(parent) ~= "table" then
    error("bert: the config inherits keys through a function; copy them into a plain table", level)
  end
  return merged(parent and inherited(parent, level + 1), given)
end

---The family of a config: named by `family` or `model_type`, or a table; BERT without any.
local function family_of(given, level)
  if type(given.family) == "table" then return families.register(given.family) end
  local family, problem = families.find(given.family or given.model_type or "bert")
  if not family then error("nn: " .. problem, level) end
  return family
end

---The keys that change the model.
local function own_keys(family)
  return sorted(merged(IS_OWN, family.keys))
end

local function known_keys(family)
  return sorted(merged(IS_OWN, family.keys, family.only, family.ignored, keys.IGNORED))
end

---"normal, depth or local".
local function one_of(list)
  return #list > 1 and table.concat(list, ", ", 1, #list - 1) .. " or " .. list[#list] or list[1]
end

local function check_key(family, key, value, level)
  local function fail(text, ...) error(family.name .. ": " .. text:format(...), level + 1) end
  local only = family.only[key]
  if only == keys.NONE then fail("'%s' is not supported; leave it out", key) end
  if only ~= nil and value ~= only then
    fail("'%s = %s' is not supported; only %s is", key, tostring(value), tostring(only))
  end
  local rule = family.keys[key]
  if not rule then
    if only ~= nil or family.ignored[key] or keys.IGNORED[key] then return end
    local hint = guess.hint(tostring(key), known_keys(family))
    if hint == "" then hint = "; use " .. table.concat(own_keys(family), ", ") end
    fail("unknown key '%s'%s", tostring(key), hint)
  end
  local wanted = rule:fault(value)
  if not wanted then return end
  if rule.names and type(value) == "string" then
    fail("%s '%s' is not supported; choose %s", key, value, one_of(rule.names))
  end
  fail("%s is %s; expected %s", key, tostring(value), wanted)
end

local CHOICES = { initializer = keys.choice(nil, { "normal", "depth", "local" }),
  precision = keys.choice(nil, { "f32", "bf16" }) }

---Checks the keys of experts, and fills in those that are missing.
local function settle_experts(whole, design, fail)
  for key, rule in pairs(experts.KEYS) do
    local wanted = whole[key] ~= nil and rule:fault(whole[key])
    if wanted then fail("%s is %s; expected %s", key, tostring(whole[key]), wanted) end
    whole[key] = rule.kind == "integer" and whole[key] ~= nil and math.tointeger(whole[key]) or whole[key]
  end
  local problem = experts.settle(whole, design)
  if problem then fail("%s", problem) end
end

local function check_whole(family, whole, level)
  local function fail(text, ...) error(family.name .. ": " .. text:format(...), level + 1) end
  local problem = family.check and family.check(whole)
  if problem then fail("%s", problem) end
  local design = family.design(whole)
  settle_experts(whole, design, function(...) fail(...) end)
  if not design.head_size and design.hidden % design.heads ~= 0 then
    local hidden = whole.n_embd and "n_embd" or whole.dim and "dim" or "hidden_size"
    local heads = whole.n_head and "n_head" or whole.n_heads and "n_heads" or "num_attention_heads"
    fail("%s %d is not a multiple of %s %d; choose one that divides it", hidden, design.hidden, heads, design.heads)
  end
  for key, rule in pairs(CHOICES) do
    local value = whole[key]
    if value ~= nil and rule:fault(value) then
      fail("%s is '%s'; choose %s", key, tostring(value), one_of(rule.names))
    end
  end
end

---Whether a key of somebody's config.json is read, or changes no number.
---@param family seqrun.Family
---@param key string
---@return boolean
function config.knows(family, key)
  return (IS_OWN[key] or family.keys[key] or family.ignored[key] or keys.IGNORED[key]) and true
    or family.only[key] ~= nil
end

---The keys of the encoder in somebody's config.json, its family, and the dropout of its head; other keys are left out,
---but for those that select what is not supported.
---@param given table
---@return table|nil
---@return string? problem if it is another architecture
function config.encoder(given)
  local family, problem = families.find(given.model_type or "bert")
  if not family then return nil, problem end
  if family.read then
    given, problem = family.read(merged(given))
    if not given then return nil, problem end
  end
  local own = { classifier_dropout = given.classifier_dropout, model_type = family.name }
  for _, set in ipairs { family.keys, family.only } do
    for key in pairs(set) do own[key] = given[key] end
  end
  for _, key in ipairs(experts.NAMES) do own[key] = given[key] end
  local checked
  checked, problem = pcall(config.whole, own, 0)
  if not checked then
    problem = tostring(problem):gsub("^[^\n]-%.lua:%d+: ", "")
    return nil, (problem:gsub("^" .. family.name:gsub("%p", "%%%0") .. ": ", ""))
  end
  for key in pairs(family.only) do own[key] = nil end
  return own
end

---A config with all keys of the encoder, checked.  `heads`, `precision`, `initializer` and ignored
---Hugging Face keys are kept.
---@param given table|nil missing keys are those of the family's base model
---@param level integer stack level of errors, as for error()
---@return table
---@return seqrun.Family
function config.whole(given, level)
  given = inherited(given or {}, level + 1)
  local family, whole = family_of(given, level + 1), {}
  for key, rule in pairs(family.keys) do whole[key] = rule.default end
  for key, value in pairs(given) do
    if not IS_OWN[key] then check_key(family, key, value, level + 1) end
    local rule = family.keys[key]
    whole[key] = rule and rule.kind == "integer" and math.tointeger(value) or value
  end
  whole.family, whole.model_type = nil, nil
  check_whole(family, whole, level + 1)
  return whole, family
end

---What the forward pass reads of a config, which may lack keys, its family, and what that has before its heads.
---@param given table
---@return seqrun.Design
---@return seqrun.Family
---@return seqrun.FamilyHeads
function config.design(given)
  local whole, family = config.whole(given, 2)
  local design = make_design(family.design(whole), whole)
  return design, family, family.heads(whole, design)
end

return config
