-- formats.lua - what a command prints as a table for people, CSV, a table of Markdown or JSON: its --format.

local json = require("seqrun.core.json")

local formats = {}

---Names for --format of commands that print tables; "table" is for people.
formats.NAMES = { "table", "csv", "markdown", "json" }

---Adds --format to a command, and --json, which is the same as --format json: both set `json` of the arguments.
---@param cmd table of argparse
---@param words? { format?: string, json?: string } what the help says instead
function formats.define(cmd, words)
  words = words or {}
  local option = cmd:option("--format", words.format or "table, csv, markdown or json"):choices(formats.NAMES)
    :default("table"):action(function(args, _, value)
      args.json = value == "json" or args.json
      args.format = args.json and "json" or value
    end)
  cmd:mutex(option, cmd:flag("--json", (words.json or "one JSON object") .. "; the same as --format json"))
end

-- ---- rows ----------------------------------------------------------------------------------------

---As few digits as give the same number again.
function formats.all_digits(x)
  for digits = 15, 16 do
    local text = ("%%.%dg"):format(digits):format(x)
    if tonumber(text) == x then return text end
  end
  return ("%.17g"):format(x)
end

---A value as a cell: all digits for programs, few for people; nothing where there is none.
---@param value any
---@param format string
---@return string
function formats.cell(value, format)
  if value == nil or value == json.null then return format == "csv" and "" or "-" end
  if math.type(value) ~= "float" then return tostring(value) end
  return format == "csv" and formats.all_digits(value) or ("%.5g"):format(value)
end

---Fields of objects as rows, their names first.
---@param list table[]
---@param names string[] "a.b" is b of a
---@param format string
---@return string[][]
function formats.rows(list, names, format)
  local rows = { names }
  for i, object in ipairs(list) do
    local cells = {}
    for k, name in ipairs(names) do
      local value = object
      for part in name:gmatch("[^.]+") do value = type(value) == "table" and value[part] or nil end
      if object[name] ~= nil then value = object[name] end
      cells[k] = formats.cell(value, format)
    end
    rows[i + 1] = cells
  end
  return rows
end

local function sorted_keys(object)
  local keys = {}
  for key in pairs(object) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end

---Plain values as "[a, b]"; nil if some are tables.
local function listed(list, format)
  local parts = {}
  for i, value in ipairs(list) do
    if type(value) == "table" then return nil end
    parts[i] = formats.cell(value, format)
  end
  return "[" .. table.concat(parts, ", ") .. "]"
end

---@param named? boolean the path ends with the name of the value
local function add_facts(rows, value, path, format, named)
  if type(value) ~= "table" then
    rows[#rows + 1] = { path, formats.cell(value, format) }
    return
  end
  local line = #value > 0 and listed(value, format)
  if line then
    rows[#rows + 1] = { path, line }
    return
  end
  for _, key in ipairs(sorted_keys(value)) do
    local one = value[key]
    local own = type(key) == "number" and type(one) == "table" and type(one.name) == "string" and one.name
    local name = tostring(own or key)
    if not (named and key == "name") then
      add_facts(rows, one, path == "" and name or path .. "." .. name, format, own ~= nil and own ~= false)
    end
  end
end

---An object as rows of a name and a value: "a.b" is b of a; elements of lists have their `name` or number.
---@param object table
---@param format string
---@return string[][]
function formats.facts(object, format)
  local rows = { { "name", "value" } }
  add_facts(rows, object, "", format, false)
  return rows
end

-- ---- text ----------------------------------------------------------------------------------------

---A field of CSV (RFC 4180).
local function csv_cell(text)
  if not text:find('[,"\r\n]') then return text end
  return '"' .. text:gsub('"', '""') .. '"'
end

local function markdown_cell(text) return (text:gsub("|", "\\|"):gsub("[\r\n]+", " ")) end

local function joined(row, cell, gap)
  local cells = {}
  for i, text in ipairs(row) do cells[i] = cell(text) end
  return table.concat(cells, gap)
end

---What makes rows text one after the other, the head first: below that Markdown has a line of its own.
local function text_of_rows(format)
  local below = ""
  return function(row)
    local line = format == "csv" and joined(row, csv_cell, ",") or "| " .. joined(row, markdown_cell, " | ") .. " |"
    if below == "" and format == "markdown" then
      below = "|" .. ("---|"):rep(#row)
      line = line .. "\n" .. below
    end
    return line
  end
end

---What prints rows one after the other, the head first; false when nobody reads any more.
---@param format "csv"|"markdown"
---@return fun(row: string[]): boolean
function formats.writer(format)
  local text_of = text_of_rows(format)
  return function(row) return io.stdout:write(text_of(row), "\n") ~= nil end
end

---Rows as the lines of CSV or Markdown.
---@param rows string[][] the first is the head
---@param format "csv"|"markdown"
---@return string[]
function formats.lines(rows, format)
  local lines, text_of = {}, text_of_rows(format)
  for i, row in ipairs(rows) do lines[i] = text_of(row) end
  return lines
end

---Prints rows as CSV or Markdown.
---@param rows string[][] the first is the head
---@param format "csv"|"markdown"
function formats.write(rows, format)
  local put = formats.writer(format)
  for _, row in ipairs(rows) do
    if not put(row) then return end
  end
end

---Prints what a command found as its arguments ask for.
---
---  json   the object of --json
---  text   what people read; printed by the function itself, or returned
---  rows   rows of cells for CSV and Markdown; without it, the facts of the object
---@param args { format: string, json?: boolean }
---@param forms { json: (fun(): any), text: (fun(): string?), rows?: fun(format: string): string[][] }
function formats.tell(args, forms)
  if args.json then
    print(json.encode(forms.json()))
  elseif args.format == "table" then
    local text = forms.text()
    if text then print(text) end
  else
    formats.write(forms.rows and forms.rows(args.format) or formats.facts(forms.json(), args.format), args.format)
  end
end

return formats
