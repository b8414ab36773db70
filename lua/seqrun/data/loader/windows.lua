-- windows.lua - decides what updates draw, a window of them at a time, `ahead` of those that are delivered.
--
-- It does what order.lua does for orders of uids: pending windows, totals and the state of
-- schedules are part of the loader's cursor, so a resumed run continues exactly.  Schedules see the totals
-- at the beginning of a window, which do not depend on how far ahead that is.

local failure = require("seqrun.base.failure")

---@class seqrun.Window
---@field update integer its first update, from 0
---@field sequences integer totals before it
---@field raw_tokens integer
---@field real_tokens integer
---@field epoch integer whose examples it draws
---@field epoch_update integer the first update of that epoch
---@field drawn integer examples that updates of the epoch before it have
---@field updates integer
---@field each integer examples of an update
---@field max_len integer 0: not cut
---@field pieces boolean
---@field mask? number fraction of masked tokens
---@field unlocked integer
---@field prefixes integer[]
---@field difficulties table<string, number>
---@field from integer updates delivered

---@class seqrun.Windows
---@field pending seqrun.Window[]
---@field totals table before the next window
local Windows = {}
Windows.__index = Windows

local PLACE = { "epoch", "epoch_update", "drawn" }
local TOTALS = { "update", "sequences", "raw_tokens", "real_tokens", table.unpack(PLACE) }

local function totals_of(t)
  local totals = {}
  for _, key in ipairs(TOTALS) do totals[key] = t[key] or 0 end
  return totals
end

---The totals after a window from those that the core has counted.
local function totals_after(window, counted)
  counted.epoch, counted.epoch_update = window.epoch, window.epoch_update
  counted.drawn = window.drawn + window.each * window.updates
  return counted
end

---@param loader seqrun.Loader
---@param curriculum seqrun.Curriculum
---@param ahead integer updates that are pending at least
---@return seqrun.Windows
function Windows.new(loader, curriculum, ahead)
  local self = { core = loader.core, curriculum = curriculum, ahead = ahead, pending = {}, updates = 0, source = true }
  curriculum:bind(loader)
  self.totals, self.state = totals_of(loader.core:cursor()), {}
  return setmetatable(self, Windows)
end

local function push(self, window)
  local sampler = self.curriculum:unlock(window.prefixes, window.epoch)
  local totals, message, code = self.core:push_window(sampler, window)
  if not totals then return nil, message, code end
  self.pending[#self.pending + 1] = window
  self.updates = self.updates + window.updates - window.from
  self.totals = totals_after(window, totals)
  return true
end

---Decides windows until enough updates are pending.
---@return boolean more
function Windows:ask()
  while self.updates < self.ahead do
    local window = self.curriculum:decide(self.totals)
    local done, message, code = push(self, window)
    if not done then failure.raise(code, "curriculum: update %d: %s", window.update + 1, message) end
  end
  return true
end

---The oldest update has been delivered; returns its window.
---@return seqrun.Window
function Windows:delivered()
  local window = self.pending[1]
  window.from, self.updates = window.from + 1, self.updates - 1
  if window.from == window.updates then table.remove(self.pending, 1) end
  return window
end

local function copy(window)
  local to = {}
  for key, value in pairs(window) do
    to[key] = type(value) == "table" and copy(value) or value
  end
  return to
end

---Adds what a resume needs to a cursor.
---@param cursor seqrun.Cursor
function Windows:save(cursor)
  cursor.pending = copy(self.pending)
  cursor.state = { totals = copy(self.totals), schedules = self.curriculum:state() }
end

---Continues from a cursor; the core has already sought to it.
---@param cursor seqrun.Cursor
function Windows:load(cursor)
  self.pending, self.updates = {}, 0
  self.totals = totals_of(cursor.state and cursor.state.totals or cursor)
  for _, saved in ipairs(cursor.pending or {}) do
    local window = copy(saved)
    for _, key in ipairs(PLACE) do window[key] = window[key] or cursor[key] or 0 end -- of an older build
    local done, message, code = push(self, window)
    if code == "memory" then failure.raise(code, "loader:seek: %s", message) end
    if not done then error(("loader:seek: a pending window of the cursor: %s"):format(message), 0) end
  end
  if cursor.state and cursor.state.schedules then self.curriculum:restore(cursor.state.schedules) end
end

return Windows
