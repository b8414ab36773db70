-- goals.lua - where a run ends: after a number of updates, or at the first update with which a counter reaches a total.

local counters = require("seqrun.schedule.counters")
local text = require("seqrun.base.format")

local goals = {}

---Updates of a run that only a counter ends.
goals.UNLIMITED = text.UNLIMITED

---The totals that end the run, by counter: those of `stop`; else the end of a rate that does not depend on steps.
---@param cfg table
---@return table<string, number>
function goals.of(cfg)
  local list = {}
  for name, total in pairs(cfg.stop or {}) do list[name] = total end
  local by = cfg.rate.by or "step"
  if by ~= "step" and not cfg.steps and next(list) == nil then list[by] = cfg.rate.total end
  return list
end

---The key of a config that needs the number of words; nil if none does.
local function words_key(cfg)
  return cfg.stop and cfg.stop.words and "stop.words" or cfg.save.at.words and "save.at.words"
    or cfg.rate.by == "words" and "rate.by=words" or nil
end

---Why a resume cannot count words; nil if it can, or need not.
---@param cfg table
---@param known boolean whether the checkpoint has the number so far
---@return string|nil
function goals.words_lost(cfg, known)
  local key = not known and words_key(cfg)
  return key and ("%s: the checkpoint is of a version that did not count words, so the number so far is not known; "
    .. "leave it out, or start a new run"):format(key) or nil
end

---Why a run cannot count words; nil if it can, or need not.
---@param cfg table
---@param counted boolean whether the data sets have counted theirs
---@return string|nil
function goals.no_words(cfg, counted)
  local key = not counted and words_key(cfg)
  return key and ("%s needs the words of the data set, which has not counted any; prepare it again from its text "
    .. "with recipes/prepare.lua"):format(key) or nil
end

---Steps of the schedule that the run trains for.
local function schedule_of(cfg, steps)
  if not steps and cfg.rate.by and cfg.rate.by ~= "step" then return nil end
  return steps or cfg.rate.total - cfg.rate.from
end

---Updates until a schedule of steps has ended, where their numbers of sequences vary, as those of packs do; nil where
---the number of updates is known.
---@param cfg table
---@param loader table summary of the loader
---@param steps? integer of the schedule, instead of those of the config
---@param at number steps of the schedule so far
---@return integer|nil
function goals.updates_left(cfg, loader, steps, at)
  local total = loader.varies and not cfg.steps and schedule_of(cfg, steps)
  return total and math.max(0, math.ceil((total - at) / loader.schedule_steps - 1e-9)) or nil
end

---Updates of the run: `steps`, or the number that a schedule of `steps` steps needs, or UNLIMITED.
---@param cfg table
---@param loader table summary of the loader
---@param steps? integer of the schedule, instead of those of the config
---@return integer
function goals.updates(cfg, loader, steps)
  if cfg.steps then return cfg.steps end
  local total = schedule_of(cfg, steps)
  return total and math.ceil(total / loader.schedule_steps) or goals.UNLIMITED
end

---The counter that has reached its total; nil while none has.
---@param list table<string, number>
---@param totals seqrun.Counters
---@return string|nil
function goals.reached(list, totals)
  for _, name in ipairs(counters.NAMES) do
    local total = list[name]
    if total and (totals[name] or 0) >= total then return name end
  end
end

---The goals as text: "until effective_tokens reaches 1.20M".
---@param list table<string, number>
---@return string|nil
function goals.text(list)
  local parts = {}
  for _, name in ipairs(counters.NAMES) do
    local total = list[name]
    if total then
      local shown = name == "seconds" and text.duration(total) or text.count(total)
      parts[#parts + 1] = ("%s reaches %s"):format(name, shown)
    end
  end
  return #parts > 0 and "until " .. table.concat(parts, " or ") or nil
end

return goals
