-- segments.lua - the options of each parameter: those of the optimizer by its label, then those of groups that match
-- its name, in order.

local check = require("seqrun.base.check")
local muon = require("seqrun.optim.muon")

local segments = {}

local GROUP = { match = true, rate = true, decay = true, trust = true, frozen = true, muon = true }

---Checks that options are numbers.
---@param what string
---@param given table
---@param ... string keys
function segments.check_numbers(what, given, ...)
  for _, key in ipairs { ... } do
    if given[key] ~= nil then check.value(("%s: %s"):format(what, key), given[key], "number") end
  end
end

local function check_group(i, group)
  local what = ("optim: group %d"):format(i)
  check.options(what, group, GROUP)
  if type(group.match) ~= "string" then check.fail("%s: 'match' is missing, a Lua pattern for names", what) end
  segments.check_numbers(what, group, "rate", "decay")
  for _, key in ipairs { "trust", "frozen", "muon" } do
    if group[key] ~= nil then check.value(("%s: %s"):format(what, key), group[key], "boolean") end
  end
end

---Checks that `groups` is a list of groups.
---@param groups any
function segments.check_groups(groups)
  check.value("optim: groups", groups, "table")
  if groups.match or next(groups) and #groups == 0 then
    check.fail('optim: groups must be a list, such as { { match = "%%.embeddings%%.", frozen = true } }')
  end
  for i, group in ipairs(groups) do check_group(i, group) end
end

---Those of a parameter; marks the groups that it uses.
local function of(kind, param, whole, used)
  local plain = param.group == "no_decay"
  local s = { rate = 1, decay = plain and 0 or whole.decay, trust = not plain, frozen = false }
  for g, group in ipairs(whole.groups) do
    if param.name:find(group.match) then
      used[g] = true
      for key, value in pairs(group) do
        if key ~= "match" then s[key] = value end
      end
    end
  end
  if whole.peak then s.decay = s.decay / whole.peak end
  if kind == "muon" then muon.mark(s, param, whole) end
  s.muon = nil
  return s
end

---@class seqrun.OptimSegment
---@field rate number factor on the learning rate
---@field decay number
---@field trust boolean
---@field frozen boolean
---@field rows? integer of a matrix of Muon
---@field columns? integer
---@field scale? number factor on its orthogonal update
---@field blocks? { rows: integer, scale: number }[] several matrices of Muon, one below the other

---The options of each parameter.
---@param kind string
---@param params seqrun.Params
---@param whole seqrun.OptimOptions with defaults filled in
---@return seqrun.OptimSegment[]
function segments.new(kind, params, whole)
  local list, used, trained = {}, {}, false
  for i, param in ipairs(params.list) do
    list[i] = of(kind, param, whole, used)
    trained = trained or not list[i].frozen
  end
  if not trained then check.fail("optim: groups freeze every parameter, so nothing would be trained") end
  for g, group in ipairs(whole.groups) do
    if not used[g] then
      local fix = "see params:names() and correct the pattern"
      check.fail("optim: the pattern '%s' of group %d matches no parameter; %s", group.match, g, fix)
    end
  end
  if kind == "muon" then muon.check(params, list) end
  return list
end

return segments
