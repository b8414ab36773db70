-- settings.lua - the config of a recipe that is not a training run: its YAML, then the command line.

local failure = require("seqrun.base.failure")
local load_config = require("seqrun.run.load_config")
local options = require("seqrun.run.options")
local output = require("seqrun.base.output")
local sys = require("seqrun.core.sys")

---Options of a training run, rejected here.
local RUN_ONLY = {
  resume = "--resume", max_steps = "--max-steps", new_rate = "--new-rate", json_log = "--json-log", force = "--force",
}

---What a recipe writes: --out names the file, or the directory of the file that `out` of the config names; or a
---directory, if `out` is one.
local function output_of(request, out, folder)
  if not request.out or type(out) ~= "string" then return out end
  local name, extension = out:match("([^/]*)$"), request.out:match("%.%w+$")
  local is_file = extension and extension == name:match("%.%w+$") and not sys.is_dir(request.out)
  return (folder or is_file) and request.out or request.out .. "/" .. name
end

---The values, with what --out means for `out`, and the options of the command line.
---@param spec { recipe: string[], schema: table, rules?: table[], folder?: boolean } recipe: the global `arg`; folder:
---  `out` is a directory
---@return table values
---@return table request
return function(spec)
  local request = options.read(spec.recipe, spec.schema, RUN_ONLY)
  for field, name in pairs(RUN_ONLY) do
    if request[field] then failure.raise("config", "%s does not apply to %s: it trains nothing", name, request.file) end
  end
  local loaded = load_config { request = request, schema = spec.schema, rules = spec.rules }
  sys.signals("work")
  output.survive(not request.dry_run)
  loaded.values.out = output_of(request, loaded.values.out, spec.folder)
  return loaded.values, request
end
