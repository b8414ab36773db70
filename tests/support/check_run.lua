-- check_run.lua - what save_run.lua leaves must hold, whatever happened to it.
--
--     build/seqrun tests/support/check_run.lua DIR PROMISED
--
-- Exit 0 when the newest checkpoint that verifies is of step PROMISED or later (PROMISED 0: there may be
-- none), holds what was saved, and every folder of a step's name is whole.

local checkpoint = require("seqrun.checkpoint")
local sr = require("seqrun")

local dir, promised = arg[1], tonumber(arg[2])

local function fail(format, ...)
  print(("check_run: " .. format):format(...))
  os.exit(1)
end

local path, step, code = checkpoint.latest(dir)
if not path then
  if code == "missing" and promised == 0 then os.exit(0) end
  fail("no checkpoint, though step %d was promised: %s", promised, step)
end
if step < promised then fail("the newest is step %d, promised was %d", step, promised) end

local specs = { { name = "w", shape = { 64, 32 } }, { name = "b", shape = { 64 }, init = "zeros" } }
local params, wanted = sr.params.new(specs), sr.params.new(specs)
local opt = sr.optim.adamw(params)
for _, item in ipairs(assert(checkpoint.list(dir))) do
  local loaded, message = checkpoint.load(item.path, { model = params, opt = opt, carry = "resume" })
  if not loaded then fail("step %d: %s", item.step, message) end
  wanted:initialise(item.step)
  local same = params:value_of("w"):tostring_bytes() == wanted:value_of("w"):tostring_bytes()
  if loaded.state.step ~= item.step or not same then fail("step %d holds something else", item.step) end
end
