-- phases.lua - the phases of a training, one after the other, each from the checkpoint of the one before.
--
-- Each phase is a process and a run of its own in OUT/NAME; those that have ended are not repeated, and one that was
-- stopped goes on.

local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local phases = {}

---The name and the settings of a phase: "extension data.max_len=8192 rate.peak=3e-4".
---@param line string
---@return string name
---@return string[] settings
local function read(line)
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  local name = table.remove(words, 1) or ""
  if not name:find("^[%w_][%w_%-]*$") then
    failure.raise("config", "phases: '%s' must begin with a name of letters, digits, - and _, which its run has", line)
  end
  for _, word in ipairs(words) do
    if not word:find("^[%w_%.]+=") then
      failure.raise("config", "phases: %s: '%s' is not key=value", name, word)
    end
  end
  return name, words
end

---The command line of a phase.
local function command_of(request, folder, settings, before)
  local words = { sys.real_path("/proc/self/exe"), request.file }
  table.move(settings, 1, #settings, #words + 1, words)
  table.move(request.arguments, 1, #request.arguments, #words + 1, words)
  words[#words + 1] = "phases=none"
  if before then
    words[#words + 1] = "init.from=" .. before
    words[#words + 1] = "init.carry=moments"
  end
  table.move({ "--out", folder }, 1, 2, #words + 1, words)
  if sys.exists(folder) then words[#words + 1] = "--resume" end
  for _, option in ipairs { "max_steps", "threads" } do
    if request[option] then words[#words + 1] = ("--%s=%d"):format(option:gsub("_", "-"), request[option]) end
  end
  for _, option in ipairs { "quiet", "json_log" } do
    if request[option] then words[#words + 1] = "--" .. option:gsub("_", "-") end
  end
  for i, word in ipairs(words) do words[i] = text.shell(word) end
  return table.concat(words, " ")
end

---The name of an exit code, for a failure.
local function name_of(code)
  for _, name in ipairs { "stopped", "config", "data", "device", "storage", "numeric" } do
    if sys.exit_code(name) == code then return name end
  end
  return "invalid"
end

---Runs all phases, and ends the program.
---@param request table of run.options
---@param folder string
---@param list string[]
function phases.run(request, folder, list)
  local all, seen, before = {}, {}, nil
  for i, line in ipairs(list) do
    local name, settings = read(line)
    if seen[name] then failure.raise("config", "phases: two have the name '%s'; each is a directory", name) end
    seen[name], all[i] = true, { name = name, settings = settings }
  end
  for i, phase in ipairs(all) do
    local own = ("%s/%s"):format(folder, phase.name)
    if not request.quiet then print(("phase %d of %d: %s"):format(i, #all, phase.name)) end
    io.stdout:flush()
    local ok, how, code = os.execute(command_of(request, own, phase.settings, before))
    if not ok then
      if how == "signal" then code = 128 + code end
      failure.raise(name_of(code), "phase %s ended with exit code %d; repeat the command to continue", phase.name, code)
    end
    before = own
  end
  failure.raise("ok", "")
end

return phases
