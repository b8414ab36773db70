-- verify - computes recorded steps of a run again and compares their hashes.

local checkpoint = require("seqrun.checkpoint")
local converters = require("seqrun.config.converters")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local lua_files = require("seqrun.base.lua_files")
local metrics = require("seqrun.history.metrics")
local playback = require("seqrun.run.verify.playback")
local replay = require("seqrun.run.repro.replay")
local scratch = require("seqrun.base.scratch")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local command = { summary = "recompute recorded steps of a run, and compare loss, gradient, weights and moments" }

function command.define(cmd)
  cmd:argument("run", "the directory of a run with verify.every"):argname("RUN")
  cmd:mutex(
    cmd:option("--step", "this recorded step only"):argname("K"):convert(converters.whole(1, 1 << 53)),
    cmd:flag("--last", "the last recorded step only"))
  cmd:flag("--trust", "run the recipe and the Lua files that RUN names, also where they do not ship with seqrun")
  formats.define(cmd)
  cmd:epilog([=[The steps that verify.every checked are recorded. A step is recomputed from the newest checkpoint before
it; without --step and --last, all recorded steps are recomputed from the oldest checkpoint. Start the
command in the directory in which the run was started. Nothing is written into RUN. With one instruction
set, results do not depend on the number of threads and ranks. A recipe, a task or a schedule that is a
Lua file and does not ship with seqrun is run only with --trust, since RUN may be from somebody else;
alert.run is never run.

exit codes: 0 equal, 1 a difference, 3 no checkpoint or no hashes to compare with

examples:
  seqrun recipes/pretrain.lua verify.every=100
  seqrun verify runs/pretrain --last]=])
end

---A run without its files is wrong data, not a missing path.
local function of_run(value, message, code)
  return (failure.must(value, message, code == "missing" and "data" or code))
end

---The recorded lines of a run, by step.
local function recorded(run)
  local lines, list = of_run(metrics.read(run)), {}
  for _, line in ipairs(lines) do
    if line.type == "verify" and line.equal and math.type(line.step) == "integer" then list[#list + 1] = line end
  end
  if #list == 0 then
    failure.raise("data", "%s: no step has recorded hashes; train with verify.every=100", run)
  end
  table.sort(list, function(a, b) return a.step < b.step end)
  return list
end

---The lines that were asked for.
local function chosen(list, args)
  if args.last then return { list[#list] } end
  if not args.step then return list end
  local near = {}
  for _, line in ipairs(list) do
    if line.step == args.step then return { line } end
    if #near < 8 then near[#near + 1] = tostring(line.step) end
  end
  failure.raise("data", "%s: step %d has no recorded hashes; those of %s%s have", args.run, args.step,
    table.concat(near, ", "), #list > #near and ", ..." or "")
end

---The checkpoint to begin at: one that is intact, before the first line, or for several lines the oldest.
local function beginning(run, lines)
  local all = of_run(checkpoint.list(run))
  local last, why = lines[#lines].step, nil
  local first, past, by = 1, #all, 1
  if #lines == 1 then first, past, by = #all, 1, -1 end
  for i = first, past, by do
    if all[i].step < last then
      local step, problem = checkpoint.verify(all[i].path)
      if step then return all[i] end
      why = problem
    end
  end
  failure.raise("data", "%s", why or ("%s: no checkpoint is older than step %d"):format(run, last))
end

---A directory for the files of the run that computes the steps; it is removed when closed.
local function place_beside(run)
  local place = scratch()
  local config = failure.must(sys.read_file(run .. "/config.yaml", 1 << 24))
  failure.must(sys.write_file(place.path .. "/config.yaml", config))
  return place
end

---Settings that the run may change: nothing but the steps is to be done.
local QUIET = {
  "--quiet", "attach=false", "save.every=0", "save.minutes=0", "eval.every=0", "budget=none",
  "alert.run=none",
}

---Runs the recipe from the checkpoint.
---@return table[] results
local function play(words, run, from, lines, trusted)
  local place <close> = place_beside(run)
  local playing = playback.open(from.path, lines)
  for _, word in ipairs(QUIET) do words[#words + 1] = word end
  words[#words + 1] = "--resume=" .. place.path
  words[#words + 1] = "--max-steps=" .. playing.last
  local done, message = replay.play(words, trusted)
  playback.close()
  failure.must(done, message, "data")
  return playing.results
end

---The lines that a checkpoint comes before.
local function after(lines, step)
  local list = {}
  for _, line in ipairs(lines) do
    if line.step > step then list[#list + 1] = line end
  end
  return list
end

local function tell(args, from, results, edited)
  local last = results[#results]
  if args.format ~= "table" then
    formats.tell(args, {
      json = function()
        return {
          run = args.run, checkpoint = from.path, equal = last.equal, steps = results,
          difference = not last.equal and { step = last.step, what = last.what, tensor = last.tensor } or nil,
        }
      end,
      rows = function(format) return formats.rows(results, { "step", "equal", "what", "tensor" }, format) end,
    })
  elseif last.equal then
    print(("%s: %s from %s, all bit-identical to the recorded ones"):format(args.run,
      text.counted(#results, "step"), from.path))
  else
    print(("%s: step %d differs from the recorded one: the %s%s"):format(args.run, last.step, last.what,
      last.tensor and ", first of " .. last.tensor or ""))
    for _, file in ipairs(edited) do print(("note: %s has been edited since the run was started"):format(file.path)) end
  end
  return last.equal and 0 or 1
end

function command.run(args)
  local lines = chosen(recorded(args.run), args)
  local from = beginning(args.run, lines)
  local words = failure.must(replay.recipe(args.run, args.trust))
  local edited = lua_files.edited(words[0], replay.environment(args.run))
  local results = play(words, args.run, from, after(lines, from.step), args.trust)
  if #results == 0 then return nil, ("%s: the run ended before a recorded step"):format(args.run), "data" end
  return tell(args, from, results, edited)
end

return command
