-- house.lua - the directory of a run: its lock, the files written when it starts, and checks on resume.

local checkpoint = require("seqrun.checkpoint")
local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local ending = require("seqrun.history.ending")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")
local train = require("seqrun.core.train")

local house = {}

---"runs/NAME" for recipes/NAME.lua.
function house.default_folder(recipe)
  return "runs/" .. (recipe:match("([^/]+)%.lua$") or recipe:match("[^/]+$") or "run")
end

local function is_empty(folder) return #failure.must(sys.list(folder)) == 0 end

---Whether a directory is that of a run, and nothing else's.
local function is_run(folder)
  return sys.exists(folder .. "/config.yaml") and sys.exists(folder .. "/environment.json")
end

---Fails if a new run would write into the directory of another.
---@param folder string
---@param resuming boolean
---@param force? boolean a run that is there will make room
function house.check_free(folder, resuming, force)
  if resuming and force then failure.raise("config", "--resume continues, --force begins again; give one of them") end
  if resuming or not sys.exists(folder) then return end
  if not sys.is_dir(folder) then failure.raise("config", "%s is not a directory; choose another with --out", folder) end
  if is_empty(folder) or force and is_run(folder) then return end
  if force then
    failure.raise("config", "%s is not empty and not a run, so --force leaves it alone; choose another directory with "
      .. "--out", folder)
  end
  failure.raise("config", "%s is not empty; resume with --resume, begin again with --force, or choose another "
    .. "directory with --out", folder)
end

---Renames a directory that is not empty, so that a run can begin again.
---@param folder string
---@return string|nil # its new name
function house.make_room(folder)
  if not sys.is_dir(folder) or is_empty(folder) then return nil end
  local guard <close> = house.lock(folder)
  local number = 1
  while sys.exists(("%s-before-%d"):format(folder, number)) do number = number + 1 end
  local name = ("%s-before-%d"):format(folder, number)
  local done, message = os.rename(folder, name)
  if not done then failure.raise("storage", "cannot rename %s: %s", folder, message) end
  return name
end

---Fails if a checkpoint of so many bytes does not fit where the run will be; known before any work, not after it.
---@param folder string
---@param bytes integer
function house.check_space(folder, bytes)
  local place = folder
  while not sys.exists(place) do place = place:match("^(.+)/[^/]*$") or (place:find("^/") and "/" or ".") end
  local free = sys.free_space(place)
  if not free or free >= bytes then return end
  failure.raise("storage", "%s: a checkpoint needs %s, but only %s are free; free some space, or choose another "
    .. "directory with --out", folder, text.bytes(bytes), text.bytes(free))
end

---The config file that a resumed run reads: its own, unless a preset or a file is given.
---@return string|nil
function house.saved_config(folder, arguments)
  for _, argument in ipairs(arguments) do
    if argument:find("^preset=") then return nil end
  end
  local path = folder .. "/config.yaml"
  return sys.exists(path) and path or nil
end

---Fails if a key changed that may not change on resume.
---@return table[] # the allowed changes
function house.check_same(folder, loaded)
  local path = folder .. "/config.yaml"
  if not sys.exists(path) then return {} end
  local before = failure.must(config.load { schema = loaded.schema, file = path })
  local changed, refused = loaded:differences(before), {}
  for _, change in ipairs(changed) do
    if not change.changeable then
      refused[#refused + 1] = ("  %s: %s, was %s"):format(change.path, change.mine, change.theirs)
    end
  end
  if #refused > 0 then
    failure.raise("config", "these keys may not change on resume\n%s\nrestore them, or start a new run with --out; to "
      .. "train a finished run further, start one from its weights with init.from=%s", table.concat(refused, "\n"),
      text.shell(folder))
  end
  return changed
end

---The machine, build and command line, for environment.json.
local function environment(run)
  local machine, build = sys.machine(), sys.build()
  return json.encode {
    command = run.command, threads = tensor.threads(), ranks = run.ranks.size, device = tensor.device(),
    instructions = devices.instructions(), machine = machine, build = build, pid = sys.pid(),
    started = os.date("!%Y-%m-%dT%H:%M:%SZ"),
  }
end

---Locks the directory, creating it if needed; fails if another run holds the lock.
---@param folder string
---@return userdata lock
function house.lock(folder) return (failure.must(checkpoint.lock(folder))) end

---Writes config.yaml and environment.json and opens run.log; the directory must be locked.
---@param run seqrun.Run
---@return seqrun.core.Append log
function house.move_in(run)
  ending.clear(run.folder)
  failure.must(sys.write_file(run.folder .. "/config.yaml", run.loaded:dump()))
  failure.must(sys.write_file(run.folder .. "/environment.json", environment(run) .. "\n"))
  return (failure.must(train.append(run.folder .. "/run.log")))
end

---Mistakes of each head in scores.json.
local MISTAKES = 20

---Writes scores.json: what the last evaluation of a task found, for reports.
---@param folder string
---@param step integer
---@param scoring seqrun.Scoring
function house.write_scores(folder, step, scoring)
  local heads = require("seqrun.scores.report").plain(scoring, MISTAKES)
  sys.write_file(folder .. "/scores.json", json.encode { step = step, heads = heads } .. "\n")
end

return house
