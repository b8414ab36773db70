-- exact.lua - plain values as text that reads back the same, bit for bit.
--
-- JSON has one kind of number and readers that round.  Here every scalar is a string with its kind in
-- front: i:12, f:0x1.8p+1, s:text; true and false stay, tables become objects and lists.

local json = require("seqrun.core.json")

local exact = {}

local function pack_float(x)
  if x ~= x then return "f:nan" end
  if x == math.huge then return "f:inf" end
  if x == -math.huge then return "f:-inf" end
  return ("f:%a"):format(x)
end

local function pack(value, where)
  local kind = math.type(value) or type(value)
  if kind == "integer" then return ("i:%d"):format(value) end
  if kind == "float" then return pack_float(value) end
  if kind == "string" then return "s:" .. value end
  if kind == "boolean" then return value end
  if kind ~= "table" then
    local kept = "only numbers, strings, booleans and tables of them are kept"
    error(("checkpoint: state%s is a %s; %s"):format(where, kind, kept), 0)
  end
  local copy, n = {}, #value
  for key, item in pairs(value) do
    local list_key = math.type(key) == "integer" and key >= 1 and key <= n
    if type(key) ~= "string" and not list_key or type(key) == "string" and n > 0 then
      error(("checkpoint: state%s mixes a list with keys, or has a hole"):format(where), 0)
    end
    copy[key] = pack(item, ("%s.%s"):format(where, key))
  end
  return copy
end

local SPECIAL = { ["f:inf"] = math.huge, ["f:-inf"] = -math.huge, ["f:nan"] = 0 / 0 }

local function unpack_text(text)
  local kind, rest = text:match("^(%l):(.*)$")
  if kind == "s" then return rest end
  if kind == "i" then
    local x = math.tointeger(tonumber(rest))
    if x and ("%d"):format(x) == rest then return x end
  elseif kind == "f" then
    local x = SPECIAL[text] or tonumber(rest)
    if math.type(x) == "float" then return x end
  end
  error(("'%s' is not a value"):format(text:sub(1, 40)), 0)
end

local function unpack_value(value)
  if type(value) == "string" then return unpack_text(value) end
  if type(value) == "boolean" then return value end
  if type(value) ~= "table" then error("a bare " .. type(value), 0) end
  local copy = {}
  for key, item in pairs(value) do copy[key] = unpack_value(item) end
  return copy
end

---@param value any numbers, strings, booleans and tables of them
---@return string
function exact.encode(value) return json.encode(pack(value, "")) .. "\n" end

---@param text string
---@return any|nil value
---@return string? message
---@return string? code
function exact.decode(text)
  local tree, message, code = json.decode(text)
  if tree == nil then return nil, message, code end
  local ok, value = pcall(unpack_value, tree)
  if ok then return value end
  return nil, "not a state: " .. tostring(value), "data"
end

return exact
