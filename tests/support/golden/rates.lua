-- rates.lua - token-based learning rates against lr_tokens_golden.tsv, under a length curriculum and token dropping.
--
-- The reference computes a rate at the end of a step, from the tokens before it, for the next step.

local published = require("tests.support.golden.published")
local schedule = require("seqrun.schedule")
local tsv = require("tests.support.golden.tsv")

local rates = {}

---"10:128:8" is total, min, quantum; max is the full length.
local function value_schedule(text, max)
  if not text then return nil end
  local total, min, quantum = text:match("^(%-?%d+):(%-?%d+):(%d+)$")
  return schedule.new {
    faithful = true, min = tonumber(min), max = max, total = tonumber(total), quantum = tonumber(quantum),
  }
end

---The warmup, and its counter: steps, if there are any, else tokens.
local function warmup_of(c)
  local steps, tokens = tonumber(c.warmup_steps) or 0, tonumber(c.warmup_tokens) or 0
  if steps > 0 or tokens == 0 then return steps, "step" end
  return tokens, "effective_tokens"
end

local function rate_of(c)
  local warmup, by = warmup_of(c)
  return schedule.tokens {
    peak = tonumber(c.max_lr), floor = tonumber(c.min_lr), total = tonumber(c.decay_tokens), decay = c.style,
    warmup = warmup, warmup_by = by,
  }
end

---One line for each step of a config.
local function run(config, steps)
  local full = math.tointeger(tonumber(config.seq_len))
  local lengths = value_schedule(config["cl_total:min:step"], full)
  local kept = value_schedule(config["ltd_total:min:step"], full)
  local count = published {
    full = full, layers = tonumber(config.layers), dropping = tonumber(config.ltd_layers) or 0,
  }
  local rate, tokens, used, lines = rate_of(config), 0, 0.0, {}
  for step = 1, steps do
    local length = lengths and lengths:advance(step) or full
    local rows = kept and kept:advance(step - 1) or full
    local each = count:effective_tokens(1, length, rows)
    local following = rate { step = step, schedule_step = step, effective_tokens = tokens }
    lines[step] = {
      curriculum_seqlen = length, ltd_reserved = rows, effective_seqlen = each, tokens_before = tokens,
      tokens_after = tokens + each * tonumber(config.global_batch), lr_used = used, lr_next = following,
    }
    tokens, used = lines[step].tokens_after, following
  end
  return lines
end

local COLUMNS = { "curriculum_seqlen", "ltd_reserved", "effective_seqlen", "tokens_before", "tokens_after" }

---@param folder string
---@param report seqrun.GoldenReport
function rates.check(folder, report)
  local rows, configs = tsv.pair(folder, "lr_tokens_golden.tsv", "lr_tokens_configs.tsv")
  if not rows then return end
  local by_id = {}
  for _, config in ipairs(configs) do by_id[config.config_id] = config end
  for _, group in ipairs(tsv.groups(rows, "config_id")) do
    local last = 0
    for _, row in ipairs(group) do last = math.max(last, tonumber(row.step)) end
    local lines = run(assert(by_id[group.name], group.name), last)
    for _, row in ipairs(group) do
      local line, cells = lines[tonumber(row.step)], {}
      for i, name in ipairs(COLUMNS) do cells[i] = { name, row[name], line[name] } end
      for _, name in ipairs { "lr_used", "lr_next" } do cells[#cells + 1] = { name, row[name], line[name], 1e-12 } end
      report:row("lr_tokens", group.name .. " step " .. row.step, cells)
    end
  end
end

return rates
