-- replay.lua - the recipe of a run, run once more in this process, for `seqrun verify` and `seqrun repro`.

local failure = require("seqrun.base.failure")
local json_file = require("seqrun.base.json_file")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")

local replay = {}

---What environment.json says; {} without it.
---@param run string
---@return table
function replay.environment(run) return failure.there(json_file.read(run .. "/environment.json")) or {} end

---Why a Lua file that a run names is not run: the run may be somebody else's.
local function untrusted(run, what, file)
  return nil, ("%s/environment.json names the %s %s, which does not ship with seqrun; if you trust it, add --trust")
    :format(run, what, file), "data"
end

---The recipe of a run and the settings that choose its task.
---@param run string
---@param trusted? boolean code that the run names may be run, also where it does not ship with seqrun
---@return string[]|nil words [0] is the recipe
---@return string? message
---@return string? code
function replay.recipe(run, trusted)
  local found = replay.environment(run)
  local words = type(found.words) == "table" and found.words or {}
  if type(words[1]) ~= "string" then
    return nil, ("%s/environment.json does not name the recipe of the run"):format(run), "data"
  end
  local kept = { [0] = shipped.find(words[1]) }
  for i = 2, #words do
    local task = tostring(words[i]):match("^task=(.*)$")
    if task and task:find("%.lua$") and not trusted then return untrusted(run, "task", task) end
    if task then kept[#kept + 1] = words[i] end
  end
  if not sys.exists(kept[0]) then
    local where = type(found.folder) == "string" and found.folder or "where the run was started"
    return nil, ("%s is not there; run this in %s"):format(kept[0], where), "data"
  end
  if not trusted and not shipped.is_recipe(kept[0]) then return untrusted(run, "recipe", kept[0]) end
  return kept
end

---Whether a run is played whose config may name code.
---@type boolean
replay.trusting = false

---Runs a recipe with these words.
---@param words string[] [0] is the recipe
---@param trusted? boolean code that the config names may be run
---@return true|nil done also after an end that raises "ok"
---@return string? message
---@return string? code
function replay.play(words, trusted)
  local chunk, problem = loadfile(words[0], "t")
  if not chunk then return nil, problem, "data" end
  local before = arg
  arg, replay.trusting = words, trusted == true -- luacheck: ignore 121
  local done, raised = xpcall(chunk, require("seqrun.base.trace").handler, table.unpack(words))
  arg, replay.trusting = before, false -- luacheck: ignore 121
  local known = not done and failure.of(raised)
  if done or known and known.code == "ok" then return true end
  return nil, known and known.message or tostring(raised), known and known.code or "data"
end

return replay
