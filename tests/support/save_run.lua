-- save_run.lua - saves checkpoints like a run; to be killed or cut off from power.
--
--     build/seqrun tests/support/save_run.lua DIR FIRST LAST [PROMISES [background]]
--
-- Saves steps FIRST..LAST (LAST 0: endlessly) of a small model whose values are a function of the step; in the
-- background, while the values change.  When a save has ended, its step is written to the file PROMISES, on another
-- disk.

local checkpoint = require("seqrun.checkpoint")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local dir, first, last, promises, background = arg[1], tonumber(arg[2]), tonumber(arg[3]), arg[4], arg[5]

local params = sr.params.new { { name = "w", shape = { 64, 32 } }, { name = "b", shape = { 64 }, init = "zeros" } }
local opt = sr.optim.adamw(params)

sys.exists("/begin-of-the-run") -- a marker in the trace
local lock = sr.must(checkpoint.lock(dir))
local saver = background and checkpoint.saver(dir)
local out = promises and assert(io.open(promises, "a"))
local step = first
while last == 0 or step <= last do
  params:initialise(step)
  local saved = { step = step, model = params, opt = opt, config = { hidden_size = 32 }, state = { step = step } }
  if saver then
    assert(saver:begin(saved))
    params:initialise(0)
    sr.must(saver:wait())
  else
    sr.must(checkpoint.save(dir, saved))
  end
  if out then
    out:write(step, "\n")
    out:flush()
  end
  step = step + 1
end
sys.exists("/end-of-the-run")
lock:close()
