-- show.lua - values as readable text: tables sorted and limited in depth, strings quoted.

local DEPTH, ENTRIES, WIDTH = 4, 40, 100
local LONGEST = 2000 -- bytes of a string

local show

local function key_text(key)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") then return key end
  return "[" .. show(key, 1) .. "]"
end

local function before(a, b)
  if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
  return tostring(a) < tostring(b)
end

---The entries of a table as text: the list part first, then keys in order.
local function entries(value, depth, seen)
  local parts, keys = {}, {}
  for i, item in ipairs(value) do
    if i > ENTRIES then break end
    parts[i] = show(item, depth - 1, seen)
  end
  local listed = #parts
  for key in pairs(value) do
    local in_list = math.type(key) == "integer" and key >= 1 and key <= listed
    if not in_list then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  for _, key in ipairs(keys) do
    if #parts >= ENTRIES then
      parts[#parts + 1] = "..."
      break
    end
    parts[#parts + 1] = key_text(key) .. " = " .. show(value[key], depth - 1, seen)
  end
  return parts
end

local function show_table(value, depth, seen)
  if seen[value] then return "{ (seen above) }" end
  if next(value) == nil then return "{}" end
  if depth <= 0 then return "{ ... }" end
  seen[value] = true
  local parts = entries(value, depth, seen)
  seen[value] = nil
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #line <= WIDTH and not line:find("\n") then return line end
  for i, part in ipairs(parts) do parts[i] = "  " .. part:gsub("\n", "\n  ") end
  return "{\n" .. table.concat(parts, ",\n") .. "\n}"
end

---The names of a function's parameters; "..." for those of C.
local function parameters(fn)
  local info, list = debug.getinfo(fn, "u"), {}
  for i = 1, info.nparams do list[i] = debug.getlocal(fn, i) end
  if info.isvararg then list[#list + 1] = "..." end
  return table.concat(list, ", ")
end

local function quoted(text)
  local note = ""
  if #text > LONGEST then
    local cut = utf8.offset(text, 0, LONGEST // 2) or LONGEST // 2
    text, note = text:sub(1, cut - 1), ("... (%d bytes)"):format(#text)
  end
  return ("%q"):format(text):gsub("\\\n", "\\n") .. note
end

---@param value any
---@param depth? integer levels of tables to open
---@return string
function show(value, depth, seen)
  if type(value) == "string" then return quoted(value) end
  if type(value) == "function" then return "function(" .. parameters(value) .. ")" end
  local meta = getmetatable(value)
  local own = type(meta) == "table" and meta.__tostring
  if type(value) == "table" and not own then return show_table(value, depth or DEPTH, seen or {}) end
  if type(value) == "userdata" and tostring(value) == "userdata: (nil)" then return "null" end -- of JSON
  return tostring(value)
end

return { show = show }
