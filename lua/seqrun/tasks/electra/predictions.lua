-- predictions.lua - the tokens that a network predicted at the masked positions of each sequence, by its uid: what
-- replaces them when the sequence is drawn again.  At first tokens are drawn by their frequencies.
--
-- What an update predicts counts from the next one on, so that a step may be computed twice.

local failure = require("seqrun.base.failure")
local sorted = require("seqrun.base.sorted")
local tensor = require("seqrun.tensor")

---@class seqrun.Predictions
---@field private known table<integer, string> ids by uid, packed
---@field private pending table<integer, { epoch: integer, ids: integer[] }> of the update under way
---@field private index? integer of that update
local Predictions = {}
Predictions.__index = Predictions

local FILE = "trainer/predictions.bin"
Predictions.FILE = FILE

---Sums of the frequencies up to each id.
local function running(counts)
  local sums, sum = {}, 0
  for i, count in ipairs(counts) do
    sum = sum + count
    sums[i] = sum
  end
  return sums
end

---@param counts integer[] how often each token is in the training data, from id 0
---@param seed integer
---@return seqrun.Predictions
function Predictions.new(counts, seed)
  return setmetatable({ known = {}, pending = {}, sums = running(counts), seed = seed }, Predictions)
end

---The first id whose running sum is above a place.
local function find(sums, place)
  local low, high = 1, #sums
  while low < high do
    local middle = (low + high) // 2
    if sums[middle] > place then high = middle else low = middle + 1 end
  end
  return low - 1
end

---Ids drawn by their frequencies, keyed by the seed and the sequence.
local function drawn(self, uid, count)
  local scope <close> = tensor.scope()
  local ids, most = {}, self.sums[#self.sums]
  for i, at in ipairs(tensor.zeros(count):uniform_(0, 1, { seed = self.seed, uid = uid }):totable()) do
    ids[i] = find(self.sums, at * most)
  end
  return ids
end

---The ids that replace the masked tokens of a sequence.
---@param uid integer
---@param count integer of its masked tokens
---@param fresh? boolean by frequency, whatever is known
---@return integer[]
function Predictions:of(uid, count, fresh)
  local packed = not fresh and self.known[uid]
  if not packed then return drawn(self, uid, count) end
  if #packed ~= 4 * count then
    failure.raise("data", "electra: sequence %d has %d masked tokens, but %d saved predictions; every epoch must have "
      .. "the same sequences", uid, count, #packed // 4)
  end
  local ids = { ("<" .. ("I4"):rep(count)):unpack(packed) }
  ids[count + 1] = nil
  return ids
end

---Takes over what the update before has predicted.
local function commit(self)
  for uid, one in pairs(self.pending) do
    self.known[uid] = ("<" .. ("I4"):rep(#one.ids)):pack(table.unpack(one.ids))
  end
  self.pending, self.index = {}, nil
end

---An update begins, perhaps for the second time.
---@param update seqrun.Update
function Predictions:begin(update)
  if self.index and self.index ~= update.index then commit(self) end
  self.pending, self.index = {}, update.index
end

---Adds what was predicted of a sequence in this update; the later epoch counts.
---@param uid integer
---@param epoch integer
---@param ids integer[]
function Predictions:add(uid, epoch, ids)
  local before = self.pending[uid]
  if not before or before.epoch < epoch then self.pending[uid] = { epoch = epoch, ids = ids } end
end

---Adds what the other ranks have predicted.
---@param ranks seqrun.RunRanks
function Predictions:share(ranks)
  if not ranks:several() then return end
  local own = {}
  for uid, one in pairs(self.pending) do own[#own + 1] = { uid, one.epoch, one.ids } end
  for _, list in ipairs(ranks:gather(own)) do
    for _, one in ipairs(list) do self:add(table.unpack(one)) end
  end
end

---All of it, as the bytes of a file.
---@return string
function Predictions:pack()
  commit(self)
  local uids, pieces = sorted(self.known), {}
  for i, uid in ipairs(uids) do pieces[i] = ("<I4s4"):pack(uid, self.known[uid]) end
  return table.concat(pieces)
end

---Reads what pack() has made.
---@param bytes string
function Predictions:unpack(bytes)
  local at, known = 1, {}
  while at <= #bytes do
    local good, uid, ids, after = pcall(string.unpack, "<I4s4", bytes, at)
    if not good then failure.raise("data", "%s: cut short at byte %d", FILE, at) end
    known[uid], at = ids, after
  end
  self.known, self.pending, self.index = known, {}, nil
end

return Predictions
