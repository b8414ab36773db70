-- terminal.lua - sessions at the prompt, in a pseudo-terminal.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local terminal = {}

local missing

---Whether sessions can be tested: nil, or why not.
---@return string|nil
function terminal.missing()
  if missing ~= nil then return missing or nil end
  require("seqrun.core.edit")
  missing = not debug.getregistry()["seqrun.core.Editor"] and "built without libedit"
  if missing then return missing end
  local _, _, err = terminal.run("? Ctrl-D exits\n? > \n> \\x04\n") -- typed earlier, it may be lost
  missing = err:find("no terminal", 1, true) and "no terminal here"
  return missing or nil
end

function terminal.path() return program.path:gsub("[^/]*$", "") .. "tests/pty" end

---Without the codes that move the cursor.
local function plain(text)
  return (text:gsub("\27%[[%d;?]*%a", ""):gsub("\r", ""):gsub("\7", ""))
end

---Runs a script of tests/support/pty.c.
---@param script string
---@param options? { columns?: integer, state?: string, before?: string, words?: string, raw?: boolean } state: folder
---  of the history; raw: with the codes that move the cursor
---@return integer code
---@return string shown what the terminal shows
---@return string err of the script
function terminal.run(script, options)
  options = options or {}
  local folder = program.folder()
  local path, out, err = program.write(folder, "script", script), folder .. "/out", folder .. "/err"
  local command = ("cd %s && TERM=xterm XDG_STATE_HOME=%s %s %s %s %d %s %s >%s 2>%s"):format(folder,
    options.state or folder, options.before or "", terminal.path(), path, options.columns or 80, program.path,
    options.words or "", out, err)
  local _, how, code = os.execute(command)
  local shown, problems = assert(sys.read_file(out)), assert(sys.read_file(err))
  sys.remove(folder)
  return how == "signal" and 128 + code or code, options.raw and shown or plain(shown), problems
end

return terminal
