-- report.lua - an evaluation as text: metrics, a table of the classes, the confusion matrix, calibration, mistakes.

local decisions = require("seqrun.scores.decisions")
local decode = require("seqrun.scores.decode")
local labels = require("seqrun.data.readers.labels")
local mistakes = require("seqrun.scores.mistakes")
local shown = require("seqrun.base.one_line")
local sorted = require("seqrun.base.sorted")

local report = {}

---Columns of a terminal.
local COLUMNS = 80

---The first n code points of a text, padded to n.
local function fit(text, n)
  local length = utf8.len(text)
  if not length then return text:sub(1, n) end
  if length > n then text = text:sub(1, utf8.offset(text, n) - 1) .. "…" end
  return text .. (" "):rep(n - math.min(length, n))
end

---The same, padded on the left.
local function fit_right(text, n)
  local short = fit(text, n):gsub(" +$", "")
  return (" "):rep(n - math.min(n, utf8.len(short) or #short)) .. short
end

local function add(lines, format, ...) lines[#lines + 1] = format:format(...):gsub("%s+$", "") end

---A text in lines of at most `width` code points, broken at spaces; what does not fit is left out.
local function wrapped(text, width, most)
  local lines = {}
  for word in text:gmatch("[^ ]+") do
    local last = lines[#lines]
    if last and utf8.len(last .. word) and utf8.len(last .. " " .. word) <= width then
      lines[#lines] = last .. " " .. word
    elseif #lines == most then
      lines[most] = fit(last .. " …", width)
      break
    else
      lines[#lines + 1] = fit(word, width):gsub(" +$", "")
    end
  end
  return lines
end

---A sentence, in as many lines as it needs.
local function add_sentence(lines, format, ...)
  for _, part in ipairs(wrapped(format:format(...), COLUMNS - 2, 9)) do add(lines, "  %s", part) end
end

---A table of classes, or of types of spans.
local function add_rates(lines, title, names, rates)
  add(lines, "")
  add(lines, "  %s precision  recall      f1   count  predicted", fit(title, 20))
  for i, s in ipairs(rates) do
    add(lines, "  %s %9.3f %7.3f %7.3f %7d %10d", fit(names[i], 20), s.precision, s.recall, s.f1, s.count, s.predicted)
  end
end

---Widths of the names and of the cells of a matrix that fits a terminal; nil if there are too many classes.
local function widths_of(confusion, names)
  local label, digits = 8, #tostring(confusion.total)
  for _, name in ipairs(names) do label = math.max(label, utf8.len(name) or #name) end
  label = math.min(label, 17)
  local cell = math.min(9, (COLUMNS - 2 - label) // confusion.size - 1)
  if cell >= math.max(5, digits) then return label, cell end
end

---The most frequent confusions, of matrices that are too large for a terminal.
local function add_confusions(lines, confusion, names)
  local list = {}
  for i = 1, confusion.size do
    for j, count in pairs(confusion[i]) do
      if i ~= j and count > 0 then list[#list + 1] = { i, j, count } end
    end
  end
  table.sort(list, function(a, b)
    if a[3] ~= b[3] then return a[3] > b[3] end
    return a[1] < b[1] or a[1] == b[1] and a[2] < b[2]
  end)
  if #list == 0 then return end
  add(lines, "")
  add(lines, "  %s %s     count", fit("label", 20), fit("predicted instead", 20))
  for i = 1, math.min(10, #list) do
    local one = list[i]
    add(lines, "  %s %s %9d", fit(names[one[1]], 20), fit(names[one[2]], 20), one[3])
  end
end

local function add_matrix(lines, confusion, names)
  local label, cell = widths_of(confusion, names)
  if not label then return add_confusions(lines, confusion, names) end
  local header = {}
  for i, name in ipairs(names) do header[i] = fit_right(name, cell) end
  add(lines, "")
  add(lines, "  confusion matrix: rows are labels, columns are predictions")
  add(lines, "  %s %s", fit("", label), table.concat(header, " "))
  for i = 1, confusion.size do
    local cells = {}
    for j = 1, confusion.size do cells[j] = (("%%%dd"):format(cell)):format(confusion[i][j]) end
    add(lines, "  %s %s", fit(names[i], label), table.concat(cells, " "))
  end
end

---Warns of a model that always says the same.
local function add_constant(lines, confusion, names)
  for i, class in ipairs(confusion:classes()) do
    if class.predicted == confusion.total and class.count == confusion.total then
      add(lines, "  all %d items are of the class '%s': score data of several classes", confusion.total, names[i])
    elseif class.predicted == confusion.total and confusion.total > 1 then
      add(lines, "  all %d predictions are '%s': the model has not learned to distinguish the classes;",
        confusion.total, names[i])
      add(lines, "  train longer (epochs), or with a larger rate.peak: small models need 1e-3 or so")
    end
  end
end

local function add_calibration(lines, calibration)
  add(lines, "")
  add(lines, "  probability     items  mean  correct      calibration error %.3f", calibration.error)
  if calibration.without then add(lines, "%46swithout temperature %.3f", "", calibration.without) end
  for _, bin in ipairs(calibration.bins) do
    if bin.count > 0 then
      add(lines, "  %.1f to %.1f   %8d %5.2f    %5.2f", bin.low, bin.high, bin.count, bin.confidence, bin.accuracy)
    end
  end
end

---How well each label is told from all others.
local function add_ranked(lines, head, list)
  local without = {}
  for _, one in ipairs(list) do
    if not one.roc_auc then without[#without + 1] = one.name end
  end
  if #without > 0 then
    add_sentence(lines, "roc auc needs items with and without a label; it is not defined for %s", labels.list(without))
  end
  if #list < 2 then return end
  local thresholds = head.decide and head.decide.thresholds
  local function number(x) return x and ("%.3f"):format(x) or "-" end
  add(lines, "")
  add(lines, "  %s roc auc  average precision%s", fit("label", 20), thresholds and "  threshold" or "")
  for k, one in ipairs(list) do
    add(lines, "  %s %7s %18s%11s", fit(shown(one.name), 20), number(one.roc_auc), number(one.average_precision),
      thresholds and number(thresholds[k]) or "")
  end
end

---What a head is decided by, and where its fit is not to be trusted.
local function add_decide(lines, entry)
  local text = decisions.text(entry.head)
  if text then add_sentence(lines, "decided by %s", text) end
  for _, warning in ipairs(entry.fitted and entry.fitted.warnings or {}) do
    add_sentence(lines, "warning: %s", warning)
  end
end

local function add_spans(lines, spans)
  local kinds, rates = sorted(spans.types), {}
  for i, kind in ipairs(kinds) do rates[i] = spans.types[kind] end
  add_rates(lines, "spans", kinds, rates)
end

local function add_answers(lines, answers)
  for _, part in ipairs { "answerable", "unanswerable" } do
    local s = answers[part]
    if s then
      add(lines, "  %s exact match %.2f %%, f1 %.2f %% of %d questions", fit(part, 20), 100 * s.exact_match, 100 * s.f1,
        s.count)
    end
  end
  local best = answers.best
  if best then
    add(lines, "  %s exact match %.2f %% with %.3f, f1 %.2f %% with %.3f", fit("best null threshold", 20),
      100 * best.exact_match, best.exact_threshold, 100 * best.f1, best.f1_threshold)
  end
end

local function add_mistakes(lines, list)
  if #list == 0 then return end
  add(lines, "")
  add(lines, "  worst mistakes")
  for _, one in ipairs(list) do
    add(lines, "    %s  label %s, predicted %s (%.3f)", one.place, shown(one.label, 200), shown(one.predicted, 200),
      one.badness)
    for _, part in ipairs(wrapped(shown(one.text, 1000), COLUMNS - 6, 3)) do add(lines, "      %s", part) end
  end
end

---@param scoring seqrun.Scoring finished
---@param most integer mistakes to list for each head
---@return string # "" if there is nothing to report
function report.text(scoring, most)
  local lines = {}
  for _, entry in ipairs(scoring.heads) do
    local d = entry.details or {}
    local names = {}
    for i, name in ipairs(entry.head.outputs and decode.names(entry.head) or {}) do names[i] = shown(name) end
    if d.f1_class then add(lines, "  f1 and average precision are those of the class '%s'", shown(d.f1_class)) end
    if entry.details then add_decide(lines, entry) end
    if d.confusion then
      add_constant(lines, d.confusion, names)
      add_rates(lines, "class", names, d.confusion:classes())
      add_matrix(lines, d.confusion, names)
    end
    if d.ranked then add_ranked(lines, entry.head, d.ranked) end
    if d.calibration then add_calibration(lines, d.calibration) end
    if d.spans then add_spans(lines, d.spans) end
    if d.answers then add_answers(lines, d.answers) end
    add_mistakes(lines, mistakes.worst(entry, scoring.loader, most))
  end
  return table.concat(lines, "\n")
end

---The same as a plain table, for JSON.
---@param scoring seqrun.Scoring
---@param most integer
---@return table
function report.plain(scoring, most)
  local json = require("seqrun.core.json")
  local heads = {}
  for _, entry in ipairs(scoring.heads) do
    local d = entry.details or {}
    local one = { name = entry.head.name, kind = entry.head.kind, metrics = entry.metrics }
    one.mistakes = json.array(mistakes.worst(entry, scoring.loader, most))
    if d.confusion then
      one.classes, one.confusion = json.array(d.confusion:classes()), json.array()
      for i, name in ipairs(decode.names(entry.head)) do
        one.classes[i].name = name
        if d.confusion.dense then one.confusion[i] = json.array(d.confusion[i]) end
      end
    end
    one.f1_class, one.calibration, one.spans, one.answers = d.f1_class, d.calibration, d.spans, d.answers
    one.ranked, one.decide = d.ranked, entry.head.decide
    one.warnings = entry.fitted and json.array(entry.fitted.warnings) or nil
    heads[#heads + 1] = one
  end
  return json.array(heads)
end

return report
