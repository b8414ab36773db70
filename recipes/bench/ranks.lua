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

local common = require("common")

local options = common.options({
  model = "base", packs = 4, repeats = 1, rounds = 2, ranks = 2, only = "", precision = "f32", optimizer = "adamw",
}, arg)

local ARMS = {
  { "threads", ranks = 1, threads = options.ranks },
  { "ranks", ranks = options.ranks, threads = 1 },
  { "after", "overlap=false", ranks = options.ranks, threads = 1 },
  { "library", "reduce=library", ranks = options.ranks, threads = 1 },
  { "sharded", "shard=true", ranks = options.ranks, threads = 1 },
  { "reduced", "shard=true", "reduce=library", ranks = options.ranks, threads = 1 },
}

---Real tokens per second of one arm, or nil with what it said.
local function measure(arm)
  local words = {
    "only=packed", "model=" .. options.model, ("packs=%d"):format(options.packs), "micro=1", "updates=1",
    ("repeats=%d"):format(options.repeats), ("threads=%d"):format(arm.threads), "precision=" .. options.precision,
    "optimizer=" .. options.optimizer, table.unpack(arm, 2),
  }
  local text = common.run("step.lua", words, arm)
  return tonumber(text:match("\npacked +(%d+)")), text
end

if not common.has_ranks() then
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
