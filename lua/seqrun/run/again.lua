-- again.lua - a recipe run once more as a process of its own, with further settings: for seeds, for phases.

local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---@param request table of run.options: its file, arguments and options
---@param folder string its output; what it holds is resumed
---@param first string[] settings that the command line wins over
---@param last string[] settings that win over the command line
local function command_of(request, folder, first, last)
  local program = failure.must(sys.real_path("/proc/self/exe"))
  local words = { program, request.file }
  for _, list in ipairs { first, request.arguments, last, { "--out", folder } } do
    table.move(list, 1, #list, #words + 1, words)
  end
  if sys.exists(folder) then words[#words + 1] = "--resume" end
  for _, option in ipairs { "max_steps", "threads" } do
    if request[option] then words[#words + 1] = ("--%s=%d"):format(option:gsub("_", "-"), request[option]) end
  end
  for _, option in ipairs { "quiet", "json_log", "explain" } do
    if request[option] then words[#words + 1] = "--" .. option:gsub("_", "-") end
  end
  for i, word in ipairs(words) do words[i] = text.shell(word) end
  local log = request.log and (" >%s 2>&1"):format(text.shell(request.log)) or ""
  return "exec " .. table.concat(words, " ") .. log -- a shell that waits turns an interrupted run's exit code into 130
end

---The name of an exit code, for a failure.
local function name_of(code)
  for _, name in ipairs { "stopped", "config", "data", "device", "storage", "numeric" } do
    if sys.exit_code(name) == code then return name end
  end
  return "invalid"
end

---Interrupted twice: stopped without a checkpoint.
local INTERRUPTED = 130

local again = {}

---Runs the recipe and returns its exit code; that of a stop where a signal asks for one, which the recipe gets too.
---@param request table of run.options: file, arguments, options; log: a file for what it prints
---@param folder string its output; what it holds is resumed
---@param first string[] settings that the command line wins over
---@param last string[] settings that win over the command line
---@return integer
function again.code(request, folder, first, last)
  local stopped = sys.exit_code("stopped")
  if sys.caught() then return stopped end
  local ok, how, code = sys.run(command_of(request, folder, first, last))
  if ok then return 0 end
  if sys.caught() or how == "exit" and code == INTERRUPTED then return stopped end
  return how == "signal" and 128 + code or code
end

---Why a process failed: the last thing that it said.
---@param log string what it printed
---@param code integer
---@return string
function again.reason(log, code)
  local last
  for line in (sys.read_file(log, 1 << 20) or ""):gmatch("[^\n]+") do last = line:match("^seqrun: (.*)$") or last end
  return ("%s (exit code %d)"):format(last or "no output", code)
end

---Runs the recipe; its failure is ours.
---@param what string "phase decay": for the message
function again.must(what, request, folder, first, last)
  local code = again.code(request, folder, first, last)
  if code == 0 then return end
  failure.raise(name_of(code), "%s ended with exit code %d; repeat the command to continue", what, code)
end

return again
