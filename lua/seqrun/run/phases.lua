-- phases.lua - the phases of a training, one after the other, each from the checkpoint of the one before.
--
-- Each phase is a process and a run of its own in OUT/NAME; those that have ended are not repeated, and one that was
-- stopped goes on.

local again = require("seqrun.run.again")
local failure = require("seqrun.base.failure")

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

---What a phase sets that the command line cannot: where it starts, and that it is one phase.
local function own_settings(before)
  if not before then return { "phases=none" } end
  return { "phases=none", "init.from=" .. before, "init.carry=moments" }
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
    again.must("phase " .. phase.name, request, own, phase.settings, own_settings(before))
    before = own
  end
  failure.raise("ok", "")
end

return phases
