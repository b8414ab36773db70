-- fields.lua - values of JSON as what a field may hold: a text, a list of texts, or either.
--
-- Lists that come out of here have no holes; numbers and booleans become texts, as a table would have them.

local formats = require("seqrun.draw.formats")
local json = require("seqrun.core.json")

local fields = {}

---"text", "texts" or "either", for each role whose reader does not say.
fields.USUAL = { text = "text", pair = "text", id = "text", label = "either", choices = "texts" }

local BOOLEANS = { ["true"] = true, ["false"] = true, True = true, False = true }

local LIST = getmetatable(json.array {})

local function is_list(value) return type(value) == "table" and getmetatable(value) == LIST end

---What a value is, for messages.
local function shown(value)
  if value == json.null then return "null" end
  if fields.is_rounded(value) then return "a number of more than 64 bits, whose digits are lost (put it in quotes)" end
  if type(value) ~= "table" then return "a " .. type(value) end
  return is_list(value) and "a list" or "an object"
end

---Whether a value is a number where an integer of more than 64 bits stood, which JSON gives as a float near it.
function fields.is_rounded(value)
  return math.type(value) == "float" and math.abs(value) >= 2.0 ^ 63 and math.abs(value) < 1e40
end

---A text, a number or a boolean as a text; nil for others, and for numbers that have lost digits.
---@param value any
---@return string?
function fields.text(value)
  if type(value) == "string" then return value end
  if type(value) == "boolean" or math.type(value) == "integer" then return tostring(value) end
  if type(value) == "number" and not fields.is_rounded(value) then return formats.all_digits(value) end
end

---The items of a list written as text, as Python prints and JSON writes it: "['a', 'b']", "[1, 0]", "{'a'}"; nil if it
---is none.
---@param text string
---@return string[]?
function fields.listed(text)
  local inside, list, at = text:match("^%s*%[(.*)%]%s*$"), {}, 1
  inside = inside or text:match("^%s*%((['\"].*)%)%s*$") or text:match("^%s*{(['\"].*)}%s*$")
  if not inside then return nil end
  while inside:find("%S", at) do
    local quote, from = inside:match("^%s*([\"'])()", at)
    local item, after
    if quote then
      local to = from
      while inside:sub(to, to) ~= quote do
        if to > #inside then return nil end
        to = to + (inside:sub(to, to) == "\\" and 2 or 1)
      end
      item, after = inside:sub(from, to - 1):gsub("\\(.)", "%1"), to + 1
    else
      item, after = inside:match("^%s*([%d.eE+-]+)()", at)
      if not item then item, after = inside:match("^%s*(%a+)()", at) end
      if item and item:find("^%a") and not BOOLEANS[item] then return nil end
    end
    local following = after and inside:match("^%s*,?()", after)
    if not item or following == after and after <= #inside then return nil end
    list[#list + 1], at = item, following
  end
  return list
end

---The items of a list as texts; or nil and why.
local function texts(value, key)
  local list = {}
  for i, one in ipairs(value) do
    list[i] = fields.text(one)
    if not list[i] then
      return nil, ("item %d of '%s' is %s; expected a text or a number"):format(i, key, shown(one))
    end
  end
  return list
end

---@param value any of json.decode, not nil
---@param wanted "text"|"texts"|"either"|"filled" filled: either, and null in a list is left out
---@param key string its name, for the message
---@return string|string[]|nil
---@return string? why
function fields.read(value, wanted, key)
  if is_list(value) and wanted ~= "text" then
    if wanted ~= "filled" then return texts(value, key) end
    local filled = {}
    for _, one in ipairs(value) do
      if one ~= json.null then filled[#filled + 1] = one end
    end
    return texts(filled, key)
  end
  local listed = type(value) == "string" and wanted ~= "text" and fields.listed(value)
  if listed then return listed end
  local text = wanted ~= "texts" and fields.text(value)
  if text then return text end
  return nil, ("'%s' is %s; expected %s"):format(key, shown(value), wanted == "texts" and "a list of texts"
    or wanted == "text" and "a text or a number" or "a text, a number or a list of them")
end

return fields
