-- explain.lua - what an update of a curriculum is drawn from.

local commas = require("seqrun.base.format").commas

---@class seqrun.CurriculumStep
---@field step integer
---@field examples integer
---@field unlocked integer by all metrics
---@field metrics { name: string, difficulty: number, unlocked: integer }[]
---@field length integer maximum length of a sequence
---@field sequences integer of an update
---@field updates integer arranged together
local Step = {}
Step.__index = Step
Step.__name = "seqrun.CurriculumStep"

local function line(name, value, unlocked, all)
  return ("  %-16s %12s %14s  %5.1f %%"):format(name, value, commas(unlocked), 100 * unlocked / all)
end

function Step:__tostring()
  local lines = { ("step %d%s"):format(self.step, #self.metrics > 0 and
    ":            difficulty       unlocked" or "") }
  for _, m in ipairs(self.metrics) do
    lines[#lines + 1] = line(m.name, ("%g"):format(m.difficulty), m.unlocked, self.examples)
  end
  lines[#lines + 1] = line(#self.metrics > 1 and "all of them" or "examples", "", self.unlocked, self.examples)
  lines[#lines + 1] = ("  %s sequences of at most %d tokens; %d update%s arranged together"):format(
    commas(self.sequences), self.length, self.updates, self.updates == 1 and "" or "s")
  return table.concat(lines, "\n")
end

---Totals before a step, as if all updates were like it.
local function totals_before(self, step)
  local totals = { update = step - 1, sequences = 0, raw_tokens = 0, real_tokens = 0 }
  totals.epoch, totals.epoch_update, totals.drawn = self.first, 0, 0
  local window = self:decide(totals)
  local tokens, all = self.sampler:tokens(window.max_len, window.pieces), math.max(1, window.unlocked)
  totals.sequences = (step - 1) * window.each
  totals.real_tokens = math.floor(totals.sequences * tokens / all)
  totals.raw_tokens = math.floor(totals.sequences * self.sampler:tokens(0, false) / all)
  return totals
end

---@param curriculum seqrun.Curriculum
---@param step integer
---@return seqrun.CurriculumStep
return function(curriculum, step)
  local state = curriculum:state()
  curriculum:restore(curriculum.initial)
  local window = curriculum:decide(totals_before(curriculum, step))
  curriculum:restore(state)
  local metrics = {}
  for i, name in ipairs(curriculum.names) do
    metrics[i] = { name = name, difficulty = window.difficulties[name], unlocked = window.prefixes[i] }
  end
  return setmetatable({
    step = step, examples = curriculum.sampler:examples(), unlocked = window.unlocked, metrics = metrics,
    length = window.max_len > 0 and window.max_len or curriculum.max_len, sequences = window.each,
    updates = window.updates,
  }, Step)
end
