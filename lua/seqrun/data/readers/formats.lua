-- formats.lua - which format a file has, and what its rows are for seqrun.core.text.rows.

local formats = {}

formats.NAMES = { "auto", "csv", "tsv", "jsonl", "conll", "squad" }

local BY_ENDING = {
  csv = "csv", tsv = "tsv", jsonl = "jsonl", ndjson = "jsonl", conll = "conll", iob = "conll", bio = "conll",
}

---What an ambiguous ending means to a task.
local BY_TASK = { squad = { json = "squad" }, tokens = { txt = "conll", tsv = "conll" } }

---The format of a file by its name; nil and a message if the name does not tell.
---@param path string
---@param task string
---@param given? string the format, unless it is "auto"
---@return string? format
---@return string? message
function formats.of(path, task, given)
  if given and given ~= "auto" then return given end
  local ending = path:gsub("%.gz$", ""):match("%.(%w+)$")
  ending = ending and ending:lower() or ""
  local format = (BY_TASK[task] or {})[ending] or BY_ENDING[ending]
  if format then return format end
  local known = task == "squad" and "squad or jsonl" or task == "tokens" and "conll or jsonl" or "csv, tsv or jsonl"
  return nil, ("%s: its name does not tell its format; set data.format to %s"):format(path, known)
end

---Bytes of a row: long documents are lines of JSON.
local LIMIT = { jsonl = 16 << 20 }

---Options for seqrun.core.text.rows.
---@param format string
---@param options { delimiter?: string, quotes?: string, limit?: integer }
---@return table
function formats.rows(format, options)
  local quoted = options.quotes == "yes" or options.quotes ~= "no" and format == "csv"
  local kind = format == "jsonl" and "lines" or format == "conll" and "words" or quoted and "quoted" or "literal"
  local delimiter = options.delimiter or format == "csv" and "," or "\t"
  if delimiter == "\\t" then delimiter = "\t" end -- as it is written on a command line
  return { format = kind, delimiter = delimiter, limit = options.limit or LIMIT[format] }
end

return formats
