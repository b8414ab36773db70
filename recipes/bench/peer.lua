-- peer.lua - a program that measures another system, in turns with us: it answers a line on its standard input, words
-- separated by spaces, with a line of output, seconds.  Its first line says what it is.

local common = require("common")
local sys = require("seqrun.core.sys")

local Peer = {}
Peer.__index = Peer

---Starts a Python script.
---@param python string
---@param script string
---@param arguments (string|number)[]
---@return table peer `about`: its first line
function Peer.start(python, script, arguments)
  local pipe = os.tmpname()
  os.remove(pipe)
  assert(os.execute("mkfifo " .. common.quote(pipe)))
  local words = { common.quote(python), common.quote(script) }
  for _, word in ipairs(arguments) do words[#words + 1] = common.quote(word) end
  io.stdout:flush()
  local answers = assert(io.popen(table.concat(words, " ") .. " < " .. common.quote(pipe)))
  local questions = assert(io.open(pipe, "w"))
  questions:setvbuf("line")
  os.remove(pipe)
  local self = setmetatable({ questions = questions, answers = answers }, Peer)
  self.about = answers:read("l") or error("bench: " .. script .. " did not start; see its message above", 0)
  return self
end

---Asks for a measurement; returns its seconds.
function Peer:ask(...)
  self.questions:write(table.concat({ ... }, " "), "\n")
  local line = self.answers:read("l") or error("bench: the peer stopped; see its message above", 0)
  return assert(tonumber(line), line)
end

---Measures ours and the arrangements of the other system, which may be missing, in turns.
---@param turns integer
---@param ours fun(turn: integer): number seconds
---@param each integer items of a turn
---@param theirs string[]
---@param other table|false|nil
---@return table<string, number[]> # seconds by arrangement and turn
function Peer.in_turns(turns, ours, each, theirs, other)
  local arms = { packed = {} }
  for _, how in ipairs(theirs) do arms[how] = {} end
  for turn = 1, turns do
    sys.sleep(0.5) -- the other side's threads may still spin
    arms.packed[turn] = ours(turn)
    for _, how in ipairs(other and theirs or {}) do
      arms[how][turn] = other:ask(how, (turn - 1) * each, turn * each)
    end
  end
  return arms
end

function Peer:stop()
  self.questions:close()
  self.answers:close()
end

return Peer
