-- runs - a table of the runs below a directory.

local grid = require("seqrun.draw.grid")
local guess = require("seqrun.base.guess")
local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local overview = require("seqrun.history.overview")
local shown = require("seqrun.base.one_line")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local command = { summary = "a table of runs: state, step, loss, speed, age" }

function command.define(cmd)
  cmd:argument("dir", "a directory with runs, or a run; default: runs"):args("?")
  cmd:option("--state", "only runs in this state; may be repeated"):count("*")
    :choices { "running", "finished", "stopped", "failed", "unreadable" }
  cmd:option("--sort", "order of the table: the last change first, by name, or the lowest loss first")
    :choices { "age", "name", "loss" }:default("age")
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[States: running; finished (all its steps); stopped (by a signal, a limit or a budget; --resume
continues it); failed (an error, a kill, a power cut); unreadable (its files cannot be read; the exit code is 3 then).

examples:
  seqrun runs
  seqrun runs experiments --state running --state failed
  seqrun runs --sort loss --json]])
end

local ORDERS = {
  age = function(a, b) return (a.age or math.huge) < (b.age or math.huge) end,
  loss = function(a, b) return (a.loss or math.huge) < (b.loss or math.huge) end,
  name = function(a, b) return a.path < b.path end,
}

---Bytes of the newest metrics that are read: thousands of lines.
local NEWEST = 1 << 20

---The runs at or below a directory, in order, and a message about those that cannot be read.
local function collect(args)
  local list, wanted = {}, {}
  for _, state in ipairs(args.state) do wanted[state] = true end
  local pasts, bad, message = history.read(history.find(args.dir, 6), NEWEST)
  for _, past in ipairs(pasts) do
    if wanted[past.state] or not next(wanted) then list[#list + 1] = overview.of(past) end
  end
  if next(wanted) and not wanted.unreadable then bad, message = {}, nil end
  for _, one in ipairs(bad) do list[#list + 1] = overview.unreadable(one.dir, one.reason) end
  local before = ORDERS[args.sort]
  table.sort(list, function(a, b)
    if before(a, b) then return true end
    return not before(b, a) and a.path < b.path
  end)
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

local function print_table(list, dir)
  local rows = { HEAD }
  for i, run in ipairs(list) do rows[i + 1] = row_of(run, dir) end
  local lines = lines_of(rows)
  for _, reason in ipairs(reasons_of(list, dir)) do lines[#lines + 1] = live.fit_output(reason) end
  for _, line in ipairs(lines) do
    if not io.stdout:write(line, "\n") then return end
  end
end

function command.run(args)
  args.dir = args.dir or "runs"
  if not sys.is_dir(args.dir) then
    local what = sys.exists(args.dir) and "not a directory" or "no such directory" .. guess.file_hint(args.dir)
    return nil, ("%s: %s"):format(args.dir, what), "missing"
  end
  local list, unreadable = collect(args)
  if args.json then
    print(json.encode { runs = json.array(list) })
  elseif #list == 0 then
    print(("no %sruns at or below %s"):format(table.concat(args.state, " or "):gsub("$", args.state[1] and " " or ""),
      args.dir))
  else
    print_table(list, args.dir)
  end
  if unreadable then return nil, unreadable, "data" end
  return 0
end

return command
