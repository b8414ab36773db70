-- nccl_calls.lua - calls of a world on the recording NCCL (tests/support/nccl.c); run by mpirun (nccl_spec.lua).
--
--     nccl_calls.lua [DEVICE]

local ranks = require("seqrun.tensor.ranks")
local sr = require("seqrun")

local device = arg[1] or "cpu"
sr.use(device)
local world = ranks.open(device, { engine = "nccl", timeout = 30 })
local other = 1 - world.rank
local x, y, z = sr.zeros(6), sr.zeros(6), sr.zeros(6, { dtype = "i32" })

world:send(x, other)
world:receive(y, other)
world:wait() -- ends the group

world:send(x, other)
world:receive(y, other)
world:send(y, other) -- needs what was received: a group of its own
world:receive(z, other)
world:all_reduce(x) -- ends it
world:broadcast(z, 1)
world:reduce(x, 1)
world:reduce_scatter(sr.zeros(3, { dtype = "bf16" }), sr.zeros(6, { dtype = "bf16" }))
world:all_gather(x, sr.zeros(3))
world:wait()
world:barrier()
world:close()
