-- common.lua - helpers of the benchmarks: arguments, files, other processes, timing, tables.

local failure = require("seqrun.base.failure")
local grid = require("seqrun.draw.grid")
local merged = require("seqrun.base.merged")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

---Of this file: that of the benchmarks, whichever program requires it.
local folder = select(2, ...):match("^(.*)/[^/]*$")

local common = { folder = folder, lengths = folder .. "/data/wikipedia_512.hist" }

---Ends the benchmark with a message and exit code 2.
---@param format string
function common.refuse(format, ...) failure.raise("invalid", "bench: " .. format, ...) end

---The value of an argument, of the type of its default.
local function parse(key, value, default)
  if type(default) == "number" then
    return tonumber(value) or common.refuse("%s must be a number, got '%s'", key, value)
  end
  if type(default) ~= "boolean" then return value end
  if value ~= "true" and value ~= "false" then common.refuse("%s must be true or false, got '%s'", key, value) end
  return value == "true"
end

---Prints the comment at the top of the benchmark, and its options, and ends it.
local function help(defaults)
  for line in io.lines(arg[0]) do
    if not line:find("^%-%-") then break end
    print((line:gsub("^%-%- ?", "")))
  end
  print("\nOptions and their defaults:")
  for _, key in ipairs(sorted(defaults)) do print(("  %s=%s"):format(key, tostring(defaults[key]))) end
  os.exit(0, true)
end

---Parses `key=value` arguments; a value has the type of its default.  --help prints them.
---@param defaults table<string, string|number|boolean>
---@param arguments string[]
---@return table
function common.options(defaults, arguments)
  local options = merged(defaults)
  for _, argument in ipairs(arguments) do
    local key, value = argument:match("^([%w_]+)=(.*)$")
    local default = key and defaults[key]
    if argument == "--help" or argument == "-h" then help(defaults) end
    if default == nil then
      local known = table.concat(sorted(defaults), ", ")
      common.refuse("invalid argument '%s'; use key=value with: %s", argument, known)
    end
    options[key] = parse(key, value, default)
  end
  return options
end

-- ---- files and processes -----------------------------------------------------------------------

---A new directory, and what removes it: `local folder, guard <close> = common.scratch()`.
---@return string folder
---@return table guard
function common.scratch()
  local path = os.tmpname()
  assert(sys.remove(path))
  assert(sys.make_dirs(path))
  return path, setmetatable({}, { __close = function() sys.remove(path) end })
end

---The lines of a file of cells with tabs between them, by the names in its first line.
---@param path string
---@return table<string, string>[]
function common.read_table(path)
  local rows, names = {}, nil
  for line in assert(io.open(path)):lines() do
    local row, i = {}, 0
    for cell in (line .. "\t"):gmatch("([^\t]*)\t") do
      i = i + 1
      row[names and names[i] or i] = cell
    end
    if names then rows[#rows + 1] = row else names = row end
  end
  return rows
end

---@param word string|number
---@return string
function common.quote(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end

local LAUNCH = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader "
  .. "mpirun --bind-to %s --oversubscribe -n %d "

---Whether ranks can be started.
---@return boolean
function common.has_ranks() return os.execute("mpirun --version >/dev/null 2>&1") and true or false end

---Runs a script of this folder, or of another, with this program.
---@param script string beside the benchmark unless it has a folder
---@param words (string|number)[]
---@param how? { ranks?: integer, bind?: "core"|"none", seconds?: integer } ranks: more than 1 are started by mpirun
---@return string text all that it printed
---@return boolean? ended as it should
function common.run(script, words, how)
  how = how or {}
  local path = script:find("/", 1, true) and script or arg[0]:gsub("[^/]*$", "") .. script
  local line = { common.quote(sys.real_path("/proc/self/exe")), common.quote(path) }
  for i, word in ipairs(words) do line[i + 2] = common.quote(word) end
  local launch = (how.ranks or 1) > 1 and LAUNCH:format(how.bind or "core", how.ranks) or ""
  local limit = how.seconds and ("timeout %d "):format(how.seconds) or ""
  local pipe = assert(io.popen(limit .. launch .. table.concat(line, " ") .. " 2>&1"))
  local text = pipe:read("a")
  return text, (pipe:close())
end

-- ---- numbers -----------------------------------------------------------------------------------

---The minimum time in seconds of `count` calls, after one warm-up call.
---@param fn fun()
---@param count integer
---@param clock? fun(): number
---@return number
function common.best(fn, count, clock)
  local least, now = math.huge, clock or sys.now
  fn()
  for _ = 1, count do
    local begin = now()
    fn()
    least = math.min(least, now() - begin)
  end
  return least
end

---@param list number[]
---@return number
function common.sum(list)
  local total = 0
  for _, value in ipairs(list) do total = total + value end
  return total
end

---@param list number[]
---@return number
function common.median(list)
  local ordered = table.move(list, 1, #list, 1, {})
  table.sort(ordered)
  return (ordered[(#ordered + 1) // 2] + ordered[#ordered // 2 + 1]) / 2
end

---Prints rows as aligned columns.
---@param rows (string|number)[][] the first is the heading
---@param left? boolean[] columns that are aligned to the left; the first
function common.print_table(rows, left)
  for _, line in ipairs(grid.lines(rows, { left = left or { true }, columns = math.huge })) do print(line) end
end

---Prints what arms did in turns, as medians over the turns: tokens and units per second, ratio to the first arm.
---@param order string[] names of the arms; those that were not measured are left out
---@param seconds table<string, number[]> of each turn
---@param tokens integer[] of each turn
---@param unit string what a turn does `count` of
---@param count integer
function common.versus(order, seconds, tokens, unit, count)
  local rows, first = { { "arrangement", "real tokens/s", unit .. "/s", order[1] .. " is" } }, order[1]
  for _, how in ipairs(order) do
    local speeds, units, ratios = {}, {}, {}
    for turn, s in ipairs(seconds[how]) do
      speeds[turn], units[turn], ratios[turn] = tokens[turn] / s, count / s, s / seconds[first][turn]
    end
    if #speeds > 0 then
      rows[#rows + 1] = {
        how, ("%.0f"):format(common.median(speeds)), ("%.2f"):format(common.median(units)),
        how == first and "-" or ("%.2f times as fast"):format(common.median(ratios)),
      }
    end
  end
  common.print_table(rows)
end

---The processor, instruction set, threads, device and date, to be reported with every figure.
---@return string
function common.machine()
  local sr, instructions = require("seqrun"), require("seqrun.core.tensor").instructions()
  return ("%s, %s, %d threads, %s, %s"):format(sys.machine().cpu, instructions, sr.threads(), sr.device(),
    os.date("%Y-%m-%d"))
end

---Solves A x = b for a few unknowns by elimination, in place.
---@return number[]|nil x is b; nil where A is singular
function common.solve(A, b)
  local n = #b
  for i = 1, n do
    if math.abs(A[i][i]) < 1e-12 then return nil end
    for j = i + 1, n do
      local f = A[j][i] / A[i][i]
      for k = i, n do A[j][k] = A[j][k] - f * A[i][k] end
      b[j] = b[j] - f * b[i]
    end
  end
  for i = n, 1, -1 do
    for k = i + 1, n do b[i] = b[i] - A[i][k] * b[k] end
    b[i] = b[i] / A[i][i]
  end
  return b
end

return common
