-- frame.lua - one picture of the runs that are watched, as lines that fit a terminal.

local ansi = require("seqrun.draw.ansi")
local comparison = require("seqrun.history.comparison")
local curves = require("seqrun.draw.curves")
local grid = require("seqrun.draw.grid")
local history = require("seqrun.history.runs")
local live = require("seqrun.draw.live")
local metrics = require("seqrun.history.metrics")
local overview = require("seqrun.history.overview")
local shown = require("seqrun.base.one_line")
local text = require("seqrun.base.format")

local frame = {}

---@class seqrun.watch.View
---@field width integer columns
---@field height integer rows
---@field key? string the metric whose curves are drawn
---@field log? boolean a logarithmic axis
---@field colours? boolean
---@field keys? boolean the last line names the keys

local RED, GREEN, BLUE = 2, 3, 1
local COLOURS = { running = GREEN, finished = BLUE, failed = RED }

---Rows and columns that a picture has at least, and alerts that are listed.
local LEAST, NARROWEST, ALERTS = 4, 34, 4

-- ---- metrics -------------------------------------------------------------------------------------

---The figure of the last evaluation that says most.
local function headline(run) return overview.headline(run.found.evals[#run.found.evals] or {}) end

---Whether a run of some has lines of training.
local function any_trained(runs)
  for _, run in ipairs(runs) do
    if next(run:last()) then return true end
  end
  return false
end

---Metrics that can be drawn: the loss, where there is one, and what says most first.
---@param runs seqrun.watch.Run[]
---@return string[]
function frame.metrics(runs)
  local list, seen, others = {}, {}, {}
  local function add(key)
    if not seen[key] then list[#list + 1], seen[key] = key, true end
  end
  local trained = any_trained(runs)
  if trained then add("loss") end
  for _, run in ipairs(runs) do
    local held = headline(run)
    if held then add(held.name) end
  end
  for _, key in ipairs(trained and { "lr", "grad_norm", "real_tokens_per_s" } or {}) do add(key) end
  for _, run in ipairs(runs) do
    for _, row in ipairs { run:last(), run.found.evals[#run.found.evals] or {} } do
      for key, value in pairs(row) do
        if type(value) == "number" and not metrics.TOTALS[key] and not seen[key] then others[#others + 1] = key end
      end
    end
  end
  table.sort(others)
  for _, key in ipairs(others) do add(key) end
  return #list > 0 and list or { "loss" }
end

---The points of a metric as a curve; nil without any.
local function curve_of(rows, key, name)
  local curve = { name = name, xs = {}, ys = {} }
  for i, point in ipairs(history.points(rows, key)) do curve.xs[i], curve.ys[i] = point[1], point[2] or 0 / 0 end
  return #curve.xs > 0 and curve or nil
end

---Curves of a metric: of training and of evaluations, for each run.
local function curves_of(runs, names, key)
  local list = {}
  local single = #runs == 1
  for i, run in ipairs(runs) do
    local train = curve_of(run.found.train, key, single and "training" or names[i])
    local held = (not train or single) and curve_of(run.found.evals, key, single and "held-out" or names[i])
    if single and key == "loss" and not held then
      local best = headline(run)
      held = best and best.name:find("loss$") and curve_of(run.found.evals, best.name, "held-out "
        .. best.name:gsub("_", " "))
    end
    list[#list + 1] = train or nil
    list[#list + 1] = held or nil
  end
  return list
end

-- ---- figures -------------------------------------------------------------------------------------

local BLOCKS = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }

---The last values of a metric as a row of blocks; "" where the terminal has none.
local function sparkline(rows, key, count)
  if ansi.is_dumb() then return "" end
  local values, low, high = {}, math.huge, -math.huge
  for i = math.max(1, #rows - count + 1), #rows do
    local value = rows[i][key]
    if type(value) == "number" then
      values[#values + 1], low, high = value, math.min(low, value), math.max(high, value)
    end
  end
  for i, value in ipairs(values) do
    local share = high > low and (value - math.min(low, 0)) / (high - math.min(low, 0)) or 1
    values[i] = BLOCKS[math.max(1, math.ceil(share * #BLOCKS))]
  end
  return table.concat(values)
end

local function step_text(run)
  local steps = run.steps and run.steps < text.UNLIMITED and run.steps >= run.step and run.steps
  return steps and ("step %s/%s"):format(text.commas(run.step), text.commas(steps)) or "step " .. text.commas(run.step),
    steps and steps > 0 and run.step / steps or nil
end

local function figure(format, value) return type(value) == "number" and format:format(value) or nil end

---Parts of a line, in order of importance.
local function fitted(width, list)
  local parts, count = {}, 0
  for i = 1, list.n do
    if list[i] then
      count = count + 1
      parts[count] = type(list[i]) == "number" and { bar = list[i], rank = 90 } or { text = list[i], rank = count }
    end
  end
  return "  " .. live.fit(parts, width - 2)
end

local function speed_of(run)
  local rate = run:last().real_tokens_per_s
  return type(rate) == "number" and text.count(rate) .. " tok/s" or nil
end

local function memory_of(run)
  if not run.resident then return nil end
  return ("memory %s (most %s)"):format(text.bytes(run.resident), text.bytes(run.most or run.resident))
end

---The state in words, and whether it is a complaint.
local function state_of(run)
  local quiet = run:silent()
  if quiet then return ("running, but silent for %s"):format(text.duration(quiet)), true end
  if run.state == "running" and run.reason then return "running " .. run.reason end
  return run.state, run.state == "failed"
end

---One run in a few lines: what it is doing, what it has reached, how fast it is.
local function details(run, view)
  local last, held, left = run:last(), headline(run), run:left()
  local steps, share = step_text(run)
  local scored = run.found.evals[#run.found.evals]
  local lines = {
    fitted(view.width, { steps, share and text.percent(share), left and "eta " .. text.duration(left), share, n = 4 }),
    fitted(view.width, {
      figure("loss %.4f", last.loss),
      held and ("held-out %s %.4f at step %s"):format(held.name:gsub("_", " "), held.value, text.commas(scored.step)),
      figure("lr %.3g", last.lr), figure("norm %.3g", last.grad_norm),
      (last.skipped or 0) ~= 0 and figure("skipped %d", last.skipped) or nil, n = 5,
    }),
    fitted(view.width, {
      speed_of(run), sparkline(run.found.train, "real_tokens_per_s", 16), memory_of(run),
      figure("mfu %.1f%%", type(last.mfu) == "number" and 100 * last.mfu),
      figure("data wait %.3g ms", last.data_wait_ms), n = 5,
    }),
  }
  local filled = {}
  for _, line in ipairs(lines) do
    if line:find("%S") then filled[#filled + 1] = line end
  end
  return filled
end

---Several runs as a table.
local function rows_of(runs, names, view)
  local rows = { { "run", "state", "step", "loss", "held-out", "tok/s", "eta", "memory" } }
  for i, run in ipairs(runs) do
    local held, left = headline(run), run:left()
    rows[i + 1] = {
      shown(names[i], 200), (state_of(run)), (step_text(run):gsub("^step ", "")),
      figure("%.3f", run:last().loss) or "-",
      held and ("%s %.3f"):format(held.name:gsub("_", " "), held.value) or "-", (speed_of(run) or "-"):match("^%S+"),
      left and text.duration(left) or "-", run.resident and text.bytes(run.resident) or "-",
    }
  end
  return grid.lines(rows, { left = { true, true, [5] = true }, tail = { true }, cut = { true, true, [5] = true },
    columns = view.width + 1 })
end

-- ---- the picture ---------------------------------------------------------------------------------

local function paint(line, colour, view) return view.colours and ansi.paint(line, colour) or line end

---Alerts of all runs, the newest of each first.
local function alerts_of(runs, names, view)
  local lines, count, listed = {}, 0, 0
  for i, run in ipairs(runs) do
    for k, alert in ipairs(run:alerts()) do
      count = count + 1
      if k <= math.max(1, ALERTS // #runs) and listed < 2 * ALERTS then
        listed = listed + 1
        local line = ("  %sstep %s: %s: %s"):format(#runs > 1 and names[i] .. ": " or "", text.commas(alert.step),
          shown(alert.alert), shown(alert.message or "", 200))
        for part in live.fold(line, view.width):gmatch("[^\n]+") do lines[#lines + 1] = paint(part, RED, view) end
      end
    end
  end
  if count == 0 then return {} end
  table.insert(lines, 1, ("alerts: %d%s"):format(count, count > listed and ", the newest:" or ":"))
  return lines
end

---Why runs wait, have failed or were stopped.
local function reasons_of(runs, names, view)
  local lines = {}
  for i, run in ipairs(runs) do
    if run.reason and run.state ~= "running" then
      local line = ("%s: %s"):format(#runs > 1 and names[i] or run.state, shown(run.reason, 400))
      for part in live.fold(line, view.width):gmatch("[^\n]+") do lines[#lines + 1] = part end
    end
  end
  return lines
end

local function append(lines, more) table.move(more, 1, #more, #lines + 1, lines) end

---What is above the picture.
local function head_of(watched, names, view)
  local runs, lines = watched.runs, {}
  if #runs == 1 then
    local state, bad = state_of(runs[1])
    local room = view.width - live.columns(state) - 2
    lines[1] = grid.tail(shown(runs[1].dir, 400), math.max(8, room)) .. "  "
      .. paint(state, bad and RED or COLOURS[runs[1].state] or BLUE, view)
    if runs[1].state ~= "waiting" then append(lines, details(runs[1], view)) end
  else
    append(lines, rows_of(runs, names, view))
    if watched.hidden > 0 then
      lines[#lines + 1] = ("and %s that changed earlier"):format(text.counted(watched.hidden, "run"))
    end
  end
  append(lines, reasons_of(runs, names, view))
  return lines
end

---The same without the picture: what stays on the terminal afterwards.
---@param watched seqrun.watch.Runs
---@param view seqrun.watch.View
---@return string[]
function frame.head(watched, view)
  local runs = watched.runs
  return head_of(watched, #runs > 1 and comparison.short_names(runs) or { runs[1].dir }, view)
end

local KEYS = "q quit   tab next metric   l logarithmic"

---@param watched seqrun.watch.Runs
---@param view seqrun.watch.View
---@return string[] lines at most `height`, none wider than `width`
function frame.lines(watched, view)
  local runs = watched.runs
  local names = #runs > 1 and comparison.short_names(runs) or { runs[1].dir }
  local lines, below = head_of(watched, names, view), alerts_of(runs, names, view)
  if view.keys then below[#below + 1] = live.cut(KEYS, view.width) end
  local key = view.key or "loss"
  local list = curves_of(runs, names, key)
  local legend = #list > 1 and #list or 0
  local room = view.height - #lines - #below - legend - 4 -- title, axis, its numbers, a line between
  if #list > 0 and room >= LEAST and view.width >= NARROWEST then
    local picture = curves.draw(list, {
      title = key:gsub("_", " ") .. " by step" .. (view.log and ", logarithmic" or ""), width = view.width,
      height = math.min(room, 24), colours = view.colours or false, log = view.log,
    })
    for line in (picture or "  nothing to draw: " .. key .. " has no value above 0"):gmatch("[^\n]+") do
      lines[#lines + 1] = line
    end
  elseif #list == 0 and runs[1].state ~= "waiting" then
    lines[#lines + 1] = live.cut(("  no line has %s yet; choose %s"):format(key,
      table.concat(frame.metrics(runs), ", ")), view.width)
  end
  append(lines, below)
  return table.move(lines, 1, math.min(#lines, view.height), 1, {})
end

return frame
