-- nccl_later.lua - a call whose failure only a later wait for the device can see; run by mpirun (nccl_spec.lua).

local ranks = require("seqrun.tensor.ranks")
local sr = require("seqrun")

sr.use("cuda")
local world = ranks.open("cuda", { engine = "nccl", timeout = 30 })
local x = sr.zeros(6)
world:all_reduce(x)
world:wait()
io.stderr:write("the host goes on\n")
x:to("cpu")
