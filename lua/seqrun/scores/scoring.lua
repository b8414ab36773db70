-- scoring - what heads predict during an evaluation, and the metrics of that.
--
-- A head of a task is scored by its kind.  Another head may have predict(self, hidden, target, batch), which returns
-- a value for each item, and score(self, predictions, labels), which returns { metric = number }.  A head of a task
-- with score() gets those metrics as well.

local Bert = require("seqrun.nn.bert")
local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted
local decisions = require("seqrun.scores.decisions")
local items = require("seqrun.data.items")
local kinds = require("seqrun.base.kinds")

---A head with methods of its own.
local own = { shown = {} }

function own.take(found, head, hidden, target, batch)
  local labels, guesses = target.labels:totable(), head:predict(hidden, target, batch)
  if type(guesses) ~= "table" or #guesses ~= #labels then
    local given = type(guesses) == "table" and counted(#guesses, "value") or check.show(guesses)
    check.fail("the head '%s': predict(self, hidden, target, batch)%s returned %s for %s; return a list with a value "
      .. "for each", head.name, check.place(head.predict), given, counted(#labels, "item"))
  end
  for i, guess in ipairs(guesses) do
    found[#found + 1] = { gold = labels[i], guess = guess }
  end
end

---The metrics of a head's own method.
function own.score(found, head)
  local metrics = head:score(items.column(found, "guess"), items.column(found, "gold"))
  for name, value in pairs(type(metrics) == "table" and metrics or { metrics or false }) do
    if type(name) ~= "string" or not math.type(value) then
      local given = type(name) == "string" and name .. " = " .. check.show(value) or check.show(metrics)
      check.fail("the head '%s': score(self, predictions, labels)%s must return { metric = number }, but returned %s",
        head.name, check.place(head.score), given)
    end
  end
  return metrics, {}
end

---What lines of metrics have beside those of heads.
local RESERVED = { step = true, type = true, seconds = true, loss = true }

---Fails if a head's own metric would replace another one.
local function check_new(head, name, known)
  if not known and not RESERVED[name] then return end
  check.fail("the head '%s': score(self, predictions, labels)%s returned %s, which is reported already and would be "
    .. "replaced; choose another name", head.name, check.place(head.score), name)
end

---Scoring by kind, with the metrics of the head's own method added.
local function extended(kind)
  return setmetatable({
    score = function(found, head, loader)
      local metrics, details = kind.score(found, head, loader)
      for name, value in pairs(own.score(found, head)) do
        local known = metrics[name] ~= nil
        for _, shown in ipairs(kind.shown) do known = known or shown == name end -- one of these may be undefined
        check_new(head, name, known)
        metrics[name] = value
      end
      return metrics, details
    end,
  }, { __index = kind })
end

local function scores_of(head)
  local task = kinds.get(head.kind)
  return task and task.scores
end

local function kind_of(head)
  if head.predict and head.score then return own end
  local kind = scores_of(head)
  return kind and head.score and extended(kind) or kind
end

---@class seqrun.Scoring
---@field heads { head: seqrun.Head, kind: table, items: table[], metrics?: table, details?: table }[]
---@field loader seqrun.Loader
local Scoring = {}
Scoring.__index = Scoring

---The scoring of a model; nil if no head of it predicts.
---@param model table
---@param loader seqrun.Loader of the examples
---@return seqrun.Scoring|nil
local function new(model, loader)
  local self = setmetatable({ heads = {}, by_name = {}, loader = loader }, Scoring)
  for _, head in ipairs(model.heads or {}) do
    local kind = kind_of(head)
    if kind then
      local entry = { head = head, kind = kind, items = {} }
      self.heads[#self.heads + 1], self.by_name[head.name] = entry, entry
    end
  end
  return #self.heads > 0 and self or nil
end

---Takes the predictions of a head for a micro-batch.
function Scoring:take(head, hidden, target, batch)
  local entry = self.by_name[head.name]
  if entry and (target.count == nil or target.count > 0) then
    entry.kind.take(entry.items, head, hidden, target, batch, self.loader)
  end
end

---Names of the metrics of a head: those of its kind in their order, then others by name.
local function names_of(metrics, shown)
  local names, known = {}, {}
  for _, name in ipairs(shown) do
    known[name] = true
    if metrics[name] then names[#names + 1] = name end
  end
  local others = {}
  for name in pairs(metrics) do
    if not known[name] then others[#others + 1] = name end
  end
  table.sort(others)
  return table.move(others, 1, #others, #names + 1, names)
end

---Joins the windows of documents, and fits what the head is to be decided by.
local function fit(entry)
  local head, each = entry.head, entry.kind.decides == "labels"
  if entry.kind.decides then decisions.join(entry.items, head.windows, each) end
  if head.deciding then head.decide, entry.fitted = decisions.fit(entry.items, head, head.deciding, each) end
end

---Adds the metrics of all predictions to a line, and their names to what is shown of each loss.  With several heads,
---metrics have the name of the head in front.
---@param line table
---@param order seqrun.Shown[]
function Scoring:finish(line, order)
  for _, entry in ipairs(self.heads) do
    local loss = line[entry.head.name .. "_loss"]
    if next(entry.items) and loss == loss then -- the run says what to do about NaN
      fit(entry)
      entry.metrics, entry.details = entry.kind.score(entry.items, entry.head, self.loader)
      local prefix = #self.heads > 1 and entry.head.name .. "_" or ""
      for name, value in pairs(entry.metrics) do
        local of_items = name == "accuracy" and prefix ~= "" -- the same as that of `correct`
        if entry.head.score then check_new(entry.head, name, line[prefix .. name] ~= nil and not of_items) end
        line[prefix .. name] = value
      end
      for _, shown in ipairs(order) do
        if shown.name == entry.head.name then
          shown.prefix, shown.scores = prefix, names_of(entry.metrics, entry.kind.shown)
          shown.percent = entry.kind.percent
        end
      end
    end
  end
end

---Names of metrics that are not defined for these predictions, such as the correlation of equal numbers; a set.
---@return table<string, true>
function Scoring:undefined()
  local names = {}
  for _, entry in ipairs(self.heads) do
    local prefix = #self.heads > 1 and entry.head.name .. "_" or ""
    for _, name in ipairs(entry.kind.metrics or entry.kind.shown) do
      if not (entry.metrics and entry.metrics[name]) then names[prefix .. name] = true end
    end
  end
  return names
end

local UNSCORED = { mlm = true, nsp = true } -- heads that have losses only

---Names of the metrics of these heads; nil if one of them is not ours.
local function names_of_heads(heads)
  local list, count = {}, 0
  for _, head in ipairs(heads) do count = count + (kind_of(head) and 1 or 0) end
  for _, head in ipairs(heads) do
    local kind = scores_of(head)
    if head.score or head.predict or not kind and not UNSCORED[head.name] then return nil end
    for _, name in ipairs(kind and kind.metrics or kind and kind.shown or {}) do
      list[#list + 1] = count > 1 and head.name .. "_" .. name or name
    end
  end
  return list
end

---Names of the metrics of an evaluation; nil if heads or losses of one's own may add others.
---@param model table
---@return string[]|nil
local function names(model)
  if model.losses ~= Bert.losses then return nil end
  local list = names_of_heads(model.heads)
  for _, name in ipairs(list and model:loss_names() or {}) do
    table.move({ name .. "_loss", name .. "_accuracy" }, 1, 2, #list + 1, list)
  end
  return list
end

return { new = new, names = names }
