-- milestones.lua - models that a run keeps for good, in RUN/chck_1M: one for each number of words in save.at.words and
-- each step in save.at.steps.
--
-- Words are those that the run has trained on, repeats included.  A model is written after the first update that
-- reaches its number, as a Hugging Face directory with weights, config and tokenizer, and without what a resume needs.

local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---@class seqrun.Milestone
---@field by "words"|"steps"
---@field at integer
---@field name string of its directory

---@class seqrun.Milestones
---@field folder string of the run
---@field list seqrun.Milestone[]
---@field screen seqrun.Screen
---@field leads boolean whether this rank writes
local Milestones = {}
Milestones.__index = Milestones

---The directory of a number of words: chck_7M, chck_500k, chck_1234.
local function name_of(words)
  if words % 1000000 == 0 then return ("chck_%dM"):format(words // 1000000) end
  if words % 1000 == 0 then return ("chck_%dk"):format(words // 1000) end
  return ("chck_%d"):format(words)
end

---@param t { folder: string, at: table, screen: seqrun.Screen, leads: boolean } at: `save.at` of the config
---@return seqrun.Milestones
local function new(t)
  local list = {}
  for _, words in ipairs(t.at.words or {}) do list[#list + 1] = { by = "words", at = words, name = name_of(words) } end
  for _, step in ipairs(t.at.steps or {}) do
    list[#list + 1] = { by = "steps", at = step, name = ("chck_step_%d"):format(step) }
  end
  table.sort(list, function(a, b) return a.by < b.by or a.by == b.by and a.at < b.at end)
  return setmetatable({ folder = t.folder, list = list, screen = t.screen, leads = t.leads }, Milestones)
end

---Those that an update reaches.
---@param before { words: integer, steps: integer }
---@param after { words: integer, steps: integer }
---@return seqrun.Milestone[]
function Milestones:reached(before, after)
  local reached = {}
  for _, one in ipairs(self.list) do
    if before[one.by] < one.at and one.at <= after[one.by] then reached[#reached + 1] = one end
  end
  return reached
end

---Writes a checkpoint of the model, and exports it.
local function write(folder, name, parts)
  local draft = folder .. "/.milestone"
  sys.remove(draft) -- of a run that was killed
  local path, message, code = sys.make_dirs(draft)
  if path then path, message, code = checkpoint.save(draft, parts, { keep = 2 }) end
  if path then path, message, code = checkpoint.export(path, folder .. "/" .. name, { replace = true }) end
  sys.remove(draft)
  return path, message, code
end

---Keeps the model of this step under the names of milestones; a failure ends the run.
---@param reached seqrun.Milestone[]
---@param totals { words: integer, steps: integer }
---@param parts fun(): seqrun.Saved
function Milestones:keep(reached, totals, parts)
  if not self.leads then return end
  for _, one in ipairs(reached) do
    local saved = parts()
    saved.opt, saved.state = nil, {}
    saved.files = { ["trainer/config.yaml"] = saved.files["trainer/config.yaml"] }
    local path, message, code = write(self.folder, one.name, saved)
    if not path then failure.raise(code or "storage", "save.at: %s: %s", one.name, message) end
    self.screen:say("saved %s/%s, after %s words and %s", self.folder, one.name, text.commas(totals.words),
      text.counted(totals.steps, "update"))
  end
end

---Tells at the end of the run which were not reached.
---@param totals { words: integer, steps: integer }
function Milestones:finish(totals)
  local missed = {}
  for _, one in ipairs(self.list) do
    if totals[one.by] < one.at then missed[#missed + 1] = one.name end
  end
  if #missed == 0 then return end
  self.screen:say("save.at: the run ended after %s words and %s, before %s", text.commas(totals.words),
    text.counted(totals.steps, "update"), table.concat(missed, ", "))
end

return { new = new }
