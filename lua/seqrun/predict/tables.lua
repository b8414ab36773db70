-- tables.lua - rows of CSV, TSV or JSON lines as items, with columns by name.

local config = require("seqrun.config")
local failure = require("seqrun.base.failure")
local records = require("seqrun.data.readers.records")
local run_config = require("seqrun.predict.run_config")

local tables = {}

local function names_columns(arguments)
  for _, word in ipairs(arguments) do
    if word:find("^columns%.") then return true end
  end
  return false
end

---The columns to read: those that are named, or for a file and for objects those of the run; nil if items are plain
---lines and fields.
---@param facts seqrun.Pretrained
---@param kind table task of the head
---@param format string
---@param files string[]
---@param arguments string[] KEY=VALUE
---@return table|nil columns
function tables.columns(facts, kind, format, files, arguments)
  local named = names_columns(arguments)
  if format == "lines" and named then
    failure.raise("config", "predict: lines have no columns; add --format tsv, csv or jsonl")
  end
  if format == "lines" or not kind.prediction.rows then return nil end
  local cfg, own = run_config.load(facts, arguments)
  if not named and not (own and (#files > 0 or format == "jsonl")) then return nil end
  local columns = {}
  for _, key in ipairs { "text", "pair", "id", "header", "choices" } do columns[key] = cfg.columns[key] end
  if not columns.text and kind.prediction.usual and files[1] and files[1] ~= "-" then
    local usual = kind.prediction.usual(files[1], { format = format, header = columns.header })
    columns.text, columns.pair = usual.text, usual.pair
  end
  columns.text = columns.text or "text"
  local choices = columns.choices
  if type(choices) == "table" and #choices == 1 then columns.choices = choices[1] end -- the column of a list
  for key, value in pairs(kind.reader.columns or {}) do columns[key] = columns[key] or value end
  return columns
end

---What columns are named by, for the texts of a command that reads no labels.
local NAMED = config.map {
  { "columns", config.map {
    { "text", config.string { optional = true, doc = "column of the text: a name, or a number from 1" } },
    { "pair", config.string { optional = true, doc = "column of a second text" } },
    { "header", config.boolean { optional = true, doc = "whether the first row names the columns" } },
  } },
}

---The columns that are named on the command line of a command that reads texts; nil without any.
---@param verb string for messages
---@param format string
---@param arguments string[] KEY=VALUE
---@return table|nil columns
function tables.named(verb, format, arguments)
  if #arguments == 0 then return nil end
  local columns = failure.must(config.load { schema = NAMED, arguments = arguments }).values.columns
  if not columns.text then failure.raise("config", "%s: name the column of the text too: columns.text=NAME", verb) end
  if format == "lines" then
    failure.raise("config", "%s: lines have no columns; add %s tsv, csv or jsonl", verb,
      verb == "score" and "--input" or "--format")
  end
  return columns
end

---@param files string[]
---@param format string
---@param columns table
---@return (fun(): table?)? next
---@return string? message
---@return string? code
---@return userdata? records to close
function tables.open(files, format, columns)
  local opened, message, code = records.open { files = files, format = format, columns = columns }
  if not opened then return nil, message, code end
  return function()
    local record, problem, kind = opened:next()
    if not record then
      if problem then failure.raise(kind, "%s", problem) end
      return nil
    end
    local item = { wrong = record.wrong and record.why }
    for _, key in ipairs { "text", "pair", "choices", "id", "line", "file" } do item[key] = record[key] end
    if not item.wrong and type(item.text) ~= "string" then item.wrong = "no text" end
    return item
  end, nil, nil, opened
end

---The same for texts of which none may be empty; failures are raised.
---@param files string[]
---@param format string
---@param columns table
---@return fun(): table? next
---@return userdata records to close
function tables.texts(files, format, columns)
  local next_item, message, code, opened = tables.open(files, format, columns)
  failure.must(next_item, message, code)
  return function()
    local item = next_item()
    if item and not item.wrong and not item.text:find("%S") then item.wrong = "the text is empty" end
    return item
  end, opened
end

return tables
