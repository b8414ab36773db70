-- compare - runs side by side: scores, speeds, what their configs do not share, curves.

local arms = require("seqrun.report.arms")
local baselines = require("seqrun.history.baselines")
local comparison = require("seqrun.history.comparison")
local curves = require("seqrun.draw.curves")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local grid = require("seqrun.draw.grid")
local guess = require("seqrun.base.guess")
local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local shown = require("seqrun.base.one_line")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local command = { summary = "compare runs: scores, speeds, differences of their configs, curves" }

local AXES = {
  step = "step", seconds = "seconds", tokens = "real_tokens", sequences = "sequences", raw = "raw_tokens",
  effective = "effective_tokens", flops = "flops",
}

function command.define(cmd)
  cmd:argument("runs", "directories of runs, or with runs in them"):args("+")
  cmd:option("--key", "the metric of the curves and, if evaluations have it, of arms: mlm_loss, lr, f1")
    :argname("NAME"):default("loss")
  cmd:option("--by", "the horizontal axis; raw, effective: tokens before curricula cut or layers drop any")
    :choices { "step", "seconds", "tokens", "raw", "effective", "flops", "sequences" }:default("step")
  cmd:flag("--held-out", "curves of the evaluations, not of training")
  cmd:flag("--log", "a logarithmic vertical axis")
  cmd:flag("--all", "also keys that only some of the runs have, as those of other tasks")
  formats.define(cmd, { format = "table, csv, markdown (both without curves) or json" })
  cmd:epilog([[examples:
  seqrun compare runs/pretrain runs/wide
  seqrun compare runs --key mlm_loss --held-out --by seconds
  seqrun compare runs/pretrain runs/wide --json]])
end

-- ---- the runs --------------------------------------------------------------------------------------

---The runs of the arguments; of several, directories that are not runs are left out, and those that cannot be read.
local function collect(args)
  local dirs, seen, unlisted, problem = {}, {}, {}, nil
  for _, given in ipairs(args.runs) do
    local path = given:gsub("(.)/+$", "%1")
    local found = history.find(path, nil, unlisted)
    if #found == 0 then
      local _, message, code = history.open(path)
      if not sys.exists(path) then return nil, message, code end
      problem = problem or { message, code }
    end
    for _, dir in ipairs(found) do
      if not seen[dir] then dirs[#dirs + 1], seen[dir] = dir, true end
    end
  end
  local pasts, bad, unreadable = history.read(dirs, nil, unlisted)
  if #pasts < 2 and unreadable then return nil, unreadable, "data" end
  if #pasts == 0 and problem then return nil, problem[1], problem[2] end
  if #pasts < 2 then
    return nil, ("only one run, %s; add another, or use seqrun report"):format(pasts[1].dir), "config"
  end
  return pasts, bad, unreadable
end

-- ---- the tables ------------------------------------------------------------------------------------

local function number(format) return function(x) return format:format(x) end end

local function percent(x) return ("%.2f %%"):format(100 * x) end

---What is shown of an overview: title, key, format.
local FIGURES = {
  { "state", "state", tostring }, { "step", "step", number("%d") }, { "train loss", "loss", number("%.4f") },
  { "tokens/s", "real_tokens_per_s", text.count }, { "efficiency", "efficiency", percent },
  { "sequences", "sequences", text.commas }, { "real tokens", "real_tokens", text.count },
  { "raw tokens", "raw_tokens", text.count }, { "effective tokens", "effective_tokens", text.count },
  { "time trained", "seconds", text.duration },
}

local function metric_names(runs)
  local names = {}
  for _, run in ipairs(runs) do
    for name in pairs(run.metrics) do names[name] = true end
  end
  return sorted(names)
end

---A row of a title and one cell for each run.
local function row_of(title, runs, cell)
  local row = { title }
  for i, run in ipairs(runs) do
    local good = cell(run, i)
    row[i + 1] = good ~= nil and good or "-"
  end
  return row
end

---Whether a counter is the number of real tokens in all runs: nothing was cut or dropped.
local function is_plain(runs, key)
  if key ~= "raw_tokens" and key ~= "effective_tokens" then return false end
  for _, run in ipairs(runs) do
    if run[key] and run[key] ~= run.real_tokens then return false end
  end
  return true
end

---The headline less the first run's, three ways.
local function beside_rows(rows, runs)
  local lines = {}
  for _, kind in ipairs(baselines.KINDS) do
    local known = false
    local row = row_of("  at " .. kind[1], runs, function(run)
      local x = (run.beside_first or {})[kind[2]]
      known = known or x ~= nil
      return x and ("%+.4f"):format(x)
    end)
    if known then lines[#lines + 1] = row end
  end
  if #lines == 0 then return end
  rows[#rows + 1] = row_of(runs[1].held.name:gsub("_", " ") .. " less the first's", runs, function() return "" end)
  table.move(lines, 1, #lines, #rows + 1, rows)
end

local function figure_rows(runs)
  local rows = {}
  for _, figure in ipairs(FIGURES) do
    if not is_plain(runs, figure[2]) then
      rows[#rows + 1] = row_of(figure[1], runs, function(run) return run[figure[2]] and figure[3](run[figure[2]]) end)
    end
    if figure[2] == "loss" then
      for _, name in ipairs(metric_names(runs)) do
        rows[#rows + 1] = row_of("held-out " .. name:gsub("_", " "), runs, function(run)
          return run.metrics[name] and ("%.4f"):format(run.metrics[name])
        end)
      end
      beside_rows(rows, runs)
    elseif figure[2] == "real_tokens_per_s" and runs[1].real_tokens_per_s then
      rows[#rows + 1] = row_of("  of the first's", runs, function(run)
        return run.real_tokens_per_s and ("%.2f"):format(run.real_tokens_per_s / runs[1].real_tokens_per_s)
      end)
    end
  end
  return rows
end

---The keys that differ, and how many are left out: those that only some runs have, such as other tasks'.
local function difference_rows(self, all)
  local rows, left_out = {}, 0
  for _, difference in ipairs(self.differences) do
    if difference.only_some and not all then
      left_out = left_out + 1
    else
      rows[#rows + 1] = row_of(difference.key, self.runs, function(_, i)
        local value = difference.values[i]
        local cut = value and value:find("/") and grid.tail or grid.cut
        return value and cut(shown(value, 400), 24)
      end)
    end
  end
  return rows, left_out
end

---Rows in several tables if not all runs fit side by side.
local function tables(rows, names, columns)
  local head, widths, most = { "" }, {}, 0
  for i, name in ipairs(names) do head[i + 1] = grid.tail(shown(name, 200), 20) end
  table.insert(rows, 1, head)
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, grid.width(cell)) end
  end
  for i = 2, #widths do most = math.max(most, widths[i]) end
  local fit = math.max(1, (columns - 1 - widths[1]) // (most + 2))
  local parts = {}
  for first = 2, #head, fit do
    local part = {}
    for i, row in ipairs(rows) do part[i] = table.move(row, first, math.min(#head, first + fit - 1), 2, { row[1] }) end
    parts[#parts + 1] = table.concat(grid.lines(part, { left = { true }, cut = { true }, columns = columns }), "\n")
  end
  return table.concat(parts, "\n\n")
end

---The arms of the runs, those that differ in their seeds alone, with means and paired differences of a metric of the
---evaluations, else of the headline; nil where no arm has two seeds.
local function arms_of(self, key)
  local pasts = {}
  for i, past in ipairs(self.pasts) do pasts[i] = { history = past } end
  local groups, held = arms.of(pasts), self.runs[1].held
  if #groups == 0 or not held then return nil end
  local name = self.runs[1].metrics[key] and key or held.name
  local found = arms.scores(groups, function(i) return self.runs[i].metrics[name] end)
  local list = json.array()
  for g, group in ipairs(groups) do
    list[g] = { name = group.name, runs = json.array(group.runs), metric = name, mean = found[g].mean,
      half = found[g].half, count = found[g].count, less_first = found[g].less }
  end
  return list
end

local function arm_rows(list)
  local metric = list[1].metric:gsub("_", " ")
  local rows = { { "arm", "seeds", metric .. " ± 95 %", "less the first arm's, at equal seeds" } }
  for _, one in ipairs(list) do
    rows[#rows + 1] = { one.name ~= "" and one.name or "all runs", ("%d"):format(one.count), arms.text(one),
      arms.text(one.less_first, true) }
  end
  return rows
end

-- ---- the curves ------------------------------------------------------------------------------------

---The curves that are asked for: of training, or of evaluations if only these have the metric.
local function curves_of(args, self)
  local kinds = args.held_out and { "evals" } or { "train", "evals" }
  for _, kind in ipairs(kinds) do
    local key = kind == "evals" and args.key == "loss" and (self.runs[1].held or {}).name or args.key
    local list = comparison.curves(self, key, AXES[args.by], kind)
    if #list > 0 then
      return list, ("%s%s by %s"):format(kind == "evals" and "held-out " or "", key:gsub("_", " "), args.by)
    end
  end
  local known = comparison.keys(self.pasts, kinds)
  if #known == 0 and args.key == "loss" then return {} end
  local hint = guess.hint(args.key, known)
  if hint == "" and #known > 0 then hint = "; choose " .. table.concat(known, ", ") end
  return nil, ("no run has '%s' by %s%s"):format(args.key, args.by, hint), "config"
end

---Figures and differences in one table for other programs and for pages.
local function write_rows(args, self)
  local rows = figure_rows(self.runs)
  local more = difference_rows(self, args.all)
  table.move(more, 1, #more, #rows + 1, rows)
  table.insert(rows, 1, { "", table.unpack(self.names) })
  formats.write(rows, args.format)
end

local function tell(args, self, list, title)
  local columns = sys.is_terminal(1) and sys.columns(1) or 100
  local function say(format, ...) return io.stdout:write(format:format(...), "\n") end
  local function tell_fitting(format, ...) say("%s", live.fit_output(format:format(...))) end
  say("%s", tables(figure_rows(self.runs), self.names, columns))
  local rows_of_arms = self.arms and grid.lines(arm_rows(self.arms), { left = { true }, cut = { true } })
  if rows_of_arms then say("\n%s", table.concat(rows_of_arms, "\n")) end
  local rows, left_out = difference_rows(self, args.all)
  if #self.differences == 0 then say("\nthe configs are the same") end
  if #rows > 0 then say("\nwhat differs\n%s", tables(rows, self.names, columns)) end
  if left_out > 0 then
    tell_fitting("%s that only some of the runs have; --all lists them", text.counted(left_out, "key"))
  end
  for _, note in ipairs(self.notes) do tell_fitting("note: %s", note) end
  local picture = #list > 0 and curves.draw(list, { title = title, log = args.log })
  if picture then say("\n%s", picture) end
end

---What JSON says of the differences: a value for each run, null where a key is missing.
local function plain(self)
  local differences = {}
  for i, difference in ipairs(self.differences) do
    local values = {}
    for k = 1, #self.runs do values[k] = difference.values[k] or json.null end
    differences[i] = { key = difference.key, values = json.array(values), only_some = difference.only_some }
  end
  return {
    runs = json.array(self.runs), differences = json.array(differences), notes = json.array(self.notes),
    arms = self.arms or json.array(),
  }
end

function command.run(args)
  local pasts, bad, unreadable = failure.must(collect(args))
  local self = comparison.of(pasts)
  self.arms = arms_of(self, args.key)
  for _, one in ipairs(bad) do
    self.notes[#self.notes + 1] = ("left out: %s: %s"):format(one.dir, one.reason)
  end
  local list, title = failure.must(curves_of(args, self))
  if args.json then
    print(json.encode(plain(self)))
  elseif args.format ~= "table" then
    write_rows(args, self)
  else
    tell(args, self, list, title)
  end
  if unreadable then return nil, unreadable, "data" end
  return 0
end

return command
