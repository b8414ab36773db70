-- index.lua - many runs as rows of plain values, for tables that filter and sort them.
--
-- Reading a run takes a millisecond or more.  So what was read of many runs that have ended is kept in
-- XDG_CACHE_HOME/seqrun/runs, and used as long as the files of a run have the same sizes and times.

local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local overview = require("seqrun.history.overview")
local sys = require("seqrun.core.sys")

local index = {}

---@class seqrun.RunRow
---@field overview seqrun.RunOverview
---@field config table<string, any> values by path: "rate.peak"
---@field last table<string, number> metrics of the last evaluation
---@field best table<string, number> the best of each metric over all evaluations
---@field updated? number time of the last line, since 1970; nil before `overview` is read

---Of fewer runs nothing is kept.
local MANY = 100

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

---Whether a smaller value of a metric is better, by its name.
local smaller = setmetatable({}, { __index = function(known, name)
  known[name] = overview.smaller_is_better(name)
  return known[name]
end })

local function best_of(evals)
  local best = {}
  for _, line in ipairs(evals) do
    for name, value in pairs(line) do
      local before = best[name]
      if is_finite(value) and (not before or (value < before) == smaller[name]) then best[name] = value end
    end
  end
  return best
end

---A flat JSON object of which single values are read; all of it only if it is walked through.
local Flat = {}

---@param key string
function Flat:__index(key)
  local text = rawget(self, 1)
  local _, last = text:find(json.encode(key) .. ":", 1, true) -- quotes inside values are escaped
  if not last then return nil end
  local first = text:byte(last + 1)
  if first ~= 34 then -- no quote: a number, true, false, null
    local word = text:match("^[^,}]*", last + 1)
    if word == "true" or word == "false" then return word == "true" end
    return tonumber(word)
  end
  local close = last + 1
  repeat
    close = text:find('"', close + 1, true)
    local before = 0
    for at = close - 1, last + 2, -1 do
      if text:byte(at) ~= 92 then break end
      before = before + 1
    end
  until before % 2 == 0
  return json.decode(text:sub(last + 1, close))
end

function Flat:__pairs() return pairs(json.decode(rawget(self, 1)) or {}) end

---The members of a flat JSON object by what they were made of, which configs of many runs share.
---@type table<table, string>
local members = setmetatable({}, { __mode = "k" })

---A config as a flat JSON object.
local function flat_text(config)
  local parts = {}
  for name, value in pairs(config) do
    local text = type(value) == "table" and members[value] or json.encode(flatten(value, name, {})):sub(2, -2)
    if type(value) == "table" then members[value] = text end
    if text ~= "" then parts[#parts + 1] = text end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

---@param past seqrun.History
---@return seqrun.RunRow
local function row_of(past)
  return {
    overview = overview.of(past), config = setmetatable({ flat_text(past.config) }, Flat),
    last = numbers_of(past.evals[#past.evals]), best = best_of(past.evals),
  }
end

-- ---- what is kept --------------------------------------------------------------------------------

local function cache_path(dir)
  local home = os.getenv("XDG_CACHE_HOME")
  if not home or home == "" then home = (os.getenv("HOME") or "/nonexistent") .. "/.cache" end
  return ("%s/seqrun/runs/%s.txt"):format(home, sys.hash(sys.real_path(dir) or dir))
end

---What changes if the files of a run do, and whether it tells how it ended.
local function stamp_of(dir)
  local own, metrics, ended = sys.stat(dir), sys.stat(dir .. "/metrics.jsonl"), sys.stat(dir .. "/ended.json")
  if not own or not metrics or not ended then return "-", false end
  return ("%.6f %d %.6f %d %.6f"):format(own.modified, metrics.size, metrics.modified, ended.size, ended.modified), true
end

---A row of the file whose parts are read on first use.
local Kept = {}

---Bytes of one of the four parts.
local function part_of(kept, number)
  local first = kept.first
  for _ = 2, number do first = kept.bytes:find("\t", first, true) + 1 end
  local last = kept.bytes:find(number < 4 and "\t" or "\n", first, true)
  return kept.bytes:sub(first, last - 1)
end

local PARTS = { config = 2, last = 3, best = 4 }

function Kept:__index(key)
  local value
  if key == "overview" then
    value = json.decode(part_of(self.kept, 1))
    self.updated = value.updated
    value.age, value.updated = value.updated and math.max(0, self.now - value.updated) or nil, nil
  elseif PARTS[key] then
    value = setmetatable({ part_of(self.kept, PARTS[key]) }, Flat)
  end
  rawset(self, key, value)
  return value
end

local VERSION = "seqrun runs 1"

---The kept rows by directory: lines of "stamp TAB directory TAB overview TAB config TAB last TAB best".
local function read_kept(path)
  local kept, bytes = {}, sys.read_file(path)
  if not bytes or bytes:sub(1, #VERSION + 1) ~= VERSION .. "\n" then return kept end
  local at = #VERSION + 2
  while at <= #bytes do
    local stamp, dir, first = bytes:match("^([^\t\n]*)\t([^\t\n]*)\t()", at)
    local close = bytes:find("\n", at, true)
    if not stamp or not close then return {} end -- damaged: read the runs again
    kept[dir] = { stamp = stamp, bytes = bytes, first = first }
    at = close + 1
  end
  return kept
end

local function line_of(dir, one)
  if one.row then
    local plain = {}
    for key, value in pairs(one.row.overview) do plain[key] = value end
    plain.age, plain.updated = nil, one.row.updated
    return table.concat({
      one.stamp, dir, json.encode(plain), rawget(one.row.config, 1), json.encode(one.row.last),
      json.encode(one.row.best),
    }, "\t")
  end
  return one.stamp .. "\t" .. dir .. "\t" .. one.bytes:sub(one.first, one.bytes:find("\n", one.first, true) - 1)
end

---Keeps rows; a directory that cannot be written changes nothing.
local function write_kept(path, kept)
  local lines, order = { VERSION }, {}
  for dir in pairs(kept) do
    if not dir:find("[\t\n]") then order[#order + 1] = dir end
  end
  table.sort(order)
  for _, dir in ipairs(order) do lines[#lines + 1] = line_of(dir, kept[dir]) end
  if sys.make_dirs(path:match("^(.*)/")) then sys.write_file(path, table.concat(lines, "\n") .. "\n") end
end

---Reads one run; and keeps it if it has ended.
---@param how? integer|"digest" of history.read
local function read_new(dir, how, kept, stamp)
  local pasts, bad, message = history.read({ dir }, how)
  if not pasts[1] then return nil, bad[1], message end
  local row = row_of(pasts[1])
  row.updated = pasts[1].updated
  if stamp and stamp ~= "-" then kept[dir] = { stamp = stamp, row = row } end
  return row
end

---The rows of runs, and those that cannot be read.
---@param dir string where they are
---@param dirs string[] of history.find
---@param newest? integer of few runs, reads only about the last `newest` bytes of the metrics
---@param unlisted { dir: string, reason: string }[] of history.find
---@return seqrun.RunRow[]
---@return { dir: string, reason: string }[] unreadable
---@return string? message about those that are unreadable
function index.read(dir, dirs, newest, unlisted)
  local many, rows, changed = #dirs >= MANY, {}, false
  local bad, message = unlisted, unlisted[1] and ("%s: %s"):format(unlisted[1].dir, unlisted[1].reason)
  local path = many and cache_path(dir)
  local kept, now = many and read_kept(path) or {}, sys.time()
  for _, one in ipairs(dirs) do
    local stamp = many and stamp_of(one)
    local known = stamp and kept[one]
    if known and known.stamp == stamp then
      rows[#rows + 1] = setmetatable({ kept = known, now = now }, Kept)
    else
      local row, unreadable, why = read_new(one, many and "digest" or newest, kept, stamp)
      rows[#rows + 1], bad[#bad + 1], message = row, unreadable, message or why
      changed = changed or stamp ~= "-"
    end
  end
  if many and changed then write_kept(path, kept) end
  if #bad > 1 then
    message = ("%d runs cannot be read, the first is %s: %s"):format(#bad, bad[1].dir, bad[1].reason)
  end
  return rows, bad, message
end

return index
