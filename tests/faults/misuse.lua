-- misuse.lua - odd files of every task, and odd directories: what training, evaluation and prediction make of them.
--
--     [COUNT=N] [SEED=N] [ONLY=TASK] build/seqrun tests/faults/misuse.lua
--
-- A file of a task, in a drawn format with drawn names and settings, gets an odd value or row; or the directory of a
-- model of another program gets an odd value in one of its files.  Laws: evaluation and prediction read the same
-- sequences, with labels and without; what cannot be read is named with its file or key; a key that nobody knows is a
-- warning; there is no message of Lua and no internal error.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local inputs = require("tests.support.inputs")
local json = require("seqrun.core.json")
local output = require("seqrun.base.output")
local sorted = require("seqrun.base.sorted")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local trial = frame.open("misuse", { short = 40, long = 10000, sanitized = 10 })
local heads, words = sr.nn.heads, task_model.words()

local TASKS = {
  classify = heads.classify { labels = { "no", "yes" } }, regress = heads.regress { outputs = 1 },
  multilabel = heads.multilabel { labels = { "x", "y" } }, choice = heads.choice {},
  tokens = heads.tokens { labels = { "O", "X" } }, squad = heads.squad {},
}

local CLASSES = { classify = "[no,yes]", multilabel = "[x,y]", tokens = "[O,X]" }

local names, paths = {}, {}
for name, head in pairs(TASKS) do
  if trial:wants(name) then names[#names + 1] = name end
  paths[name] = task_model.save(("%s/%s"):format(trial.folder, name), task_model.new(head))
  sr.must(sys.make_dirs(paths[name] .. "/trainer"))
end
table.sort(names)
trial:count_of(#names)

local function pick(list) return list[1 + trial:random(#list)] end

local function text(most)
  local list = {}
  for i = 1, 1 + trial:random(most) do list[i] = pick(words) end
  return table.concat(list, " ")
end

---Values that a field should not have, or has rarely.
local ODD = {
  json.null, 3.14, -0.0, 1e300, true, 7, "", " ", "\u{200b}", "[CLS] the", "a\u{a0}b", "'", '"', "the\tit", "the\nit",
  "-", "1.0", "['x', 'y']", json.array {}, json.array { "x", json.null }, json.array { json.array { "x" } },
  json.array { 1, 0 }, json.array { 1, 0, 1 }, { a = 1 }, "é\u{301}", ("the "):rep(90), "\xff", "\u{feff}the", "text",
}

local LABELS = {
  classify = function() return pick { "no", "yes" } end, regress = function() return trial:random(50) / 10 end,
  multilabel = function() return pick { "x", "y", "x,y", json.array { "x" }, "" } end,
  choice = function() return trial:random(2) end,
}

---A row of a task, by role.
local function row_of(task)
  if task == "squad" then
    local context = text(60)
    return { text = text(9), context = context, id = pick { "q", 5 },
      label = json.array { { text = context:match("^%S+"), answer_start = 0 } } }
  end
  if task == "tokens" then
    local list, tags = json.array {}, json.array {}
    for i = 1, 1 + trial:random(30) do list[i], tags[i] = pick(words), pick { "O", "X" } end
    return { text = list, label = tags }
  end
  local row = { text = text(30), label = LABELS[task]() }
  if task == "choice" then row.choices = json.array { text(4), text(9) } end
  if task ~= "regress" and trial:random(2) == 0 then row.pair = text(5) end
  return row
end

local FORMATS = {
  classify = { "csv", "tsv", "jsonl" }, regress = { "csv", "tsv", "jsonl" }, multilabel = { "csv", "tsv", "jsonl" },
  choice = { "jsonl" }, tokens = { "jsonl", "conll", "txt" }, squad = { "json" },
}

local function cell(value, format)
  if value == nil or value == json.null then return "" end
  local shown = type(value) == "table" and json.encode(value) or tostring(value)
  if format ~= "csv" then return (shown:gsub("[\t\n]", " ")) end
  return shown:find('[,"\n]') and '"' .. shown:gsub('"', '""') .. '"' or shown
end

local function put_json(value)
  local ok, line = pcall(json.encode, value)
  return ok and line or '"\xff"'
end

---The text of a file.
local function file_of(rows, roles, columns, format)
  local lines = {}
  if format == "json" then
    local list = json.array {}
    for i, row in ipairs(rows) do
      local question = { question = row.text, id = row.id, answers = row.label }
      list[i] = { context = row.context, qas = json.array { question } }
    end
    return put_json { data = json.array { { paragraphs = list } } }
  end
  if format == "csv" or format == "tsv" then rows = table.move(rows, 1, #rows, 2, { columns }) end
  for i, row in ipairs(rows) do
    local cells = {}
    if format == "jsonl" then
      for _, role in ipairs(roles) do cells[columns[role]] = row[role] end
      lines[i] = put_json(cells)
    elseif format == "conll" or format == "txt" then
      for k, word in ipairs(type(row.text) == "table" and row.text or { row.text }) do
        local tag = type(row.label) == "table" and row.label[k] or row.label
        cells[k] = cell(word, "tsv"):gsub("%s", "_") .. (row.label ~= nil and "\t" .. cell(tag, "tsv") or "")
      end
      lines[i] = table.concat(cells, "\n") .. "\n"
    else
      for k, role in ipairs(roles) do cells[k] = cell(row[role], format) end
      lines[i] = table.concat(cells, format == "csv" and "," or "\t")
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

---What is wrong with how a reading failed: a message of Lua, or one that names neither a file nor a key.
local function complaint(problem, name)
  local message = tostring(problem)
  if type(problem) ~= "table" or message:find("attempt to", 1, true) then return "a raw error: " .. message end
  if not message:find(name, 1, true) and not message:find("data%.%l") and not message:find("columns%.%l") then
    return "no file and no key in: " .. message
  end
end

local function without(list, of)
  local counts = {}
  for _, one in ipairs(of) do counts[one] = (counts[one] or 0) + 1 end
  for _, one in ipairs(list) do
    if (counts[one] or 0) == 0 then return one end
    counts[one] = counts[one] - 1
  end
end

---Whether the laws hold for one drawn file; else what is wrong.
local function try(task, number)
  local format, rows = pick(FORMATS[task]), {}
  for i = 1, 6 do rows[i] = row_of(task) end
  local roles = { "text", "label" }
  if task == "choice" then roles[3] = "choices" end
  local paired = rows[1].pair ~= nil
  for _, row in ipairs(rows) do row.pair = paired and (row.pair or text(5)) or nil end
  if paired then roles[#roles + 1] = "pair" end
  local columns = { text = pick { "text", "body" }, label = pick { "label", "y" }, choices = "ends", pair = "other" }
  local odd = pick(ODD)
  pick(rows)[pick(roles)] = odd
  local config = { ("data: {max_len: %d, bad: %s, query: 9, stride: %d%s}"):format(16 + trial:random(25),
    pick { "error", "skip" }, 3 + trial:random(9), CLASSES[task] and ", labels: " .. CLASSES[task] or "") }
  if format ~= "json" and format ~= "conll" and format ~= "txt" then
    local keys = {}
    for _, role in ipairs(roles) do keys[#keys + 1] = ("%s: %s"):format(role, columns[role]) end
    config[2] = ("columns: {%s}"):format(table.concat(keys, ", "))
  end
  local path = paths[task]
  sr.must(sys.write_file(path .. "/trainer/config.yaml", table.concat(config, "\n") .. "\n"))
  local facts = sr.must(require("seqrun.checkpoint").pretrained(path))
  local function write(name, list, have)
    local file = ("%s/%s%d.%s"):format(trial.folder, name, number, format)
    sr.must(sys.write_file(file, file_of(list, have, columns, format)))
    return file
  end
  local file, bare_rows, bare_roles = write("full", rows, roles), {}, {}
  for i, row in ipairs(rows) do
    bare_rows[i] = { text = row.text, context = row.context, id = row.id, choices = row.choices, pair = row.pair }
  end
  for _, role in ipairs(roles) do
    if role ~= "label" then bare_roles[#bare_roles + 1] = role end
  end
  local good, wanted = pcall(inputs.evaluated, facts, file, trial.folder)
  local wrong = not good and complaint(wanted, "full" .. number)
  if wrong then return "eval: " .. wrong end
  local read, found, results = pcall(inputs.predicted, facts, path, file)
  wrong = not read and complaint(found, "full" .. number)
  if wrong then return "predict: " .. wrong end
  local refused = false
  for _, result in ipairs(read and results or {}) do
    refused = refused or result.error ~= nil
    if (result.error or ""):find("attempt to", 1, true) then return "predict: a raw error: " .. result.error end
  end
  if good and read then
    local lost = without(wanted, found)
    if lost then return "eval reads what predict does not: " .. lost end
  elseif good then
    return "eval reads the file, predict does not: " .. tostring(found)
  end
  local bare = write("bare", bare_rows, bare_roles)
  local again, same = pcall(inputs.predicted, facts, path, bare)
  wrong = not again and complaint(same, "bare" .. number)
  if wrong then return "predict without labels: " .. wrong end
  -- A .txt file without tags is lines of text.
  if read and again and not refused and format ~= "txt" then
    local lost = without(same, found) or without(found, same)
    if lost then return "other sequences without labels: " .. lost end
  end
  sys.remove(file)
  sys.remove(bare)
end

-- ---- directories ----------------------------------------------------------------------------------

local FILES = { "config.json", "config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
  "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "generation_config.json" }

---Files whose keys change no number of a task.
local UNREAD = { ["generation_config.json"] = true, ["modules.json"] = true }

---Keys that such files have, beside those that they have here, and one of nobody.
local KEYS = {}
for key in ("unheard_of pruned_heads quantization_config auto_map sbert_ce_default_activation_function hidden_act "
  .. "sentence_transformers id2label num_labels problem_type additional_special_tokens cls_token unk_token prompts "
  .. "model_max_length truncation_side strip_accents max_seq_length activation_fn"):gmatch("%S+") do
  KEYS[#KEYS + 1] = key
end

---Values that keys may have.
local VALUES = { 0, 1, 3, 16, 64.0, -1, 1e30, 0.5, "relu", "[MASK]", "left", false, "torch.nn.Tanh", "regression",
  { ["0"] = "a", ["1"] = "a" }, json.array { "BertModel" }, { activation_fn = "torch.nn.modules.activation.Sigmoid" } }

---Whether the laws hold for a directory with an odd value; else what is wrong.
local function try_directory(task, number)
  local folder, name, rows = ("%s/dir%d"):format(trial.folder, number), pick(FILES), {}
  sr.must(sys.make_dirs(folder))
  for _, kept in ipairs { "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json" } do
    sr.must(sys.write_file(folder .. "/" .. kept, sr.must(sys.read_file(paths[task] .. "/" .. kept))))
  end
  local object, notes, note = json.decode(sys.read_file(folder .. "/" .. name) or "{}"), {}, output.note
  local known = sorted(object)
  local key = trial:random(2) == 0 and known[1] and pick(known) or pick(KEYS)
  object[key] = key ~= "unheard_of" and trial:random(3) == 0 and pick(ODD) or pick(VALUES)
  local text_of = put_json(object)
  sr.must(sys.write_file(folder .. "/" .. name, text_of))
  for i = 1, 4 do rows[i] = row_of(task) end
  local columns = { text = task == "tokens" and "tokens" or "text", label = task == "tokens" and "tags" or "label",
    choices = "choices" }
  local roles, format = { "text", "label" }, task == "squad" and "json" or "jsonl"
  if task == "choice" then roles[3] = "choices" end
  for i, row in ipairs(rows) do row.id, row.pair = tostring(i), nil end
  local file = ("%s/of%d.%s"):format(trial.folder, number, format)
  sr.must(sys.write_file(file, file_of(rows, roles, columns, format)))
  function output.note(format_of, ...) notes[#notes + 1] = format_of:format(...) end
  local read, found, wanted = pcall(function()
    local facts = sr.must(require("seqrun.checkpoint").pretrained(folder))
    local predicted = inputs.predicted(facts, folder, file)
    local scored = TASKS[facts.kind] == TASKS[task] and { pcall(inputs.evaluated, facts, file, trial.folder) } or {}
    return predicted, scored[1] and scored[2] or scored[1] == false and complaint(scored[2], "of" .. number) or {}
  end)
  output.note = note
  sys.remove(folder)
  local wrong = not read and complaint(found, "dir" .. number) and complaint(found, "config.json")
    or type(wanted) == "string" and wanted
  local lost = read and type(wanted) == "table" and without(wanted, found)
  wrong = wrong or lost and "eval reads what predict does not: " .. lost
  if not wrong and read and key == "unheard_of" and #notes == 0 and not UNREAD[name] then
    wrong = "a key that nobody knows is read without a word"
  end
  if wrong then return ("%s, %s: %s: %s"):format(name, key, text_of:sub(1, 300), wrong) end
  sys.remove(file)
end

---The files of a draw that broke a law.
local function shown()
  local list = {}
  for _, name in ipairs(sr.must(sys.list(trial.folder))) do
    local path = trial.folder .. "/" .. name
    if name:find("^%l+%d+%.%l+$") then list[#list + 1] = sr.must(sys.read_file(path)):sub(1, 1500) end
  end
  return table.concat(list, "\n")
end

local count = trial.count == math.huge and 10000 or trial.count
for i = 1, count do
  local task = pick(names)
  local ok, problem = xpcall(trial:random(4) == 0 and try_directory or try, debug.traceback, task, i)
  if problem then
    trial:fail("%s, draw %d: %s\n%s", task, i, tostring(problem):sub(1, 900), shown())
    for _, name in ipairs(sr.must(sys.list(trial.folder))) do
      if name:find("^%l+%d") then sys.remove(trial.folder .. "/" .. name) end
    end
  end
  trial:tally(ok and problem == nil)
end
trial:done("%d files and directories", count)
