-- directory - the directory of a run: where it is, its lock, the files of its start and its end, checks on resume.

local checkpoint = require("seqrun.checkpoint")
local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local ending = require("seqrun.history.ending")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local line_file = require("seqrun.base.line_file")
local lua_files = require("seqrun.base.lua_files")
local origin = require("seqrun.run.directory.origin")
local playback = require("seqrun.run.verify.playback")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")
local train = require("seqrun.core.train")

---@class seqrun.RunDirectory
---@field path string
---@field command string the command line
---@field words string[] the recipe and its settings
---@field again boolean the run resumes
---@field found? table what `newest` returns
---@field id? string of the run, in environment.json and in its checkpoints; of the rank that leads
---@field force boolean rename an earlier run
---@field lock? userdata while this process holds the directory
---@field started boolean the files of the start are there, so the end is written too
local Directory = {}
Directory.__index = Directory

---"runs/NAME" for recipes/NAME.lua.
local function usual_path(recipe)
  return "runs/" .. (recipe:match("([^/]+)%.lua$") or recipe:match("[^/]+$") or "run")
end

---Where a run lives; `--resume=DIR` names it as `--out DIR` does.
local function path_of(request, name)
  local resumed = type(request.resume) == "string" and request.resume or nil
  if resumed and request.out and resumed ~= request.out then
    failure.raise("config", "--resume=%s and --out %s name two directories; give one", resumed, request.out)
  end
  if resumed and not sys.is_dir(resumed) then
    failure.raise("config", "--resume=%s: no such directory", resumed)
  end
  local path = resumed or request.out or name and "runs/" .. name or usual_path(request.file)
  path = path:gsub("(.)/+$", "%1"):gsub("^%-", "./-") -- a command line takes it for a path
  if sys.exists(path .. "/model.safetensors") then
    failure.raise("config", "%s is a checkpoint, not a run; --resume expects the directory of the run; to start a new "
      .. "run from it, use init.from=%s with another --out", path, text.shell(path))
  end
  return path
end

---The directory that a command line names; nothing is read or written yet.
---@param request table of run/options.lua
---@param name? string below runs, instead of that of the recipe
---@param command? string the command line
---@return seqrun.RunDirectory
local function new(request, name, command)
  if request.new_rate and not request.resume then
    failure.raise("config", "--new-rate needs --resume: a new run can set the keys of the rate")
  end
  return setmetatable({
    path = path_of(request, name), again = request.resume ~= nil, force = request.force or false, started = false,
    new_rate = request.new_rate or false,
    command = command or "", words = { request.file, table.unpack(request.arguments or {}) },
  }, Directory)
end

local function is_empty(folder) return #failure.must(sys.list(folder)) == 0 end

---Whether a directory is that of a run, and nothing else's.
local function is_run(folder)
  return sys.exists(folder .. "/config.yaml") and sys.exists(folder .. "/environment.json")
end

---Fails if a path is a link to what is not there, which no directory can be made of.
local function check_link(folder)
  local parent, name = folder:match("^(.*)/([^/]+)$")
  for _, entry in ipairs(not sys.exists(folder) and sys.list(parent or ".") or {}) do
    if entry == (name or folder) then
      failure.raise("config", "%s is a link to something that does not exist; make its target, or choose another "
        .. "directory with --out", folder)
    end
  end
end

---Fails if a directory that is to be resumed has the runs of seeds or folds instead.
local function check_one(folder)
  if sys.exists(folder .. "/environment.json") then return end
  for kind, key in pairs { seed = "seeds=[...]", fold = "data.folds" } do
    for _, name in ipairs(sys.is_dir(folder) and sys.list(folder) or {}) do
      if name:find("^" .. kind .. "%-%d+$") and sys.exists(("%s/%s/environment.json"):format(folder, name)) then
        failure.raise("config", "%s has a run for each %s, such as %s; repeat its command, with %s, to go on with all, "
          .. "or resume one: --resume=%s", folder, kind, name, key, text.shell(folder .. "/" .. name))
      end
    end
  end
end

---Fails if a new run would write into the directory of another.
local function check_free(folder, resuming, force)
  if resuming and force then failure.raise("config", "--resume continues, --force starts over; give one of them") end
  check_link(folder)
  if resuming then check_one(folder) end
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

---Locks a directory, creating it if needed; fails if another run holds the lock.
local function lock(folder) return (failure.must(checkpoint.lock(folder))) end

---The checkpoint to resume from; found once, since finding it verifies the whole file.  All ranks call it.
---@param ranks seqrun.RunRanks
---@return string|nil path
---@return string? message
---@return string? code
function Directory:newest(ranks)
  local playing = playback.current()
  if playing then return playing.checkpoint end
  self.found = self.found or table.pack(ranks:first_says(function() return checkpoint.latest(self.path) end))
  return table.unpack(self.found, 1, self.found.n)
end

---Fails if the directory belongs to another run, and locks it if it is there.
function Directory:enter()
  check_free(self.path, self.again, self.force)
  if self.again and sys.is_dir(self.path) then self.lock = lock(self.path) end
end

---Renames a directory that is not empty, so that a run can begin again; returns its new name.
local function set_aside(folder)
  if not sys.is_dir(folder) or is_empty(folder) then return nil end
  local guard <close> = lock(folder)
  local number = 1
  while sys.exists(("%s-before-%d"):format(folder, number)) do number = number + 1 end
  local name = ("%s-before-%d"):format(folder, number)
  local done, message = os.rename(folder, name)
  if not done then failure.raise("storage", "cannot rename %s: %s", folder, message) end
  return name
end

---Fails if a checkpoint of `bytes` bytes does not fit where the run will be; known before any work, not after it.
---@param bytes integer
function Directory:check_space(bytes)
  local folder = self.path
  local place = folder
  while not sys.exists(place) do place = place:match("^(.+)/[^/]*$") or (place:find("^/") and "/" or ".") end
  local free = sys.free_space(place)
  if not free or free >= bytes then return end
  failure.raise("storage", "%s: a checkpoint needs %s, but only %s are free; free some space, or choose another "
    .. "directory with --out", folder, text.bytes(bytes), text.bytes(free))
end

---The config of the last checkpoint, which is not verified; nil if there is none.
local function config_of_last(folder)
  local steps = sys.is_dir(folder) and failure.must(train.checkpoint_list(folder)) or {}
  local path = #steps > 0 and train.checkpoint_path(folder, steps[#steps]) .. "/trainer/config.yaml"
  return path and sys.exists(path) and path or nil
end

---The config file that a resumed run reads: its own, or that of a checkpoint if it is gone, unless a preset or a file
---is given.
---@param arguments string[]
---@return string|nil
function Directory:saved_config(arguments)
  for _, argument in ipairs(arguments) do
    if argument:find("^preset=") then return nil end
  end
  if not self.again then return nil end
  local path = self.path .. "/config.yaml"
  return sys.exists(path) and path or config_of_last(self.path)
end

---The environment.json of the run that is resumed.
local function earlier(self)
  local found = json.decode(failure.there(sys.read_file(self.path .. "/environment.json", 1 << 20)) or "")
  return type(found) == "table" and found or {}
end

---Whether the run was begun before runs had ids, when whole groups of examples were not held out.
---@return boolean
function Directory:is_without_id()
  local before = self.again and earlier(self) or { id = "none yet" }
  return before.id == nil and next(before) ~= nil
end

---Keys of the training data, which may have moved: its digest is compared.
local READ_BY_DIGEST = { ["data.file"] = true, ["data.train"] = true }

---The config that a run was last trained with: that of its newest checkpoint, as config.yaml may have been edited.
local function trained_with(folder, found)
  local path = found and found.path .. "/trainer/config.yaml"
  if not path or not sys.exists(path) then path = folder .. "/config.yaml" end
  return sys.exists(path) and path or nil
end

---Fails if a key changed that may not change on resume; returns the allowed changes.
---@param t { found?: table, data?: string, new_rate: boolean } new_rate: whether the keys of the rate may change
local function check_same(folder, loaded, t)
  local path = trained_with(folder, t.found)
  if not path then return {} end
  local before = failure.must(config.load { schema = loaded.schema, file = path })
  local changed, refused, rates = loaded:differences(before), {}, 0
  local same_data = t.found and t.data and t.found.state.data == t.data
  for _, change in ipairs(changed) do
    local of_rate, of_data = change.path:find("^rate%.") ~= nil, READ_BY_DIGEST[change.path] and same_data
    if not change.changeable and not (of_rate and t.new_rate) and not of_data then
      local from = loaded.origins[change.path]
      refused[#refused + 1] = ("  %s: %s, was %s%s"):format(change.path, change.mine, change.theirs,
        (not from or from == "command line") and "" or (" (%s)"):format(from))
      rates = rates + (of_rate and 1 or 0)
    end
  end
  if #refused > 0 then
    local way = rates == #refused and "add --new-rate to change the rate from here on, restore them" or "restore them"
    failure.raise("config", "these keys may not change on resume\n%s\n%s, or start a new run with --out; to "
      .. "train a finished run further, start one from its weights with init.from=%s", table.concat(refused, "\n"), way,
      text.shell(folder))
  end
  return changed
end

---Fails if the run that is resumed was started by another recipe, whose keys are others.
function Directory:check_recipe()
  local before = self.again and earlier(self) or {}
  local recipe = type(before.words) == "table" and before.words[1]
  local mine = self.words[1]
  local other = type(recipe) == "string" and recipe:match("[^/]*$") ~= mine:match("[^/]*$")
  if other and before.recipe_hash ~= failure.must(sys.hash_file(mine)) then
    failure.raise("config", "%s was started by %s; resume it with that recipe, seqrun %s --resume=%s, or start a new "
      .. "run with --out", self.path, recipe, text.shell(recipe), text.shell(self.path))
  end
end

---Fails if the newest checkpoint of a directory is not that of its run.
local function check_own(self, before, found)
  local theirs = found and found.state.run
  if not theirs or not before.id or theirs == before.id then return end
  failure.raise("data", "%s is a checkpoint of another run; remove it from %s, or start a new run from its weights "
    .. "with init.from=%s", found.path, self.path, text.shell(found.path))
end

---Fails if metrics.jsonl is not that of the run, which would go on in the lines of another or lack its first ones.
local function check_metrics(self, found)
  local mark, path = found and found.state.metrics, self.path .. "/metrics.jsonl"
  if not mark or playback.current() then return end
  local mine = line_file.mark(path, mark.bytes)
  if mine and mine.hash == mark.hash then return end
  failure.raise("data", "%s %s; restore it, or start a new run from the weights with init.from=%s", path,
    sys.exists(path) and "is not that of this run, or was edited" or "is gone", text.shell(found.path))
end

---Keys of what a resumed run does not read again: its checkpoint has the weights.
local READ_ONCE = { ["init.from"] = true }

---Inputs that a resumed run may have otherwise: code, which is edited like the recipe, and the data, whose digest is
---compared.
local function may_change(key) return key:find("%.fn$") ~= nil or READ_BY_DIGEST[key] end

---A name of its own for a run.
local function new_id(self)
  return sys.hash(table.concat({ self.command, sys.machine().host, sys.pid(), sys.now() }, " ")):sub(1, 16)
end

---The machine, build, command line and what the run is made from, for environment.json; and what the processes before
---a resume were made from.
---@param t { ranks: integer, data?: string }
---@param before table environment.json of the run that is resumed
local function environment(self, loaded, t, before)
  local facts, was = origin.of(self.words[1], loaded), type(before.inputs) == "table" and before.inputs or {}
  for key in pairs(READ_ONCE) do facts.inputs[key] = was[key] or facts.inputs[key] end
  facts.command, facts.words, facts.data, facts.id = self.command, self.words, t.data, self.id
  facts.new_rate = self.new_rate or before.new_rate or nil -- its checkpoint may have the old one still
  facts.threads, facts.ranks, facts.device = tensor.threads(), t.ranks, tensor.device()
  facts.instructions, facts.machine, facts.build = devices.instructions(), sys.machine(), sys.build()
  facts.pid, facts.started = sys.pid(), os.date("!%Y-%m-%dT%H:%M:%SZ")
  facts.sessions = type(before.sessions) == "table" and before.sessions or {}
  if before.started then
    local session = {}
    for _, key in ipairs { "started", "command", "library_hash", "instructions" } do
      session[key] = before[key]
    end
    facts.sessions[#facts.sessions + 1] = session
  end
  json.array(facts.sessions)
  facts.lua_files, self.loaded_files = lua_files.hashes()
  self.facts = facts
  return json.encode(facts)
end

---Adds to environment.json the Lua files that the recipe has loaded since it was written.
---@return true|nil
---@return string? message
function Directory:note_lua_files()
  local files, count = lua_files.hashes()
  if not self.facts or count == self.loaded_files then return true end
  self.facts.lua_files, self.loaded_files = files, count
  return sys.write_file(self.path .. "/environment.json", json.encode(self.facts) .. "\n")
end

---Fails if what a resumed run reads is not what it was started with.
local function check_inputs(before)
  local named = {}
  for key, list in pairs(type(before.inputs) == "table" and before.inputs or {}) do
    named[key] = not may_change(key) and list or nil
  end
  origin.check(named, READ_ONCE, "%s: %s has changed since the run started; restore it, or start a new run with --out")
end

---Locks the directory and writes config.yaml and environment.json; an earlier run makes room, if it is to.
---@param loaded seqrun.Config
---@param t { ranks: integer, data?: string, found?: { path: string, state: table } } data: digest of the data set;
---  found: the checkpoint to resume from
---@return seqrun.core.Append log run.log
---@return string|nil aside the new name of the earlier run
---@return table[] changed keys of a resumed run
---@return table[] edited Lua files of a resumed run that are others
function Directory:start(loaded, t)
  local before = self.again and earlier(self) or {}
  check_own(self, before, t.found)
  check_metrics(self, t.found)
  self.id = before.id or t.found and t.found.state.run or new_id(self)
  local edited = self.again and lua_files.edited(self.words[1], before) or {}
  local changed = self.again and sys.exists(self.path) and check_same(self.path, loaded, {
    found = t.found, data = t.data, new_rate = self.new_rate or before.new_rate,
  }) or {}
  check_inputs(before)
  local aside = self.force and set_aside(self.path) or nil
  self.lock = self.lock or lock(self.path)
  ending.begin(self.path)
  failure.must(sys.write_file(self.path .. "/config.yaml", loaded:dump()))
  failure.must(sys.write_file(self.path .. "/environment.json", environment(self, loaded, t, before) .. "\n"))
  local log = failure.must(train.append(self.path .. "/run.log"))
  self.started = true
  return log, aside, changed, edited
end

---Writes how the run ended, if it started, and unlocks the directory.
---@param found { finished?: boolean, step: integer, seconds: number }
---@param problem any what ended it; nil: its recipe did
---@return true|nil
---@return string? message
function Directory:leave(found, problem)
  local started = self.started
  self.started = false
  if started then
    self:note_lua_files()
    return ending.write(self.path, found, problem)
  end
  return true
end

---Fails if another run has taken the directory, since somebody removed its lock.
function Directory:check_lock()
  if self.lock then failure.must(self.lock:check()) end
end

---Releases the lock.
function Directory:unlock()
  if self.lock then self.lock:close() end
  self.lock = nil
end

---Mistakes of each head in scores.json.
local MISTAKES = 20

---Writes scores.json: what the last evaluation of a task found, for reports.
---@param step integer
---@param scoring seqrun.Scoring
---@return true|nil
---@return string? message
function Directory:write_scores(step, scoring)
  local heads = require("seqrun.scores.report").plain(scoring, MISTAKES)
  return sys.write_file(self.path .. "/scores.json", json.encode { step = step, heads = heads } .. "\n")
end

return { new = new }
