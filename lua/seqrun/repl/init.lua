-- repl - the interactive prompt.
--
-- An expression needs no `=` (which is still read) and prints its values, unless it ends with `;`; an incomplete line
-- is continued.  `_` and `_1` are the last value, `_2` to `_9` those before it.  Ctrl-C interrupts running code or
-- clears the line; Ctrl-D exits.

local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local hints = require("seqrun.repl.hints")
local names = require("seqrun.base.names")
local output = require("seqrun.base.output")
local show = require("seqrun.draw.show").show
local sys = require("seqrun.core.sys")
local trace = require("seqrun.base.trace")

local repl = {}

local SOURCE = "=prompt"
local VALUES = 9
local LONGEST = 300 -- bytes of a message of the compiler

---The environment of the prompt's code: `sr`, the functions of the session and Lua's globals; names it sets do not
---become globals.
---@return table
function repl.environment()
  local base = setmetatable({ sr = require("seqrun") }, { __index = _G })
  local env = setmetatable({}, { __index = base })
  for name, fn in pairs(require("seqrun.repl.session")(env)) do base[name] = fn end
  return env
end

---Compiles text as an expression or as statements.
---@return function|nil # if `expression` is true, its first value is true and not a result
---@return string? message
---@return boolean? unfinished more lines may complete it
---@return boolean? expression
local function compile(text, env)
  local expression = text:match("^%s*=(.*)$") or text
  -- `true` in front makes the call no tail call, so that messages find the prompt's line
  local chunk, first = load("return true, " .. expression, SOURCE, "t", env)
  if chunk then return chunk, nil, false, true end
  local message
  chunk, message = load(text, SOURCE, "t", env)
  local unfinished = message and (message:find("<eof>$") or first:find("<eof>$"))
  return chunk, message, unfinished ~= nil, false
end

---Whether text is one expression: a list of them is not an expression in parentheses.
local function is_single(text) return load("return (" .. text:match("^%s*=?(.*)$") .. "\n)", SOURCE, "t") ~= nil end

---The assignment of one value, which returns nil and the message of a call that failed; nil of anything else.
local function assignment(text, env)
  local name, value = text:match("^%s*([%a_][%w_.]*)%s*=%s*([^=].*)$")
  local assign = name and is_single(value) and load(name .. " = ...", SOURCE, "t", env)
  local chunk = assign and load("return true, " .. value, SOURCE, "t", env)
  return chunk and function()
    local _, found, message = chunk()
    assign(found)
    return found == nil and type(message) == "string" and message or nil
  end
end

---Sets `_` and `_1` to `_9`.
local function keep_value(env, value)
  for i = VALUES, 2, -1 do env["_" .. i] = env["_" .. i - 1] end
  env._, env._1 = value, value
end

---A note about an expression that gave nil: the message that came with it, or a name like a mistyped one.
---@return string|nil
---@return boolean? mistyped
local function note(text, env, message)
  if type(message) == "string" then return message end
  local path, name = text:match("^%s*=?%s*([%a_][%w_%.]*)[.:]([%a_][%w_]*)%s*$")
  local value = env
  if path then
    value = names.value(path, function(root) return env[root] end)
  else
    name = text:match("^%s*=?%s*([%a_][%w_]*)%s*$")
  end
  local hint = name and value ~= nil and names.hint(name, value) or ""
  if hint ~= "" then return ("no '%s'%s"):format(name, hint), true end
end

---Where values and notes go by default.
local STANDARD = {
  print = function(text) print(text) end,
  note = function(text) io.stderr:write(text, "\n") end,
}

local LONGEST_TEXT = 8000 -- bytes of a text of several lines

---Whether a string is a text of several lines, which reads better without quotes.
local function is_text(value)
  return type(value) == "string" and #value <= LONGEST_TEXT and value:find("\n.") and utf8.len(value)
    and not value:find("[%z\1-\8\11-\31\127]")
end

---A value as the prompt prints it: of a function what it takes and does; lines of text as they are.
local function shown(value)
  if is_text(value) then return (value:gsub("\n$", "")) end
  return type(value) == "function" and require("seqrun.help").line(value) or show(value)
end

---Prints the values of an expression; of a call that failed only nil, and its message as a note.
---@return boolean? mistyped it is nil, and named like something else
local function echo(text, env, results, first, out)
  local none = results[first] == nil and is_single(text)
  for i = first, none and first or results.n do out.print(shown(results[i])) end
  if none then
    local said, mistyped = note(text, env, results[first + 1])
    if said then out.note(said) end
    return mistyped
  end
end

---A message of the compiler, which may quote a token of any length.
local function shortened(message)
  if message:find("C stack overflow", 1, true) then return "the code is nested too deeply (C stack overflow)" end
  if #message <= LONGEST then return message end
  local cut = utf8.offset(message, 0, LONGEST) or LONGEST
  return message:sub(1, cut - 1) .. "..."
end

---Runs text and prints its values.
---@param text string
---@param env table
---@param out? { print: fun(text: string), note: fun(text: string) } default: standard output and error
---@return boolean done
---@return string? message what went wrong
---@return integer? code the exit code of a failure
---@return boolean? mistyped the value is nil, and its name like another
function repl.evaluate(text, env, out)
  local chunk, message, _, expression = compile(text, env)
  if not chunk then return false, shortened(message) .. hints.syntax(text) end
  trace.remember(SOURCE, text)
  local assigned = not expression and assignment(text, env)
  local results = table.pack(xpcall(assigned or chunk, trace.handler))
  if not results[1] then
    local known = failure.of(results[2])
    return false, tostring(results[2]), known and known:exit_code()
  end
  if assigned then
    if results[2] then (out or STANDARD).note(results[2]) end
    return true
  end
  local first = expression and 3 or 2
  if results.n < first then return true end
  if expression and text:find(";%s*$") then
    keep_value(env, results[first])
    return true
  end
  local printed, said = xpcall(echo, trace.handler, text, env, results, first, out or STANDARD)
  keep_value(env, results[first])
  if not printed then return false, tostring(said) end
  return true, nil, nil, said
end

---Lines up to a complete statement; nil at the end of the input, false after Ctrl-C.
local function read_statement(lines)
  local text = lines:read("> ")
  while text do
    lines:remember(text:match("[^\n]*$"))
    local chunk, _, unfinished = compile(text, {})
    if chunk or not unfinished then return text end
    local more = lines:read(">> ")
    if not more then return more == nil and text or false end
    text = text .. "\n" .. more
  end
  return text
end

---What a person types who wants to leave.
local LEAVING = { exit = true, quit = true }

---Reads statements until the input ends, one says exit or quit, or `take` returns true.
---@param lines seqrun.Lines
---@param take fun(text: string): boolean?
function repl.each(lines, take)
  while true do
    local text = read_statement(lines)
    if text == nil then break end
    if lines.terminal and text == false then print() end
    if text and LEAVING[text:match("^%s*(%a+)[%s%(%);]*$")] then return end
    if text and text:find("%S") and take(text) then return end
  end
  if lines.terminal then print() end
end

---Ctrl-C interrupts the running Lua code and ops only.
local function evaluate_interruptibly(text, env)
  sys.signals("prompt")
  local interrupted, called, done, message = sys.interruptible(repl.evaluate, text, env)
  sys.signals("waiting")
  if not called then done, message = false, done end
  if done or output.ended then return end
  io.stderr:write(interrupted and "interrupted" or tostring(message), "\n")
end

---The device in a few words: "cpu, AMD EPYC 7B13, avx2, 2 threads".
local function device_text()
  local core = require("seqrun.core.tensor")
  local name = core.device()
  if name ~= "cpu" then return name end
  local model = sys.machine().cpu:gsub("%s+", " ")
  return ("cpu, %s, %s, %s"):format(model, core.instructions(), counted(core.threads(), "thread"))
end

local function banner()
  print(("seqrun %s on %s"):format(sys.build().version, device_text()))
  print("help() explains, examples() lists recipes, Tab completes, Ctrl-D exits")
end

---Reads and evaluates until the input ends.
---@return integer # exit code
function repl.run()
  sys.signals("waiting")
  local env = repl.environment()
  local complete = require("seqrun.repl.complete")
  local lines = require("seqrun.repl.lines")(function(before) return complete(before, env) end)
  if lines.terminal then banner() end
  repl.each(lines, function(text)
    evaluate_interruptibly(text, env)
    return output.ended ~= nil
  end)
  lines:close()
  sys.signals("default")
  if output.ended then error(output.ended, 0) end
  return 0
end

return repl
