-- recipes/pretrain.lua on the CPU and on a device, step by step: the losses must agree.
--
--     seqrun tests/gpu/curves.lua [DEVICE=cuda] [STEPS=50] [KEY=VALUE ...]
--
-- In f32 the curves part by rounding only, which training amplifies: 2e-3 of the loss over 50 steps.  In bf16 the
-- CPU's own bf16 is the measure: 2e-2.  There a run that stops half-way and resumes has the same bits.

local sys = require("seqrun.core.sys")

local device, steps = arg[1] or "cuda", arg[2] or "50"
local root = arg[0]:match("^(.*)/tests/gpu/[^/]*$") or "."
local TOLERANCE = { f32 = 2e-3, bf16 = 2e-2 }
local program = assert(sys.real_path("/proc/self/exe"))

---Runs the recipe to each of the stops, resuming, and returns the loss of every step.
local function losses_on(where, precision, ...)
  local out, losses = os.tmpname(), {}
  os.remove(out)
  for _, stop in ipairs { ... } do
    local words = {
      program, root .. "/recipes/pretrain.lua", "device=" .. where, "precision=" .. precision, "log.every=1",
      "--max-steps", tostring(stop), "--quiet", "--out", out, "--resume", table.unpack(arg, 3),
    }
    for i, word in ipairs(words) do words[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
    local good = os.execute(table.concat(words, " ") .. " >/dev/null")
    if not good then error("the recipe failed on " .. where, 0) end
  end
  for line in assert(io.open(out .. "/metrics.jsonl")):lines() do
    local loss = line:find('"type":%s*"train"') and line:match('"loss":%s*([^,}]+)')
    if loss then losses[#losses + 1] = tonumber(loss) end
  end
  os.execute("rm -rf '" .. out .. "'")
  return losses
end

local failed = false
for _, precision in ipairs { "f32", "bf16" } do
  local wanted, got, most = losses_on("cpu", precision, steps), losses_on(device, precision, steps), 0
  assert(#wanted == tonumber(steps) and #got == #wanted, "a line of metrics for every step was expected")
  local resumed = precision == "bf16" and losses_on(device, precision, steps // 2, steps) or got
  if table.concat(resumed, " ") ~= table.concat(got, " ") then
    failed = true
    print(precision .. ": a run that was resumed has other losses")
  end
  for i, loss in ipairs(wanted) do most = math.max(most, math.abs(got[i] - loss) / loss) end
  local good = most <= TOLERANCE[precision]
  print(("%s: %s steps, loss %.4f to %.4f on the cpu, %.4f on %s; largest difference %.1e%s"):format(precision, steps,
    wanted[1], wanted[#wanted], got[#got], device, most, good and "" or ": TOO LARGE"))
  failed = failed or not good
end
os.exit(failed and 1 or 0)
