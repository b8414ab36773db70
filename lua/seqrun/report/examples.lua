-- examples.lua - what a model predicts, as markup: words filled in, classes, a confusion matrix, the worst mistakes.

local html = require("seqrun.draw.html")
local svg = require("seqrun.draw.svg")

local examples = {}

examples.STYLE = [[
.fill { padding: 0; margin: 0; list-style: none; max-width: 60rem } .fill li { padding: .55rem 0;
  border-bottom: 1px solid var(--rule); break-inside: avoid } .fill .gap { color: var(--c3); font-weight: 600;
  text-decoration: underline; text-underline-offset: 3px } .fill .gap.miss { color: var(--c2) }
.guess { display: inline-block; margin: .25rem .9rem 0 0; font-size: .9em; white-space: nowrap }
.guess.hit { color: var(--c3); font-weight: 600 } .guess i { color: var(--faint); font-style: normal; font-weight: 400;
  font-variant-numeric: tabular-nums }
.confusion td, .confusion th { padding: .25rem .55rem; text-align: right } .confusion thead th { font-weight: 400 }
.mistake { max-width: 60rem; padding: .5rem 0; border-bottom: 1px solid var(--rule); break-inside: avoid }
.mistake p { margin: .1rem 0; max-width: none }]]

---A text on one line, cut to `most` characters.
local function short(value, most)
  local one = tostring(value):gsub("%s+", " ")
  local length = utf8.len(one)
  if not length or length <= most then return one end
  return one:sub(1, utf8.offset(one, most) - 1) .. "…"
end

-- ---- filled in words -----------------------------------------------------------------------------

local function guess(one, hit)
  return ('<span class="guess%s">%s <i>%.1f %%</i></span>'):format(hit and " hit" or "", html.escape(one.token),
    100 * one.probability)
end

local function filled(item)
  local parts = {}
  for i, one in ipairs(item.candidates) do parts[i] = guess(one, item.rank == i) end
  return ('<li>%s<span class="gap%s">%s</span>%s<br>%s</li>'):format(html.escape(item.before),
    item.rank == 1 and "" or " miss", html.escape(item.word), html.escape(item.after), table.concat(parts))
end

---Sentences with a word filled in.
---@param samples seqrun.report.Samples
---@return string
function examples.filled(samples)
  if samples.note then
    return ('<p class="faint">No words were filled in: %s.</p>'):format(html.escape(samples.note))
  end
  local hits, top, parts = 0, 0, {}
  for i, item in ipairs(samples.items) do
    hits, top = hits + (item.rank == 1 and 1 or 0), top + (item.rank and 1 or 0)
    parts[i] = filled(item)
  end
  local intro = ("Sentences of the held-out text of %s with the underlined word hidden, and the predictions of the "
    .. "checkpoint of step %s: the word itself in %d of %d, and among the first five in %d. Candidates are whole "
    .. "words.")
    :format(samples.data, samples.step, hits, #samples.items, top)
  return "<p>" .. html.escape(intro) .. '</p><ul class="fill">' .. table.concat(parts, "\n") .. "</ul>"
end

-- ---- the scores of a task --------------------------------------------------------------------------

local function number(value, format) return type(value) == "number" and format:format(value) or "-" end

---Classes beyond which neither table nor matrix is of use in a page.
local MOST_CLASSES = 40

---Columns of numbers, in the tables below.
local NUMBERS = { [2] = true, [3] = true, [4] = true, [5] = true, [6] = true }

---The row of a class, or of a type of spans.
local function rates(name, s)
  return { short(name, 40), number(s.precision, "%.3f"), number(s.recall, "%.3f"), number(s.f1, "%.3f"),
    number(s.count or s.support, "%.0f"), number(s.predicted, "%.0f") }
end

local function classes_table(head)
  if type(head.classes) ~= "table" or #head.classes == 0 or #head.classes > MOST_CLASSES then return "" end
  local rows = {}
  for i, class in ipairs(head.classes) do rows[i] = rates(class.name, class) end
  local names = { "class", "precision", "recall", "F1", "examples", "predicted" }
  return "<h3>Classes</h3>" .. html.table(names, rows, NUMBERS)
end

---Precision and recall of spans by their type.
local function spans_table(head)
  local types, names, rows = type(head.spans) == "table" and head.spans.types or {}, {}, {}
  for name in pairs(types) do names[#names + 1] = tostring(name) end
  if #names == 0 or #names > MOST_CLASSES then return "" end
  table.sort(names)
  for i, name in ipairs(names) do rows[i] = rates(name, types[name]) end
  return "<h3>Spans</h3>" .. html.table({ "type", "precision", "recall", "F1", "spans", "predicted" }, rows, NUMBERS)
end

---Exact match and F1 of questions with and without an answer.
local function answers_table(head)
  local rows = {}
  for _, part in ipairs { "answerable", "unanswerable" } do
    local s = type(head.answers) == "table" and head.answers[part]
    if type(s) == "table" then
      rows[#rows + 1] = { part, number(s.exact_match, "%.3f"), number(s.f1, "%.3f"), number(s.count, "%.0f") }
    end
  end
  if #rows == 0 then return "" end
  return "<h3>Answers</h3>" .. html.table({ "questions", "exact match", "F1", "count" }, rows, NUMBERS)
end

---The confusion matrix; the shade of a cell is its part of the row.
local function confusion_table(head)
  local matrix = head.confusion
  if type(matrix) ~= "table" or #matrix < 2 or #matrix > 20 then return "" end
  local names, rows = { "label" }, {}
  for i, class in ipairs(head.classes) do names[i + 1] = short(class.name, 12) end
  for i, counts in ipairs(matrix) do
    local sum, cells = 0, { short(head.classes[i].name, 20) }
    for _, count in ipairs(counts) do sum = sum + count end
    for k, count in ipairs(counts) do
      local part = sum > 0 and count / sum or 0
      cells[k + 1] = { ('<span style="--part: %.0f%%" class="cell %s">%s</span>'):format(100 * part,
        i == k and "right" or "wrong", count > 0 and html.escape(count) or "·") }
    end
    rows[i] = cells
  end
  return "<h3>Confusion matrix: rows are labels, columns predictions</h3>" .. html.table(names, rows, nil, "confusion")
end

examples.STYLE = examples.STYLE .. [[

.cell { display: block; min-width: 2.2rem; padding: .1rem .4rem; border-radius: 3px;
  font-variant-numeric: tabular-nums }
.cell.right { background: color-mix(in srgb, var(--c3) calc(var(--part) * .5), transparent) }
.cell.wrong { background: color-mix(in srgb, var(--c2) calc(var(--part) * .5), transparent) }]]

---A part of a report that has a chart.
local function figure(title, picture)
  return picture and "<figure><figcaption>" .. title .. "</figcaption>" .. picture .. "</figure>" or ""
end

---How often predictions of a probability are right; of multilabel, how often an item has a label of a probability.
local function reliability_chart(head)
  local bins, points = type(head.calibration) == "table" and head.calibration.bins or head.calibration, {}
  for _, bin in ipairs(type(bins) == "table" and bins or {}) do
    local mean, right = bin.mean or bin.confidence, bin.correct or bin.accuracy
    if type(mean) == "number" and type(right) == "number" and (bin.items or bin.count or 1) > 0 then
      points[#points + 1] = { mean, right }
    end
  end
  if #points < 2 then return "" end
  local labels = head.kind == "multilabel"
  return figure("Reliability", svg.chart {
    title = "reliability", desc = "fraction of correct predictions, by their probability",
    x = { label = labels and "probability of a label" or "probability of the prediction", low = 0, high = 1 },
    y = { label = labels and "fraction that has it" or "fraction correct", low = 0, high = 1 },
    series = {
      { points = { { 0, 0 }, { 1, 1 } }, class = "s7", style = "dash", name = "perfect" },
      { points = points, kind = "dots", class = "s1", name = "this model" },
    },
  })
end

---Precision and recall over all thresholds, of each label.
local function precision_chart(head)
  local series = {}
  for _, one in ipairs(type(head.ranked) == "table" and head.ranked or {}) do
    if type(one.points) == "table" and #one.points > 0 then
      local name = ("%s, average %s"):format(short(one.name, 20), number(one.average_precision, "%.3f"))
      series[#series + 1] = { points = one.points, class = svg.colour(#series + 1), name = name }
    end
  end
  return figure("Precision and recall", #series > 0 and svg.chart {
    title = "precision and recall", desc = "precision over recall, of each threshold",
    x = { label = "recall", low = 0, high = 1 }, y = { label = "precision", low = 0, high = 1 }, series = series,
  })
end

local function charts(head)
  local content = precision_chart(head) .. reliability_chart(head)
  return content ~= "" and '<div class="charts">' .. content .. "</div>" or ""
end

---Which class F1 is of, and what the head is decided by.
local function remarks(head)
  local parts, decide = {}, type(head.decide) == "table" and head.decide or {}
  if head.f1_class then
    parts[1] = ("F1 and average precision are those of the class '%s'."):format(short(head.f1_class, 40))
  end
  if type(decide.thresholds) == "table" or decide.temperature then
    parts[#parts + 1] = "Temperature and thresholds were fitted on the items that are scored here, which flatters them."
  end
  return #parts > 0 and "<p>" .. html.escape(table.concat(parts, " ")) .. "</p>" or ""
end

local function mistakes_list(head)
  if type(head.mistakes) ~= "table" or #head.mistakes == 0 then return "" end
  local parts = { "<h3>Worst mistakes</h3>" }
  for i = 1, math.min(12, #head.mistakes) do
    local one = head.mistakes[i]
    local what = '<p class="faint">label <b>%s</b>, predicted <b>%s</b> (%s), %s</p>'
    parts[#parts + 1] = '<div class="mistake"><p>' .. html.escape(short(one.text, 400)) .. "</p>"
      .. what:format(html.escape(short(one.label, 200)), html.escape(short(one.predicted, 200)),
        number(one.badness, "%.3f"), html.escape(short(one.place, 120))) .. "</div>"
  end
  return table.concat(parts, "\n")
end

local SECTIONS = {
  remarks, classes_table, spans_table, answers_table, confusion_table, charts, mistakes_list,
}

---What the last evaluation of a task found.
---@param scores table of scores.json
---@return string
function examples.scores(scores)
  local parts = {}
  for _, head in ipairs(type(scores.heads) == "table" and scores.heads or {}) do
    if type(head) == "table" then
      for _, make in ipairs(SECTIONS) do parts[#parts + 1] = make(head) end
    end
  end
  return table.concat(parts, "\n")
end

return examples
