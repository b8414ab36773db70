-- formats.lua - which format a file has, and what its rows are for seqrun.core.text.rows.

local packed = require("seqrun.base.packed")
local sys = require("seqrun.core.sys")
local text = require("seqrun.core.text")

local formats = {}

formats.NAMES = { "auto", "csv", "tsv", "jsonl", "conll", "squad" }

local BY_ENDING = {
  csv = "csv", tsv = "tsv", jsonl = "jsonl", ndjson = "jsonl", conll = "conll", iob = "conll", bio = "conll",
  conllu = "conll",
}

---The ending of a file that may be compressed, in lower case; "" without one.
---@param path string
---@return string
function formats.ending(path) return (packed.bare(path):match("%.(%w+)$") or ""):lower() end

---The format of a file by its name; nil and a message if the name is unknown.
---@param path string
---@param reader table|nil of the task: what ambiguous endings mean to it
---@param given? string the format, unless it is "auto"
---@return string? format
---@return string? message
function formats.of(path, reader, given)
  if given and given ~= "auto" then return given end
  local ending = formats.ending(path)
  local format = (reader and reader.formats or {})[ending] or BY_ENDING[ending]
  if format then return format end
  local known = reader and reader.known or "csv, tsv or jsonl"
  return nil, ("%s: unknown format (by its name); set data.format to %s"):format(path, known)
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

---Why files have one line each: the lines of old programs end with carriage returns alone.
---@param files string[]
---@return string?
function formats.problem(files)
  for _, path in ipairs(files) do
    local again = (sys.stat(path) or {}).kind == "file" -- a pipe is read once
    local rows = again and text.rows(path, { format = "lines", limit = LIMIT.jsonl }) or nil
    local guard <close> = rows
    local cells = {}
    if rows and rows:next(cells) and (cells[1] or ""):find("\r.") and not rows:next({}) then
      return path .. ": its lines end with carriage returns alone; make them line feeds: tr '\\r' '\\n' < IN > OUT"
    end
  end
end

return formats
