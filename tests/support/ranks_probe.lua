-- ranks_probe.lua - the gradient of updates whose loop several ranks share, without a run; for ranks_spec.lua.
--
--     mpirun -n 2 build/seqrun tests/support/ranks_probe.lua keep|early|late|twice OUT [REDUCE]

local sr = require("seqrun")
local shares = require("seqrun.data.loader.shares")

local what, out = arg[1], arg[2]
local world = require("seqrun.tensor.ranks").open()
local params = sr.params.new { { name = "w", shape = { 1000 }, init = "normal" } }:initialise(1)
local optimizer = sr.optim.adamw(params)
if world.size > 1 then params:share_with(world, { reduce = arg[3] }) end

---An update of six micro-batches in five shares.
local update = { count = 6, shares = 5, rank = world.rank, ranks = world.size }
function update.batch(_, i) return { scale = 0.1 * i, share = i == 6 and 5 or i } end

for step = 1, 3 do
  for batch in shares.each(update, { params }) do
    (params:get("w") * (batch.scale * step)):sum():backward()
    if what == "early" then break end
  end
  if what == "late" then (params:get("w") * 2):sum():backward() end
  if what == "twice" then
    for _ in shares.each(update, { params }) do error("the second loop began") end
  end
  optimizer:step { rate = 0.01, zero_grad = what ~= "keep" }
end
local text = {}
for i, x in ipairs(params:value_of("w"):totable()) do text[i] = ("%a"):format(x) end
sr.must(require("seqrun.core.sys").write_file(out .. world.rank, table.concat(text, "\n")))
