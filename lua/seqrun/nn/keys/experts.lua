-- experts.lua - the keys of a mixture of experts, which every family has beside those of its config.json.
--
--     experts = 4                4 experts in each layer
--     experts = { 0, 4, 0, 8 }   by layer; 0: the layer has one feed-forward block, as without experts (a pyramid)
--
-- No class of Transformers has experts in these families, so the keys are seqrun's own.

local check = require("seqrun.base.check")
local keys = require("seqrun.nn.keys")

local experts = {}

---The keys beside `experts`, with their defaults.
experts.KEYS = {
  experts_chosen = keys.size(2), experts_capacity = keys.number(0, 0), experts_residual = keys.flag(false),
  experts_balance = keys.number(0.01, 0), experts_z = keys.number(0.001, 0),
}

---All of them.
experts.NAMES = { "experts" }
for name in pairs(experts.KEYS) do experts.NAMES[#experts.NAMES + 1] = name end
table.sort(experts.NAMES)

---Experts of a layer, at most.
experts.MOST = 4096

---@class seqrun.ExpertsDesign
---@field counts table<integer, integer> experts by layer, from 0; 0: the layer has none
---@field chosen integer experts of a token; of a layer with fewer all
---@field capacity number an expert takes at most this times an even share of a micro-batch; 0: all that choose it
---@field residual boolean the layer keeps its feed-forward block, beside the experts
---@field balance number factor of the balance loss
---@field z number factor of the loss of large router logits

---The experts of a layer, from 0, as `experts` says.
local function count_of(given, i)
  if type(given) ~= "table" then return given end
  return #given == 1 and given[1] or given[i + 1]
end

local function any(given, layers)
  for i = 0, layers - 1 do
    if count_of(given, i) ~= 0 then return true end
  end
  return false
end

---What is wrong with `experts`; nil if nothing is.
local function problem_of_counts(given, layers)
  local list = type(given) == "table" and given or { given }
  if #list ~= 1 and #list ~= layers then
    return ("experts has %d numbers; give one for all layers, or one for each of the %d layers"):format(#list, layers)
  end
  for _, count in ipairs(list) do
    local whole = type(count) == "number" and math.tointeger(count)
    if not whole or whole < 0 or whole == 1 or whole > experts.MOST then
      return ("experts is %s; expected 0 (none), or 2 to %d experts of a layer"):format(check.show(count),
        experts.MOST)
    end
  end
end

---Keys of dropout: layers times choices of a token, at most.
local DROPOUT_KEYS = 4096

---Why dropout inside experts has not a key for each choice of a token; nil if it has.
---@param layers integer
---@param choices integer of a token in a layer
---@param p? number
---@return string?
function experts.dropout_problem(layers, choices, p)
  if (p or 0) == 0 or layers * choices <= DROPOUT_KEYS then return nil end
  return ("%d experts of a token in %d layers: dropout inside experts has %d keys, which is at most %d of a token; "
    .. "choose fewer, or no dropout inside the feed-forward block"):format(choices, layers, DROPOUT_KEYS,
    DROPOUT_KEYS // layers)
end

---Experts of the layer with most of them.
---@param counts table<integer, integer> by layer
---@return integer
function experts.most(counts)
  local most = 0
  for _, count in pairs(counts) do most = math.max(most, count) end
  return most
end

---Fills in the keys of a config that has experts, and takes them out of one that has none.
---@param whole table a config
---@param design table of its family
---@return string? problem
function experts.settle(whole, design)
  local given = whole.experts
  local problem = given ~= nil and problem_of_counts(given, design.layers)
  if problem then return problem end
  if given == nil or not any(given, design.layers) then
    whole.experts = nil
    for name, rule in pairs(experts.KEYS) do
      if whole[name] ~= nil and whole[name] ~= rule.default then
        return ("%s is %s, but the model has no experts; set experts, as in experts=4"):format(name,
          tostring(whole[name]))
      end
      whole[name] = nil
    end
    return nil
  end
  if type(given) == "table" and #given == 1 then whole.experts = given[1] end
  for name, rule in pairs(experts.KEYS) do
    if whole[name] == nil then whole[name] = rule.default end
    if rule.kind == "number" then whole[name] = whole[name] + 0.0 end -- config.json has the same text after a resume
  end
  if whole.experts_capacity > 0 and whole.experts_capacity < 1 then
    return ("experts_capacity is %g, in even shares of the tokens, so at least %g %% of the choices would be "
      .. "dropped; choose 1 or more, or 0 for no limit"):format(whole.experts_capacity,
      100 * (1 - whole.experts_capacity))
  end
  local counts = type(given) == "table" and given or { given }
  return experts.dropout_problem(design.layers, math.min(whole.experts_chosen, math.tointeger(experts.most(counts))),
    (design.dropout or {}).inner)
end

---What the forward pass reads of a settled config; nil if it has no experts.
---@param whole table
---@param layers integer
---@return seqrun.ExpertsDesign|nil
function experts.design(whole, layers)
  if whole.experts == nil then return nil end
  local counts = {}
  for i = 0, layers - 1 do counts[i] = math.tointeger(count_of(whole.experts, i)) end
  return {
    counts = counts, chosen = whole.experts_chosen, capacity = whole.experts_capacity,
    residual = whole.experts_residual, balance = whole.experts_balance, z = whole.experts_z,
  }
end

---The experts of layer i, from 0, and how many a token goes to; 0 if the layer has none.
---@param d seqrun.Design
---@param i integer
---@return integer count
---@return integer chosen
function experts.of_layer(d, i)
  local count = d.experts and d.experts.counts[i] or 0
  return count, math.min(count, d.experts and d.experts.chosen or 0)
end

return experts
