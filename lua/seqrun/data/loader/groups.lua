-- groups.lua - the order of an epoch whose examples come in groups, such as the choices of a question.
--
--     local order, updates = sr.data.groups(corpus, { groups = 8, seed = 1 })
--     sr.data.loader { data = corpus, order = order, ... }
--
-- A group is a run of consecutive examples with one value in the column.  Its examples stay in one micro-batch.

local check = require("seqrun.base.check")
local core = require("seqrun.core.batch")
local failure = require("seqrun.base.failure")
local mixed = require("seqrun.data.loader.mixed")

---@class seqrun.GroupOptions
---@field groups integer groups of an update; the last update of an epoch may have fewer
---@field column? string integers, "group"
---@field part? "train"|"held"
---@field seed? integer of the order; nil: as they are in the data set
---@field epochs? integer number of epochs; no end by default
---@field weights? number[] relative weight of each source of the data among the groups drawn, without end
---@field temperature? number instead of weights: the number of groups of a source to this power

local OPTIONS = {
  groups = true, column = true, part = true, seed = true, epochs = true, weights = true, temperature = true,
}

---The groups as lists of uids, which are places in the part, and how many of them the sources have.
local function groups_of(corpus, column, part)
  local list, group, before, seen = {}, nil, nil, {}
  local sources, counts = corpus:info().sources or { { first = 1 } }, {}
  for place, i in ipairs(corpus:units(part)) do
    while sources[#counts + 1] and i >= sources[#counts + 1].first do
      counts[#counts + 1], group, seen = 0, nil, {} -- another file numbers its groups anew
    end
    local value = failure.must(corpus:column(column, i))
    if value ~= before or not group then
      if seen[value] then
        failure.raise("data", "%s: example %d has the %s %s, as example %d has, but others are between them; put the "
          .. "examples of a group together", corpus:info().path, i, column, value, seen[value])
      end
      group, before, seen[value] = {}, value, i
      list[#list + 1] = group
      counts[#counts] = counts[#counts] + 1
    end
    group[#group + 1] = place - 1
  end
  for s = #counts + 1, #sources do counts[s] = 0 end
  return list, counts
end

---@param corpus seqrun.Corpus of fixed examples
---@param options seqrun.GroupOptions
---@return fun(update: integer): (integer[][])? order for sr.data.loader
---@return integer updates of an epoch
---@return integer groups in the data set
---@return seqrun.Source[]? sources with weights: for the loader's option `mixed`
return function(corpus, options)
  check.options("data.groups", options, OPTIONS)
  local each = options.groups
  if math.type(each) ~= "integer" or each < 1 then check.fail("data.groups: groups must be a positive integer") end
  local list, counts = groups_of(corpus, options.column or "group", options.part)
  local updates = (#list + each - 1) // each
  if options.weights or options.temperature then
    local weighted, sources = mixed(corpus:sources(), counts, each, options, list)
    return weighted, updates, #list, sources
  end
  local function order(update)
    local epoch = update // updates
    if options.epochs and epoch >= options.epochs then return nil end
    local first, chosen = update % updates * each, {}
    for i = first, math.min(first + each, #list) - 1 do
      local at = options.seed and core.permuted(i, #list, options.seed, epoch) or i
      chosen[#chosen + 1] = list[at + 1]
    end
    return chosen
  end
  return order, updates, #list
end
