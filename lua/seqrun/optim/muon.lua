-- muon.lua - which parameters are matrices that Muon updates, and by how much.
--
-- Muon is for the matrices of hidden layers: they map activations to activations, so that an orthogonal step moves all
-- directions alike.  Rows of embeddings and of the last layer of a head belong to tokens and labels, and stay with
-- AdamW, as biases and norms do.
--
-- A parameter that has several matrices one below the other, as its specification says (`blocks`: q, k and v, the
-- halves of a gated block), is as many matrices here, unless `split` is false.

local check = require("seqrun.base.check")

local muon = {}

---Names of tables and of last layers of heads, in all families; a group's `muon` decides about others.
local OTHERS = {
  "embed", "decoder%.weight$", "classifier%.weight$", "out_proj%.weight$", "seq_relationship%.weight$",
  "qa_outputs%.weight$", "lm_head%.weight$", "vocab_projector%.weight$", "dense_prediction%.weight$", "score%.weight$",
}

---Of those, matrices of hidden layers whatever they are called.
local HIDDEN = { "layers?%.%d+%.", "embeddings_project%.weight$", "embedding_hidden_mapping" }

local function any(name, patterns)
  for _, pattern in ipairs(patterns) do
    if name:find(pattern) then return true end
  end
  return false
end

local function is_hidden(param)
  if #param.shape ~= 2 or param.group == "no_decay" then return false end
  return any(param.name, HIDDEN) or not any(param.name, OTHERS)
end

---The factor on an orthogonal matrix of this shape.
local SCALES = {
  ---As large a root mean square as an update of AdamW (Moonlight, arXiv:2502.16982), so that both take one rate.
  rms = function(rows, columns) return 0.2 * math.sqrt(math.max(rows, columns)) end,
  ---As published first (Jordan 2024); its rates are about 50 times those of AdamW.
  shape = function(rows, columns) return math.sqrt(math.max(1, rows / columns)) end,
}

---The options of Muon that are missing.
---@param options seqrun.OptimOptions
---@return table
function muon.defaults(options)
  local whole = {
    momentum = options.momentum or 0.95, nesterov = options.nesterov ~= false, scale = options.scale or "rms",
    matrix_rate = options.matrix_rate or 1, split = options.split ~= false,
  }
  check.choice("optim: scale", whole.scale, { "rms", "shape" })
  if not (whole.momentum >= 0 and whole.momentum < 1) then
    check.fail("optim: momentum is %g; it must be at least 0 and below 1", whole.momentum)
  end
  if not (whole.matrix_rate > 0 and whole.matrix_rate < math.huge) then
    check.fail("optim: matrix_rate is %g; it must be a positive factor on the rate", whole.matrix_rate)
  end
  return whole
end

---Marks a segment as a matrix, if it is one.
---@param segment seqrun.OptimSegment `muon`: what a group says
---@param param table of params.list
---@param whole seqrun.OptimOptions
function muon.mark(segment, param, whole)
  local wanted = segment.muon
  if wanted and #param.shape ~= 2 then
    check.fail("optim: a group sets muon for '%s', which has %d dimensions; Muon is for matrices, which have 2",
      param.name, #param.shape)
  end
  if wanted == nil then wanted = is_hidden(param) end
  if not wanted then return end
  segment.rows, segment.columns = param.shape[1], param.shape[2]
  segment.scale = SCALES[whole.scale](segment.rows, segment.columns)
  segment.rate = segment.rate * whole.matrix_rate
  if whole.split and param.blocks and #param.blocks > 1 then
    segment.blocks = {}
    for i, rows in ipairs(param.blocks) do
      segment.blocks[i] = { rows = rows, scale = SCALES[whole.scale](rows, segment.columns) }
    end
  end
end

---One segment for each matrix.
---@param segments seqrun.OptimSegment[] of parameters
---@return table[] # for train.optim
---@return boolean split whether a parameter has several
function muon.matrices(segments)
  local list = {}
  for _, segment in ipairs(segments) do
    for _, block in ipairs(segment.blocks or { {} }) do
      list[#list + 1] = setmetatable(block, { __index = segment })
    end
  end
  return list, #list > #segments
end

---Tells the store which parameters stay whole; fails if there are none, or if it was cut before.
---@param params seqrun.Params
---@param segments seqrun.OptimSegment[]
function muon.check(params, segments)
  local found = false
  for i, segment in ipairs(segments) do
    if segment.rows then
      if params.exchange and not found then
        check.fail("optim: the gradients of these parameters are already shared over ranks, in parts that may cut a "
          .. "matrix; make the Muon optimizer before run:start")
      end
      found = true
      params.core:keep_whole(i)
    end
  end
  if not found then
    check.fail("optim: Muon finds no matrix of a hidden layer among '%s', ...; set muon = true in a group, or use "
      .. "adamw", params.list[1].name)
  end
end

return muon
