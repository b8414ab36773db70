-- complete.lua - what the Tab key inserts: globals, fields, methods, names of parameters, files inside quotes.

local names = require("seqrun.base.names")
local sys = require("seqrun.core.sys")

local KEYWORDS = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
  "not", "or", "repeat", "return", "then", "true", "until", "while",
}
local INDENT = "  "
local MOST_LISTED = 200

---The quote that is open at the end of a line, and its position.
local function open_quote(line)
  local quote, at, i = nil, nil, 1
  while i <= #line do
    local c = line:sub(i, i)
    if quote and c == "\\" then
      i = i + 1
    elseif c == quote then
      quote = nil
    elseif not quote and (c == '"' or c == "'") then
      quote, at = c, i
    elseif not quote and line:find("^%-%-", i) then
      return nil
    end
    i = i + 1
  end
  return quote, at
end

local function starting_with(prefix, list)
  local found = {}
  for _, name in ipairs(list) do
    if name:sub(1, #prefix) == prefix then found[#found + 1] = name end
  end
  return found
end

local function common_start(list)
  local first = list[1] or ""
  for _, name in ipairs(list) do
    while name:sub(1, #first) ~= first do first = first:sub(1, -2) end
  end
  return first
end

-- ---- candidates ------------------------------------------------------------------------------------

local function identifiers(list)
  local found = {}
  for _, name in ipairs(list) do
    if name:find("^[%a_][%w_]*$") then found[#found + 1] = name end
  end
  return found
end

local function members(value, sep)
  local found = {}
  for _, name in ipairs(identifiers(names.of(value))) do
    local member = sep == "." or names.field(value, name)
    if sep == "." or type(member) == "function" then found[#found + 1] = name end
  end
  return found
end

---Candidates for a name outside of quotes.
local function of_name(before, env)
  local path, sep, prefix = before:match("([%a_][%w_%.]*)([.:])([%w_]*)$")
  if path then
    local value = names.value(path, function(name) return env[name] end)
    return value ~= nil and members(value, sep) or {}, prefix
  end
  prefix = before:match("[%a_][%w_]*$")
  if not prefix then return {}, "" end
  local list = identifiers(names.of(env))
  table.move(KEYWORDS, 1, #KEYWORDS, #list + 1, list)
  return list, prefix
end

local function files(typed)
  local folder, base = typed:match("^(.*/)([^/]*)$")
  local list = sys.list(folder or ".") or {}
  local found = {}
  for _, name in ipairs(starting_with(base or typed, list)) do
    local hidden = name:find("^%.") and not (base or typed):find("^%.")
    if not hidden then
      local path = (folder or "") .. name
      found[#found + 1] = path .. (sys.is_dir(path) and "/" or "")
    end
  end
  return found
end

---Names of parameters, as for `params:get "`, or keys, as for `batch.targets["`.
local function named(line, env)
  local path = line:match("([%a_][%w_%.]*):[%a_][%w_]*%s*%(?%s*$")
  local indexed = not path and line:match("([%a_][%w_%.]*)%s*%[%s*$")
  local value = names.value(path or indexed or "", function(name) return env[name] end)
  if indexed and type(value) == "table" then return names.of(value) end
  local params = path and names.field(value, "names") and value or names.field(value, "params")
  local listed = params and names.field(params, "names")
  if type(listed) ~= "function" then return {} end
  local ok, list = pcall(listed, params)
  return ok and type(list) == "table" and list or {}
end

---Candidates inside quotes.
local function of_text(line, typed, env)
  local word = line:match("([%a_][%w_]*)%s*%(?%s*$")
  if word == "help" or word == "apropos" or word == "examples" then return require("seqrun.help").names() end
  local list = starting_with(typed, named(line, env))
  return #list > 0 and list or files(typed)
end

-- ---- the result -----------------------------------------------------------------------------------

---Names in columns of the terminal's width.
local function columns(list)
  local width = 0
  for _, name in ipairs(list) do width = math.max(width, #name + 2) end
  local count = math.max(1, sys.columns(1) // width)
  local rows = math.ceil(math.min(#list, MOST_LISTED) / count)
  local lines = {}
  for row = 1, rows do
    local line = {}
    for column = 0, count - 1 do
      local name = list[column * rows + row]
      line[#line + 1] = name and (column * rows + row <= MOST_LISTED) and name .. (" "):rep(width - #name) or nil
    end
    lines[row] = table.concat(line):gsub("%s+$", "")
  end
  if #list > MOST_LISTED then lines[#lines + 1] = ("... %d more"):format(#list - MOST_LISTED) end
  return table.concat(lines, "\n")
end

---What to insert at the cursor, and what to list if that is not decided.
---@param before string the line up to the cursor
---@param env table the names of the session
---@return string? insert
---@return string? list
return function(before, env)
  if not before:find("%S") then return INDENT end
  local quote, at = open_quote(before)
  local list, prefix
  if quote then
    prefix = before:sub(at + 1)
    list = of_text(before:sub(1, at - 1), prefix, env)
  else
    list, prefix = of_name(before, env)
  end
  list = starting_with(prefix, list)
  if #list == 0 then return nil end
  local insert = common_start(list):sub(#prefix + 1)
  local whole = #list == 1 and quote and not list[1]:find("/$")
  if whole then insert = insert .. quote end
  if insert ~= "" then return insert end
  return nil, columns(list)
end
