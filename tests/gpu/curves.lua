-- recipes/pretrain.lua on the CPU and on a device, step by step: the losses must agree.
--
--     seqrun tests/gpu/curves.lua [DEVICE=cuda] [STEPS=50] [KEY=VALUE ...]
--
-- In f32 the curves part by rounding only, which training amplifies: 2e-3 of the loss over 50 steps.  In bf16 the
-- CPU's own bf16 is the measure: 2e-2.

local sys = require("seqrun.core.sys")

local device, steps = arg[1] or "cuda", arg[2] or "50"
local root = arg[0]:match("^(.*)/tests/gpu/[^/]*$") or "."
local TOLERANCE = { f32 = 2e-3, bf16 = 2e-2 }
local program = assert(sys.real_path("/proc/self/exe"))

---Runs the recipe and returns the loss of every step.
local function losses_on(where, precision)
  local out = os.tmpname()
  os.remove(out)
  local words = {
    program, root .. "/recipes/pretrain.lua", "device=" .. where, "precision=" .. precision, "log.every=1",
    "--max-steps", steps, "--quiet", "--out", out, table.unpack(arg, 3),
  }
  for i, word in ipairs(words) do words[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local good = os.execute(table.concat(words, " ") .. " >/dev/null")
  if not good then error("the recipe failed on " .. where, 0) end
  local losses = {}
  for line in assert(io.open(out .. "/metrics.jsonl")):lines() do
    local loss = line:find('"type":%s*"train"') and line:match('"loss":%s*([^,}]+)')
    if loss then losses[#losses + 1] = tonumber(loss) end
  end
  os.execute("rm -rf '" .. out .. "'")
  return losses
end

local failed = false
for _, precision in ipairs { "f32", "bf16" } do
  local wanted, got, most = losses_on("cpu", precision), losses_on(device, precision), 0
  assert(#wanted == tonumber(steps) and #got == #wanted, "a line of metrics for every step was expected")
  for i, loss in ipairs(wanted) do most = math.max(most, math.abs(got[i] - loss) / loss) end
  local good = most <= TOLERANCE[precision]
  print(("%s: %s steps, loss %.4f to %.4f on the cpu, %.4f on %s; largest difference %.1e%s"):format(precision, steps,
    wanted[1], wanted[#wanted], got[#got], device, most, good and "" or ": TOO LARGE"))
  failed = failed or not good
end
os.exit(failed and 1 or 0)
