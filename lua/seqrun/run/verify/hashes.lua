-- hashes.lua - hashes of what a step computes: its loss, gradient, weights and moments, for each tensor.
--
-- The core hashes chunks of the store in order (core/train/twin.h), so the hashes are the same on any number of ranks.

local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local hashes = {}

---What a checkpoint holds, and what ops read, in the order in which a difference is looked for.
hashes.STATE = { "weights", "copies", "m", "v", "average" }

---Hexadecimal digits of the hash of a tensor.
local SHORT = 8

---Bytes of the hash of a chunk.
local CHUNK = 8

---The hashes of all chunks of a kind on this rank, as bytes.
---@param optimizer seqrun.Optimizer
---@param what "gradient"|"weights"|"copies"|"m"|"v"|"average"
---@return string
function hashes.chunks(optimizer, what)
  if optimizer.sharded and what ~= "copies" then
    return train.state_hashes(optimizer.core, what, optimizer.core:range())
  end
  return train.state_hashes(optimizer.core, what)
end

---All kinds of the state on this rank.
---@param optimizer seqrun.Optimizer
---@return table<string, string>
function hashes.state(optimizer)
  local found = {}
  for _, what in ipairs(hashes.STATE) do found[what] = hashes.chunks(optimizer, what) end
  return found
end

---The chunks of the whole store: those of all ranks, one after the other, where each has its part.
---@param optimizer seqrun.Optimizer
---@param ranks seqrun.RunRanks
---@param chunks string of this rank
---@return string
function hashes.whole(optimizer, ranks, chunks)
  if not optimizer.sharded then return chunks end
  local hex = chunks:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  return (table.concat(ranks:gather(hex)):gsub("%x%x", function(c) return string.char(tonumber(c, 16)) end))
end

---Where the chunks of each parameter begin, from 0, and where all end.
local function starts(params)
  local list = {}
  for i = 1, #params.list + 1 do list[i] = train.hash_before(params.core, i) end
  return list
end

---The name of the parameter in which two lists of chunks differ first; nil where they are equal.
---@param optimizer seqrun.Optimizer
---@param a string of this rank
---@param b string
---@return string|nil
function hashes.difference(optimizer, a, b)
  if a == b then return nil end
  local params = optimizer.params
  local first = starts(params)
  local part = #a < CHUNK * first[#first] -- a sharded optimizer has those from its own part on
  local at = part and #train.state_hashes(optimizer.core, "gradient", 0, (optimizer.core:range())) // CHUNK or 0
  for i, param in ipairs(params.list) do
    local from, upto = CHUNK * (first[i] - at) + 1, CHUNK * (first[i + 1] - at)
    if upto > 0 and a:sub(math.max(1, from), upto) ~= b:sub(math.max(1, from), upto) then return param.name end
  end
end

---A short hash of each parameter, one after the other.
---@param params seqrun.Params
---@param chunks string of the whole store
---@return string
function hashes.tensors(params, chunks)
  local first, list = starts(params), {}
  for i = 1, #params.list do
    list[i] = sys.hash(chunks:sub(CHUNK * first[i] + 1, CHUNK * first[i + 1])):sub(1, SHORT)
  end
  return table.concat(list)
end

---The name of the first parameter whose short hashes differ; nil if none do.
---@param params seqrun.Params
---@param a string
---@param b string
---@return string|nil
function hashes.first_tensor(params, a, b)
  for i, param in ipairs(params.list) do
    local from, upto = SHORT * (i - 1) + 1, SHORT * i
    if a:sub(from, upto) ~= b:sub(from, upto) then return param.name end
  end
end

---The losses of the micro-batches of all ranks in the order of the update, in which each rank has neighbours.
---@param ranks seqrun.RunRanks
---@param losses table<integer, number> by number of the micro-batch on this rank
---@return string
function hashes.losses(ranks, losses)
  local numbers, own, list = sorted(losses), {}, {}
  for i, number in ipairs(numbers) do own[i] = losses[number] end
  for _, rank in ipairs(ranks:gather(own)) do
    for _, loss in ipairs(rank) do list[#list + 1] = ("%a"):format(loss) end
  end
  return table.concat(list, " ")
end

---The line of metrics of a checked step.
---@param optimizer seqrun.Optimizer
---@param ranks seqrun.RunRanks
---@param found { losses: string, gradient: string, state: table<string, string> } losses: of all ranks
---@return table
function hashes.line(optimizer, ranks, found)
  local whole = { gradient = hashes.whole(optimizer, ranks, found.gradient) }
  for _, what in ipairs(hashes.STATE) do -- in one order on all ranks
    local chunks = found.state[what]
    whole[what] = what == "copies" and chunks or hashes.whole(optimizer, ranks, chunks)
  end
  return {
    type = "verify", loss_hash = sys.hash(found.losses), gradient_hash = sys.hash(whole.gradient),
    weights_hash = sys.hash(whole.weights), moments_hash = sys.hash(whole.m .. whole.v .. whole.average),
    gradient_tensors = hashes.tensors(optimizer.params, whole.gradient),
    weights_tensors = hashes.tensors(optimizer.params, whole.weights),
    moments_tensors = hashes.tensors(optimizer.params, whole.m),
  }
end

return hashes
