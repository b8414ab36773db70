-- session.lua - one attached prompt on the side of the run: its names, and the evaluation of what it sends.

local check = require("seqrun.base.check")
local complete = require("seqrun.repl.complete")
local frames = require("seqrun.attach.frames")
local guard = require("seqrun.attach.guard")
local repl = require("seqrun.repl")
local socket = require("seqrun.core.socket")
local status = require("seqrun.attach.status")
local strict = require("seqrun.base.strict")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")
local view = require("seqrun.attach.view")

local MIB = 1 << 20
local MOST_OUTPUT = MIB
local MOST_SECONDS = 60
local LIBRARIES = { "string", "table", "math", "utf8", "coroutine", "os", "io", "debug" }

local OPTIMIZER = { "kind", "options", "segments", "factor", "rate", "counts", "serial" }
local LOADER = { "summary", "examples", "batch_of", "cursor", "plan", "plan_text", "options" }

---@class seqrun.attach.Session
---@field asked table what the run is to do before its next step
local Session = {}
Session.__index = Session

---Adds output, as frames, until there is too much.
local function put(self, kind, words)
  if self.room <= 0 then return end
  if #words > self.room then words = words:sub(1, self.room) .. "\n... (the output was cut at 1 MiB)\n" end
  self.room = self.room - #words
  self.out[#self.out + 1] = frames.pack(kind, self.id, words)
end

local function printed(...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = tostring(parts[i]) end
  return table.concat(parts, "\t") .. "\n"
end

---A file that writes to the prompt.
local function file_to(self, kind)
  local file = {}
  function file.write(_, ...)
    put(self, kind, table.concat { ... })
    return file
  end
  function file.flush() return file end
  return file
end

---Copies of Lua's libraries, so that what the prompt sets in them stays in its session.
local function add_libraries(self, base, env)
  for _, name in ipairs(LIBRARIES) do
    base[name] = {}
    for key, value in pairs(_G[name]) do base[name][key] = value end
  end
  base.io.stdout, base.io.stderr = file_to(self, "out"), file_to(self, "err")
  base.io.write = function(...) return base.io.stdout:write(...) end
  base.io.read = function() check.fail("io.read: the standard input is the run's") end
  base.os.exit = function() check.fail("os.exit would end the run; stop() stops it, Ctrl-D detaches") end
  base.math.random = function() check.fail("math.random: its state is the run's; use sr.rand") end
  base.math.randomseed = base.math.random
  base.load = function(chunk, name, mode, own) return load(chunk, name, mode, own or env) end
  base.dofile = function(path) return assert(loadfile(path, "t", env))() end
  base.print = function(...) put(self, "out", printed(...)) end
  base._G = env
end

---What does not change during the run.
local function add_parts(self, base)
  local run = self.run
  base.sr = view.library(require("seqrun"), "sr", {
    scope = function()
      check.fail("sr.scope is not available here; tensors live as long as their names")
    end,
  })
  base.config = strict.fixed(run.loaded.values, "config", "set_rate and scale_rate change the rate of a run")
  base.model, base.schedule = run.model, run.rate
  base.optimizer = view.of(run.optimizer, OPTIMIZER, "optimizer")
  base.loader = view.of(run.loader, LOADER, "loader")
  base.run = view.of({
    dir = run.folder, model = run.model, corpus = run.corpus, loader = base.loader, optimizer = base.optimizer,
    config = base.config, totals = function() return run:totals() end, seconds = function() return run:seconds() end,
  }, { "dir", "model", "corpus", "loader", "optimizer", "config", "totals", "seconds" }, "run")
end

---What changes with every step.
local function refresh(self)
  local run, base = self.run, self.base
  local line, scores = run:last_line(), run:evaluation()
  base.step, base.last = run.step, run.last < text.UNLIMITED and run.last or nil
  base.metrics, base.loss = view.copy(line), line and line.loss
  base.rate = run.optimizer.rate
  base.scores = scores and view.copy(scores)
end

---@param run seqrun.Run
---@return seqrun.attach.Session
function Session.new(run)
  local self = setmetatable({ run = run, asked = {}, out = {}, room = 0, id = 0, random = { 0, 0 } }, Session)
  local base = setmetatable({}, { __index = _G })
  local env = setmetatable({}, { __index = base })
  self.env, self.base = env, base
  add_libraries(self, base, env)
  add_parts(self, base)
  local session = require("seqrun.repl.session")(env)
  for name, fn in pairs(session) do base[name] = base[name] or fn end -- `run` is the run
  function base.help(topic)
    if topic == nil then env.print(status.HELP) else session.help(topic) end
  end
  function base.edit() check.fail("edit: its terminal is the run's; edit files outside, then dofile(FILE)") end
  local requests = require("seqrun.attach.requests")(run, self.asked, function(words) env.print(words) end)
  for name, fn in pairs(requests) do base[name] = fn end
  return self
end

local WHY = {
  stop = "interrupted", gone = "interrupted", signal = "interrupted: the run has received a signal",
  time = "stopped after %d s; raise it with seqrun attach --timeout SECONDS, at most %d",
}

---Seconds that an expression may take: other ranks wait for it, and must not give up.
local function most_seconds(run)
  local patience = run.ranks:several() and run.config.ranks and run.config.ranks.timeout or 0
  return patience > 0 and math.min(MOST_SECONDS, patience // 2) or MOST_SECONDS
end

---Bytes that an expression may allocate.
local MOST_LUA = 512 * MIB
local function most_tensors() return math.max(1 << 30, sys.machine().memory // 8) end

local function evaluate(self, words)
  return repl.evaluate(words, self.env, {
    print = function(line) put(self, "out", line .. "\n") end,
    note = function(line) put(self, "err", line .. "\n") end,
  })
end

---What went wrong, in words; nil if nothing did.
local function problem_of(why, seconds, called, done, message)
  if called and done then return nil end
  if why then return (WHY[why]:format(seconds, MOST_SECONDS)) end
  if not called then message = done end
  message = tostring(message)
  if message:find("not enough memory", 1, true) then
    message = ("not enough memory: an expression may use %s here, and %s for tensors"):format(text.bytes(MOST_LUA),
      text.bytes(most_tensors()))
  end
  return message
end

local function columns_of(frame) return math.max(20, math.min(frame.columns or 80, 1000)) end

---Calls a function of the session with what the prompt sent, within limits, and leaves the run as it was.
local function limited(self, connection, frame, seconds, fn)
  refresh(self)
  local before <close> = guard.enter(self.run, self.random, columns_of(frame))
  local limits = { seconds = seconds, lua = MOST_LUA, tensors = most_tensors() }
  local found = table.pack(socket.limited(connection, limits, fn, self, frame.text))
  return before:leave(), table.unpack(found, 1, found.n)
end

---Evaluates what the prompt sent; `finish` completes the answer.
---@param connection seqrun.core.Socket
---@param frame seqrun.attach.Frame
function Session:evaluate(connection, frame)
  self.out, self.room, self.id, self.code = {}, MOST_OUTPUT, frame.id, 0
  local seconds = math.max(1, math.min(frame.seconds or 10, most_seconds(self.run)))
  local weights, why, called, done, message, code = limited(self, connection, frame, seconds, evaluate)
  self.asked.weights = weights or nil
  local problem = problem_of(why, seconds, called, done, message)
  if problem then
    put(self, "err", problem .. "\n")
    self.code = not why and code or 1
  end
end

---The answer to the last expression, as frames.
---@param notes string[] what the run did that was asked
---@return string
function Session:finish(notes)
  for _, note in ipairs(notes) do put(self, "out", note .. "\n") end
  self.out[#self.out + 1] = frames.pack("done", self.id, tostring(self.code))
  local answer = table.concat(self.out)
  self.out = {}
  for key in pairs(self.asked) do self.asked[key] = nil end
  return answer
end

---Seconds that completion may take: it looks into objects, whose metamethods are the person's.
local COMPLETION = 1

---Completes a line.
---@param connection seqrun.core.Socket
---@param frame seqrun.attach.Frame
---@return string # a frame
function Session:complete(connection, frame)
  local function look(_, words) return complete(words, self.env) end
  local _, why, called, insert, list = limited(self, connection, frame, COMPLETION, look)
  if why or not called then insert, list = nil, nil end
  return frames.pack("tab", frame.id, ("%s\0%s"):format(insert or "", list or ""))
end

return Session
