-- inputs.lua - what a model reads of a file: the ids of its sequences, in an evaluation and in a prediction.

local batches = require("seqrun.predict.batches")
local kinds = require("seqrun.base.kinds")
local predict = require("seqrun.predict")
local run_config = require("seqrun.predict.run_config")
local source = require("seqrun.predict.source")
local sr = require("seqrun")

local inputs = {}

---The real ids of a batch, a word for each of its sequences.
local function add_sequences(list, batch)
  local ids, at = batch.ids:totable(), 0
  for _, length in ipairs(batch.layout:lengths()) do
    list[#list + 1] = table.concat(ids, " ", at + 1, at + length)
    at = at + length
  end
end

---The inputs of an evaluation; data sets go to the folder.
---@param facts seqrun.Pretrained
---@param file string
---@param folder string
---@return string[] sorted
function inputs.evaluated(facts, file, folder)
  local task, cfg = sr.tasks[facts.kind], run_config.load(facts, { "data.folder=" .. folder })
  cfg.data.train, cfg.data.held, cfg.data.labels = { file }, 0, facts.labels
  local data, list = task:data(cfg), {}
  local loader = task:loader(cfg, { dev = data.train, dev_part = "train", pretrained = data.pretrained }, "dev")
  for update in function() return loader:next() end do
    local scope <close> = sr.scope()
    for batch in update:batches() do add_sequences(list, batch) end
  end
  loader:close()
  table.sort(list)
  return list
end

---The inputs of a prediction, and its results.
---@param facts seqrun.Pretrained
---@param path string of the model
---@param file string
---@return string[] sorted
---@return table[] results
function inputs.predicted(facts, path, file)
  local predictor, make, list = sr.must(predict.open(path)), batches.make, {}
  local guard <close> = setmetatable({}, { __close = function() batches.make = make end })
  function batches.make(...)
    local batch = make(...)
    add_sequences(list, batch)
    return batch
  end
  local items, opened = source.open {
    facts = facts, kind = kinds.get(facts.kind), labels = facts.labels, files = { file }, arguments = {},
  }
  local results = {}
  for result in predictor:each(items) do results[#results + 1] = result end
  opened:close()
  table.sort(list)
  return list, results
end

return inputs
