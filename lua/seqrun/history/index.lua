-- index.lua - many runs as rows of plain values, for tables that filter and sort them.

local history = require("seqrun.history.runs")
local overview = require("seqrun.history.overview")

local index = {}

---@class seqrun.RunRow
---@field overview seqrun.RunOverview
---@field config table<string, any> values by path: "rate.peak"
---@field last table<string, number> metrics of the last evaluation
---@field best table<string, number> the best of each metric over all evaluations

---Bytes at the end of the metrics that are read, from tens of lines to thousands: until one is an evaluation.
local NEWEST = { 1 << 14, 1 << 17, 1 << 20 }

local function flatten(value, path, flat)
  if type(value) ~= "table" then
    flat[path] = value
  elseif #value > 0 then
    flat[path] = history.value({ it = value }, "it")
  else
    for name, one in pairs(value) do flatten(one, path == "" and name or path .. "." .. name, flat) end
  end
  return flat
end

local function is_finite(x) return type(x) == "number" and x == x and math.abs(x) < math.huge end

local function numbers_of(line)
  local found = {}
  for name, value in pairs(line or {}) do
    if is_finite(value) then found[name] = value end
  end
  return found
end

local function best_of(evals)
  local best = {}
  for _, line in ipairs(evals) do
    for name, value in pairs(line) do
      local before = best[name]
      if is_finite(value) and (not before or (value < before) == overview.smaller_is_better(name)) then
        best[name] = value
      end
    end
  end
  return best
end

---@param past seqrun.History
---@return seqrun.RunRow
local function row_of(past)
  return {
    overview = overview.of(past), config = flatten(past.config, "", {}), last = numbers_of(past.evals[#past.evals]),
    best = best_of(past.evals),
  }
end

---The rows of runs, and those that cannot be read.
---@param dirs string[] of history.find
---@param all boolean all evaluations, not only the last ones
---@param unlisted { dir: string, reason: string }[] of history.find
---@return seqrun.RunRow[]
---@return { dir: string, reason: string }[] unreadable
---@return string? message about those that are unreadable
function index.read(dirs, all, unlisted)
  local rows, _, bad, message = {}, history.read({}, nil, unlisted)
  for _, dir in ipairs(dirs) do
    local pasts
    pasts, bad, message = history.read({ dir }, not all and NEWEST[1] or nil, bad)
    local past = pasts[1]
    for i = 2, past and not all and #NEWEST or 0 do
      if past.evals[1] then break end
      past = history.open(dir, NEWEST[i]) or past
    end
    if past then rows[#rows + 1] = row_of(past) end
  end
  return rows, bad, message
end

return index
