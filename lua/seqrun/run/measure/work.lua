-- work.lua - what a model did with a micro-batch, for the counters of a run.
--
-- A model may have layer_tokens(batch) and layers(); otherwise it counts as one layer that sees every token.

local work = {}

---Tokens that the layers processed, summed over layers: slack and padding are not counted.
---@param model table
---@param batch seqrun.Batch
---@return integer
function work.layer_tokens(model, batch)
  return model.layer_tokens and model:layer_tokens(batch) or batch.tokens * work.layers(model)
end

---@param model table
---@return integer
function work.layers(model)
  if model.layers then return model:layers() end
  return model.design and model.design.layers or 1
end

return work
