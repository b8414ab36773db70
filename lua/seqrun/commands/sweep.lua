-- sweep - runs a recipe with several values of some keys, over seeds, and names the best.

local converters = require("seqrun.config.converters")
local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local json = require("seqrun.core.json")
local printable = require("seqrun.base.printable")
local results = require("seqrun.run.sweep.results")
local settings = require("seqrun.run.sweep.settings")
local shipped = require("seqrun.base.shipped")
local show = require("seqrun.run.sweep.show")
local sweep = require("seqrun.run.sweep")
local sys = require("seqrun.core.sys")
local types = require("seqrun.config.types")

local command = { summary = "run a recipe with several values of some keys, over seeds, and report the best" }

local function duration(word)
  local seconds, wanted = types.duration():parse(word)
  if seconds then return seconds end
  return nil, ("'%s' is not %s"):format(word, wanted)
end

---"100,300": ascending steps.
local function steps(word)
  local list = {}
  for part in (word .. ","):gmatch("([^,]*),") do
    local step = part:find("^%d+$") and math.tointeger(tonumber(part))
    if not step or step < 1 or step <= (list[#list] or 0) then
      return nil, ("'%s' is not a list of ascending steps, such as 100,300"):format(word)
    end
    list[#list + 1] = step
  end
  return list
end

function command.define(cmd)
  cmd:argument("recipe", "a recipe, such as recipes/finetune.lua")
  cmd:argument("settings", "key=value for all runs, key=value,value,... for keys that are swept; with --random also "
    .. "key=low..high"):args("+")
  cmd:option("--seeds", "runs of each trial, with the seeds 1 to N"):argname("N"):convert(converters.whole(1, 1000))
    :default("1")
  cmd:option("--metric", "of the last evaluation, by which trials are compared; larger is better, except for losses; "
    .. "default: that of save.best, or the most informative one"):argname("NAME")
  cmd:option("--random", "this number of trials, drawn, instead of all combinations"):argname("N")
    :convert(converters.whole(1, 100000))
  cmd:option("--draw", "the seed of --random"):argname("SEED"):convert(converters.whole(0, 1 << 53)):default("1")
  cmd:option("--halving", "after each of these steps only the best trials "
    .. "continue"):argname("STEP,STEP"):convert(steps)
  cmd:option("--eta", "with --halving: the best 1 of ETA continue"):argname("ETA"):convert(converters.whole(2, 100))
    :default("3")
  cmd:option("--budget", "time for all runs, such as 1h; repeat the command with more to continue"):argname("TIME")
    :convert(duration)
  cmd:option("--max-steps", "steps of each run; schedules ignore it"):argname("N"):convert(converters.whole(1, 1 << 53))
  cmd:option("--out", "directory of all runs; default: runs/sweep_RECIPE"):argname("DIR")
  cmd:option("--threads", "number of threads of a run; default: all"):argname("N"):convert(converters.threads)
  cmd:flag("--retry", "repeat runs that failed")
  formats.define(cmd)
  cmd:epilog([[Each run is in OUT/KEY=VALUE,.../seed-N. Repeating the command continues it: finished runs stay, so
values and seeds can be added. A failed run is a row with the reason. Trials are compared on the data that runs
evaluate on; a test set (by its name, such as test.tsv) is refused. OUT/sweep.svg is a plot.

examples:
  seqrun sweep recipes/finetune.lua task=classify data.train=train.tsv data.dev=dev.tsv \
      init.from=some/bert rate.peak=1e-5,3e-5,1e-4 batch.sequences=16,32 --seeds 3 --budget 1h
  seqrun sweep recipes/pretrain.lua rate.peak=1e-4..1e-2 --random 8 --halving 100 --metric mlm_loss]])
end

local function plain(self, rows, whole)
  local list = json.array {}
  for i, row in ipairs(rows) do
    local set = {}
    for _, word in ipairs(row.trial.words) do
      local key, value = word:match("^([^=]*)=(.*)$")
      set[key] = value
    end
    list[i] = {
      settings = set, folder = self.folder .. "/" .. row.trial.name, values = json.array(row.values), mean = row.mean,
      deviation = row.deviation, half = row.half, step = row.step, seconds = row.seconds, state = row.state,
      reason = row.reason,
    }
  end
  local found, alike = results.best(rows)
  return {
    metric = self.metric, smaller_is_better = require("seqrun.history.overview").smaller_is_better(self.metric or ""),
    seeds = self.seeds, complete = whole, trials = list, best = found and found.trial.name, alike = alike,
    picture = self.folder .. "/sweep.svg",
  }
end

local function tell(self, rows, format)
  if format ~= "table" then
    return formats.write(show.cells(self, rows), format)
  end
  print(("%s by %s"):format(counted(#rows, "trial"), show.rule(self)))
  for _, line in ipairs(show.lines(self, rows)) do print(line) end
  print(show.verdict(self, rows))
end

---Writes the picture; its path, or nil if there is nothing to draw.
local function draw(self, rows)
  local picture = show.picture(self, rows)
  if not picture then return nil end
  local path = self.folder .. "/sweep.svg"
  failure.must(sys.write_file(path, picture))
  return path
end

function command.run(args)
  sys.signals("run")
  local file = shipped.find(args.recipe)
  if not sys.exists(file) then return nil, ("sweep: %s: no such recipe"):format(args.recipe), "config" end
  local fixed, axes = settings.read(args.settings)
  local self = sweep.new {
    file = file, fixed = fixed, trials = settings.trials(axes, { random = args.random, seed = args.draw }),
    seeds = args.seeds, rungs = args.halving or {}, eta = args.eta, metric = args.metric, budget = args.budget,
    retry = args.retry, threads = args.threads, max_steps = args.max_steps,
    folder = args.out or "runs/sweep_" .. file:match("([^/]*)$"):gsub("%.lua$", ""),
    told = function(line) io.stderr:write(printable(line), "\n") end,
  }
  local rows, whole = self:run()
  local picture = draw(self, rows)
  if args.json then print(json.encode(plain(self, rows, whole))) else
    tell(self, rows, args.format)
    if picture and args.format == "table" then print("picture: " .. picture) end
  end
  if not whole then
    return nil, ("sweep: the budget ended; repeat the command with a larger --budget to continue"), "stopped"
  end
  if not results.best(rows) then return nil, "sweep: no trial has finished", "numeric" end
  return 0
end

return command
