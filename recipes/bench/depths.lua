-- depths.lua - packs, bounds and times when the number of sequences per pack is limited.
--
--     seqrun recipes/bench/depths.lua [lengths=1024,8192,65535] [depths=2,3,4,8,16,32] [shapes=lognormal1.1,...]
--         [solvers=optimal,bpcc,lpfhp,spfhp,ffd] [sequences=2000000] [check=true]
--
-- Two million random lengths a histogram.  Log-normal ones have their median at 6 % of the pack, and lengths above the
-- pack are cut to it.  Seconds are those of the processor, on one core.  check=true proves the bound of every plan of
-- `optimal` once more by a certificate, which takes minutes for long packs.

local sr = require("seqrun")
local common = require("common")
local core = require("seqrun.core.pack")

local given = common.options({
  lengths = "1024,8192,65535", depths = "2,3,4,8,16,32", sequences = 2000000,
  solvers = "optimal,bpcc,lpfhp,spfhp,ffd",
  shapes = "lognormal0.8,lognormal1.1,lognormal1.4,exponential,uniform,bimodal", check = false,
}, arg)

local random, log, floor = math.random, math.log, math.floor

local function normal() return math.sqrt(-2 * log(1 - random())) * math.cos(2 * math.pi * random()) end

---A length as a share of the pack, by shape.
local function draw(shape)
  local sigma = tonumber(shape:match("^lognormal([%d.]+)$"))
  if sigma then return function() return 490 / 8192 * math.exp(sigma * normal()) end end
  if shape == "exponential" then return function() return -log(1 - random()) / 8 end end
  if shape == "uniform" then return random end
  if shape == "bimodal" then
    return function()
      if random() < 0.7 then return 0.04 * math.exp(0.5 * normal()) end
      return 0.6 + 0.1 * normal()
    end
  end
  return common.refuse("unknown shape '%s'", shape)
end

local function histogram(shape, capacity)
  local counts, share = {}, draw(shape)
  math.randomseed(24)
  for l = 1, capacity do counts[l] = 0 end
  for _ = 1, given.sequences do
    local l = math.min(capacity, math.max(1, 1 + floor(share() * capacity)))
    counts[l] = counts[l] + 1
  end
  return sr.must(sr.pack.histogram(counts, capacity))
end

local FORMAT = "%-12s %6s %5s  %-8s %9s %9s %7s %9s %7s %s"

local function report(h, shape, capacity, depth)
  for solver in given.solvers:gmatch("[^,]+") do
    local began = os.clock()
    local plan = sr.must(core.solve(h, { solver = solver, max_seqs = depth }))
    local seconds, info, note = os.clock() - began, plan:info(), ""
    if given.check and solver == "optimal" then
      local proof = sr.must(core.prove(h, { max_seqs = depth }))
      sr.must(proof:check(h))
      note = ("proven %d"):format(proof:info().bound)
    end
    local gap = info.packs - info.lower_bound
    print(FORMAT:format(shape, capacity, depth, solver, info.packs, info.lower_bound, gap,
      ("%.4f%%"):format(100 * gap / info.lower_bound), ("%.2f"):format(seconds), note))
    io.stdout:flush()
  end
end

print(FORMAT:format("shape", "length", "depth", "solver", "packs", "bound", "gap", "", "seconds", ""))
for capacity in given.lengths:gmatch("%d+") do
  for shape in given.shapes:gmatch("[^,]+") do
    local h = histogram(shape, math.tointeger(capacity))
    for depth in given.depths:gmatch("%d+") do report(h, shape, math.tointeger(capacity), math.tointeger(depth)) end
  end
end
