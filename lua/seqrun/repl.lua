-- repl.lua - the plain prompt: a line of Lua, its values, the next line.
--
-- An expression needs no `=` (which is still read); a line that is not whole is continued; `_` is the
-- last value.  Ctrl-C ends what runs, or the line being typed; Ctrl-D ends the prompt.

local failure = require("seqrun.failure")
local sys = require("seqrun.core.sys")

local show = require("seqrun.show").show

local repl = {}

---What the prompt's code sees: `sr`, `_` and all that Lua has; names it sets stay its own.
---@return table
function repl.environment()
  return setmetatable({ sr = require("seqrun") }, { __index = _G })
end

---Compiles text as an expression or as statements.
---@return function|nil # its first value is true and stands for itself when `expression` is true
---@return string? message
---@return boolean? unfinished more lines may make it whole
---@return boolean? expression
local function compile(text, env)
  local expression = text:match("^%s*=(.*)$") or text
  -- a value in front: the call behind it is no tail call, so messages find the prompt's line
  local chunk, first = load("return true, " .. expression, "=prompt", "t", env)
  if chunk then return chunk, nil, false, true end
  local message
  chunk, message = load(text, "=prompt", "t", env)
  local unfinished = message and (message:find("<eof>$") or first:find("<eof>$"))
  return chunk, message, unfinished ~= nil, false
end

---Whether a line of a traceback tells more than the message: code of a person, not the prompt's own line,
---nor what it called in C and in our Lua files.
local function tells(line)
  return not (line:find("^%s*%[C%]") or line:find("^%s*prompt:%d+: in main chunk")
    or line:find("/lua/seqrun/", 1, true) or line:find("tail calls", 1, true))
end

local function traceback(problem)
  if failure.of(problem) or type(problem) ~= "string" then return tostring(problem) end
  local trace = debug.traceback("", 2):gsub("\n%s+%[C%]: in function 'xpcall'.*$", "")
  for line in trace:gmatch("\n(%s+[^\n]*)") do
    if tells(line) then return problem .. trace end
  end
  return problem
end

---Runs text and prints its values.
---@param text string
---@param env table
---@return boolean done
---@return string? message what went wrong
function repl.evaluate(text, env)
  local chunk, message, _, expression = compile(text, env)
  if not chunk then return false, message end
  local results = table.pack(xpcall(chunk, traceback))
  if not results[1] then return false, results[2] end
  local first = expression and 3 or 2
  for i = first, results.n do print(show(results[i])) end
  if results.n >= first then env._ = results[first] end
  return true
end

---One line from standard input; nil at its end, false when Ctrl-C came instead.
local function read_line(prompt)
  io.stdout:write(prompt)
  io.stdout:flush()
  sys.signals("reading")
  local line = io.stdin:read("L")
  local caught = sys.caught(true)
  sys.signals("default")
  if caught then return false end
  return line and (line:gsub("\n$", ""))
end

---Lines up to a whole statement; nil at the end of the input, false when Ctrl-C came.
local function read_statement(env, terminal)
  local text = read_line(terminal and "> " or "")
  while text do
    local chunk, _, unfinished = compile(text, env)
    if chunk or not unfinished then return text end
    local more = read_line(terminal and ">> " or "")
    if not more then return more == nil and text or false end
    text = text .. "\n" .. more
  end
  return text
end

---Ctrl-C stops the Lua code and the ops that run, and nothing else.
local function evaluate_interruptibly(text, env)
  sys.signals("prompt")
  local called, done, message = pcall(repl.evaluate, text, env)
  local interrupted = sys.caught(true)
  sys.signals("default")
  if not called then done, message = false, done end
  if not done then io.stderr:write(interrupted and "interrupted" or tostring(message), "\n") end
end

---Reads and evaluates until the input ends.
---@return integer # exit code
function repl.run()
  local env, terminal = repl.environment(), sys.is_terminal(0)
  if terminal then
    print(("seqrun %s; sr lists what there is, Ctrl-D ends"):format(env.sr.version))
  end
  while true do
    local text = read_statement(env, terminal)
    if text == nil then break end
    if terminal and text == false then print() end
    if text and text:find("%S") then evaluate_interruptibly(text, env) end
  end
  if terminal then print() end
  return 0
end

return repl
