-- measure.lua - metrics of a run that has ended, beside those of its own evaluations: on another file, and over groups
-- of its predictions.
--
-- Both ask the commands `eval` and `predict`, each a process of its own on the run's device.

local again = require("seqrun.run.again")
local answers = require("seqrun.scores.answers")
local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local line_file = require("seqrun.base.line_file")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local measure = {}

---The device and precision of a run, as options of a command.
local function options_of(folder)
  local past = failure.must(history.open(folder))
  local words = {}
  for _, key in ipairs { "device", "precision", "threads" } do
    local value = history.value(past.config, key)
    if value and value ~= "none" and value ~= "auto" then
      words[#words + 1] = "--" .. key
      words[#words + 1] = tostring(value)
    end
  end
  return words
end

---Runs a command; its output is in a file afterwards.
local function run(words, output)
  table.insert(words, 1, (sys.real_path("/proc/self/exe")))
  for i, word in ipairs(words) do words[i] = text.shell(word) end
  local log = output .. ".log"
  local ok, how, code = sys.run(("%s >%s 2>%s"):format(table.concat(words, " "), text.shell(output),
    text.shell(log)))
  if ok then
    os.remove(log)
    return true
  end
  local stopped = sys.caught() or how == "signal" or code == sys.exit_code("stopped")
  if stopped then failure.raise("stopped", "stopped in %s", output) end
  return nil, ("%s %s: %s"):format(words[2], words[4], again.reason(log, code))
end

---Metrics of another labelled file, under other names.
---@param path string
---@param names table<string, string> { accuracy_mismatched = "accuracy" }
---@return fun(folder: string): table<string, number>?, string?
function measure.file(path, names)
  return function(folder)
    local output = folder .. "/measured.tmp"
    local words = table.move(options_of(folder), 1, 9, 7, { "eval", folder, path, "--json", "--mistakes", "0" })
    local done, message = run(words, output)
    if not done then return nil, message end
    local found, metrics = failure.there(json_file.read(output)) or {}, {}
    os.remove(output)
    for name, theirs in pairs(names) do metrics[name] = (found.metrics or {})[theirs] end
    return metrics
  end
end

---The lines of a file of JSON.
local function objects(path)
  local file = failure.must(io.open(path, "rb"))
  local next_line = line_file.of(file, path)
  return function()
    local line = next_line()
    if line then return (failure.must(json.decode(line))) end
    file:close()
    return nil
  end
end

---The rows of a plain file by group, each with what is predicted for it.
local function groups_of(plain, predicted)
  local groups, by_name, next_result = {}, {}, objects(predicted)
  for row in objects(plain) do
    local result = next_result() or failure.raise("data", "%s: it has fewer lines than %s", predicted, plain)
    row.guess, row.p = result.label, (result.probabilities or {})["1"] or 0
    local group = by_name[row.group]
    if not group then
      group = { rows = {} }
      by_name[row.group], groups[#groups + 1] = group, group
    end
    table.insert(group.rows, row)
  end
  return groups
end

---Metrics over groups of a plain file's rows: lines of { text =, pair =, label = "0" or "1", group =, ... }.
---@param plain string
---@param score fun(groups: { rows: table[] }[]): table<string, number> rows have `guess`, and `p`, that of class 1
---@return fun(folder: string): table<string, number>?, string?
function measure.groups(plain, score)
  return function(folder)
    local output = folder .. "/measured.tmp"
    local done, message = run(table.move(options_of(folder), 1, 9, 4, { "predict", folder, plain }), output)
    if not done then return nil, message end
    local groups = groups_of(plain, output)
    os.remove(output)
    return score(groups)
  end
end

---MultiRC: the share of questions all of whose answers are judged right.
---@param groups { rows: table[] }[]
---@return table<string, number>
function measure.whole_groups(groups)
  local right = 0
  for _, group in ipairs(groups) do
    local all = true
    for _, row in ipairs(group.rows) do all = all and row.guess == row.label end
    right = right + (all and 1 or 0)
  end
  return { exact_match = right / #groups }
end

---ReCoRD: the entity that is most probable of each query, against its answers as SQuAD compares them.
---@param groups { rows: table[] }[]
---@return table<string, number>
function measure.best_of_groups(groups)
  local exact, f1 = 0.0, 0.0
  for _, group in ipairs(groups) do
    local best
    for _, row in ipairs(group.rows) do best = best and best.p >= row.p and best or row end
    local e, f = answers.score(best.entity, best.answers)
    exact, f1 = exact + e, f1 + f
  end
  return { exact_match = exact / #groups, answer_f1 = f1 / #groups }
end

return measure
