-- schedules.lua - schedules and layer tokens against schedule_golden.tsv, as configs.tsv defines them.

local published = require("tests.support.golden.published")
local schedule = require("seqrun.schedule")
local tsv = require("tests.support.golden.tsv")

local schedules = {}

local TYPES = { fixed_linear = "linear", fixed_root = "root", fixed_discrete = "discrete" }

---A schedule of the reference.
---@param t { min: string, max: string, schedule_type: string, total_step?: string, difficulty_step?: string,
---  root_degree?: string, difficulty_list?: string, max_step_list?: string }
function schedules.new(t)
  return schedule.new {
    faithful = true, type = assert(TYPES[t.schedule_type], t.schedule_type),
    min = tonumber(t.min), max = tonumber(t.max), total = tonumber(t.total_step), quantum = tonumber(t.difficulty_step),
    degree = t.schedule_type == "fixed_root" and tonumber(t.root_degree) or nil, values = tsv.list(t.difficulty_list),
    upto = tsv.list(t.max_step_list),
  }
end

---The last step up to `most` with the value of `step`: lines and roots are monotone, so none between has another.
local function end_of_run(s, step, most)
  if s.type == "discrete" then return step end
  local low, high = step, most + 1
  while high - low > 1 do
    local middle = (low + high) // 2
    if s:at(middle) == s:at(step) then low = middle else high = middle end
  end
  return low
end

---The schedule after every step up to the asked ones, and the layer tokens so far.
local function walk(config, steps)
  local s, ltd = schedules.new(config), config.kind == "random_ltd"
  local batch = tonumber(config.global_batch)
  local count = ltd and published {
    full = tonumber(config.max), layers = tonumber(config.total_layers), dropping = tonumber(config.ltd_layers),
  }
  local values, tokens, consumed, at = {}, {}, 0, 0
  local function charge(updates)
    if ltd then consumed = consumed + updates * count:layer_tokens(batch, s.value) end
  end
  if ltd then
    s:advance(0)
    charge(1)
  end
  for _, step in ipairs(steps) do
    while at < step and not s:state().latched do
      s:advance(at + 1)
      local upto = end_of_run(s, at + 1, step)
      charge(upto - at)
      at = upto
    end
    charge(step - at) -- the latch holds its value
    at = step
    values[step], tokens[step] = s.value, ltd and consumed or nil
  end
  return values, tokens
end

local function steps_of(rows)
  local steps = {}
  for i, row in ipairs(rows) do steps[i] = tonumber(row.step) end
  table.sort(steps)
  return steps
end

---@param folder string
---@param report seqrun.GoldenReport
function schedules.check(folder, report)
  local rows, configs = tsv.pair(folder, "schedule_golden.tsv", "configs.tsv")
  if not rows then return end
  local by_id = {}
  for _, config in ipairs(configs) do by_id[config.config_id] = config end
  for _, group in ipairs(tsv.groups(rows, "config_id")) do
    local config = assert(by_id[group.name], group.name)
    local s, min = schedules.new(config), tonumber(config.min)
    local values, tokens = walk(config, steps_of(group))
    for _, row in ipairs(group) do
      local step = tonumber(row.step)
      local clamped = config.schedule_type == "fixed_discrete" and s:at(step) or math.max(min, s:at(step))
      report:row("schedule", group.name .. " step " .. row.step, {
        { "get", row.get, s:at(step) }, { "update", row.update, values[step] },
        { "get_clamped_min", row.get_clamped_min, clamped },
        { "consumed_layer_tokens", row.consumed_layer_tokens, tokens[step] },
      })
    end
  end
end

return schedules
