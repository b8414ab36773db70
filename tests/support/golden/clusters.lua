-- clusters.lua - metrics composed into clusters, step by step, against cluster_golden.tsv.

local json = require("seqrun.core.json")
local reference = require("tests.support.golden.reference")
local schedules = require("tests.support.golden.schedules")
local selection = require("tests.support.golden.selection")
local tsv = require("tests.support.golden.tsv")

local clusters = {}

local function text_of(list)
  if not list then return nil end
  local parts = {}
  for i, x in ipairs(list) do parts[i] = tostring(x) end
  return ("[%s]"):format(table.concat(parts, ","))
end

local function schedule_of(line)
  local config = json.decode(line.schedule_config)
  return schedules.new {
    min = line.min, max = line.max, schedule_type = line.schedule_type, total_step = config.total_curriculum_step,
    difficulty_step = config.difficulty_step, root_degree = config.root_degree,
    difficulty_list = text_of(config.difficulty), max_step_list = text_of(config.max_step),
  }
end

---"1,1,2" as "1,2": a falling metric puts ids into a second cluster.
local function once(text)
  local ids, last = {}, nil
  for id in text:gmatch("[^,]+") do
    if id ~= last then ids[#ids + 1] = id end
    last = id
  end
  return table.concat(ids, ",")
end

local function sorted(ids)
  local copy = table.move(ids or {}, 1, #(ids or {}), 1, {})
  table.sort(copy)
  return table.concat(copy, ",")
end

---The metrics of a scenario, and the schedule of each.
local function scenario_of(lines, tables)
  local metrics, list = {}, {}
  for i, line in ipairs(lines) do
    metrics[i] = {
      name = line.metric, kind = line.difficulty_type, rows = line.index_table and tables[line.index_table] or {},
      max = tonumber(line.max), single = line.clustering_type == "single_cluster",
    }
    list[i] = { name = line.metric, schedule = schedule_of(line) }
  end
  return reference.clusters(tonumber(lines[1].dataset_size), metrics), list
end

---Checks the steps of one scenario; rows of steps that are not listed are passed over.
local function check_scenario(name, lines, golden, tables, report)
  local by_step, last = {}, 0
  for _, row in ipairs(golden) do
    local step = tonumber(row.step)
    by_step[step], last = row, math.max(last, step)
  end
  local state, list = scenario_of(lines, tables)
  for step = 1, last do
    local difficulties, row = {}, by_step[step]
    for _, entry in ipairs(list) do difficulties[entry.name] = entry.schedule:advance(step) end
    local new = state:advance(difficulties)
    local cells = {
      { "cluster_count", row and row.cluster_count, #state.clusters },
      { "new_cluster_ids_sorted", row and (row.new_cluster_ids_sorted or ""), sorted(new) },
      { "unlocked_ids_sorted", row and once(row.unlocked_ids_sorted or ""), sorted(state:unlocked()) },
    }
    for key, wanted in pairs(row and json.decode(row.difficulties) or {}) do
      cells[#cells + 1] = { key, tostring(wanted), difficulties[key] }
    end
    if row then report:row("clusters", ("%s step %d"):format(name, step), cells) end
  end
end

---@param folder string
---@param report seqrun.GoldenReport
function clusters.check(folder, report)
  local golden, scenarios = tsv.pair(folder, "cluster_golden.tsv", "cluster_scenarios.tsv")
  if not golden then return end
  local tables, by_name = selection.tables(folder) or {}, tsv.groups(scenarios, "scenario")
  for _, group in ipairs(tsv.groups(golden, "scenario")) do
    check_scenario(group.name, assert(by_name[group.name], group.name), group, tables, report)
  end
end

return clusters
