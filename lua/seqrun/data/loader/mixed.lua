-- mixed.lua - the order of updates that draw from several sources by weight.
--
-- Of the first D draws of a run each source has its share of D, to within one draw: next is, of the sources that have
-- fewer draws than their share, the one whose next draw is due first (Baruah et al. 1996, Pfair).  A source goes
-- through keyed permutations of its items, one pass after the other; what would come twice in an update, at the end of
-- a pass, comes in a later one.  The state is how far each source is.

local core = require("seqrun.core.batch")
local failure = require("seqrun.base.failure")

---@class seqrun.Source
---@field name string
---@field items integer sequences, or groups of them, in a pass
---@field share number of the draws
---@field passes number in an epoch, which has as many draws as all sources have items

---The sources of an order.
---@param names string[]
---@param counts integer[] items of each
---@param each integer draws of an update
---@param t { weights?: number[], temperature?: number }
---@return seqrun.Source[]
local function sources_of(names, counts, each, t)
  local list, sum, items = {}, 0, 0
  for i, count in ipairs(counts) do
    if count == 0 then failure.raise("data", "the source %s has nothing to draw; leave it out", names[i]) end
    list[i] = { name = names[i], items = count, share = t.weights and t.weights[i] or count ^ t.temperature }
    sum, items = sum + list[i].share, items + count
  end
  for _, source in ipairs(list) do
    source.share = source.share / sum
    source.passes = source.share * items / source.items
    if source.share * items < 1 then
      failure.raise("config", "data.weights, data.temperature: %s has less than one draw an epoch; raise its weight, "
        .. "or leave it out", source.name)
    end
    local most = math.ceil(source.share * each) + 1
    if most > source.items then
      failure.raise("config", "data.weights, data.temperature: an update draws up to %d of the %d sequences of %s, and "
        .. "none may come twice in it; lower its weight, or batch.sequences", most, source.items, source.name)
    end
  end
  return list
end

---The source of the next draw.
local function next_source(sources, state)
  local best, due
  for i, source in ipairs(sources) do
    local drawn = state.sources[i].drawn
    local own = (drawn + 1) / source.share
    if drawn < source.share * (state.draws + 1) and (not best or own < due) then best, due = i, own end
  end
  return best
end

---The next item of a source, from 0, that is not in this update yet.
local function next_item(source, own, taken, seed)
  for i, item in ipairs(own.later) do
    if not taken[item] then return table.remove(own.later, i) end
  end
  local item
  repeat
    if item then own.later[#own.later + 1] = item end
    item = core.permuted(own.at % source.items, source.items, seed, own.at // source.items)
    own.at = own.at + 1
  until not taken[item]
  return item
end

---@param names string[] of the sources
---@param counts integer[] items of each
---@param each integer draws of an update
---@param t { weights?: number[], temperature?: number, seed?: integer } relative shares of the sources, or the power of
---their numbers of items
---@param groups? any[] what an update gets for each item; nil: its number, from 0, source by source
---@return fun(update: integer, state: table): any[] order
---@return seqrun.Source[] sources
return function(names, counts, each, t, groups)
  local sources, first = sources_of(names, counts, each, t), { 0 }
  for i, count in ipairs(counts) do first[i + 1] = first[i] + count end
  return function(_, state)
    local chosen, taken = {}, {}
    state.draws, state.sources = state.draws or 0, state.sources or {}
    for i = 1, #sources do
      state.sources[i], taken[i] = state.sources[i] or { drawn = 0, at = 0, later = {} }, {}
    end
    for k = 1, each do
      local i = next_source(sources, state)
      local own = state.sources[i]
      local number = next_item(sources[i], own, taken[i], (t.seed or 0) + i)
      taken[i][number] = true
      own.drawn, state.draws = own.drawn + 1, state.draws + 1
      number = first[i] + number
      chosen[k] = groups and groups[number + 1] or number
    end
    return chosen
  end, sources
end
