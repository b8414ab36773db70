-- order.lua - updates decided in Lua: which examples, in which groups, cut to which length.
--
-- A source decides one update at a time, on the main thread and some updates ahead, so that workers can make it
-- while earlier updates are in use.  Pending orders and the state of the source are part of the loader's cursor,
-- so a resumed run continues exactly.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")

---@class seqrun.Orders
---@field state table plain values of the source, saved with the cursor
---@field pending { uids: integer[], ends: integer[]?, max_len: integer? }[] not delivered yet, the oldest first
local Orders = {}
Orders.__index = Orders

local PLAIN = { number = true, string = true, boolean = true }

---A copy of plain values; other values raise an error.
local function copy(value, path, open)
  if PLAIN[type(value)] then return value end
  if type(value) ~= "table" then
    error(("loader: order state: %s is a %s; only plain values are saved"):format(path, type(value)), 0)
  end
  if open[value] then error(("loader: order state: %s contains itself"):format(path), 0) end
  open[value] = true
  local to = {}
  for key, field in pairs(value) do
    if type(key) ~= "string" and math.type(key) ~= "integer" then
      error(("loader: order state: %s has a key that is a %s"):format(path, type(key)), 0)
    end
    to[key] = copy(field, ("%s.%s"):format(path, key), open)
  end
  open[value] = nil
  return to
end

---@param core seqrun.core.batch.loader
---@param source? fun(update: integer, state: table): table?, table?
---@param state? table
---@param ahead integer orders that are pending at most
---@return seqrun.Orders
function Orders.new(core, source, state, ahead)
  local self = { core = core, source = source, state = copy(state or {}, "state", {}), ahead = ahead, pending = {} }
  return setmetatable(self, Orders)
end

---One list of uids and the ends of the groups; no ends if every sequence is a group.
local function flatten(order)
  local uids, ends, grouped = {}, {}, false
  for _, group in ipairs(order) do
    if type(group) == "table" then
      grouped = true
      table.move(group, 1, #group, #uids + 1, uids)
    else
      uids[#uids + 1] = group
    end
    ends[#ends + 1] = #uids
  end
  return uids, grouped and ends or nil
end

local function give(self, order)
  local done, message, code = self.core:push(order.uids, order.ends, order.max_len)
  if not done then return nil, message, code end
  self.pending[#self.pending + 1] = order
  return true
end

---Appends an order to the pending ones.
---@param order (integer|integer[])[] uids, or groups of uids that must share a micro-batch
---@param options? { max_len?: integer }
---@return true? done
---@return string? message
---@return string? code
function Orders:push(order, options)
  options = check.options("loader:order", options, { max_len = true })
  if type(order) ~= "table" then return nil, ("an order is a list of uids, not a %s"):format(type(order)) end
  local uids, ends = flatten(order)
  return give(self, { uids = uids, ends = ends, max_len = options.max_len })
end

---Calls the source until enough orders are pending; `update` is the number of the next update to be delivered.
---@param update integer
---@return boolean more whether anything is pending
function Orders:ask(update)
  while self.source and not self.ended and #self.pending < self.ahead do
    local number = update + #self.pending
    local order, options = self.source(number, self.state)
    if order == nil and number == 0 then
      check.fail("loader: order(update, state)%s returned nil for the first update; return a list of uids, and nil "
        .. "only at the end of the data", check.place(self.source))
    end
    if order == nil then
      self.ended = true
    else
      local ok, done, message, code = pcall(self.push, self, order, options)
      if not ok then message = tostring(done):gsub("^[^\n]-:%d+: ", "") end -- the line of this file
      if code == "memory" then failure.raise(code, "loader: the order of update %d: %s", number, message) end
      if not (ok and done) then
        check.fail("loader: the order of update %d: %s%s", number, message, check.place(self.source))
      end
    end
  end
  return #self.pending > 0 or not self.source
end

---The oldest order has become an update.
function Orders:delivered() table.remove(self.pending, 1) end

---Adds what a resume needs to a cursor.
---@param cursor seqrun.Cursor
function Orders:save(cursor)
  cursor.pending = table.move(self.pending, 1, #self.pending, 1, {})
  cursor.state, cursor.ended = copy(self.state, "state", {}), self.ended
end

---Continues from a cursor; the core has already sought to it.
---@param cursor seqrun.Cursor
function Orders:load(cursor)
  self.pending, self.ended = {}, cursor.ended
  if cursor.state then self.state = copy(cursor.state, "state", {}) end
  for _, order in ipairs(cursor.pending or {}) do
    local done, message, code = give(self, order)
    if code == "memory" then failure.raise(code, "loader:seek: %s", message) end
    if not done then error(("loader:seek: a pending order of the cursor: %s"):format(message), 0) end
  end
end

return Orders
