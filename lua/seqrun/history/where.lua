-- where.lua - conditions on runs: "rate.peak<1e-4 and best.f1>0.8", and the values that their names stand for.
--
--     names     run, state, step, steps, loss, held, seconds, age, ... as of seqrun.RunOverview; last.NAME, a metric
--               of the last evaluation; best.NAME, the best of all evaluations; others are keys of the config
--     compared  = == != <> < <= > >= and ~ (contains); a name alone: whether the run has it
--     joined    and, or, not, ( )
--
-- A run that lacks a value fulfils no comparison with it but !=.

local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")

local where = {}

local ALIASES = { run = "path", name = "path", tokens_per_s = "real_tokens_per_s", tokens = "real_tokens" }
local OWN = {
  path = true, state = true, reason = true, step = true, steps = true, loss = true, efficiency = true,
  real_tokens_per_s = true, sequences = true, real_tokens = true, seconds = true, age = true, checkpoint = true,
  bytes = true,
}

---The value of a name in a run; nil if it has none.
---@param row seqrun.RunRow
---@param name string
---@return any
function where.value(row, name)
  name = ALIASES[name] or name
  if name == "held" then return row.overview.held and row.overview.held.value end
  if OWN[name] then return row.overview[name] end
  local kind, metric = name:match("^(%a+)%.(.*)$")
  if kind == "best" or kind == "last" then return row[kind][metric] end
  return row.config[name]
end

---Raises if a name stands for nothing in all of the runs.
---@param rows seqrun.RunRow[]
---@param name string
---@param option string "--where"
function where.check_name(rows, name, option)
  if #rows == 0 or OWN[ALIASES[name] or name] or name == "held" then return end
  local known, seen = {}, {}
  local function add(one)
    if not seen[one] then seen[one], known[#known + 1] = true, one end
  end
  for _, row in ipairs(rows) do
    if where.value(row, name) ~= nil then return end
  end
  for i = 1, math.min(#rows, 200) do
    for key in pairs(rows[i].config) do add(key) end
    for metric in pairs(rows[i].best) do
      add("best." .. metric)
      add("last." .. metric)
    end
  end
  for own in pairs(OWN) do add(own) end
  table.sort(known)
  failure.raise("config", "%s: no run has '%s'%s", option, name, guess.hint(name, known))
end

-- ---- parsing -------------------------------------------------------------------------------------

local OPERATORS = { "<=", ">=", "!=", "~=", "<>", "==", "=", "<", ">", "~" }

---The next token at a place: its kind ("word", "text", "operator", "(", ")"), itself, the place after it.
local function token_at(text, at)
  at = text:find("%S", at)
  if not at then return nil, nil, #text + 1 end
  local quote = text:match("^['\"]", at)
  if quote then
    local close = text:find(quote, at + 1, true)
    if not close then failure.raise("config", "--where: the quote at character %d is not closed: %s", at, text) end
    return "text", text:sub(at + 1, close - 1), close + 1
  end
  for _, operator in ipairs(OPERATORS) do
    if text:sub(at, at + #operator - 1) == operator then return "operator", operator, at + #operator end
  end
  local one = text:sub(at, at)
  if one == "(" or one == ")" then return one, one, at + 1 end
  local word = text:match("^[^%s<>=!~()'\"]+", at)
  if not word then failure.raise("config", "--where: '%s' at character %d is not understood: %s", one, at, text) end
  return "word", word, at + #word
end

---@class seqrun.WhereParser
---@field text string
---@field at integer
---@field kind? string
---@field token? string
---@field names string[]
local Parser = {}
Parser.__index = Parser

function Parser:advance() self.kind, self.token, self.at = token_at(self.text, self.at) end

function Parser:fail(wanted)
  failure.raise("config", "--where: expected %s, got %s: %s", wanted,
    self.token and "'" .. self.token .. "'" or "the end", self.text)
end

local COMPARE = {
  ["="] = function(a, b) return a == b end, ["!="] = function(a, b) return a ~= b end,
  ["<"] = function(a, b) return a < b end, ["<="] = function(a, b) return a <= b end,
  [">"] = function(a, b) return a > b end, [">="] = function(a, b) return a >= b end,
}
COMPARE["=="], COMPARE["~="], COMPARE["<>"] = COMPARE["="], COMPARE["!="], COMPARE["!="]

---name operator value, or a name alone.
function Parser:comparison()
  if self.kind ~= "word" then self:fail("a name, such as rate.peak or best.f1") end
  local name = self.token
  self.names[#self.names + 1] = name
  self:advance()
  if self.kind ~= "operator" then
    return function(row)
      local value = where.value(row, name)
      return value ~= nil and value ~= false
    end
  end
  local operator = self.token
  self:advance()
  if self.kind ~= "word" and self.kind ~= "text" then self:fail("a value after " .. name .. operator) end
  local text, wanted = self.token, self.kind == "word" and tonumber(self.token) or nil
  self:advance()
  if operator == "~" then
    return function(row) return tostring(where.value(row, name) or ""):find(text, 1, true) ~= nil end
  end
  local compare, unequal = COMPARE[operator], COMPARE[operator] == COMPARE["!="]
  return function(row)
    local value = where.value(row, name)
    if value == nil then return unequal end
    if wanted and type(value) == "number" then return compare(value, wanted) end
    return compare(tostring(value), text)
  end
end

function Parser:factor()
  if self.token == "not" and self.kind == "word" then
    self:advance()
    local inner = self:factor()
    return function(row) return not inner(row) end
  end
  if self.kind ~= "(" then return self:comparison() end
  self:advance()
  local inner = self:either()
  if self.kind ~= ")" then self:fail("a closing )") end
  self:advance()
  return inner
end

function Parser:all()
  local left = self:factor()
  while self.kind == "word" and self.token == "and" do
    self:advance()
    local a, b = left, self:factor()
    left = function(row) return a(row) and b(row) end
  end
  return left
end

function Parser:either()
  local left = self:all()
  while self.kind == "word" and self.token == "or" do
    self:advance()
    local a, b = left, self:all()
    left = function(row) return a(row) or b(row) end
  end
  return left
end

---A condition as a function of a run, and the names in it.
---@param text string
---@return fun(row: seqrun.RunRow): boolean
---@return string[] names
function where.parse(text)
  local parser = setmetatable({ text = text, at = 1, names = {} }, Parser)
  parser:advance()
  local condition = parser:either()
  if parser.kind then parser:fail("and, or, or the end") end
  return condition, parser.names
end

return where
