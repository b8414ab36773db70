-- watch - a live view of runs in the terminal; the runs do not notice.
--
-- The view is on the terminal's second screen, drawn with plain ANSI codes, so it works over ssh; when it ends, the
-- first screen is as it was, with the last figures below.  Where the output is not a terminal there is one picture.

local ansi = require("seqrun.draw.ansi")
local edit = require("seqrun.core.edit")
local follow = require("seqrun.watch.follow")
local frame = require("seqrun.watch.frame")
local output = require("seqrun.base.output")
local sys = require("seqrun.core.sys")

local watch = {}

local STDOUT = 1
local ENTER, LEAVE = "\27[?1049h\27[?25l", "\27[?25h\27[?1049l"

---Rows of a picture that goes to a file.
local ROWS = 30

---Seconds between two looks at the keys and at the size of the terminal.
local TICK = 0.2

---@class seqrun.Watch
---@field watched seqrun.watch.Runs
---@field every number seconds between two looks at the runs
---@field place integer of the metric in those that can be drawn
---@field log boolean
---@field keys? seqrun.core.Keys
local Watch = {}
Watch.__index = Watch

local function view_of(self, width, height)
  local all = frame.metrics(self.watched.runs)
  self.place = (self.place - 1) % #all + 1
  return {
    width = width, height = height, key = self.key or all[self.place], log = self.log, colours = ansi.colours(STDOUT),
    keys = self.keys ~= nil,
  }
end

local function draw(self)
  self.width, self.height = sys.columns(STDOUT), sys.rows(STDOUT)
  local lines = frame.lines(self.watched, view_of(self, self.width - 1, self.height))
  output.draw(lines, { before = "\27[H", between = "\27[K\r\n", after = "\27[K\27[J" })
end

---What a key asks for; false: the end.
local function obey(self, key)
  if key:find("[qQ\3\4]") then return false end
  if key == "\26" then
    output.draw({}, { after = LEAVE })
    self.keys:pause()
    output.draw({}, { after = ENTER })
  elseif key == "\t" or key == "n" or key == "\27[C" then
    self.key, self.place = nil, self.place + 1
  elseif key == "\27[Z" or key == "p" or key == "\27[D" then
    self.key, self.place = nil, self.place - 1
  elseif key == "l" then
    self.log = not self.log
  end
  draw(self)
  return true
end

---The keys in what came at once: sequences of the arrows, and single bytes.
local function keys_in(bytes)
  local keys, at = {}, 1
  while at <= #bytes do
    keys[#keys + 1] = bytes:match("^\27%[[%d;]*.", at) or bytes:sub(at, at)
    at = at + #keys[#keys]
  end
  return keys
end

---Waits for keys or for the next look; false at the end.
local function wait(self, seconds)
  if not self.keys then
    sys.sleep(seconds)
    return true
  end
  local bytes = self.keys:read(seconds)
  if bytes == nil then return false end
  for _, key in ipairs(keys_in(bytes)) do
    if not obey(self, key) then return false end
  end
  return true
end

---Until a key, a signal or the end of the terminal.
local function loop(self)
  local looked = sys.now()
  while not sys.caught() and not sys.reader_left() do
    if not wait(self, TICK) then return end
    local resized = sys.columns(STDOUT) ~= self.width or sys.rows(STDOUT) ~= self.height
    if sys.now() - looked >= self.every then
      self.watched:look()
      looked, resized = sys.now(), true
    end
    if resized then draw(self) end
  end
end

---Prints a picture that stays.
---@param lines fun(watched: seqrun.watch.Runs, view: seqrun.watch.View): string[]
local function print_once(self, lines)
  local width = sys.is_terminal(STDOUT) and sys.columns(STDOUT) - 1 or 80
  for _, line in ipairs(lines(self.watched, view_of(self, width, ROWS))) do
    if not io.stdout:write(line, "\n") then return end
  end
end

---The view, until it ends.
local function show(self)
  local keys <close> = edit.keys()
  self.keys = keys
  local screen <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
    output.draw({}, { after = LEAVE })
  end })
  output.draw({}, { after = ENTER })
  draw(self)
  loop(self)
  self.keys = nil
end

---Shows runs until a key ends it, or once.
---@param paths string[]
---@param options { every: number, once?: boolean, key?: string, log?: boolean }
function watch.run(paths, options)
  local self = setmetatable({
    watched = follow.runs(paths), every = options.every, place = 1, key = options.key, log = options.log or false,
  }, Watch)
  self.watched:look()
  if options.once or not sys.is_terminal(STDOUT) or ansi.is_dumb() then
    return print_once(self, frame.lines)
  end
  sys.signals("run")
  show(self)
  print_once(self, frame.head)
end

return watch
