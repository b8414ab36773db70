-- client.lua - the side of the prompt: sends lines to a run and prints its answers.

local frames = require("seqrun.attach.frames")
local place = require("seqrun.attach.place")
local printable = require("seqrun.base.printable")
local repl = require("seqrun.repl")
local sys = require("seqrun.core.sys")

local FAILED, INTERRUPTED = 1, 130
local SAY_AFTER = 2   -- seconds without an answer
local TAB_SECONDS = 1 -- a key waits no longer

---@class seqrun.attach.Client
---@field code integer exit code of the last expression
---@field over? string why the run has left
local Client = {}
Client.__index = Client

---@param folder string of the run
---@param seconds integer that an expression may take
---@return seqrun.attach.Client
function Client.open(folder, seconds)
  sys.signals("waiting")
  return setmetatable({
    socket = place.connect(folder), reader = frames.reader(), folder = folder, seconds = seconds, id = 0, code = 0,
  }, Client)
end

---Writes all; false when the run has left.
local function send(self, bytes)
  local from = 1
  while from <= #bytes do
    local count = self.socket:write(bytes, from)
    if not count then return false end
    from = from + count
    if from <= #bytes then self.socket:wait(1, true) end
  end
  return true
end

local function ask(self, kind, text)
  self.id = self.id + 1
  return send(self, frames.pack(kind, self.id, text, sys.columns(1), self.seconds))
end

---The next frame; nil if none came in time or after Ctrl-C, false when the run has left.
local function next_frame(self, seconds)
  local until_then = sys.now() + seconds
  while true do
    local frame = self.reader:next()
    if frame then return frame end
    local bytes = self.socket:read()
    if not bytes then return false end
    if bytes ~= "" then
      self.reader:feed(bytes)
    else
      local left = until_then - sys.now()
      if left <= 0 or sys.caught() then return nil end
      self.socket:wait(left)
    end
  end
end

---What a frame of an answer means; true at its end.
local function take(self, frame)
  if frame.kind == "bye" then
    self.over = frame.text
  elseif frame.kind == "out" then
    io.stdout:write(frame.text)
    io.stdout:flush()
  elseif frame.kind == "err" then
    io.stderr:write(frame.text)
  elseif frame.kind == "done" and frame.id == self.id then
    self.code = tonumber(frame.text) or FAILED
    return true
  elseif frame.kind == "hello" and frame.id == self.id then
    self.greeting = frame.text
    return true
  end
  return self.over ~= nil
end

---Ctrl-C: the first ends the expression, the second the wait.
local function interrupt(self)
  if self.stopping then
    self.over, self.code = "detached", INTERRUPTED
    return true
  end
  self.stopping = true
  send(self, frames.pack("stop", self.id, ""))
  return false
end

---Prints what comes until the answer is complete.
local function await(self)
  local said, began = false, sys.now()
  self.stopping = false
  while true do
    local frame = next_frame(self, SAY_AFTER)
    if frame == false then
      self.over = self.over or "the run has ended"
      return
    end
    if frame and take(self, frame) then return end
    if sys.caught(true) and interrupt(self) then return end
    if not frame and not said and sys.now() - began >= SAY_AFTER and sys.is_terminal(2) then
      said = true
      io.stderr:write("waiting for the current step to end; Ctrl-C twice detaches\n")
    end
  end
end

---Waits until the run says where it is.
---@return boolean
function Client:greet()
  await(self)
  return self.over == nil
end

---Has the run evaluate some text, and prints what comes.
---@param text string
---@return boolean # whether the session continues
function Client:evaluate(text)
  if #text > frames.LONGEST then
    io.stderr:write(("the expression has %d bytes; the maximum is %d\n"):format(#text, frames.LONGEST))
    self.code = FAILED
    return true
  end
  self.code = FAILED
  if not ask(self, "eval", text) then self.over = self.over or "the run has ended" end
  await(self)
  return self.over == nil
end

---Completes a line.
---@param before string
---@return string? insert
---@return string? list
function Client:complete(before)
  if not ask(self, "tab", before) then return nil end
  local until_then = sys.now() + TAB_SECONDS
  repeat
    local frame = next_frame(self, math.max(0, until_then - sys.now()))
    if frame and frame.kind == "tab" and frame.id == self.id then
      local insert, list = frame.text:match("^(%Z*)%z(.*)$")
      return insert ~= "" and insert or nil, list ~= "" and list or nil
    end
    if frame then take(self, frame) end
  until not frame
end

---A prompt until the input ends or the run has left.
function Client:prompt()
  local lines = require("seqrun.repl.lines")(function(before) return self:complete(before) end)
  if lines.terminal then
    print(("attached to %s"):format(self.greeting))
    print("status() shows more, help() lists commands, Ctrl-D detaches; the run continues")
  end
  local failed = 0
  repl.each(lines, function(text)
    local goes_on = self:evaluate(text)
    if self.code ~= 0 then failed = self.code end
    return not goes_on
  end)
  lines:close()
  if lines.terminal and self.code ~= INTERRUPTED then failed = 0 end -- a person has seen what failed
  self.code = failed
end

---Closes the connection, and says why if the run did.
---@return integer # exit code
function Client:close()
  self.socket:close()
  if self.over then io.stderr:write(printable(self.over), "\n") end
  sys.signals("default")
  return self.code
end

return Client
