-- opening.lua - what a run has before it starts, from the command line and the config; nothing is written yet.

local agreement = require("seqrun.run.ranks.agreement")
local auto = require("seqrun.run.auto")
local checks = require("seqrun.run.checks")
local directory = require("seqrun.run.directory")
local failure = require("seqrun.base.failure")
local load_config = require("seqrun.run.load_config")
local options = require("seqrun.run.options")
local output = require("seqrun.base.output")
local ranks = require("seqrun.run.ranks")
local saves = require("seqrun.run.directory.saves")
local screen = require("seqrun.run.screen")
local strict = require("seqrun.base.strict")
local sys = require("seqrun.core.sys")
local run_keys = require("seqrun.keys")

---Starts each of a list of seeds, folds or phases as a run of its own; does not return then.
local function run_several(list, kind, request, folder, best)
  if not list then return end
  local key = kind == "fold" and "data.folds" or kind .. "s"
  if ranks.launched() > 1 then
    failure.raise("config", "%s: each %s is a separate run; start it without mpirun or srun%s", key, kind,
      kind == "phase" and ", or set phases=none and the keys of one phase" or "")
  end
  if request.force then failure.raise("config", "%s: --force does not apply; remove %s", key, folder) end
  local runs = require(kind == "phase" and "seqrun.run.phases" or "seqrun.run.seeds")
  if not request.dry_run then runs.run(request, folder, list, kind, best) end
end

---The numbers of the folds that a config asks for; nil if it names one, or has none.
local function folds_of(data)
  if not data or not data.folds or data.fold then return nil end
  local list = {}
  for i = 1, data.folds do list[i] = i end
  return list
end

---The fields of a run from its config: its ranks, its directory, what it says.
local function assemble(loaded, cfg, request, place)
  local all, warnings = ranks.open(loaded, request, place.path)
  all:first_does(function()
    if not request.dry_run then place:enter() end
  end)
  local shown = all.leads and screen.new {
    quiet = request.quiet, json_log = request.json_log, every = cfg.log.every, seconds = cfg.log.seconds,
  } or ranks.silent
  local self = {
    config = cfg, loaded = loaded, request = request, ranks = all, folder = place.path, directory = place, step = 0,
    phase = "between", screen = shown, agreement = agreement.new(all),
    saves = saves.new { folder = place.path, options = cfg.save, screen = shown },
  }
  for _, warning in ipairs(warnings) do shown:warn("%s", warning) end
  for _, note in ipairs(loaded.notes) do shown:warn("%s", note) end
  shown:because(auto.resolve {
    config = cfg, schema = loaded.schema, folder = place.path, ranks = all, screen = shown, resume = request.resume,
  })
  self.checks = checks.new {
    config = cfg, schema = loaded.schema, ranks = all, screen = shown, dry = request.dry_run,
    without_id = place:is_without_id(),
  }
  return self
end

---@param spec table of run.open
---@return table # the fields of a seqrun.Run
return function(spec)
  local schema, rules = run_keys(spec.task, { keys = spec.keys, rules = spec.rules })
  local request = options.read(spec.recipe, schema)
  if (request.explain or request.dry_run) and ranks.follows() then failure.raise("ok", "") end -- rank 0 prints
  local place = directory.new(request, spec.name, table.concat(spec.recipe, " ", 0))
  place:check_recipe()
  local loaded = load_config {
    request = request, schema = schema, rules = rules, needs_file = true, threads = request.threads,
    saved = function(arguments) return place:saved_config(arguments) end,
  }
  local values = loaded.values
  run_several(values.seeds, "seed", request, place.path, values.save.best)
  run_several(folds_of(values.data), "fold", request, place.path, values.save.best)
  run_several(values.phases, "phase", request, place.path)
  sys.signals(request.dry_run and "work" or "run")
  output.survive(not request.dry_run)
  return assemble(loaded, strict.config(loaded.values, schema, "the config"), request, place)
end
