-- server.lua - the side of the run: a socket that is looked at between steps, and the prompts that are attached.
--
-- Nothing here waits for a prompt: what it has not read yet is kept, and a prompt that does not read is dropped.

local frames = require("seqrun.attach.frames")
local place = require("seqrun.attach.place")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local MOST_CLIENTS = 8
local MOST_KEPT = 8 << 20 -- bytes that a prompt has not read
local PATIENCE = 30       -- seconds that it may read nothing
local SHOWN = 200         -- bytes of an expression in run.log

---@class seqrun.attach.Server
---@field clients table[]
local Server = {}
Server.__index = Server

---Listens for prompts of this user.
---@param run seqrun.Run
---@return seqrun.attach.Server|nil
---@return string? message
function Server.open(run)
  local listener, path = place.listen(run.folder)
  if not listener then return nil, path end
  return setmetatable({ run = run, listener = listener, path = path, clients = {} }, Server)
end

-- ---- one prompt ----------------------------------------------------------------------------------

local function drop(client)
  client.gone = true
  client.socket:close()
end

---Sends what is kept, as much as there is room for.
local function flush(client)
  if client.gone then return end
  while not client.gone and client.sent < #client.kept do
    local count = client.socket:write(client.kept, client.sent + 1)
    if not count then return drop(client) end
    if count == 0 then break end
    client.sent, client.read_at = client.sent + count, sys.now()
  end
  if client.sent == #client.kept then client.kept, client.sent = "", 0 end
  if #client.kept - client.sent > MOST_KEPT or client.kept ~= "" and sys.now() - client.read_at > PATIENCE then
    drop(client)
  end
end

local function send(client, bytes)
  if client.kept == "" then client.read_at = sys.now() end
  client.kept = client.kept:sub(client.sent + 1) .. bytes
  client.sent = 0
  flush(client)
end

local function dismiss(client, why)
  send(client, frames.pack("bye", 0, why))
  drop(client)
end

---Takes what a prompt has sent: the next expression, unless a later frame stops it.  A prompt does not wait long for a
---completion, so one that is still to be made gives way.
local function take(client)
  local problem
  repeat
    local frame
    frame, problem = client.reader:next()
    if frame and frame.kind == "stop" then
      client.stopped = client.next and client.next.id == frame.id
    elseif frame and (frame.kind == "eval" or frame.kind == "tab")
      and (not client.next or client.next.kind == "tab") then
      client.next = frame
    elseif frame then
      problem = "an expression was sent before the last one was answered"
    end
  until not frame or problem
  if problem then dismiss(client, problem) end
end

---Reads what has arrived.
local function receive(client)
  while not client.gone do
    local bytes = client.socket:read()
    if not bytes then return drop(client) end
    if bytes == "" then break end
    client.reader:feed(bytes)
    take(client)
  end
end

-- ---- all prompts ---------------------------------------------------------------------------------

local function greeting(run)
  return ("%s, step %s"):format(run.folder, text.step(run.step, run.last))
end

local function accept(self)
  local connection = self.listener:accept()
  while connection do
    local client = {
      socket = connection, reader = frames.reader(frames.LONGEST), kept = "", sent = 0, read_at = sys.now(),
    }
    if #self.clients < MOST_CLIENTS then
      self.clients[#self.clients + 1] = client
      send(client, frames.pack("hello", 0, greeting(self.run)))
      receive(client)
    else
      dismiss(client, ("%d prompts are attached already"):format(MOST_CLIENTS))
    end
    connection = self.listener:accept()
  end
end

local function forget_dropped(self)
  local left = {}
  for _, client in ipairs(self.clients) do
    if not client.gone then left[#left + 1] = client end
  end
  if #left < #self.clients then
    self.clients = left
    collectgarbage() -- tensors of the sessions that ended
  end
end

---Looks for prompts and what they have sent; whether any is to be answered.
---@return boolean
function Server:look()
  for _, client in ipairs(self.clients) do
    receive(client)
    flush(client)
  end
  forget_dropped(self)
  accept(self)
  for _, client in ipairs(self.clients) do
    if client.next then return true end
  end
  return false
end

local function evaluate(self, client)
  local frame = client.next
  client.session = client.session or require("seqrun.attach.session").new(self.run)
  if frame.kind == "tab" then return send(client, client.session:complete(client.socket, frame)) end
  if client.stopped then
    return send(client, frames.pack("err", frame.id, "interrupted\n") .. frames.pack("done", frame.id, "1"))
  end
  local line = frame.text:match("[^\n]*")
  self.run:record("attached: " .. (#line > SHOWN and line:sub(1, SHOWN) .. "..." or line))
  client.session:evaluate(client.socket, frame)
  client.evaluated = true
end

---Evaluates what prompts have sent.
---@return table asked what the run is to do before its next step
function Server:evaluate()
  local asked = {}
  for _, client in ipairs(self.clients) do
    if client.next and not client.gone then evaluate(self, client) end
    client.next, client.stopped = nil, nil
    for key, value in pairs(client.evaluated and client.session.asked or {}) do asked[key] = value end
  end
  return asked
end

---Sends the answers.
---@param notes table<string, string> what the run did, by what was asked
function Server:answer(notes)
  for _, client in ipairs(self.clients) do
    if client.evaluated then
      client.evaluated = nil
      local own = {}
      for key in pairs(client.session.asked) do own[#own + 1] = notes[key] end
      table.sort(own)
      send(client, client.session:finish(own))
    end
  end
end

---Says goodbye to all prompts and stops listening.
---@param why string
function Server:close(why)
  for _, client in ipairs(self.clients) do
    if not client.gone then dismiss(client, why) end
  end
  self.listener:close()
  place.leave(self.run.folder, self.path)
end

return Server
