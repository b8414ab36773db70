-- condition.lua - conditions as a user writes them, to trees: "lang == 'en' and score > 0.5".
--
--     names     of values, whose meaning is the caller's: rate.peak of runs, lang or meta.lang of records
--     compared  = == != <> ~= < <= > >= with a number or a text, and ~ (contains); a name alone: whether it is there
--     joined    and, or, not, ( )
--
-- A number is compared as one unless it is in quotes; true and false are texts.  What a comparison means is in
-- core/text/condition.c, for runs as for records.

local failure = require("seqrun.base.failure")
local core = require("seqrun.core.text")

---A tree: { "and", a, b }, { "or", a, b }, { "not", a }, { "has", name }, { "compare", name, operator, text, number? }.
---@alias seqrun.Condition table

local condition = {}

local OPERATORS = { "<=", ">=", "!=", "~=", "<>", "==", "=", "<", ">", "~" }
local SAME = { ["=="] = "=", ["~="] = "!=", ["<>"] = "!=" }

---Parentheses and `not` inside one another; comparisons, whose chains are trees as deep (lua/bind/lrecords.c).
local DEPTH, COMPARISONS = 100, 1000

---Bytes of a condition that messages repeat.
local SHOWN = 1000

---@class seqrun.ConditionParser
---@field text string
---@field option string what messages begin with
---@field at integer
---@field depth integer
---@field kind? string of the token: "word", "text", "operator", "(", ")"; nil at the end
---@field token? string
---@field names string[]
local Parser = {}
Parser.__index = Parser

local function refuse(self, format, ...)
  local text = #self.text <= SHOWN and self.text or self.text:sub(1, SHOWN) .. "..."
  failure.raise("config", "%s: %s: %s", self.option, format:format(...), text)
end

---The next token at a place: its kind, itself, the place after it.
local function token_at(self, at)
  local text = self.text
  at = text:find("%S", at)
  if not at then return nil, nil, #text + 1 end
  local quote = text:match("^['\"]", at)
  if quote then
    local close = text:find(quote, at + 1, true)
    if not close then refuse(self, "the quote at character %d is not closed", at) end
    return "text", text:sub(at + 1, close - 1), close + 1
  end
  for _, operator in ipairs(OPERATORS) do
    if text:sub(at, at + #operator - 1) == operator then return "operator", operator, at + #operator end
  end
  local one = text:sub(at, at)
  if one == "(" or one == ")" then return one, one, at + 1 end
  local word = text:match("^[^%s<>=!~()'\"]+", at)
  if not word then refuse(self, "'%s' at character %d is not understood", one, at) end
  return "word", word, at + #word
end

function Parser:advance() self.kind, self.token, self.at = token_at(self, self.at) end

function Parser:fail(wanted)
  refuse(self, "expected %s, got %s", wanted, self.token and "'" .. self.token .. "'" or "the end")
end

---name operator value, or a name alone.
function Parser:comparison()
  if self.kind ~= "word" then self:fail("a name, such as lang or rate.peak") end
  local name = self.token
  self.names[#self.names + 1] = name
  if #self.names > COMPARISONS then refuse(self, "more than %d comparisons", COMPARISONS) end
  self:advance()
  if self.kind ~= "operator" then return { "has", name } end
  local operator = SAME[self.token] or self.token
  self:advance()
  if self.kind ~= "word" and self.kind ~= "text" then self:fail("a value after " .. name .. operator) end
  local text, number = self.token, self.kind == "word" and tonumber(self.token) or nil
  self:advance()
  return { "compare", name, operator, text, number }
end

function Parser:deeper()
  self.depth = self.depth + 1
  if self.depth > DEPTH then refuse(self, "more than %d nested parentheses", DEPTH) end
end

function Parser:factor()
  if self.token ~= "not" and self.kind ~= "(" or self.kind == "text" then return self:comparison() end
  self:deeper()
  local inner
  if self.kind == "(" then
    self:advance()
    inner = self:either()
    if self.kind ~= ")" then self:fail("a closing )") end
    self:advance()
  else
    self:advance()
    inner = { "not", self:factor() }
  end
  self.depth = self.depth - 1
  return inner
end

---Operands joined by a word, from the left.
local function joined(self, word, operand)
  local left = operand(self)
  while self.kind == "word" and self.token == word do
    self:advance()
    left = { word, left, operand(self) }
  end
  return left
end

function Parser:all() return joined(self, "and", self.factor) end
function Parser:either() return joined(self, "or", self.all) end

---@param text string
---@param option string what messages begin with: "--where"
---@return seqrun.Condition
---@return string[] names in it
function condition.parse(text, option)
  local parser = setmetatable({ text = text, option = option, at = 1, depth = 0, names = {} }, Parser)
  parser:advance()
  local tree = parser:either()
  if parser.kind then parser:fail("and, or, or the end") end
  return tree, parser.names
end

---@param tree seqrun.Condition
---@param value fun(name: string): any of a name
---@return boolean
function condition.holds(tree, value)
  local kind = tree[1]
  if kind == "and" then return condition.holds(tree[2], value) and condition.holds(tree[3], value) end
  if kind == "or" then return condition.holds(tree[2], value) or condition.holds(tree[3], value) end
  if kind == "not" then return not condition.holds(tree[2], value) end
  local found = value(tree[2])
  if kind == "has" then return found ~= nil and found ~= false end
  return core.compares(found, tree[3], tree[4], tree[5])
end

return condition
