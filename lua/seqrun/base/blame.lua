-- blame.lua - an error of Lua inside the library, as a sentence about the argument of the call that led there.
--
-- Functions check what people often get wrong.  Where one does not, the annotation above it says what it takes: nothing
-- is checked twice, and a call that is right costs nothing.

local check = require("seqrun.base.check")
local sys = require("seqrun.core.sys")

local blame = {}

-- ---- annotations -----------------------------------------------------------------------------------

---@class seqrun.Declared
---@field name string as it is defined: "Bert:losses"
---@field order string[] its parameters, `self` excluded
---@field types table<string, string>
---@field optional table<string, boolean>

---The type at the beginning of a text; spaces may stand in brackets and beside bars.
local function leading_type(text)
  local depth, last = 0, 0
  for at = 1, #text do
    local c = text:sub(at, at)
    if c:find("[%(%[{<]") then depth = depth + 1 elseif c:find("[%)%]}>]") then depth = depth - 1 end
    local joins = text:find("^%s*|", at) or text:sub(1, at - 1):find("[|:,]%s*$")
    if depth == 0 and c == " " and not joins then break end
    last = at
  end
  return text:sub(1, last)
end

---The name and the parameters of a function that begins in a line; that of a whole file has the file's name.
local function definition(line, path)
  for _, form in ipairs { "^%s*function ([%w_.:]+)", "^%s*local function ([%w_]+)", "^%s*local ([%w_]+) = function",
    "^%s*([%w_.]+) = function" } do
    local name, list = line:match(form .. "%s*%(([^)]*)%)")
    if name then return name, list end
  end
  return path:match("([^/]*)%.lua$"), line:match("^return function%s*%(([^)]*)%)")
end

---What stands above the definition of a function; nil if it is no named one.
---@param info debuginfo with source and linedefined
---@return seqrun.Declared|nil
local function declared(info)
  local path = info.source:match("^@(.*)")
  local source = path and sys.read_file(path, 1 << 22)
  if not source then return nil end
  local lines, number = {}, 0
  for line in source:gmatch("([^\n]*)\n?") do
    number = number + 1
    lines[number] = line
    if number == info.linedefined then break end
  end
  local name, list = definition(lines[number] or "", path)
  if not name or number ~= info.linedefined then return nil end
  local found = { name = name, order = {}, types = {}, optional = {} }
  for parameter in (list or ""):gmatch("[%w_]+") do found.order[#found.order + 1] = parameter end
  local first = number
  while lines[first - 1] and lines[first - 1]:find("^%-%-%-") do first = first - 1 end
  local text = table.concat(lines, "\n", first, number - 1):gsub("\n%-%-%-  ", " ")
  for parameter, mark, rest in text:gmatch("@param ([%w_]+)(%??)%s+([^\n]*)") do
    found.types[parameter], found.optional[parameter] = leading_type(rest), mark == "?"
  end
  return found
end

-- ---- values ----------------------------------------------------------------------------------------

---The parts of a type that bars separate.
local function alternatives(text)
  local list, depth, from = {}, 0, 1
  for at = 1, #text do
    local c = text:sub(at, at)
    if c:find("[%(%[{<]") then depth = depth + 1 elseif c:find("[%)%]}>]") then depth = depth - 1 end
    if c == "|" and depth == 0 then
      list[#list + 1] = text:sub(from, at - 1)
      from = at + 1
    end
  end
  list[#list + 1] = text:sub(from)
  return list
end

local PLAIN = { string = true, boolean = true, table = true, userdata = true, ["nil"] = true }

---Whether a value can be of one of these.
local function fits(value, one)
  local kind = type(value)
  one = one:match("^%s*%(?(.-)%)?%s*$")
  if PLAIN[one] then return kind == one end
  if one == "number" then return kind == "number" end
  if one == "integer" then return math.type(value) ~= nil and math.tointeger(value) ~= nil end
  if one == "function" or one:find("^fun%(") then return kind == "function" end
  if one:find("^[\"']") then return kind == "string" and value == one:sub(2, -2) end
  if one:find("%[%]$") or one:find("^{") or one:find("^table<") then return kind == "table" end
  if one == "seqrun.Tensor" then return kind == "userdata" or kind == "number" end
  local meta = kind == "userdata" and debug.getmetatable(value)
  if one:find("^seqrun%.") and meta and meta.__name == "seqrun.Tensor" then return false end
  if one:find("^seqrun%.") then return kind == "table" or kind == "userdata" or kind == "function" end
  return true -- any, a generic
end

local function fits_any(value, text)
  for _, one in ipairs(alternatives(text)) do
    if fits(value, one) then return true end
  end
  return false
end

local function shown(text) return (text:gsub("seqrun%.", ""):gsub("|", " or ")) end

---The sentence about the first argument of a wrong type; nil if all have theirs.
local function mismatch(found, level, shift)
  for i, name in ipairs(found.order) do
    local _, value = debug.getlocal(level + 1, i + shift)
    local wanted = found.types[name]
    if wanted and not (value == nil and found.optional[name]) and not fits_any(value, wanted) then
      return ("%s: %s must be %s, got %s"):format(found.name, name, shown(wanted), check.show(value))
    end
  end
end

---What a function takes: "batch: Batch, see?: fun(..)".
local function signature(found)
  local list = {}
  for i, name in ipairs(found.order) do
    local wanted = found.types[name]
    list[i] = wanted and ("%s%s: %s"):format(name, found.optional[name] and "?" or "", shown(wanted)) or name
  end
  return #list > 0 and table.concat(list, ", ") or "no arguments"
end

---The sentence for an error of Lua that was raised in the library, about the call at `level`, the outermost frame of
---the library; nil if that is no named function.
---@param what string the error, without its place
---@param level integer as for debug.getinfo
---@param types_only? boolean nil too where all arguments have their types
---@return string|nil
function blame.sentence(what, level, types_only)
  local info = debug.getinfo(level + 1, "S")
  local found = info and declared(info)
  if not found then return nil end
  local method = found.name:find(":", 1, true)
  local _, self = debug.getlocal(level + 1, 1)
  if method and type(self) ~= "table" and type(self) ~= "userdata" then
    return ("%s: called without its object; write object%s(...), with a colon"):format(found.name,
      found.name:match(":.*"))
  end
  local wrong = mismatch(found, level + 1, method and 1 or 0)
  if wrong or types_only then return wrong end
  return ("%s cannot use what it was given (%s); it takes %s"):format(found.name, what, signature(found))
end

return blame
