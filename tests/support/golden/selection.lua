-- selection.lua - ids that a step of a difficulty unlocks, against selection_golden.tsv.

local reference = require("tests.support.golden.reference")
local tsv = require("tests.support.golden.tsv")

local selection = {}

---The rows of each index, by ascending metric value.
---@param folder string
---@return table<string, { value: number, ids: integer[] }[]>|nil
function selection.tables(folder)
  local lines = tsv.read(folder .. "/selection_tables.tsv")
  if not lines then return nil end
  local tables = {}
  for _, group in ipairs(tsv.groups(lines, "table")) do
    table.sort(group, function(a, b) return tonumber(a.row) < tonumber(b.row) end)
    local rows = {}
    for i, line in ipairs(group) do
      rows[i] = { value = tonumber(line.metric_value), ids = tsv.ids(line.sample_ids) }
    end
    tables[group.name] = rows
  end
  return tables
end

local function bound(text) return text == "-inf" and -math.huge or text == "inf" and math.huge or tonumber(text) end

---@param folder string
---@param report seqrun.GoldenReport
function selection.check(folder, report)
  local lines = tsv.read(folder .. "/selection_golden.tsv")
  if not lines then return end
  local tables = assert(selection.tables(folder), "selection_tables.tsv is missing; selection_golden.tsv needs it")
  for _, line in ipairs(lines) do
    local rows = assert(tables[line.table], line.table)
    local most = tonumber(line.max_difficulty)
    local ids = reference.select(rows, line.difficulty_type, bound(line.from), bound(line.to), most)
    report:row("selection", ("%s %s %s to %s"):format(line.table, line.difficulty_type, line.from, line.to),
      { { "sample_ids", line.sample_ids or "", table.concat(ids, ",") } })
  end
end

return selection
