-- sharded.lua - trains a few parameters with an optimizer that is sharded over the ranks; run by mpirun
-- (sharded_spec.lua).
--
--     sharded.lua DIR KIND PRECISION FROM UPTO [WORD...]     steps FROM + 1 ... UPTO, resumed from the checkpoint FROM
--
-- Words after UPTO: "whole" (not sharded), "late" (on that device), "full R" (the disk of rank R is full at the last
-- save), "loss" (that of the last rank is NaN at step 2).  Prints "R: PATH" or "R: MESSAGE (CODE)" of each rank.

local checkpoint = require("seqrun.checkpoint")
local fault = dofile("tests/support/fault.lua")
local ranks = require("seqrun.tensor.ranks")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local dir, kind, precision, from, upto = table.unpack(arg, 1, 5)
from, upto = math.tointeger(from), math.tointeger(upto)
local extra = table.concat(arg, " ", 6)

local device = extra:find "late" and "late" or "cpu"
sr.use(device)
local world = ranks.open(device, { timeout = 60 })
if world.rank == 0 then assert(sys.make_dirs(dir)) end

local params = sr.params.new({
  { name = "word", shape = { 900, 64 }, pad_rows_to = 64 },
  { name = "norm", shape = { 300 }, init = "ones", group = "no_decay", keep = "f32" },
  { name = "q", shape = { 128, 300 }, fuse = "qkv" },
  { name = "k", shape = { 128, 300 }, fuse = "qkv" },
  { name = "bias", shape = { 70 }, init = "zeros", group = "no_decay" },
}, { precision = precision }):initialise(3)
local opt = sr.optim[kind](params, { world = world, shard = not extra:find "whole" })

---The same gradients on all ranks, of a step; those of other pieces must not be read.
local function draw(step)
  local first, last = opt.core:range()
  local grad = params.core:grad()
  for i, name in ipairs(params:names()) do
    params:get(name):grad():normal_(0, 0.1, { seed = step, uid = i })
  end
  if first > 0 then grad:narrow(1, 1, first):copy_(sr.full({ first }, 0 / 0)) end
  local rest = grad:size(1) - last
  if rest > 0 then grad:narrow(1, last + 1, rest):copy_(sr.full({ rest }, 0 / 0)) end
end

local function save(step)
  return checkpoint.save(dir, { step = step, model = params, opt = opt, state = { world = world.size } })
end

if from > 0 then
  local path = ("%s/step-%09d"):format(dir, from)
  local loaded = sr.must(checkpoint.load(path, { model = params, opt = opt, carry = "resume" }))
  assert(loaded.step == from)
end
for step = from + 1, upto do
  draw(step)
  local loss = extra:find "loss" and sr.tensor { step == 2 and world.rank == world.size - 1 and 0 / 0 or 1 } or nil
  local result = opt:step { rate = 0.01, clip = 1, loss = loss }
  assert(result.applied == not (loss and step == 2))
end
local full = extra:match "full (%d+)"
if full then
  assert(save(upto - 1))
  if tonumber(full) == world.rank then fault.storage(1, "ENOSPC", "write") end
end
local path, message, code = save(upto)
fault.storage(0)
for rank, text in ipairs(world:gather_text(path or ("%s (%s)"):format(message, code))) do
  print(("%d: %s"):format(rank - 1, text)) -- on rank 0: the others are silent
end
world:close()
