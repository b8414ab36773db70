-- nccl_overlap.lua - buckets of gradients on the recording NCCL (tests/support/nccl.c); run by mpirun (nccl_spec.lua).
--
--     nccl_overlap.lua [REDUCE]
--
-- Two updates of one micro-batch a rank through three layers; the backward pass of each writes "layer N" to the calls.

local ranks = require("seqrun.tensor.ranks")
local shares = require("seqrun.data.loader.shares")
local sr = require("seqrun")

local reduce = arg[1]
local world = ranks.open("cpu", { engine = "nccl", timeout = 30 })
local path = ("%s.%s"):format(os.getenv("NCCL_CALLS"), os.getenv("OMPI_COMM_WORLD_RANK"))

local SIZE = 40000 -- the chunks of two ranks are cut inside the second parameter
local params = sr.params.new { { name = "1", shape = { SIZE } }, { name = "2", shape = { SIZE } },
  { name = "3", shape = { SIZE } } }:initialise(1)
local optimizer = sr.optim.adamw(params, { world = world })
params:share_with(world, { reduce = reduce, sharded = true, bucket = 0.01 })

local function note(text)
  local file <close> = assert(io.open(path, "a"))
  file:write(text, "\n")
end

---An op that does nothing but say when its backward pass runs.
local function told(name)
  return sr.ops.custom {
    forward = function(_, x) return x:clone() end,
    backward = function(_, dy)
      note("layer " .. name)
      return dy
    end,
  }
end

local function layers(x)
  for _, name in ipairs { "1", "2", "3" } do x = told(name)(x * params:get(name)) end
  return x
end

local update = { count = 2, shares = 2, rank = world.rank, ranks = world.size }
function update.batch(_, i) return { share = i } end

for step = 1, 2 do
  note("step " .. step)
  for _ in shares.each(update, { params }) do layers(sr.full({ SIZE }, 1)):sum():backward() end
  note("loop ended")
  optimizer:step { rate = 0.01 }
end
world:close()
