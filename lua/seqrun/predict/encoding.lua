-- encoding.lua - vectors of texts: the last hidden state of [CLS], or its mean over the tokens, normalised or not.

local batches = require("seqrun.predict.batches")
local frames = require("seqrun.text.frames")
local ops = require("seqrun.tensor.ops")
local stream = require("seqrun.predict.stream")
local tensor = require("seqrun.tensor")
local texts = require("seqrun.predict.texts")

local encoding = {}

---Below this a norm is taken for this, as in PyTorch's normalize().
local SMALLEST = 1e-12

local function normalised(x) return x / x:square():sum(2, true):sqrt():maximum(SMALLEST) end

---The rows that a vector is made of, where it is one: the last layer computes no others.
local row_targets = {
  cls = function(batch) batches.target(batch, "sequences") end,
  last = function(batch) batches.last_rows(batch) end,
}

---The mean of the states of each sequence, without those of its first tokens.
local function mean(x, layout, skip)
  if not skip then return ops.sequence_mean(x, layout) end
  local kept, lengths = {}, layout:lengths()
  for i, start in ipairs(layout:starts()) do
    for at = math.min(skip, lengths[i] - 1), lengths[i] - 1 do kept[#kept + 1] = start + at end
  end
  local shorter, rows = layout:shorten(kept)
  return ops.sequence_mean(ops.gather_rows(x, tensor.tensor(rows, { dtype = "i32" })), shorter)
end

---The vectors of a batch.
---@param encoder seqrun.Encoder
---@param batch table of batches.make
---@param options { pool: "mean"|"cls"|"last", normalise?: boolean, head?: seqrun.EmbedHead, skip?: integer,
---  dimensions?: integer } head: its linear layer; skip: tokens of each sequence that the mean leaves out; dimensions:
---  the first ones, all by default
---@return seqrun.Tensor # (N, H) f32
function encoding.vectors(encoder, batch, options)
  local x, dtype
  if options.pool == "mean" then
    x = encoder:encode(batch)
    dtype, x = x:dtype(), mean(x, batch.layout, options.skip)
  else
    row_targets[options.pool](batch)
    x = encoder:encode(batch, batch.last)
    dtype = x:dtype()
  end
  if options.head then x = options.head:project(x, dtype) end
  x = x:to("f32")
  if options.dimensions then x = x:narrow(2, 1, options.dimensions) end
  return options.normalise and normalised(x) or x
end

---@class seqrun.EncodeOptions
---@field model seqrun.Bert
---@field tokenizer seqrun.text.Tokenizer
---@field max_len integer longer texts are truncated
---@field pool "mean"|"cls"|"last"
---@field head? seqrun.EmbedHead with a linear layer after the pooling
---@field normalise? boolean
---@field prompt? string put before each text
---@field skips_prompt? boolean the tokens of the prompt are not pooled
---@field rows? integer tokens of a batch, 2048
---@field dimensions? integer the first numbers of each vector, all by default
---@field bytes? boolean vectors as little-endian f32, instead of lists of numbers
---@field counts? table `cut` counts texts that were truncated

---The special tokens before a text and the tokens of its prompt, where these are not pooled.
local function skipped(t)
  if not t.skips_prompt or not t.prompt then return nil end
  return frames.of(t.tokenizer.core):lead() + #t.tokenizer.core:ids(t.prompt)
end

---Vectors of items with `text` (and `pair`), in their order: each item gets `vector`, but for those that are `wrong`.
---@param items fun(): table?
---@param t seqrun.EncodeOptions
---@return fun(): table?
function encoding.each(items, t)
  t.model.training = false
  local size = t.dimensions or t.head and t.head.size or t.model.design.hidden
  local how = {
    pool = t.pool, normalise = t.normalise, head = t.head, skip = skipped(t), dimensions = t.dimensions,
  }
  local function compute(batch)
    local vectors = encoding.vectors(t.model.encoder, batch, how):contiguous()
    if not t.bytes then return vectors:totable() end
    local all, outputs = vectors:tostring_bytes(), {}
    for i = 1, batch.sequences do outputs[i] = all:sub((i - 1) * 4 * size + 1, i * 4 * size) end
    return outputs
  end
  local framed = texts.framing(t.tokenizer, t.max_len, t.counts or {})
  local function sequences(item)
    if item.wrong then return {} end
    local list = framed(t.prompt and { text = t.prompt .. item.text, pair = item.pair } or item)
    if how.skip then list[1].rows = { math.min(how.skip - frames.of(t.tokenizer.core):lead(), #list[1].a) + 1 } end
    return list
  end
  local next_item = stream {
    items = items, sequences = sequences, compute = compute, tokenizer = t.tokenizer.core, rows = t.rows or 2048,
  }
  return function()
    local item = next_item()
    if item and not item.wrong then item.vector = item.sequences[1].output end
    return item
  end
end

return encoding
