-- check_run.lua - verifies the checkpoints of save_run.lua after a kill or power cut.
--
--     build/seqrun tests/support/check_run.lua DIR PROMISED
--
-- Exits with 0 if the newest valid checkpoint is of step PROMISED or later (PROMISED 0: there may be none)
-- and has the saved content, and if every step directory is intact.

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
  fail("no checkpoint, expected step %d: %s", promised, step)
end
if step < promised then fail("the newest checkpoint is of step %d, expected at least %d", step, promised) end

local specs = { { name = "w", shape = { 64, 32 } }, { name = "b", shape = { 64 }, init = "zeros" } }
local params, wanted = sr.params.new(specs), sr.params.new(specs)
local opt = sr.optim.adamw(params)
for _, item in ipairs(assert(checkpoint.list(dir))) do
  local loaded, message = checkpoint.load(item.path, { model = params, opt = opt, carry = "resume" })
  if not loaded then fail("step %d: %s", item.step, message) end
  wanted:initialise(item.step)
  local same = params:value_of("w"):tostring_bytes() == wanted:value_of("w"):tostring_bytes()
  if loaded.state.step ~= item.step or not same then fail("step %d has the wrong content", item.step) end
end
