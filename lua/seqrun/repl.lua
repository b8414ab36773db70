-- repl.lua - the interactive prompt.
--
-- An expression needs no `=` (which is still read); an incomplete line is continued; `_` is the
-- last value.  Ctrl-C interrupts running code or clears the line; Ctrl-D exits.

local failure = require("seqrun.failure")
local sys = require("seqrun.core.sys")

local show = require("seqrun.show").show

local repl = {}

---The environment of the prompt's code: `sr`, `_` and Lua's globals; names it sets do not become globals.
---@return table
function repl.environment()
  return setmetatable({ sr = require("seqrun") }, { __index = _G })
end

---Compiles text as an expression or as statements.
---@return function|nil # if `expression` is true, its first value is true and not a result
---@return string? message
---@return boolean? unfinished more lines may complete it
---@return boolean? expression
local function compile(text, env)
  local expression = text:match("^%s*=(.*)$") or text
  -- `true` in front makes the call no tail call, so that messages find the prompt's line
  local chunk, first = load("return true, " .. expression, "=prompt", "t", env)
  if chunk then return chunk, nil, false, true end
  local message
  chunk, message = load(text, "=prompt", "t", env)
  local unfinished = message and (message:find("<eof>$") or first:find("<eof>$"))
  return chunk, message, unfinished ~= nil, false
end

---Whether a line of a traceback is useful: user code, not the prompt's own line nor C and library code.
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
---@return integer? code the exit code of a failure
function repl.evaluate(text, env)
  local chunk, message, _, expression = compile(text, env)
  if not chunk then return false, message end
  local code
  local results = table.pack(xpcall(chunk, function(problem)
    local known = failure.of(problem)
    code = known and known:exit_code()
    return traceback(problem)
  end))
  if not results[1] then return false, results[2], code end
  local first = expression and 3 or 2
  for i = first, results.n do print(show(results[i])) end
  if results.n >= first then env._ = results[first] end
  return true
end

---One line from standard input; nil at its end, false after Ctrl-C.
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

---Lines up to a complete statement; nil at the end of the input, false after Ctrl-C.
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

---Ctrl-C interrupts the running Lua code and ops only.
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
    print(("seqrun %s; type `sr` to list its parts, Ctrl-D to exit"):format(env.sr.version))
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
