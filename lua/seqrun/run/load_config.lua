-- load_config.lua - the config of a recipe: its file, then the arguments of the command line.
--
-- A config may come from somebody else: that of a run that is resumed, or config=FILE.  So the keys that are commands
-- or name code (`runs` in the schema) count only where the user has written them, on the command line, or in the YAML
-- beside the recipe, which is code itself.

local config = require("seqrun.config")
local continuing = require("seqrun.run.continuing")
local failure = require("seqrun.base.failure")
local replay = require("seqrun.run.repro.replay")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

---The YAML beside a recipe; nil if there is none.
local function beside(request)
  local path = request.file:gsub("%.lua$", "") .. ".yaml"
  return sys.exists(path) and path or nil, path
end

---Whether phases, whose words become the command lines of their runs, may give a command or name code: the keys of
---those end in these words, in whatever form they are written.
local function phases_run(phases)
  local text_of = table.concat(phases, "\n")
  for _, word in ipairs { "fn", "run", "task", "config" } do
    if text_of:find("%f[%w_]" .. word .. "%f[^%w_]") then return true end
  end
  return false
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  return table.concat(a, "\n") == table.concat(b, "\n")
end

---Fails where a file that is not the recipe's own gives a command or names code.
local function check_code(loaded, request)
  local own
  local function check(path, what)
    local value = config.get(loaded.values, path)
    if not value or loaded.origins[path] == "command line" then return end
    local file = not own and beside(request)
    own = own or file and failure.valid(config.load { schema = loaded.schema, file = file, partial = true })
      or { values = {} }
    if same(config.get(own.values, path), value) then return end
    failure.raise("config", "%s: '%s' %s; only the command line and the YAML beside the recipe may: if you trust it, "
      .. "repeat %s", loaded.origins[path], path, what,
      text.shell(("%s=%s"):format(path, type(value) == "table" and "[...]" or value)))
  end
  config.each(loaded.schema, function(path, wanted)
    if wanted.runs then check(path, wanted.kind == "path" and "names a file of code" or "is a command") end
  end, "", loaded.values)
  local phases = config.get(loaded.values, "phases")
  if phases and phases_run(phases) then check("phases", "has a task, a command or a file of code") end
end

---The first file of these: config=FILE, that of `saved`, the YAML beside the recipe.
---@param t { request: table, schema: table, rules?: table[], saved?: fun(arguments: string[]): string?,
---  needs_file?: boolean, threads?: integer } needs_file: a failure says that there was none; threads: the key
---@return seqrun.Config
return function(t)
  local request, arguments, file, looked = t.request, {}, nil, ""
  for _, argument in ipairs(request.arguments) do
    local named = argument:match("^config=(.*)$")
    if named then file = shipped.find(named) else arguments[#arguments + 1] = argument end
  end
  local saved = not file and t.saved and t.saved(arguments) or nil
  file = file or saved
  local own, place = beside(request)
  local foreign = file and file ~= own
  if not file then
    file = own
    if not file and t.needs_file then
      looked = "\nno config file was read: " .. place .. " does not exist; write it, or pass config=FILE"
    end
  end
  if t.threads then arguments[#arguments + 1] = "threads=" .. t.threads end
  local lost = {}
  local loaded, message, code = config.load {
    schema = t.schema, rules = t.rules, file = file, arguments = arguments, partial = request.explain,
    lay = not saved and function(root, found) lost = continuing.lay(root, t.schema, file == own, found) end or nil,
  }
  if not loaded then failure.raise(code, "%s%s", message, looked) end
  if lost[1] and not shipped.is_recipe(file) then
    table.insert(loaded.notes, ("%s: %s: the model of init.from is otherwise, and counts"):format(file,
      table.concat(lost, ", ")))
  end
  if request.explain then
    io.stdout:write(loaded:explain())
    failure.raise("ok", "")
  end
  if foreign and not replay.trusting then check_code(loaded, request) end
  return loaded
end
