-- evaluate.lua - scores a model on held-out data: the mean of each loss over its items, baselines, and the metrics of
-- what its heads predict.

local contracts = require("seqrun.run.checks.contracts")
local ranks = require("seqrun.run.ranks")
local scoring = require("seqrun.scores.scoring")
local sys = require("seqrun.core.sys")
local tally = require("seqrun.history.tally")
local tensor = require("seqrun.tensor")

local evaluate = {}

---Adds the score of each baseline to its loss.
local function add_baselines(baselines, batch, losses)
  for _, baseline in ipairs(baselines or {}) do
    local loss = losses[baseline.loss]
    local sum, count = nil, nil
    if loss then sum, count = baseline.score(batch) end
    if sum then
      loss.sums = loss.sums or {}
      loss.sums[baseline.metric] = { sum, count }
    end
  end
end

---Scores one micro-batch.
---@return table<string, number> sums
local function score(self, model, batch, baselines)
  local scope <close> = tensor.scope()
  local no_grad <close> = tensor.no_grad()
  local losses = model:losses(batch, self.scoring and function(head, hidden, target)
    self.scoring:take(head, hidden, target, batch)
  end)
  contracts.check_losses(losses, "evaluation", model)
  add_baselines(baselines, batch, losses)
  local sums = { masked = batch.masked or 0 }
  self.tally:take(sums, losses, true, batch)
  return sums
end

---Scores an update: all of it where heads predict, else each rank its shares.
---@return boolean # false if interrupted by a signal on any rank
local function score_update(self, model, update, options)
  local own, caught, split = {}, nil, self.ranks:several() and not self.scoring
  if split then self.ranks:share_out(update) end
  for batch in update:batches() do
    caught = caught or sys.caught()
    if caught and not self.ranks:several() then return false end
    own[#own + 1] = score(self, model, batch, options.baselines)
  end
  self.tally:read()
  for rank, part in ipairs(self.ranks:gather { batches = own, caught = caught, order = self.tally.order }) do
    if part.caught then return false end
    if split or rank == self.ranks.rank + 1 then tally.add_up(self.sums, part.batches) end
    self.tally:also(part.order)
  end
  return true
end

---Scores all batches of the requested updates; false if interrupted by a signal.
local function score_all(self, model, loader, options)
  local done = 0
  while options.updates == 0 or done < options.updates do
    local update = loader:next()
    if not update then break end
    if not score_update(self, model, update, options) then return false end
    done = done + 1
    if options.progress then options.progress:at(done) end
  end
  return true
end

---@param model table losses(batch), training
---@param loader seqrun.Loader of the held-out part, one epoch
---@param options { from: table, updates: integer, baselines?: seqrun.Baseline[], ranks?: seqrun.RunRanks,
---  progress?: seqrun.Work } from: the cursor to start at; updates: the maximum number, 0 for all
---@return table|nil line metrics by name, and the masked tokens; nil if interrupted by a signal
---@return seqrun.Shown[]? order in which to print them
---@return seqrun.Scoring? scoring all predictions; nil if no head predicts
function evaluate.run(model, loader, options)
  local self = {
    ranks = options.ranks or ranks.new(), tally = tally.new(), sums = { masked = 0 },
    scoring = scoring.new(model, loader),
  }
  local training = model.training
  model.training = false
  loader:seek(options.from)
  local whole = score_all(self, model, loader, options)
  model.training = training
  if not whole then return nil end
  local line = { masked = self.sums.masked }
  self.tally:metrics(self.sums, line)
  if self.scoring then self.scoring:finish(line, self.tally.order) end
  return line, self.tally.order, self.scoring
end

return evaluate
