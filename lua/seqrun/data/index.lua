-- index.lua - index files of DeepSpeed and Megatron (NAME.idx, NAME.bin): rows of integers, and metrics in them.
--
--     sr.must(sr.data.index.export(rarity, "out/rarity"))     out/rarity_sample_to_metric.idx, ...
--     local metric = sr.must(sr.data.index.import("out/rarity"))
--     local rows = sr.must(sr.data.index.open("out/rarity_index_to_sample"))
--     print(rows:info().rows, rows:row(0)[1])

local core = require("seqrun.core.metric")
local check = require("seqrun.base.check")

local index = {}

---Opens an index: info() has its type, rows and documents; row(i), from 0, its values.
---@param name string without .idx
---@return seqrun.core.metric.index? index
---@return string? message
---@return string? code
function index.open(name) return core.index(check.value("data.index.open: name", name, "string")) end

---Writes rows of integers.
---@param name string without .idx
---@param rows integer[][]|fun(): integer[]? a list or an iterator
---@param type "u8"|"i8"|"i16"|"i32"|"i64"|"u16"|"u32"|"u64"
---@return integer? count of rows
---@return string? message
---@return string? code
function index.write(name, rows, type)
  local writer, message, code = core.index_writer(name, type)
  if not writer then return nil, message, code end
  local guard <close> = writer
  local at, count, next_row = 0, 0, rows
  if _G.type(rows) == "table" then
    next_row = function()
      at = at + 1
      return rows[at]
    end
  end
  local done
  for row in next_row do
    done, message, code = writer:row(row)
    if not done then return nil, message, code end
    count = count + 1
  end
  done, message, code = writer:commit()
  if not done then return nil, message, code end
  return count
end

local WIDTHS = { 8, 16, 32 }

---The narrowest type that holds all values.
local function type_of(values)
  local least, most = values[1], values[1]
  for _, x in ipairs(values) do least, most = math.min(least, x), math.max(most, x) end
  for _, bits in ipairs(WIDTHS) do
    if least >= 0 and most < 1 << bits then return "u" .. bits end
    if least >= -(1 << bits - 1) and most < 1 << bits - 1 then return "i" .. bits end
  end
  return least >= 0 and "u64" or "i64"
end

---Writes NAME_metric_value: one row with the total of each token.
local function export_totals(metric, name)
  local values = {}
  for i, x in ipairs(metric:values()) do
    values[i] = math.tointeger(x) or check.fail("data.index.export: '%s' is not of integers", metric:name())
  end
  local count, message, code = index.write(name .. "_metric_value", { values }, type_of(values))
  return count and true, message, code
end

---Writes a metric of integers as DeepSpeed's data analysis does: NAME_sample_to_metric, NAME_index_to_metric,
---NAME_index_to_sample and NAME_index_to_sample_percentile_merged; an accumulated one as NAME_metric_value.
---@param metric seqrun.Metric
---@param name string
---@return true? done
---@return string? message
---@return string? code
function index.export(metric, name)
  if metric.about.accumulated then return export_totals(metric, name) end
  return core.index_of(metric.core, name)
end

---The metric of such files, in memory.
---@param name string
---@return seqrun.Metric? metric
---@return string? message
---@return string? code
function index.import(name) return require("seqrun.data.metric").from_index(name) end

return index
