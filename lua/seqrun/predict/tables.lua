-- tables.lua - rows of CSV, TSV or JSON lines as texts, with columns by name.

local config = require("seqrun.config")
local failure = require("seqrun.base.failure")
local records = require("seqrun.data.readers.records")

local tables = {}

---What a record may have, by the names that readers use.
tables.ROLES = { "text", "pair", "choices", "context" }

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

---Records as items, by the words of a task: a record's text may be its question.
---@param opened table of a reader
---@param names table<string, string> of the roles that have others
---@return fun(): table? next failures are raised
---@return table opened to close
function tables.items(opened, names)
  return function()
    local record, problem, code = opened:next()
    if not record then
      if problem then failure.raise(code, "%s", problem) end
      return nil
    end
    local item = { wrong = record.wrong and record.why, line = record.line, file = record.file, id = record.id }
    for _, role in ipairs(tables.ROLES) do item[names[role] or role] = record[role] end
    return item
  end, opened
end

---The texts of these columns, of which none may be empty; failures are raised.
---@param files string[]
---@param format string
---@param columns table
---@return fun(): table? next
---@return userdata records to close
function tables.texts(files, format, columns)
  local opened = failure.must(records.open { files = files, format = format, columns = columns })
  local next_item = tables.items(opened, {})
  return function()
    local item = next_item()
    if item and not item.wrong and not item.text:find("%S") then item.wrong = "the text is empty" end
    return item
  end, opened
end

return tables
