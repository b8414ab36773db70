-- ranks.lua - what it costs to train on several ranks of one machine: step.lua under mpirun, in turns.
--
--     build/seqrun recipes/bench/ranks.lua [model=base] [packs=4] [repeats=1] [rounds=2] [ranks=2]
--
-- threads     1 rank with as many threads as the others have ranks: what all are compared with
-- ranks       a thread each; gradients are summed in the order of the shares, every rank updates all parameters
-- after       the same, but gradients are exchanged after the backward pass, not during it
-- library     summed by the library's all-reduce
-- sharded     each rank updates its part of the parameters (ZeRO-1)
-- reduced     the same with the library's reduction to the owner of each part
--
-- Each figure is the best of all rounds.

local directory = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = directory .. "/?.lua;" .. package.path

local common = require("common")
local sys = require("seqrun.core.sys")

local options = common.options({
  model = "base", packs = 4, repeats = 1, rounds = 2, ranks = 2, only = "", precision = "f32", optimizer = "adamw",
}, arg)

local ARMS = {
  { "threads", ranks = 1, threads = options.ranks, words = "" },
  { "ranks", ranks = options.ranks, threads = 1, words = "" },
  { "after", ranks = options.ranks, threads = 1, words = "overlap=false" },
  { "library", ranks = options.ranks, threads = 1, words = "reduce=library" },
  { "sharded", ranks = options.ranks, threads = 1, words = "shard=true" },
  { "reduced", ranks = options.ranks, threads = 1, words = "shard=true reduce=library" },
}

local LAUNCH = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader "
  .. "mpirun --bind-to core --oversubscribe -n %d "

---Real tokens per second of one arm, or nil with what it said.
local function measure(arm)
  local launch = arm.ranks > 1 and LAUNCH:format(arm.ranks) or ""
  local words = ("'%s' '%s/step.lua' only=packed model=%s packs=%d micro=1 updates=1 repeats=%d threads=%d %s"):format(
    sys.real_path("/proc/self/exe"), directory, options.model, options.packs, options.repeats, arm.threads, arm.words)
  words = ("%s precision=%s optimizer=%s"):format(words, options.precision, options.optimizer)
  local pipe = assert(io.popen(launch .. words .. " 2>&1"))
  local text = pipe:read("a")
  pipe:close()
  return tonumber(text:match("\npacked +(%d+)")), text
end

if not os.execute("mpirun --version >/dev/null 2>&1") then
  print("ranks: mpirun is not installed; apt-get install openmpi-bin libopenmpi-dev")
  return
end

local best = {}
for _ = 1, options.rounds do
  for _, arm in ipairs(ARMS) do
    local name = arm[1]
    if options.only == "" or options.only:find(name, 1, true) then
      local speed, text = measure(arm)
      if not speed then error(("%s failed:\n%s"):format(name, text), 0) end
      best[name] = math.max(best[name] or 0, speed)
    end
  end
end

print(("BERT %s in %s, %s, %d packs of 512 in as many micro-batches, %s"):format(options.model, options.precision,
  options.optimizer, options.packs, common.machine()))
local rows = { { "arm", "ranks x threads", "tokens/s", "of threads" } }
for _, arm in ipairs(ARMS) do
  local speed, layout = best[arm[1]], ("%d x %d"):format(arm.ranks, arm.threads)
  local share = speed and best.threads and ("%.3f"):format(speed / best.threads) or "-"
  if speed then rows[#rows + 1] = { arm[1], layout, ("%.0f"):format(speed), share } end
end
common.print_table(rows)
