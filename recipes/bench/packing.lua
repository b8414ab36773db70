-- packing.lua - packs, bounds and times of every solver, compared with the published figures.
--
--     seqrun recipes/bench/packing.lua [set=wikipedia_512] [data=tests/data/packing] [repeat=5]
--
-- Times are the best of `repeat` runs on one core.  The published figures are those of the packing
-- paper's reference implementation (reference_packing.tsv); bounds.tsv has the best known bounds.

local sr = require("seqrun")
local common = require("common")
local core = require("seqrun.core.pack")
local sys = require("seqrun.core.sys")

local given = common.options({ set = "", data = "tests/data/packing", ["repeat"] = 5 }, arg)

local published, bounds = {}, {}
for _, row in ipairs(common.read_table(given.data .. "/reference_packing.tsv")) do
  published[row.set .. " " .. row.algorithm .. " " .. row.max_seqs_per_pack] = row
end
for _, row in ipairs(common.read_table(given.data .. "/bounds.tsv")) do
  bounds[row.set .. " " .. row.max_seqs_per_pack] = row
end

local function best_of(histogram, options)
  local best
  for _ = 1, options.solver == "nnlshp" and 1 or given["repeat"] do
    local plan = sr.must(sr.pack(histogram, options))
    if not best or plan.milliseconds < best.milliseconds then best = plan end
  end
  return best
end

local FORMAT = "%-18s %-8s %5s %11s %11s %6s %10s %10s %12s"

local function solver_table(set, depths)
  local histogram = sr.must(sr.pack.lengths(("%s/%s.hist"):format(given.data, set)))
  for _, solver in ipairs { "spfhp", "lpfhp", "bfd", "ffd", "bpcc", "nnlshp", "optimal" } do
    for _, depth in ipairs(depths) do
      local old, bound = published[("%s %s %s"):format(set, solver, depth)], bounds[set .. " " .. depth]
      if solver ~= "nnlshp" or old then
        local plan = best_of(histogram, { solver = solver, max_seqs = math.tointeger(tonumber(depth)) })
        local lower = math.max(plan.lower_bound, bound and tonumber(bound.best_lower_bound) or 0)
        print(FORMAT:format(set, solver, depth, plan.packs, old and old.packs or "-", plan.packs - lower,
          bound and solver == "optimal" and bound.best_known_packs or "-", ("%.3f"):format(plan.milliseconds),
          old and tonumber(old.seconds) and ("%.3f"):format(1000 * tonumber(old.seconds)) or "-"))
      end
    end
  end
end

---Synthetic counts: every length up to max_len, exponential or log-normal with noise.
local function many_lengths(max_len, shape)
  local counts, noise = {}, 1
  for l = 1, max_len do
    noise = noise * 16807 % 2147483647
    local x = l / max_len
    local density = shape == "exponential" and 20000 * math.exp(-5 * x)
      or 1e6 / l * math.exp(-(math.log(x) + 1.5) ^ 2 / 0.7)
    counts[l] = 1 + math.floor(density * (0.8 + 0.4 * noise / 2147483647))
  end
  return sr.must(sr.pack.histogram(counts))
end

local function many_lengths_table()
  print(("%-24s %5s %11s %11s %10s %10s"):format("every length", "depth", "packs", "bound", "above", "ms"))
  for _, max_len in ipairs { 1024, 2048 } do
    for _, shape in ipairs { "exponential", "log-normal" } do
      for _, depth in ipairs { 3, 4, 8, "max" } do
        local plan = sr.must(sr.pack(many_lengths(max_len, shape), { max_seqs = math.tointeger(depth) }))
        print(("%-24s %5s %11d %11d %9.4f%% %10.0f"):format(max_len .. ", " .. shape, depth, plan.packs,
          plan.lower_bound, 100 * plan.gap_packs / plan.lower_bound, plan.milliseconds))
      end
    end
  end
end

---16.3 million lengths in random order: counted, packed, assigned to uids; then packs of an epoch.
local function end_to_end(solver)
  local histogram = sr.must(sr.pack.lengths(given.data .. "/wikipedia_512.hist"))
  local lengths = histogram:shuffled(1)
  collectgarbage()
  local before, began = sys.memory(), os.clock()
  local counted = sr.must(core.count(lengths, 512))
  local plan = sr.must(core.solve(counted, { solver = solver }))
  local planned = os.clock()
  local packing = sr.must(core.packing(plan, lengths, 7))
  local bound = os.clock()
  local n = histogram:info().sequences
  print(("%s: %d lengths to a plan in %.3f s, instances in another %.3f s; %.2f bytes per sequence"):format(
    solver, n, planned - began, bound - planned, (sys.memory() - before) / n))
  local packs = 1000000
  began = os.clock()
  local sequences = packing:tally(3, 1, packs)
  print(("  pack i of an epoch: %.3f us on average (%.2f sequences)"):format((os.clock() - began) * 1e6 / packs,
    sequences / packs))
end

print(FORMAT:format("set", "solver", "depth", "packs", "published", "gap", "best known", "ms", "published ms"))
local all = { "1", "2", "3", "4", "6", "8", "12", "16", "max" }
local sets = given.set ~= "" and { given.set } or {
  "wikipedia_512", "squad_384", "glue_cola_128", "glue_sst2_128", "glue_mrpc_128", "glue_rte_128", "glue_stsb_128",
  "glue_wnli_128",
}
for _, set in ipairs(sets) do solver_table(set, set:find("^glue") and { "3", "6", "12", "max" } or all) end
print()
many_lengths_table()
print()
for _, solver in ipairs { "lpfhp", "optimal" } do end_to_end(solver) end
local wikipedia = sr.must(sr.pack.lengths(given.data .. "/wikipedia_512.hist"))
local online = sr.must(sr.pack(wikipedia, { solver = "online", open = 64 }))
print(("online, 64 open packs, random order: %.4f%% in %.2f s"):format(100 * online.efficiency,
  online.milliseconds / 1000))
