-- counters.lua - what a schedule can be a function of: names for the option `by`, and fields of the counters.

local counters = {}

---Values of `by`, and the fields of seqrun.Counters.  `step` is the step for schedules: see seqrun.Update.
counters.FIELDS = {
  step = "schedule_step", sequences = "sequences", raw_tokens = "raw_tokens", real_tokens = "real_tokens",
  masked_tokens = "masked_tokens", layer_tokens = "layer_tokens", effective_tokens = "effective_tokens",
  words = "words", flops = "flops", seconds = "seconds",
}

---The names, in the order in which they are listed.
counters.NAMES = {
  "step", "sequences", "raw_tokens", "real_tokens", "masked_tokens", "words", "layer_tokens", "effective_tokens",
  "flops", "seconds",
}

---What schedules made by seqrun.schedule are functions of, by schedule.
---@type table<function, string>
counters.OF = setmetatable({}, { __mode = "k" })

---The number that a schedule is a function of.
---@param at number|seqrun.Counters
---@param by string
---@return number|nil # nil if the counters lack it
function counters.read(at, by)
  if type(at) ~= "table" then return at end
  return at[counters.FIELDS[by]] or by == "step" and at.step or nil
end

return counters
