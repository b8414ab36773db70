-- source.lua - the items that `predict` labels: files as the run read its own, else lines, fields and objects.

local failure = require("seqrun.base.failure")
local input = require("seqrun.predict.input")
local records = require("seqrun.data.readers.records")
local rows = require("seqrun.core.text").rows
local run_config = require("seqrun.predict.run_config")
local tables = require("seqrun.predict.tables")
local verb = require("seqrun.predict.verb")

local source = {}

---@class seqrun.PredictSource
---@field facts seqrun.Pretrained
---@field kind seqrun.FinetuningTask of the head
---@field labels? string[] of the head
---@field files string[] none: standard input
---@field arguments string[] KEY=VALUE
---@field format? string as it was set
---@field pair? boolean each line is a pair

local OWN = { conll = true, squad = true } -- formats that the reader of a task opens

---Lines that are looked at to see whether they are words with tags.
local LOOK = 50

---Whether all lines of a file have the same number of words, several, and the last ones are labels of the model, some
---of them at least.
local function is_tagged(path, labels)
  local known, count, hits, columns, cells = {}, 0, 0, nil, {}
  for _, name in ipairs(labels or {}) do known[name] = true end
  local opened = rows({ path }, { format = "words" })
  local guard <close> = opened
  for _ = 1, opened and LOOK or 0 do
    local size, line = opened:next(cells)
    if not size and line then return false end
    if not size then break end
    if size == 1 or size > 1 and size ~= (columns or size) then return false end
    if size > 1 then columns, count, hits = size, count + 1, hits + (known[cells[size]] and 1 or 0) end
  end
  return hits > 0 and 5 * hits >= count
end

---The format of the input: as set, as the run reads its files, by the name of the first file, or lines.  On standard
---input a reader of words or questions gets texts.
local function format_of(t, cfg)
  local own = not t.pair and cfg.data.format or "auto"
  if #t.files == 0 and OWN[own] then own = "auto" end
  if #t.files == 0 and own ~= "auto" and not t.format then
    verb.note("standard input is read as %s, as the run read its files; --format lines reads texts", own)
  end
  if t.format or own ~= "auto" then return t.format or own end
  local format, ambiguous = verb.format(nil, t.files, t.kind.reader)
  return ambiguous and is_tagged(t.files[1], t.labels) and ambiguous or format
end

local function names_columns(arguments)
  for _, word in ipairs(arguments) do
    if word:find("^columns%.") then return true end
  end
  return false
end

---The columns to read: those that are named, or those of the run; nil if items are plain lines and fields.
local function columns_of(t, format, cfg, own)
  local prediction, named = t.kind.prediction, names_columns(t.arguments)
  own = own and (#t.files > 0 or format == "jsonl" or not t.pair)
  if not named and not own or not prediction.rows and not (named and prediction.input.lists and format ~= "jsonl") then
    return nil
  end
  local columns = {}
  for _, key in ipairs { "text", "pair", "id", "header", "choices" } do columns[key] = cfg.columns[key] end
  if not columns.text and prediction.usual and t.files[1] and t.files[1] ~= "-" then
    local usual = prediction.usual(t.files[1], { format = format, header = columns.header })
    columns.text, columns.pair = usual.text, usual.pair
  end
  columns.text = columns.text or "text"
  local choices = columns.choices
  if type(choices) == "table" and #choices == 1 then columns.choices = choices[1] end -- the column of a list
  for key, value in pairs(t.kind.reader.columns or {}) do
    if key ~= "label" then columns[key] = columns[key] or value end
  end
  return columns
end

---Says that lines are read as single texts by a model that was trained on pairs.
local function note_pairs(t, cfg, own)
  local optional = t.kind.prediction.input.optional
  if not (optional and optional.pair) or not own or not cfg.columns.pair then return end
  verb.note("warning: the model was trained on pairs (columns.pair=%s), but each line is read as one text; "
    .. "write TEXT<TAB>PAIR and pass --pair", tostring(cfg.columns.pair))
end

---Lines, fields and objects that have the keys of an item.
local function plain(t, format, cfg)
  local wanted, lists = t.kind.prediction.input, nil
  for key in pairs(wanted.lists or {}) do
    local name = cfg.columns.text or "tokens" -- what training calls the words
    lists = lists or {}
    lists[key] = name ~= key and name or nil
  end
  local next_item, message, code, opened = input.open {
    files = verb.files(t.files), format = format, keys = wanted.keys, lists = wanted.lists,
    aliases = not t.kind.prediction.rows and lists or nil, optional = not t.pair and wanted.optional or nil,
    named = t.format ~= "lines" and "columns.text=NAME" or nil,
  }
  return failure.must(next_item, message, code), opened
end

---The items in their order, and what is to be closed; failures are raised.
---@param t seqrun.PredictSource
---@return fun(): table? next
---@return userdata|table opened
function source.open(t)
  local cfg, own = run_config.load(t.facts, t.arguments)
  local format, prediction = format_of(t, cfg), t.kind.prediction
  if format == "lines" and names_columns(t.arguments) then
    failure.raise("config", "predict: lines have no columns; add --format tsv, csv or jsonl")
  end
  local options = {
    files = verb.files(t.files), format = format, task = t.kind.name, reader = t.kind.reader,
    delimiter = cfg.data.delimiter, quotes = cfg.data.quotes, limit = cfg.data.limit,
    optional = { label = true, id = false },
  }
  local _, own_format = next(t.kind.reader.formats or {})
  if OWN[format] and format ~= own_format then
    failure.raise("config", "predict: the model is for task=%s, which does not read %s files", t.kind.name, format)
  end
  if OWN[format] then
    options.columns = { text = cfg.columns.text, label = cfg.columns.label, id = cfg.columns.id }
    return tables.items(failure.must(t.kind.reader.open(options)), prediction.roles or {})
  end
  if format == "lines" and not t.pair then note_pairs(t, cfg, own) end
  options.columns = format ~= "lines" and columns_of(t, format, cfg, own)
  if format == "lines" and (t.pair or prediction.fields) then format = "tsv" end
  if not options.columns then return plain(t, format, cfg) end
  return tables.items(failure.must(records.open(options)), prediction.roles or {})
end

return source
