-- facts.lua - the tables of a report: key figures, config and its differences, environment, checkpoints, events.

local arms = require("seqrun.report.arms")
local curves = require("seqrun.report.curves")
local history = require("seqrun.history.runs")
local html = require("seqrun.draw.html")
local interval = require("seqrun.base.interval")
local overview = require("seqrun.history.overview")
local text = require("seqrun.base.format")

local facts = {}

facts.STYLE = [[
.state { display: inline-block; padding: .05rem .55rem; border-radius: 1rem; font-size: .82rem; border: 1px solid }
.state.running { color: var(--c1) } .state.finished { color: var(--c3) } .state.stopped { color: var(--c5) }
.state.failed { color: var(--c8) }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 1.1rem 1.5rem;
  margin: 1.5rem 0 0 }
.tiles dt { color: var(--faint); font-size: .85rem } .tiles dd { margin: 0; font-size: 1.35rem; line-height: 1.3;
  font-variant-numeric: tabular-nums } .tiles small { display: block; font-size: .8rem; color: var(--faint) }
.keys { columns: 17rem auto; column-gap: 2.5rem } .keys section { break-inside: avoid; margin: 0 0 1rem }
.keys h4 { font-size: .92rem; margin: 0 0 .15rem } .keys div { display: flex; justify-content: space-between; gap: 1rem;
  font-size: .86rem; border-bottom: 1px solid var(--rule); padding: .1rem 0 } .keys .v { text-align: right;
  font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere }
.keys .unset { color: var(--faint) } summary { cursor: pointer; padding: .3rem 0 }
@media print { details::details-content { content-visibility: visible; block-size: auto } }]]

---@param state string
---@return string
function facts.state(state)
  return ('<span class="state %s">%s</span>'):format(html.escape(state), html.escape(state))
end

local function number(value, format) return type(value) == "number" and format:format(value) or nil end

---Real tokens per second of training over the whole run, from its totals.
local function speed_of(found)
  local tokens, seconds, before = 0, 0, 0
  for _, row in ipairs(found.train) do
    local rate, total = row.real_tokens_per_s, row.real_tokens
    if type(rate) == "number" and rate > 0 and type(total) == "number" and total >= before then
      tokens, seconds, before = tokens + total - before, seconds + (total - before) / rate, total
    end
  end
  return seconds > 0 and tokens / seconds or nil
end

---The part of all slots that held real tokens.
local function efficiency_of(found)
  local row = found.train[#found.train]
  local slots, tokens = row and row.slot_tokens, row and row.real_tokens
  return type(slots) == "number" and type(tokens) == "number" and slots > 0 and tokens / slots or nil
end

---"best 0.812 at step 40", of a metric that was better before the last evaluation.
local function best_of(evals, key)
  local sign, best = overview.smaller_is_better(key) and -1 or 1, nil
  for _, row in ipairs(evals) do
    local value = row[key]
    if type(value) == "number" and value == value and (not best or sign * value > sign * best[key]) then best = row end
  end
  if not best or best[key] == curves.last_of(evals, key) then return nil end
  return ("best %.3f at step %s"):format(best[key], text.commas(best.step))
end

---The class that a score of the last evaluation is of.
local function class_of(found, key)
  local heads = type(found.scores) == "table" and found.scores.heads
  local head = type(heads) == "table" and #heads == 1 and heads[1]
  local named = key == "f1" or key == "f1_at_half" or key == "average_precision"
  return named and type(head) == "table" and head.f1_class and ("of the class '%s'"):format(head.f1_class) or nil
end

---What a run amounts to: { title, text, small?, the number of a loss or score }.
---@param run seqrun.report.Run
---@return { [1]: string, [2]: string, [3]: string?, [4]: number? }[]
function facts.figures(run)
  local found, list = run.history, {}
  local function add(title, value, small, score) list[#list + 1] = value and { title, value, small, score } or nil end
  local function add_score(title, value, small, key)
    local best = value and key and best_of(found.evals, key)
    add(title, number(value, "%.3f"), small and best and small .. "; " .. best or small or best, value)
  end
  for _, name in ipairs(run.heads) do
    local loss, unigram = curves.last_of(found.evals, name .. "_loss"), curves.last_of(found.evals, "unigram_loss")
    local beside = name == "mlm" and loss and unigram and ("%.3f nats %s the unigram model"):format(
      math.abs(unigram - loss), loss <= unigram and "below" or "above") or nil
    add_score("held-out " .. curves.head_title(name) .. " loss", loss, beside, name .. "_loss")
    if not loss then
      add_score(curves.head_title(name) .. " loss", curves.last_of(found.train, name .. "_loss"), "in training")
    end
    local accuracy = curves.last_of(found.evals, name .. "_accuracy")
    add_score("held-out " .. curves.head_title(name) .. " accuracy", accuracy, nil, name .. "_accuracy")
  end
  for _, key in ipairs(run.scores) do
    add_score(curves.score_title(key), curves.last_of(found.evals, key), class_of(found, key), key)
  end
  add("steps", text.commas(found.step), text.duration(found.seconds))
  local sequences, tokens = curves.last_of(found.train, "sequences"), curves.last_of(found.train, "real_tokens")
  add("tokens", tokens and text.count(tokens), sequences and text.commas(math.floor(sequences)) .. " sequences")
  local speed, efficiency = speed_of(found), efficiency_of(found)
  add("real tokens per second", speed and text.count(speed))
  add("packing efficiency", efficiency and text.percent(efficiency), "of the slots are real tokens")
  return list
end

---The key figures of one run.
---@param run seqrun.report.Run
---@return string
function facts.tiles(run)
  local parts = {}
  for i, one in ipairs(facts.figures(run)) do
    parts[i] = ("<div><dt>%s</dt><dd>%s%s</dd></div>"):format(html.escape(one[1]), html.escape(one[2]),
      one[3] and "<small>" .. html.escape(one[3]) .. "</small>" or "")
  end
  return '<dl class="tiles">' .. table.concat(parts) .. "</dl>"
end

---A title that is not broken at its hyphens.
local function unbroken(title) return (title:gsub("%-", "\u{2011}")) end

---Mean and deviation of a column of scores over some runs; "" if one has none.
local function spread(scores, some, k)
  local values = {}
  for at, i in ipairs(some) do
    values[at] = scores[i][k]
    if not values[at] then return "" end
  end
  local found = interval(values)
  return ("%.3f"):format(found.mean) .. (found.deviation and (" ± %.3f"):format(found.deviation) or "")
end

---Rows with mean and deviation of each arm, and by how much its scores differ from the first arm's at equal seeds.
local function add_means(rows, scores, groups, columns)
  local means, found = {}, {}
  for k = 3, columns do found[k] = arms.scores(groups, function(i) return scores[i][k] end) end
  for g, group in ipairs(groups) do
    local count = #group.runs == 1 and "1 seed" or #group.runs .. " seeds"
    local name = group.name ~= "" and ", " .. group.name or ""
    means[#means + 1] = { "mean ± deviation" .. name, count }
    for k = 3, columns do means[#means][k] = spread(scores, group.runs, k) end
    if g > 1 then
      means[#means + 1] = { "less the first arm, ± half of the 95 % interval", "" }
      for k = 3, columns do
        local less = arms.text(found[k][g].less, true)
        means[#means][k] = less ~= "-" and less or ""
      end
    end
  end
  table.move(means, 1, #means, #rows + 1, rows)
end

---The key figures of several runs, a row each.
---@param runs seqrun.report.Run[]
---@param names fun(i: integer): string the name of a run, as markup
---@param groups { name: string, runs: integer[] }[] of runs that differ in their seeds alone
---@return string
function facts.overview(runs, names, groups)
  local head, at, rows, scores, right = { "run", "state" }, {}, {}, {}, {}
  for _, run in ipairs(runs) do
    for _, one in ipairs(facts.figures(run)) do
      if not at[one[1]] then at[one[1]], head[#head + 1] = #head + 1, unbroken(one[1]) end
    end
  end
  for i, run in ipairs(runs) do
    local row = { { names(i) }, { facts.state(run.history.state) } }
    for k = 3, #head do row[k], right[k] = "", true end
    scores[i] = {}
    for _, one in ipairs(facts.figures(run)) do row[at[one[1]]], scores[i][at[one[1]]] = one[2], one[4] end
    rows[i] = row
  end
  add_means(rows, scores, groups, #head)
  return html.table(head, rows, right)
end

-- ---- config ------------------------------------------------------------------------------------

local function value_markup(value)
  local class = value == "none" and "v unset" or "v"
  return ('<span class="%s">%s</span>'):format(class, html.escape(value))
end

---All keys of a config in sections.
---@param found seqrun.History
---@return string
function facts.config(found)
  if #found.keys == 0 then return '<p class="faint">config.yaml is missing or cannot be read.</p>' end
  local parts, section = { '<div class="keys"><section><h4>run</h4>' }, nil
  for _, key in ipairs(found.keys) do
    local group, name = key:match("^([^.]+)%.(.+)$")
    if group ~= section then
      parts[#parts + 1] = ("</section><section><h4>%s</h4>"):format(html.escape(group or "run"))
      section = group
    end
    parts[#parts + 1] = ("<div><span>%s</span>%s</div>"):format(html.escape(name or key),
      value_markup(history.value(found.config, key)))
  end
  parts[#parts + 1] = "</section></div>"
  return (table.concat(parts):gsub("<section><h4>[^<]*</h4></section>", ""))
end

---The keys whose values differ.
---@param runs seqrun.report.Run[]
---@param differences { key: string, values: string[] }[]
---@param names fun(i: integer): string
---@return string
function facts.differences(runs, differences, names)
  if #differences == 0 then return "<p>The configs are the same.</p>" end
  local head, rows = { "key" }, {}
  for i in ipairs(runs) do head[i + 1] = { names(i) } end
  for r, one in ipairs(differences) do
    rows[r] = { { '<span class="code">' .. html.escape(one.key) .. "</span>" } }
    for i, value in ipairs(one.values) do rows[r][i + 1] = { value_markup(value) } end
  end
  return html.table(head, rows)
end

-- ---- environment, checkpoints, events ----------------------------------------------------------------

local ROWS = {
  { "command", function(e) return e.command end }, { "started", function(e) return e.started end },
  { "device", function(e) return e.device end },
  { "machine", function(e, m) return m.host and ("%s (%s %s)"):format(m.host, m.system or "?", m.release or "?") end },
  { "processor", function(_, m) return m.cpu and ("%s, %s processors"):format(m.cpu, m.processors or "?") end },
  { "instructions", function(e) return e.instructions end },
  { "memory", function(_, m) return type(m.memory) == "number" and text.bytes(m.memory) end },
  { "threads", function(e) return e.threads end }, { "ranks", function(e) return e.ranks end },
  { "seqrun", function(_, _, b) return b.version and ("%s, commit %s"):format(b.version, b.git or "unknown") end },
  { "compiler", function(_, _, b) return b.compiler and ("%s, %s"):format(b.compiler, b.cflags or "") end },
  { "libraries", function(_, _, b)
    local parts = { b.lua }
    for _, name in ipairs { "jansson", "libyaml", "utf8proc", "zlib", "zstd" } do
      if b[name] then parts[#parts + 1] = name .. " " .. tostring(b[name]) end
    end
    return #parts > 0 and table.concat(parts, ", ")
  end },
}

local function part(value) return type(value) == "table" and value or {} end

---The environments of runs beside each other.
---@param runs seqrun.report.Run[]
---@param names fun(i: integer): string
---@return string
function facts.environment(runs, names)
  local rows, head = {}, { "" }
  for i in ipairs(runs) do head[i + 1] = { names(i) } end
  for _, row in ipairs(ROWS) do
    local cells, any = { row[1] }, false
    for i, run in ipairs(runs) do
      local e = part(run.history.environment)
      local ok, value = pcall(row[2], e, part(e.machine), part(e.build))
      cells[i + 1] = ok and value and tostring(value) or "-"
      any = any or cells[i + 1] ~= "-"
    end
    if any then rows[#rows + 1] = cells end
  end
  if #rows == 0 then return '<p class="faint">environment.json is missing or cannot be read.</p>' end
  return html.table(#runs > 1 and head or nil, rows, nil, "wide")
end

---All checkpoints.
---@param runs seqrun.report.Run[]
---@param names fun(i: integer): string
---@return string
function facts.checkpoints(runs, names)
  local rows = {}
  for i, run in ipairs(runs) do
    for _, one in ipairs(run.history.checkpoints) do
      local what = one.best and "best so far" or ""
      rows[#rows + 1] = { #runs > 1 and { names(i) } or text.commas(one.step), text.commas(one.step),
        text.bytes(one.bytes), { '<span class="code">' .. html.escape(one.path) .. "</span>" }, what }
      if #runs == 1 then table.remove(rows[#rows], 1) end
    end
  end
  if #rows == 0 then return '<p class="faint">No checkpoint is saved yet.</p>' end
  local head, right = { "step", "size", "directory", "" }, { [1] = true, [2] = true }
  if #runs > 1 then
    table.insert(head, 1, "run")
    right = { [2] = true, [3] = true }
  end
  return html.table(head, rows, right)
end

---What attached prompts did.
local EVENTS = {
  rate = function(event) return ("from here on the rate is the schedule times %s"):format(event.factor) end,
  weights = function() return "the weights were changed" end,
  save = function() return "a checkpoint was asked for" end, stop = function() return "a stop was asked for" end,
}

local function event_text(event)
  if event.event == "alert" then
    return ("step %s: alert: %s: %s"):format(text.commas(event.step), tostring(event.alert), tostring(event.message))
  elseif event.event == "changed" then
    return ("step %s: a resume changed %s to %s, was %s"):format(text.commas(event.step), tostring(event.key),
      tostring(event.value), tostring(event.was))
  end
  local known = EVENTS[event.event]
  local what = known and known(event) .. " (attached prompt)" or tostring(event.event or event.type)
  return ("step %s: %s"):format(text.commas(event.step), what)
end

---What happened: resumes, changes from outside, how it ended.
---@param run seqrun.report.Run
---@return string[] # sentences as markup
function facts.happened(run)
  local list, found = {}, run.history
  for _, step in ipairs(run.resumes) do list[#list + 1] = ("resumed at step %s"):format(text.commas(step)) end
  for i = 1, math.min(50, #found.events) do list[#list + 1] = event_text(found.events[i]) end
  if found.reason and found.state ~= "running" then
    local told = found.reason:find("^" .. found.state) and "" or found.state .. ": "
    list[#list + 1] = told .. found.reason
  end
  local damaged = found.damaged > 0 and text.counted(found.damaged, "line") .. " of metrics.jsonl cannot be read"
  list[#list + 1] = damaged or nil
  for i, one in ipairs(list) do list[i] = html.escape(one) end
  return list
end

return facts
