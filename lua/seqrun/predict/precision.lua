-- precision.lua - what --precision auto means: bf16 where the device multiplies it and the vectors of the model stay
-- close to those in f32.

local batches = require("seqrun.predict.batches")
local devices = require("seqrun.tensor.devices")
local encoding = require("seqrun.predict.encoding")
local tensor = require("seqrun.tensor")

local precision = {}

---The largest error of a vector, as a share of its length, with which bf16 is used.
precision.TOLERANCE = 1e-2

---Whether the current device has instructions that multiply bf16: others convert it, which is no faster than f32.
---@return boolean
function precision.multiplies_bf16()
  local set = devices.instructions()
  return set == "avx512_bf16" or set == "amx" or set:find("^cuda ") ~= nil
end

local LENGTHS = { 5, 14, 30 } -- of the sequences that are tried, without special tokens

---Sequences of any tokens, spread over the vocabulary.
local function sample(words, longest)
  local sequences, id = {}, 0
  for i, length in ipairs(LENGTHS) do
    local a = {}
    for k = 1, math.max(1, math.min(length, longest - 4)) do
      id = (id + 7919) % words
      a[k] = id
    end
    sequences[i] = { a = a }
  end
  return sequences
end

---The mean of the last hidden states of each sequence, then their first ones.
local function vectors(model, sequences, tokenizer)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local found = {}
  for _, pool in ipairs { "mean", "cls" } do
    for _, vector in ipairs(encoding.vectors(model.encoder, batches.make(sequences, tokenizer), { pool = pool })
      :contiguous():totable()) do
      found[#found + 1] = vector
    end
  end
  return found
end

---The distance of two vectors, as a share of the length of the first.
local function distance(a, b)
  local apart, length = 0, 0
  for i, x in ipairs(a) do apart, length = apart + (x - b[i]) ^ 2, length + x * x end
  return length > 0 and math.sqrt(apart / length) or apart == 0 and 0 or math.huge
end

---The largest error of a model's vectors in bf16, as a share of their length.
---@param f32 seqrun.Bert
---@param bf16 seqrun.Bert the same model
---@param tokenizer seqrun.text.Tokenizer
---@return number
function precision.error(f32, bf16, tokenizer)
  local sequences = sample(#tokenizer.core, f32.design.longest)
  local exact, rounded, most = vectors(f32, sequences, tokenizer.core), vectors(bf16, sequences, tokenizer.core), 0
  for i, vector in ipairs(exact) do
    local error = distance(vector, rounded[i])
    if error ~= error then return math.huge end
    most = math.max(most, error)
  end
  return most
end

return precision
