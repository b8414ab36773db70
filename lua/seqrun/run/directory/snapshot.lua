-- snapshot.lua - all that a checkpoint of a run holds.

local autotune = require("seqrun.run.ranks.autotune")
local devices = require("seqrun.tensor.devices")
local resuming = require("seqrun.run.directory.resuming")

---What it has besides the tensors, as plain values.
local function state_of(t)
  local rate, schedules = resuming.schedules(t.rate, t.schedules)
  local evaluated = t.evaluations:state(t.step)
  return {
    step = t.step, loaders = t.loaders:state(), window = t.meter:state(), seconds = t.seconds, kept = t.saves:keep {},
    scaled = t.changes:state(), result = evaluated.result, best = evaluated.best, aside = evaluated.aside,
    schedules = schedules, rate = rate,
    instructions = devices.instructions(), data = resuming.digest(t.corpus),
  }
end

---@param t { step: integer, seconds: number, loaded: seqrun.Config, model: table, optimizer: table, corpus?: table,
---  rate?: function|table, schedules?: table<string, seqrun.ValueSchedule>, loaders: seqrun.RunLoaders,
---  meter: seqrun.Meter, saves: seqrun.Saves, evaluations: seqrun.Evaluations, changes: seqrun.Changes }
---@return seqrun.Saved
return function(t)
  local model, corpus = t.model, t.corpus
  local parts = {
    step = t.step, model = model.params, opt = t.optimizer, state = state_of(t),
    config = model.hf_config and model:hf_config(), files = t.loaders:plans(),
  }
  parts.files["trainer/config.yaml"], parts.files[autotune.FILE] = t.loaded:dump(), autotune.text()
  for _, head in ipairs(model.heads or {}) do
    for name, text in pairs(head.files and head:files() or {}) do parts.files[name] = text end
  end
  parts.tokenizer = corpus and corpus:tokenizer()
  return parts
end
