-- report.lua - an evaluation as text: metrics, a table of the classes, the confusion matrix, calibration, mistakes.

local classify = require("seqrun.predict.kinds.classify")
local mistakes = require("seqrun.scoring.mistakes")

local report = {}

---Classes whose confusion matrix fits a terminal.
local MOST_CLASSES = 12

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

local function add_classes(lines, confusion, names)
  add(lines, "")
  add(lines, "  %s precision  recall      f1   count  predicted", fit("class", 20))
  for i, class in ipairs(confusion:classes()) do
    add(lines, "  %s %9.3f %7.3f %7.3f %7d %10d", fit(names[i], 20), class.precision, class.recall, class.f1,
      class.count, class.predicted)
  end
end

local function add_matrix(lines, confusion, names)
  if confusion.size > MOST_CLASSES then return end
  add(lines, "")
  local header = {}
  for i, name in ipairs(names) do header[i] = fit_right(name, 9) end
  add(lines, "  %s %s", fit("label \\ predicted", 20), table.concat(header, " "))
  for i = 1, confusion.size do
    local cells = {}
    for j = 1, confusion.size do cells[j] = ("%9d"):format(confusion[i][j]) end
    add(lines, "  %s %s", fit(names[i], 20), table.concat(cells, " "))
  end
end

---Warns of a model that always says the same.
local function add_constant(lines, confusion, names)
  for i, class in ipairs(confusion:classes()) do
    if class.predicted == confusion.total and confusion.total > 1 then
      add(lines, "  all %d predictions are '%s': the model has not learned to tell the classes apart", confusion.total,
        names[i])
    end
  end
end

local function add_calibration(lines, calibration)
  add(lines, "")
  add(lines, "  probability     items  mean  correct      calibration error %.3f", calibration.error)
  for _, bin in ipairs(calibration.bins) do
    if bin.count > 0 then
      add(lines, "  %.1f to %.1f   %8d %5.2f    %5.2f", bin.low, bin.high, bin.count, bin.confidence, bin.accuracy)
    end
  end
end

local function add_spans(lines, spans)
  local kinds = {}
  for kind in pairs(spans.types) do kinds[#kinds + 1] = kind end
  table.sort(kinds)
  add(lines, "")
  add(lines, "  %s precision  recall      f1   count  predicted", fit("spans", 20))
  for _, kind in ipairs(kinds) do
    local s = spans.types[kind]
    add(lines, "  %s %9.3f %7.3f %7.3f %7d %10d", fit(kind, 20), s.precision, s.recall, s.f1, s.count, s.predicted)
  end
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
    add(lines, "    %s  label %s, predicted %s (%.3f)", one.place, one.label, one.predicted, one.badness)
    add(lines, "      %s", fit(one.text, 160))
  end
end

---@param scoring seqrun.Scoring finished
---@param most integer mistakes to list for each head
---@return string
function report.text(scoring, most)
  local lines = {}
  for _, entry in ipairs(scoring.heads) do
    local d = entry.details or {}
    local names = entry.head.outputs and classify.names(entry.head) or {}
    if d.confusion then
      add_constant(lines, d.confusion, names)
      add_classes(lines, d.confusion, names)
      add_matrix(lines, d.confusion, names)
    end
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
      for i, name in ipairs(classify.names(entry.head)) do
        one.classes[i].name, one.confusion[i] = name, json.array(d.confusion[i])
      end
    end
    one.calibration, one.spans, one.answers = d.calibration, d.spans, d.answers
    heads[#heads + 1] = one
  end
  return json.array(heads)
end

return report
