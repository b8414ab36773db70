-- equivalence_packs.lua - which sequences share a pack, the layout of a program that does not know where sequences end,
-- so that a pack is one of them, and the losses with a part of that.

local sr = require("seqrun")

local packs = {}

local function key_of(uid, epoch) return uid .. " " .. epoch end

---The packs of updates of a loader: a second one makes the same updates, each pack a micro-batch by itself.
---@param options seqrun.LoaderOptions of the loader
---@return fun(update: seqrun.Update): table<string, integer> # the pack of each sequence
function packs.reader(options)
  local own = {}
  for key, value in pairs(options) do own[key] = value end
  own.micro_packs, own.prefetch, own.plan = 1, 0, nil
  local loader = sr.must(sr.data.loader(own))
  return function(update)
    loader:seek(update.from)
    local alone, found = sr.must(loader:next()), {}
    for i = 1, alone.count do
      local layout = alone:batch(i).layout
      local epochs = layout:epochs()
      for k, uid in ipairs(layout:uids()) do found[key_of(uid, epochs[k])] = i end
    end
    return found
  end
end

---The layout of a batch with one sequence for each pack.
---@param layout seqrun.Layout contiguous
---@param pack_of table<string, integer>
---@return seqrun.Layout
function packs.joined(layout, pack_of)
  local lens, starts, uids, epochs = layout:lengths(), layout:starts(), layout:uids(), layout:epochs()
  local one = { lens = {}, starts = {}, uids = {}, epochs = {}, rows = layout:rows(), seed = layout:seed() }
  local before, seen = nil, {}
  for i, len in ipairs(lens) do
    local pack, last = assert(pack_of[key_of(uids[i], epochs[i])], "a sequence is in no pack"), #one.lens
    if pack == before then
      one.lens[last] = one.lens[last] + len
    else
      assert(not seen[pack], "the sequences of a pack are not side by side")
      one.lens[last + 1], one.starts[last + 1], one.uids[last + 1] = len, starts[i], uids[i]
      one.epochs[last + 1], before, seen[pack] = epochs[i], pack, true
    end
  end
  return sr.layout(one)
end

---The losses of a model that omits a part of what packs need.
---@param bert seqrun.Bert
---@param batch seqrun.Batch
---@param arm "unmasked"|"unreset"|"joined" unmasked: tokens attend to their whole pack; unreset: positions run on in a
---  pack; joined: both
---@param pack_of table<string, integer>
---@return seqrun.Losses
function packs.losses(bert, batch, arm, pack_of)
  local own, whole = batch.layout, packs.joined(batch.layout, pack_of)
  local attended = arm == "unreset" and own or whole
  bert.encoder.attention = function(qkv, _, o) return sr.ops.attention(qkv, attended, o) end
  local losses = bert:losses(setmetatable({ layout = arm == "unmasked" and own or whole }, { __index = batch }))
  bert.encoder.attention = nil
  return losses
end

return packs
