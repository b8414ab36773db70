-- difference.lua - where two computations of a step differ, on whichever rank, and both states for inspection.

local failure = require("seqrun.base.failure")
local hashes = require("seqrun.run.verify.hashes")
local sys = require("seqrun.core.sys")
local tensor_file = require("seqrun.checkpoint.tensor_file")

local difference = {}

---@class seqrun.Difference
---@field what string "loss", "gradient", "weights", "copies", "m", "v" or "average"
---@field tensor? string
---@field element? integer of the tensor, from 0
---@field elements? integer that differ, of the whole state
---@field micro_batch? integer whose loss differs, from 1
---@field rank? integer nil: unknown
---@field at_rest? boolean something changed between two steps

---The first micro-batch whose losses differ.
local function of_losses(a, b)
  local first
  for number, value in pairs(a) do
    local same = b[number] and string.pack("d", b[number]) == string.pack("d", value)
    if not same and (not first or number < first) then first = number end
  end
  return first
end

---Whether this rank alone computes an element: it has its part of a divided optimizer.
local function owns(optimizer, tensor, element)
  if not optimizer.sharded then return false end
  for _, piece in ipairs(optimizer:pieces()) do
    if piece.param == tensor and element >= piece.first and element < piece.last then return true end
  end
  return false
end

---What differs between two computations on this rank.
local function own(optimizer, twin, a, b)
  local found = { micro_batch = of_losses(a.losses, b.losses) }
  for i = 1, math.max(#a.shares, #b.shares) do
    found.share = found.share or hashes.difference(optimizer, a.shares[i] or "", b.shares[i] or "")
  end
  found.gradient = hashes.difference(optimizer, a.gradient, b.gradient)
  local state = twin:compare()
  if state then
    found.what, found.elements, found.element = state.what, state.elements, state.element
    found.tensor = optimizer.params.list[state.param].name
    found.owner = owns(optimizer, found.tensor, found.element)
  end
  return next(found) and found or nil
end

---The one rank whose own part differs: its losses or the gradients of its shares, before they were summed; else the
---one that computed what differs first in the state, or the only one with another state.
local function culprit(all)
  local states = {}
  for i, found in ipairs(all) do
    if found and (found.micro_batch or found.share) then return i end
    if found then states[#states + 1] = i end
  end
  for _, i in ipairs(states) do
    if all[i].owner then return i end
  end
  return (#all == 1 or #states == 1) and states[1] or nil
end

---What the ranks found, as one difference; nil if none found any.
---@param all (table|false)[]
---@return seqrun.Difference|nil
function difference.merge(all)
  local any
  for _, found in ipairs(all) do any = any or found end
  if not any then return nil end
  local rank = culprit(all)
  local found = rank and all[rank] or any
  local gradient = found.share or found.gradient
  return {
    what = found.micro_batch and "loss" or gradient and "gradient" or found.what, tensor = gradient or found.tensor,
    element = not gradient and found.element or nil, elements = found.elements, micro_batch = found.micro_batch,
    rank = rank and rank - 1 or nil, at_rest = found.at_rest,
  }
end

---Compares two computations of a step, of which the twin has one and the optimizer the other; all ranks call it.
---@param optimizer seqrun.Optimizer
---@param ranks seqrun.RunRanks
---@param twin seqrun.core.Twin
---@param a table what was noted of one of them
---@param b table
---@return seqrun.Difference|nil
function difference.of_steps(optimizer, ranks, twin, a, b)
  return difference.merge(ranks:gather(own(optimizer, twin, a, b) or false))
end

---Compares the state after a step with that before the next; all ranks call it.
---@param optimizer seqrun.Optimizer
---@param ranks seqrun.RunRanks
---@param before table<string, string> of hashes.state()
---@param now table<string, string>
---@return seqrun.Difference|nil
function difference.at_rest(optimizer, ranks, before, now)
  local found = false
  for _, what in ipairs(hashes.STATE) do
    local name = not found and hashes.difference(optimizer, before[what], now[what])
    if name then found = { what = what, tensor = name, at_rest = true } end
  end
  return difference.merge(ranks:gather(found))
end

local WORDS = {
  loss = "the loss", gradient = "the gradient", weights = "the weights", copies = "the bf16 copies of the weights",
  m = "the first moment", v = "the second moment",
  average = "the average of the weights",
}

---One sentence.
---@param found seqrun.Difference
---@param step integer
---@return string
function difference.text(found, step)
  local where = found.micro_batch and (" of micro-batch %d"):format(found.micro_batch) or ""
  local first = found.micro_batch and ", first in the gradient" or ""
  if found.tensor then where = ("%s%s of %s"):format(where, first, found.tensor) end
  if found.element then where = ("%s from element %d on"):format(where, found.element) end
  local rank = found.rank and (" on rank %d"):format(found.rank) or ""
  if found.at_rest then
    local text = "%s%s changed in memory%s between step %d and step %d"
    return text:format(WORDS[found.what], where, rank, step - 1, step)
  end
  return ("step %d computed twice differs%s: %s%s"):format(step, rank, WORDS[found.what], where)
end

---Weights and moments of this rank, as they are now.
local function tensors_of(optimizer)
  local list = {}
  for _, param in ipairs(optimizer.params.list) do list["w." .. param.name] = optimizer.params:master(param.name) end
  for _, piece in ipairs(optimizer:pieces()) do
    list[("%s[%d:%d]"):format(piece.name, piece.first, piece.last)] = piece.tensor
  end
  return list
end

---Writes the state of this rank for inspection: RUN/differences/step-N-NAME.safetensors, with the rank if there are
---several.
---@param folder string of the run
---@param step integer
---@param name string
---@param optimizer seqrun.Optimizer
---@param ranks seqrun.RunRanks
---@return string path
function difference.save(folder, step, name, optimizer, ranks)
  local place = folder .. "/differences"
  ranks:first_does(function() failure.must(sys.make_dirs(place)) end)
  local rank = ranks:several() and ("-rank-%d"):format(ranks.rank) or ""
  local path = ("%s/step-%09d-%s%s.safetensors"):format(place, step, name, rank)
  failure.must(tensor_file.write(path, tensors_of(optimizer)))
  return path
end

return difference
