-- Curricula row by row as DeepSpeed's and Megatron's programs compute them: tests/data/curriculum.
-- (rarity_golden.tsv is compared in analysis_spec.)

local json = require("seqrun.core.json")
local reference = require("tests.support.reference")
local schedule = require("seqrun.schedule")

---The rows of a table, by column; `-` is left out.
local function read(name)
  local rows, names = {}, nil
  for line in io.lines(("tests/data/curriculum/%s.tsv"):format(name)) do
    if not line:find("^#") then
      local row, i = {}, 0
      for field in (line .. "\t"):gmatch("([^\t]*)\t") do
        i = i + 1
        row[names and names[i] or i] = (not names or field ~= "-") and field or nil
      end
      if names then rows[#rows + 1] = row else names = row end
    end
  end
  return rows
end

---Rows in groups by a column, and the highest step of each group.
local function groups(rows, column)
  local found = {}
  for _, row in ipairs(rows) do
    local group = found[row[column]] or { last = 0 }
    found[row[column]] = group
    group[#group + 1] = row
    group.last = math.max(group.last, tonumber(row.step) or 0)
  end
  return found
end

---"[1,2.5,3]" or "1,2,3" as numbers; nil for nothing.
local function list(text)
  local numbers = text and {}
  for x in (text or ""):gmatch("[^%[%],%s]+") do numbers[#numbers + 1] = assert(tonumber(x), text) end
  return numbers
end

---Compares a cell, if it is given, exactly or with a relative tolerance.
local function same(what, wanted, got, tolerance)
  if wanted == nil then return end
  local number = type(got) == "number" and tonumber(wanted)
  if number then
    assert.is_true(math.abs(number - got) <= (tolerance or 0) * math.abs(number), ("%s: %s is not %s"):format(what, got,
      wanted))
  else
    assert.equal(wanted, tostring(got), what)
  end
end

local TYPES = { fixed_linear = "linear", fixed_root = "root", fixed_discrete = "discrete" }

local function schedule_of(t)
  return schedule.new {
    faithful = true, type = assert(TYPES[t.schedule_type]), min = tonumber(t.min), max = tonumber(t.max),
    total = tonumber(t.total_step), quantum = tonumber(t.difficulty_step), values = list(t.difficulty_list),
    degree = t.schedule_type == "fixed_root" and tonumber(t.root_degree) or nil, upto = list(t.max_step_list),
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

---The schedule after every step up to the asked ones, and the layer tokens of token dropping so far, as its scheduler
---counts them: layers that do not drop count with the full length.
local function walk(config, steps)
  local s, ltd = schedule_of(config), config.kind == "random_ltd"
  local dropping, batch = tonumber(config.ltd_layers), tonumber(config.global_batch)
  local values, tokens, consumed, at = {}, {}, 0, 0
  local function charge(updates)
    if not ltd then return end
    local whole = tonumber(config.max) * (tonumber(config.total_layers) - dropping)
    consumed = consumed + updates * batch * (s.value * dropping + whole)
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

---A schedule from "total:min:quantum".
local function lengths_of(text, max)
  if not text then return { advance = function() return max end } end
  local total, min, quantum = text:match("^(%-?%d+):(%-?%d+):(%d+)$")
  return schedule.new { faithful = true, min = tonumber(min), max = max, total = tonumber(total),
    quantum = tonumber(quantum) }
end

---A line for each step: rates by tokens under a length curriculum and token dropping.  The reference computes a rate at
---the end of a step, from the tokens before it, for the next step, and counts the mean over layers, rounded down.
local function rates_of(c, steps)
  local full, layers, dropping = math.tointeger(tonumber(c.seq_len)), tonumber(c.layers), tonumber(c.ltd_layers) or 0
  local lengths, kept = lengths_of(c["cl_total:min:step"], full), lengths_of(c["ltd_total:min:step"], full)
  local warmup = tonumber(c.warmup_steps)
  local rate = schedule.tokens {
    peak = tonumber(c.max_lr), floor = tonumber(c.min_lr), total = tonumber(c.decay_tokens), decay = c.style,
    warmup = warmup or tonumber(c.warmup_tokens), warmup_by = warmup and "step" or "effective_tokens",
  }
  local tokens, used, lines = 0, 0.0, {}
  for step = 1, steps do
    local length, rows = lengths:advance(step), kept:advance(step - 1)
    local each = (length * (layers - dropping) + math.min(rows, length) * dropping) // layers
    local following = rate { step = step, schedule_step = step, effective_tokens = tokens }
    lines[step] = {
      curriculum_seqlen = length, ltd_reserved = rows, effective_seqlen = each, tokens_before = tokens,
      tokens_after = tokens + each * tonumber(c.global_batch), lr_used = used, lr_next = following,
    }
    tokens, used = lines[step].tokens_after, following
  end
  return lines
end

---The rows of each metric's index, by ascending value.
local function index_tables()
  local tables = {}
  for name, group in pairs(groups(read "selection_tables", "table")) do
    table.sort(group, function(a, b) return tonumber(a.row) < tonumber(b.row) end)
    tables[name] = {}
    for i, line in ipairs(group) do
      tables[name][i] = { value = tonumber(line.metric_value), ids = list(line.sample_ids) }
    end
  end
  return tables
end

---The clusters of a scenario, and the schedule of each of its metrics.
local function scenario_of(lines, tables)
  local metrics, schedules = {}, {}
  for i, line in ipairs(lines) do
    local config = json.decode(line.schedule_config)
    metrics[i] = {
      name = line.metric, kind = line.difficulty_type, rows = line.index_table and tables[line.index_table] or {},
      max = tonumber(line.max), single = line.clustering_type == "single_cluster",
    }
    local function text_of(values) return values and table.concat(values, ",") end
    schedules[line.metric] = schedule_of {
      min = line.min, max = line.max, schedule_type = line.schedule_type, total_step = config.total_curriculum_step,
      difficulty_step = config.difficulty_step, root_degree = config.root_degree,
      difficulty_list = text_of(config.difficulty), max_step_list = text_of(config.max_step),
    }
  end
  return reference.clusters(tonumber(lines[1].dataset_size), metrics), schedules
end

---Ids, each once: a falling metric puts ids into a second cluster.
local function once(text)
  local ids = {}
  for _, id in ipairs(list(text) or {}) do
    if id ~= ids[#ids] then ids[#ids + 1] = id end
  end
  return table.concat(ids, ",")
end

local function sorted(ids)
  local copy = table.move(ids or {}, 1, #(ids or {}), 1, {})
  table.sort(copy)
  return table.concat(copy, ",")
end

describe("the golden tables of curricula", function()
  it("have the values of schedules and the layer tokens", function()
    local configs, rows = groups(read "configs", "config_id"), read "schedule_golden"
    for name, group in pairs(groups(rows, "config_id")) do
      local config, steps = configs[name][1], {}
      for i, row in ipairs(group) do steps[i] = tonumber(row.step) end
      table.sort(steps)
      local s, values, tokens = schedule_of(config), walk(config, steps)
      for _, row in ipairs(group) do
        local step, what = tonumber(row.step), ("%s, step %s, "):format(name, row.step)
        local least = config.schedule_type == "fixed_discrete" and s:at(step) or tonumber(config.min)
        same(what .. "get", row.get, s:at(step))
        same(what .. "update", row.update, values[step])
        same(what .. "clamped", row.get_clamped_min, math.max(least, s:at(step)))
        same(what .. "layer tokens", row.consumed_layer_tokens, tokens[step])
      end
    end
    assert.equal(140, #rows)
  end)

  it("have the rates by tokens", function()
    local configs, rows = groups(read "lr_tokens_configs", "config_id"), read "lr_tokens_golden"
    for name, group in pairs(groups(rows, "config_id")) do
      local lines = rates_of(configs[name][1], group.last)
      for _, row in ipairs(group) do
        for column, value in pairs(lines[tonumber(row.step)]) do
          local tolerance = column:find("^lr_") and 1e-12
          same(("%s, step %s, %s"):format(name, row.step, column), row[column], value, tolerance)
        end
      end
    end
    assert.equal(50, #rows)
  end)

  it("warm up by tokens where a config has no steps", function()
    local lines = rates_of({ style = "linear", max_lr = 1e-4, min_lr = 0, warmup_tokens = 2000, decay_tokens = 10000,
      global_batch = 1, seq_len = 500, layers = 12 }, 6)
    for step, rate in ipairs { 0.0, 2.5e-5, 5e-5, 7.5e-5, 1e-4, 1e-4 * (1 - 500 / 8000) } do
      same("step " .. step, rate, lines[step].lr_next, 1e-12)
    end
  end)

  it("have the ids that a difficulty selects", function()
    local tables, rows = index_tables(), read "selection_golden"
    local function bound(text) return text == "-inf" and -math.huge or text == "inf" and math.huge or tonumber(text) end
    for _, line in ipairs(rows) do
      local ids = reference.select(tables[line.table], line.difficulty_type, bound(line.from), bound(line.to),
        tonumber(line.max_difficulty))
      assert.equal(line.sample_ids or "", table.concat(ids, ","), line.table .. " from " .. line.from)
    end
    assert.equal(19, #rows)
  end)

  it("have the clusters of metrics, step by step", function()
    local tables, scenarios, rows = index_tables(), groups(read "cluster_scenarios", "scenario"), read "cluster_golden"
    for name, group in pairs(groups(rows, "scenario")) do
      local by_step, state, schedules = {}, scenario_of(scenarios[name], tables)
      for _, row in ipairs(group) do by_step[tonumber(row.step)] = row end
      for step = 1, group.last do
        local difficulties, row = {}, by_step[step]
        for metric, s in pairs(schedules) do difficulties[metric] = s:advance(step) end
        local new = state:advance(difficulties)
        if row then
          local what = ("%s, step %d"):format(name, step)
          same(what, row.cluster_count, #state.clusters)
          assert.equal(row.new_cluster_ids_sorted or "", sorted(new), what)
          assert.equal(once(row.unlocked_ids_sorted), sorted(state:unlocked()), what)
          for key, wanted in pairs(json.decode(row.difficulties)) do same(what .. key, wanted, difficulties[key]) end
        end
      end
    end
    assert.equal(24, #rows)
  end)

  it("may have fractional difficulties, as lists and as quanta", function()
    local half = schedule_of { schedule_type = "fixed_linear", min = 52, max = 54, total_step = 1000,
      difficulty_step = 1.5 }
    assert.same({ 51.0, 54 }, { half:at(250), half:at(1000) })
    local values = schedule_of { schedule_type = "fixed_discrete", min = 0.5, max = 2.5, difficulty_list = "0.5,2.5",
      max_step_list = "3" }
    assert.same({ 0.5, 2.5 }, { values:at(3), values:at(4) })
  end)
end)
