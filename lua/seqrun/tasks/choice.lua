-- choice.lua - multiple choice: the choices of a question are sequences, and stay in one micro-batch.
--
-- batch.sequences counts questions.

local failure = require("seqrun.base.failure")
local finetuning = require("seqrun.tasks.finetuning")
local sr_data = require("seqrun.data")

local choice = finetuning.task { kind = "choice", whole = true, target = "answer" }

function choice:targets() return { "answer", "group" } end

function choice:loader(cfg, data, part)
  local dev = part == "dev"
  if cfg.batch.by == "packs" then
    failure.raise("config", "batch.by=packs would tear questions apart; leave it out: updates have whole questions")
  end
  local options = self:loader_options(cfg, data, part)
  local order, updates = sr_data.groups(data[part], {
    groups = dev and math.max(1, cfg.batch.evaluation // 4) or cfg.batch.sequences, seed = not dev and cfg.seed or nil,
    epochs = dev and 1 or nil,
  })
  options.by, options.sequences, options.epochs, options.order = nil, nil, nil, order
  return failure.must(sr_data.loader(options)), updates
end

return choice
