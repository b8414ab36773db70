-- flops.lua - the work that a model has to do, as the formula of MFU counts it.
--
--     6 x weights in matrix products x rows they see  +  12 H sum(len^2) a layer
--
-- Rows are real tokens in the encoder, masked rows in the masked-LM head, sequences in the pooler.

local flops = {}

---@param config table Hugging Face keys
---@return fun(batch: seqrun.Batch): number
function flops.counter(config)
  local h, f, layers, v = config.hidden_size, config.intermediate_size, config.num_hidden_layers, config.vocab_size
  local a_token = 6 * layers * (4 * h * h + 2 * h * f)
  local a_masked = 6 * (h * h + h * v)
  local a_sequence = 6 * (h * h + 2 * h)
  return function(batch)
    local squares = 0
    for _, length in ipairs(batch.layout:lengths()) do squares = squares + length * length end
    return a_token * batch.tokens + 12 * h * layers * squares + a_masked * batch.masked
      + a_sequence * (batch.targets.nsp and batch.sequences or 0)
  end
end

return flops
