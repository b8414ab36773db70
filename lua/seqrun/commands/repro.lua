-- repro - runs a run again into a fresh directory, to the same bits, or names what differs.

local checks = require("seqrun.run.repro.checks")
local converters = require("seqrun.config.converters")
local formats = require("seqrun.draw.formats")
local grid = require("seqrun.draw.grid")
local json = require("seqrun.core.json")
local repro = require("seqrun.run.repro")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local command = { summary = "repeat a run in another directory and compare it to the bit, or report what differs" }

function command.define(cmd)
  cmd:argument("run", "the directory of a finished or stopped run"):argname("RUN")
  cmd:flag("--check", "only compare data, recipe, config with its seed, and build with those of this machine")
  cmd:option("--steps", "run to this step only; default: to the newest checkpoint"):argname("N")
    :convert(converters.whole(1, 1 << 53))
  cmd:option("--out", "directory of the second run; default: RUN-repro"):argname("DIR")
  cmd:option("--threads", "number of threads; default: all"):argname("N"):convert(converters.threads)
  cmd:flag("--trust", "run the recipe and the Lua files that RUN names, also where they do not ship with seqrun")
  formats.define(cmd)
  cmd:epilog([=[environment.json of a run has hashes of the recipe, the config, the files that it names and the
library, and the build and the instruction set. If recipe, config, data, device or instruction set differ from those
of this machine, nothing is run; SEQRUN_ISA selects a lower instruction set. A different build or compiler is
reported, and the second run shows whether it changes results. The second run starts from the config and the seed;
every line of metrics is compared as it is written, without times, then weights and moments of the last step.
Results do not depend on the number of threads and ranks. RUN is not changed. Start the command in the directory in
which the run was started. A recipe, a task or a schedule that is a Lua file and does not ship with seqrun is run
only with --trust, since RUN may be from somebody else.

exit codes: 0 equal, 1 a difference, 3 the run cannot be repeated, 5 storage full

examples:
  seqrun repro runs/pretrain --check
  seqrun repro runs/pretrain --steps 50]=])
end

local WORDS = { [true] = "equal", [false] = "differs" }

---Characters of a value.
local WIDEST = 40

local function verdict_of(check) return check.equal == nil and "not recorded" or WORDS[check.equal] end

local function rows_of(self)
  local rows = { { "", "of the run", "here", "" } }
  for i, check in ipairs(self.checks) do
    rows[i + 1] = {
      check.name, grid.cut(check.was or "-", WIDEST), check.equal and "" or grid.cut(check.now, WIDEST),
      verdict_of(check),
    }
  end
  return rows
end

---What differed between the two runs, in a sentence; nil if nothing did.
local function difference_of(self)
  local found = self.difference
  if found then
    return ("step %d differs: %s of %s is %s, was %s; the second run is in %s"):format(found.step,
      found.field:gsub("_", " "), found.type == "train" and "training" or found.type, formats.cell(found.now, "csv"),
      formats.cell(found.was, "csv"), self.again)
  end
  local saved = self.checkpoint
  if saved and not saved.equal then
    return ("step %d differs: %s of the checkpoint; the second run is in %s"):format(saved.step, saved.what, self.again)
  end
end

local function equal_text(self)
  local saved = self.checkpoint and (", weights and moments of step %d"):format(self.checkpoint.step)
    or (", but no checkpoint of step %d to compare"):format(self.last)
  return ("%s: %s run again in %s, equal to the bit: %s of metrics%s"):format(self.run,
    text.counted(self.last, "step"), self.again, text.counted(self.lines, "line"), saved)
end

---The checks, and what came of the second run.
local function lines_of(self, refusal, only)
  local lines = grid.lines(rows_of(self), { left = { true, true, true, true }, cut = { true, true, true } })
  if refusal then
    local elsewhere = self.folder and self.folder ~= sys.real_path(".")
    lines[#lines + 1] = ("%s differs, so the bits would: %s%s"):format(refusal.name,
      only and "the run cannot be repeated here" or "nothing was run",
      elsewhere and ("; the run was started in %s"):format(self.folder) or "")
  elseif only then
    lines[#lines + 1] = ("%s can be repeated here up to step %d"):format(self.run, self.last)
  else
    lines[#lines + 1] = difference_of(self) or equal_text(self)
  end
  return table.concat(lines, "\n")
end

local function plain(self, equal)
  local found = self.difference
  return {
    run = self.run, equal = equal, steps = self.last, checks = json.array(self.checks), again = self.again,
    lines = self.lines, checkpoint = self.checkpoint, difference = found and {
      step = found.step, type = found.type, field = found.field, was = found.was == nil and json.null or found.was,
      now = found.now == nil and json.null or found.now,
    } or nil,
  }
end

function command.run(args)
  local self = repro.open(args.run, args.steps, args.trust)
  local refusal = checks.refusal(self.checks)
  if not refusal and not args.check then
    repro.run(self, { out = args.out, threads = args.threads, quiet = args.format ~= "table" })
  end
  local equal = not refusal and (args.check or self.equal) or false
  formats.tell(args, {
    json = function() return plain(self, equal) end,
    text = function() return lines_of(self, refusal, args.check) end,
    rows = function(format) return formats.rows(self.checks, { "name", "equal", "was", "now", "must" }, format) end,
  })
  return equal and 0 or 1
end

return command
