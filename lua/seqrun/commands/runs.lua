-- runs - a table of the runs below a directory.

local formats = require("seqrun.draw.formats")
local grid = require("seqrun.draw.grid")
local guess = require("seqrun.base.guess")
local history = require("seqrun.history.runs")
local index = require("seqrun.history.index")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local overview = require("seqrun.history.overview")
local shown = require("seqrun.base.one_line")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")
local where = require("seqrun.history.where")

local command = { summary = "a table of runs: state, step, loss, speed, age" }

function command.define(cmd)
  cmd:argument("dir", "a directory with runs, or a run; default: runs"):args("?")
  cmd:option("--state", "only runs in this state; may be repeated"):count("*")
    :choices { "running", "finished", "stopped", "failed", "unreadable" }
  cmd:option("--where", "only runs that fulfil a condition, such as 'rate.peak<1e-4 and best.f1>0.8'")
    :argname("CONDITION")
  cmd:option("--sort", "order: age (the last change first), name, loss, or a value as of --where; best.NAME and "
    .. "last.NAME: the best first"):argname("NAME"):default("age")
  cmd:flag("--reverse", "the other order")
  cmd:option("--columns", "values to show, as of --where, with commas: state,rate.peak,best.f1"):argname("NAME,NAME")
  formats.define(cmd)
  cmd:epilog([[States: running; finished (all its steps); stopped (by a signal, a limit or a budget; --resume
continues it); failed (an error, a kill, a power cut); unreadable (its files cannot be read; the exit code is 3 then).

Conditions compare names with =, !=, <, <=, >, >= and ~ (contains), joined by and, or, not and ( ). Names are run,
state, step, steps, loss, held, seconds, age, tokens_per_s, ...; last.METRIC of the last evaluation; best.METRIC of all
evaluations; and every key of the config. Seconds may be written as 7d or 1h30m. A run without the value satisfies
only !=.

examples:
  seqrun runs
  seqrun runs experiments --state running --state failed
  seqrun runs --where 'rate.peak<1e-4 and best.f1>0.8' --sort best.f1 --columns rate.peak,seed,best.f1
  seqrun runs --where 'age<7d and data.file~emma' --format csv > week.csv
  seqrun runs --sort loss --json]])
end

---Orders that are not plain values.
local ORDERS = {
  age = function(row) return row.overview.age or math.huge end,
  loss = function(row) return row.overview.loss or math.huge end,
  name = function(row) return row.overview.path end,
}

---Whether a sorts before b: numbers before text, what is missing last.
local function less(a, b)
  if a == nil or b == nil then return a ~= nil and b == nil end
  if type(a) == type(b) and type(a) ~= "boolean" then return a < b end
  return tostring(a) < tostring(b)
end

---Sorts rows by a name; those that are equal by their paths.
local function sort(rows, key, reversed)
  local metric = key:match("^best%.(.*)") or key:match("^last%.(.*)")
  if metric and not overview.smaller_is_better(metric) then reversed = not reversed end
  local value = ORDERS[key] or function(row) return where.value(row, key) end
  local values = {}
  for _, row in ipairs(rows) do values[row] = value(row) end
  table.sort(rows, function(x, y)
    local a, b = values[x], values[y]
    if a ~= nil and b ~= nil and reversed then a, b = b, a end
    if less(a, b) then return true end
    return not less(b, a) and x.overview.path < y.overview.path
  end)
end

---Values that csv has by default.
local PLAIN = "state,step,steps,loss,held,tokens_per_s,seconds,age"

local function columns_of(args)
  local names, seen = {}, {}
  for name in (args.columns or PLAIN):gmatch("[^,%s]+") do
    if not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  return names
end

---The runs at or below a directory, in order, and a message about those that cannot be read.
local function collect(args)
  local list, wanted, unlisted = {}, {}, {}
  for _, state in ipairs(args.state) do wanted[state] = true end
  local condition, names = nil, {}
  if args.where then condition, names = where.parse(args.where) end
  local needs_all = (args.where or ""):find("best.", 1, true) or (args.columns or ""):find("best.", 1, true)
    or args.sort:find("best.", 1, true)
  local dirs = history.find(args.dir, 6, unlisted)
  local rows, bad, message = index.read(dirs, needs_all ~= nil, unlisted)
  for _, name in ipairs(names) do where.check_name(rows, name, "--where") end
  for _, name in ipairs(args.columns and columns_of(args) or {}) do where.check_name(rows, name, "--columns") end
  if not ORDERS[args.sort] then where.check_name(rows, args.sort, "--sort") end
  for _, row in ipairs(rows) do
    local fits = wanted[row.overview.state] or not next(wanted)
    if fits and (not condition or condition(row)) then list[#list + 1] = row end
  end
  sort(list, args.sort, args.reverse)
  if next(wanted) and not wanted.unreadable or condition then bad, message = {}, nil end
  for _, one in ipairs(bad) do
    list[#list + 1] = {
      overview = overview.unreadable(one.dir, one.reason), config = {}, last = {}, best = {},
    }
  end
  return list, message
end

local function number(format, x) return type(x) == "number" and format:format(x) or "-" end

---A path without the directory that all of them are below.
local function name_of(path, dir)
  dir = dir:gsub("/+$", "")
  return shown(path:sub(1, #dir + 1) == dir .. "/" and path:sub(#dir + 2) or path, 200)
end

local function row_of(run, dir)
  if run.state == "unreadable" then return { name_of(run.path, dir), run.state, "-", "-", "-", "-", "-", "-" } end
  local held = run.held and ("%s %.3f"):format(run.held.name:gsub("_", " "), run.held.value) or "-"
  if run.held and run.held.accuracy then held = ("%s, accuracy %.3f"):format(held, run.held.accuracy) end
  return {
    name_of(run.path, dir), run.state, run.steps and ("%d/%d"):format(run.step, run.steps) or ("%d"):format(run.step),
    number("%.3f", run.loss), held, run.real_tokens_per_s and text.count(run.real_tokens_per_s) or "-",
    text.duration(run.seconds), run.age and text.duration(run.age) or "-",
  }
end

local HEAD = { "run", "state", "step", "loss", "held-out", "tokens/s", "trained", "age" }

---Why runs did not finish or cannot be read: lines with those that have the same reason.
local function reasons_of(list, dir)
  local names, order = {}, {}
  for _, run in ipairs(list) do
    if (run.state == "failed" or run.state == "unreadable") and run.reason then
      local key = ("%s\0%s"):format(run.state, run.reason)
      if not names[key] then
        names[key], order[#order + 1] = {}, { key = key, state = run.state, reason = run.reason }
      end
      table.insert(names[key], name_of(run.path, dir))
    end
  end
  local lines = {}
  for i, one in ipairs(order) do
    local some = names[one.key]
    lines[i] = ("%s: %s%s: %s"):format(one.state, table.concat(some, ", ", 1, math.min(#some, 3)),
      #some > 3 and (" and %d more"):format(#some - 3) or "", shown(one.reason, 400))
  end
  return lines
end

---Columns that a narrow terminal does without, one after the other.
local SPARED = { "trained", "tokens/s", "held-out", "age" }

local function without(rows, column)
  for i, row in ipairs(rows) do
    rows[i] = table.move(row, 1, #row, 1, {})
    table.remove(rows[i], column)
  end
end

local function place_of(head, title)
  for i, one in ipairs(head) do
    if one == title then return i end
  end
end

---The lines of a table that fits.
local function lines_of(rows)
  local room, next_one = sys.is_terminal(1) and sys.columns(1) - 1 or math.huge, 1
  while true do
    local held = place_of(rows[1], "held-out")
    local lines = grid.lines(rows, { left = { true, true, [held or 1] = true }, tail = { true }, cut = { true } })
    local widest = 0
    for _, line in ipairs(lines) do widest = math.max(widest, grid.width(line)) end
    local spared = widest > room and SPARED[next_one]
    if not spared then return lines end
    without(rows, place_of(rows[1], spared))
    next_one = next_one + 1
  end
end

---The rows of a table with chosen columns, its head first.
local function chosen(list, args)
  local names = columns_of(args)
  local rows = { { "run", table.unpack(names) } }
  for i, row in ipairs(list) do
    local cells = { name_of(row.overview.path, args.dir) }
    for k, name in ipairs(names) do cells[k + 1] = formats.cell(where.value(row, name), args.format) end
    rows[i + 1] = cells
  end
  return rows
end

local function write_lines(lines)
  for _, line in ipairs(lines) do
    if not io.stdout:write(line, "\n") then return end
  end
end

local function print_table(list, args)
  if args.columns or args.format == "csv" then
    local rows = chosen(list, args)
    if args.format ~= "table" then return formats.write(rows, args.format) end
    return write_lines(grid.lines(rows, { left = { true }, tail = { true }, cut = { true } }))
  end
  local rows, runs = { HEAD }, {}
  for i, row in ipairs(list) do rows[i + 1], runs[i] = row_of(row.overview, args.dir), row.overview end
  if args.format == "markdown" then return formats.write(rows, "markdown") end
  local lines = lines_of(rows)
  for _, reason in ipairs(reasons_of(runs, args.dir)) do lines[#lines + 1] = live.fit_output(reason) end
  write_lines(lines)
end

---One object: the runs, each with the chosen values if there are any.
local function print_json(list, args)
  local runs = json.array {}
  local names = args.columns and columns_of(args)
  for i, row in ipairs(list) do
    runs[i] = row.overview
    if names then
      runs[i] = { path = row.overview.path }
      for _, name in ipairs(names) do
        local value = where.value(row, name)
        runs[i][name] = value == nil and json.null or value
      end
    end
  end
  print(json.encode { runs = runs })
end

function command.run(args)
  args.dir = args.dir or "runs"
  if not sys.is_dir(args.dir) then
    local what = sys.exists(args.dir) and "not a directory" or "no such directory" .. guess.file_hint(args.dir)
    return nil, ("%s: %s"):format(args.dir, what), "missing"
  end
  local list, unreadable = collect(args)
  if args.json then
    print_json(list, args)
  elseif #list == 0 and args.format == "table" then
    print(("no %sruns at or below %s%s"):format(
      table.concat(args.state, " or "):gsub("$", args.state[1] and " " or ""), args.dir,
      args.where and " with " .. args.where or ""))
  else
    print_table(list, args)
  end
  if unreadable then return nil, unreadable, "data" end
  return 0
end

return command
