-- page.lua - a report as one page of HTML: no scripts, nothing from elsewhere, light and dark, for screens and paper.

local arms = require("seqrun.report.arms")
local curves = require("seqrun.report.curves")
local examples = require("seqrun.report.examples")
local facts = require("seqrun.report.facts")
local html = require("seqrun.draw.html")
local packing = require("seqrun.report.packing")
local summary = require("seqrun.report.summary")
local svg = require("seqrun.draw.svg")

local STYLE = [[
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1.8rem 2.2rem }
p + .charts, .scroll + .charts { margin-top: 1.2rem }
figure { margin: 0; min-width: 0 } figure svg.chart { max-width: 34rem } figure.wide { grid-column: 1 / -1 }
figure.wide .wide-only svg.chart { max-width: none }
figcaption { font-weight: 600; font-size: .92rem; margin: 0 0 .5rem }
.narrow-only { display: none } .key { display: inline-block; width: 1.1rem; height: .28rem; border-radius: 2px;
  vertical-align: middle; margin-right: .45rem; background: currentColor } .legend { display: flex; flex-wrap: wrap;
  gap: .2rem 1.4rem; margin: 0 0 1.2rem; padding: 0; list-style: none } .run { overflow-wrap: anywhere }
td .run, th .run { display: inline-flex; align-items: baseline;
  min-width: min(11rem, 34vw) } .run .key { flex: none; align-self: center }
.run b { font-weight: 600; color: var(--ink) } header p { max-width: none } ul.plain { padding-left: 1.1rem }
@media (max-width: 50rem) { .wide-only { display: none } .narrow-only { display: block } }
@media print { .charts { grid-template-columns: repeat(2, 1fr) } }
]] .. facts.STYLE .. packing.STYLE .. examples.STYLE

---The name of run i with its colour.
local function name_of(runs, i)
  local name = "<b>" .. html.escape(runs[i].name) .. "</b>"
  if #runs == 1 then return name end
  return ('<span class="run"><span class="key %s"></span>%s</span>'):format(svg.colour(runs[i].arm or i), name)
end

local function figures(charts)
  local parts = {}
  for _, one in ipairs(charts) do
    local caption = "<figcaption>" .. html.escape((one.title:gsub("^%l", string.upper))) .. "</figcaption>"
    if one.wide then
      local two = '<div class="wide-only">%s</div><div class="narrow-only">%s</div>'
      parts[#parts + 1] = '<figure class="wide">' .. caption .. two:format(one.wide, one.svg) .. "</figure>"
    else
      parts[#parts + 1] = "<figure>" .. caption .. one.svg .. "</figure>"
    end
  end
  return '<div class="charts">' .. table.concat(parts, "\n") .. "</div>"
end

-- ---- sections ------------------------------------------------------------------------------------

local function header(out, runs, name)
  local title = #runs == 1 and html.escape(runs[1].name) or ("%d runs"):format(#runs)
  local found = runs[1].history
  out[#out + 1] = "<header><h1>" .. title .. (#runs == 1 and " " .. facts.state(found.state) or "") .. "</h1>"
  if #runs == 1 then
    out[#out + 1] = ('<p class="faint"><span class="code">%s</span></p>'):format(html.escape(found.dir))
    out[#out + 1] = "</header>" .. facts.tiles(runs[1])
  else
    out[#out + 1] = "</header>" .. facts.overview(runs, name, runs.arms)
  end
  for _, note in ipairs(summary.notes(runs)) do
    out[#out + 1] = '<p class="faint">Note: ' .. html.escape(note) .. ".</p>"
  end
end

local LEGEND = "Thin lines are single values of training, strong ones their running mean; dashes with dots are "
  .. "evaluations on held-out data"
local ARMS = "; held-out curves are means over the seeds of an arm, with bands of their 95 % interval"
local LEVELS = "; dotted lines are the unigram model of each run"

local function has_unigram(runs)
  for _, run in ipairs(runs) do
    local last = run.history.evals[#run.history.evals]
    if last and type(last.unigram_loss) == "number" then return true end
  end
  return false
end

local function add_curves(out, runs, by, name)
  local losses = curves.losses(runs, by)
  out[#out + 1] = "<h2>Losses and scores</h2>"
  if #losses == 0 then
    out[#out + 1] = '<p class="faint">No step has been logged yet.</p>'
    return
  end
  if #runs > 1 then
    local names = {}
    for i in ipairs(runs) do names[i] = "<li>" .. name(i) .. "</li>" end
    out[#out + 1] = '<ul class="legend">' .. table.concat(names) .. "</ul>"
  end
  local levels = #runs > 1 and has_unigram(runs) and LEVELS or ""
  out[#out + 1] = ('<p class="faint">%s%s%s.</p>'):format(LEGEND, #runs.arms > 0 and ARMS or "", levels)
  out[#out + 1] = figures(losses)
  out[#out + 1] = "<h2>Training</h2>" .. figures(curves.training(runs, by))
end

---Sections that each run has for itself, under one heading.
local function each(out, runs, heading, name, section)
  local first = true
  for i, run in ipairs(runs) do
    local content = section(run)
    if content then
      if first then out[#out + 1] = "<h2>" .. heading .. "</h2>" end
      first = false
      if #runs > 1 then out[#out + 1] = "<h3>" .. name(i) .. "</h3>" end
      out[#out + 1] = content
    end
  end
end

local function plans_of(run)
  if #run.plans == 0 then return nil end
  local parts = {}
  for i, one in ipairs(run.plans) do
    parts[i] = (one.name and "<h3>Loader " .. html.escape(one.name) .. "</h3>" or "") .. packing.section(one)
  end
  return table.concat(parts)
end

local function predictions_of(run)
  if run.samples then return examples.filled(run.samples) end
  if not run.history.scores then return nil end
  local ok, content = pcall(examples.scores, run.history.scores)
  return ok and content ~= "" and content or nil
end

local function happened_of(run)
  local list = facts.happened(run)
  return #list > 0 and '<ul class="plain"><li>' .. table.concat(list, "</li><li>") .. "</li></ul>" or nil
end

local function add_config(out, runs, name)
  out[#out + 1] = "<h2>Config</h2>"
  if #runs == 1 then
    out[#out + 1] = facts.config(runs[1].history)
    return
  end
  out[#out + 1] = "<h3>Differences</h3>" .. facts.differences(runs, arms.differences(runs), name)
  for i, run in ipairs(runs) do
    local keys = facts.config(run.history)
    out[#out + 1] = ("<details><summary>All keys of %s</summary>%s</details>"):format(name(i), keys)
  end
end

---The page.
---@param runs seqrun.report.Run[]
---@param by "step"|"tokens"|"seconds"
---@return string
return function(runs, by)
  local out, names = {}, {}
  local function name(i) return name_of(runs, i) end
  for i, run in ipairs(runs) do names[i] = run.name end
  header(out, runs, name)
  each(out, runs, "What happened", name, happened_of)
  add_curves(out, runs, by, name)
  each(out, runs, "Predictions", name, predictions_of)
  each(out, runs, "Packing", name, plans_of)
  add_config(out, runs, name)
  out[#out + 1] = "<h2>Environment</h2>" .. facts.environment(runs, name)
  out[#out + 1] = "<h2>Checkpoints</h2>" .. facts.checkpoints(runs, name)
  local time = math.tointeger(os.getenv("SOURCE_DATE_EPOCH")) -- for pages that are the same each time
  out[#out + 1] = ('<p class="faint">Written by seqrun on %s.</p>'):format(os.date("!%Y-%m-%d %H:%M UTC", time))
  return html.page("seqrun: " .. table.concat(names, ", "), STYLE, out)
end
