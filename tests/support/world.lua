-- world.lua - every call of a world, checked on each rank; run by mpirun (comm_spec.lua).
--
-- Prints one line a rank: "rank R of N: ok".

local core = require("seqrun.core.comm")
local ranks = require("seqrun.tensor.ranks")
local sr = require("seqrun")

local device = arg and arg[1] or "cpu"
sr.use(device)
local world = ranks.open(device, { timeout = 60 })
local R, N = world.rank, world.size
local REAL = device == "ref" and "f64" or "f32"

local function equal(wanted, t, what)
  local got = type(t) == "table" and t or t:totable()
  assert(#got == #wanted, what)
  for i, x in ipairs(wanted) do
    assert(math.abs(got[i] - x) < 1e-6, ("rank %d: %s[%d] is %s, not %s"):format(R, what, i, got[i], x))
  end
end

local function make(values, dtype) return sr.tensor(values, { dtype = dtype }) end

---n values that depend on the rank.
local function values(n, rank)
  local list = {}
  for i = 1, n do list[i] = i + 10 * rank end
  return list
end

---The sum of values over all ranks.
local function total(n)
  local list = {}
  for i = 1, n do list[i] = N * i + 10 * (N * (N - 1) // 2) end
  return list
end

local function whole(n)
  local list = {}
  for rank = 0, N - 1 do table.move(values(n, rank), 1, n, #list + 1, list) end
  return list
end

local function check_calls(dtype, n)
  local x = make(values(n, R), dtype)
  world:broadcast(x, N - 1)
  world:wait()
  equal(values(n, N - 1), x, "broadcast")

  x = make(values(n, R), dtype)
  world:all_reduce(x)
  world:wait()
  equal(total(n), x, "all_reduce")

  x = make(values(n, R), dtype)
  world:reduce(x, N - 1)
  world:wait()
  if R == N - 1 then equal(total(n), x, "reduce") end

  local long, part = {}, make(values(n, 7), dtype)
  for _ = 1, N do table.move(values(n, R), 1, n, #long + 1, long) end
  world:reduce_scatter(part, make(long, dtype))
  world:wait()
  equal(total(n), part, "reduce_scatter")

  local all = sr.zeros(N * n, { dtype = dtype })
  world:all_gather(all, make(values(n, R), dtype))
  world:wait()
  equal(whole(n), all, "all_gather")
end

---Each sends to the next and receives from the one before, both at once; then what arrived is passed on.
local function check_ring(dtype, n)
  if N == 1 then return end
  local x, y = make(values(n, R), dtype), sr.zeros(n, { dtype = dtype })
  world:send(x, (R + 1) % N)
  world:receive(y, (R - 1) % N)
  world:broadcast(y, 0) -- sees what was received
  world:wait()
  equal(values(n, N - 1), y, "send and receive")
end

---Several calls under way at once, on views of one store.
local function check_many(n)
  local store = sr.zeros(N * n)
  for rank = 0, N - 1 do
    local view = store:narrow(1, rank * n + 1, n)
    if rank == R then view:copy_(make(values(n, R), REAL)) end
  end
  for rank = 0, N - 1 do world:broadcast(store:narrow(1, rank * n + 1, n), rank) end
  world:wait()
  equal(whole(n), store, "views of a store")
end

local function check_texts()
  assert(world:broadcast_text(R == 0 and "from the root: ü" or nil) == "from the root: ü")
  assert(world:broadcast_text("", N - 1) == "")
  local list = world:gather_text(("x"):rep(R) .. R)
  assert(#list == N)
  for rank = 0, N - 1 do assert(list[rank + 1] == ("x"):rep(rank) .. rank, list[rank + 1]) end
  assert(world:any(R == N - 1) and not world:any(false))
end

local function check_refusals()
  local function refuses(words, fn, ...)
    local ok, message = pcall(fn, ...)
    assert(not ok and tostring(message):find(words, 1, true), tostring(message))
  end
  local c = world.core
  refuses("no rank " .. N, c.broadcast, c, sr.zeros(2), N)
  refuses("is this rank itself", c.send, c, sr.zeros(2), R)
  refuses("is not contiguous", c.all_reduce, c, sr.zeros(2, 3):transpose(1, 2))
  refuses("parts of 2 have", c.all_gather, c, sr.zeros(2 * N + 1), sr.zeros(2))
  refuses("they need one dtype", c.all_gather, c, sr.zeros(2 * N), sr.zeros(2, { dtype = "i32" }))
  refuses("cannot sum bool", c.all_reduce, c, sr.zeros(2, { dtype = "bool" }))
end

assert(ranks.current() == world and ranks.open(device) == world)
assert(not pcall(ranks.open, device == "cpu" and "ref" or "cpu"))
assert(N == 1 or core.launch().ranks == N)
for _, dtype in ipairs { REAL, "i32", "f64", device ~= "ref" and "bf16" or nil } do
  local exact = dtype == "bf16" and 3 or 1000 -- bf16 has 8 bits
  if dtype ~= "bf16" then check_calls(dtype, exact) end
  check_calls(dtype, 1)
  check_ring(dtype, dtype == "bf16" and 27 or 1000)
end
check_many(257)
check_texts()
check_refusals()
world:barrier()
for _, line in ipairs(world:gather_text(("rank %d of %d: ok"):format(R, N))) do
  if R == 0 then print(line) end
end
world:close()
