-- load_config.lua - the config of a recipe: its file, then the arguments of the command line.

local config = require("seqrun.config")
local failure = require("seqrun.base.failure")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")

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
  file = file or t.saved and t.saved(arguments)
  if not file then
    local beside = request.file:gsub("%.lua$", "") .. ".yaml"
    file = sys.exists(beside) and beside or nil
    if not file and t.needs_file then
      looked = "\nno config file was read: " .. beside .. " does not exist; write it, or pass config=FILE"
    end
  end
  if t.threads then arguments[#arguments + 1] = "threads=" .. t.threads end
  local loaded, message, code = config.load {
    schema = t.schema, rules = t.rules, file = file, arguments = arguments, partial = request.explain,
  }
  if not loaded then failure.raise(code, "%s%s", message, looked) end
  return loaded
end
