-- ranks.lua - a run on several processes: the world that a launcher (mpirun, srun) has started.
--
-- Ranks count from 0.  Without a launcher the world is this process alone, and every call works the same.
-- Calls may return before they are done: until world:wait() a tensor that is sent must not be written, and
-- one that is received must not be touched.  When another rank fails, calls end this program with its message.

local check = require("seqrun.base.check")
local core = require("seqrun.core.comm")
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local ranks = {}

---@class seqrun.World
---@field engine string "self", "mpi" or "nccl"
---@field rank integer from 0
---@field size integer
---@field device string
---@field core seqrun.core.World for the C modules
---@field trains? boolean a run sums the gradients of its model over the ranks
local World = {}
World.__index = World

local must = failure.must

---Copies the root's tensor to all ranks.
---@param t seqrun.Tensor
---@param root? integer default: 0
function World:broadcast(t, root) must(self.core:broadcast(t, root or 0)) end

---Sets a tensor to its sum over ranks; the engine decides the order of the sum.
---@param t seqrun.Tensor
function World:all_reduce(t) must(self.core:all_reduce(t)) end

---Sets the root's tensor to its sum over ranks; that of the others is undefined afterwards.
---@param t seqrun.Tensor
---@param root? integer default: 0
function World:reduce(t, root) must(self.core:reduce(t, root or 0)) end

---Sets `part` to this rank's piece of the sum of `x` over ranks.
---@param part seqrun.Tensor
---@param x seqrun.Tensor with size times as many elements
function World:reduce_scatter(part, x) must(self.core:reduce_scatter(part, x)) end

---Sets `x` to the parts of all ranks, rank 0 first.
---@param x seqrun.Tensor
---@param part seqrun.Tensor
function World:all_gather(x, part) must(self.core:all_gather(x, part)) end

---Sends a tensor to a rank that calls receive.
---@param t seqrun.Tensor
---@param to integer
function World:send(t, to) must(self.core:send(t, to)) end

---Receives what another rank sends.
---@param t seqrun.Tensor
---@param from integer
function World:receive(t, from) must(self.core:receive(t, from)) end

---Waits until all calls are done.
function World:wait() must(self.core:wait()) end

---Waits until all ranks have come here.
function World:barrier() must(self.core:barrier()) end

---The texts of all ranks, rank 0 first, on every rank.
---@param text string
---@return string[]
function World:gather_text(text) return must(self.core:gather_text(text)) end

---The root's text on every rank.
---@param text? string needed on the root only
---@param root? integer default: 0
---@return string
function World:broadcast_text(text, root) return must(self.core:broadcast_text(text, root or 0)) end

---Whether any rank says true.
---@param flag boolean
---@return boolean
function World:any(flag)
  if self.size == 1 then return flag end
  local scope <close> = tensor.scope(self.device)
  local t = tensor.tensor({ flag and 1 or 0 }, { dtype = "i32", device = self.device })
  self:all_reduce(t)
  self:wait()
  return t:totable()[1] > 0
end

---Tells the other ranks why this one ends; their next wait ends with it.  True on the one rank that is to
---print it.
---@param message string
---@param code string a status name
---@return boolean
function World:tell(message, code) return self.core:tell(code, message) end

---Ends the processes of all ranks at once.
---@param code integer exit code
function World:abort(code) self.core:abort(code) end

---Leaves the world; all ranks do.
function World:close()
  if ranks.world == self then ranks.world = nil end
  self.core:close()
end

---Opens the world of the launcher on a device: of one rank if there is none.  One world is open at a time.
---@param device? string default: the current device
---@param options? { engine?: "auto"|"self"|"mpi"|"nccl", timeout?: number } timeout: seconds that a wait gives
---  the other ranks; 0: no limit
---@return seqrun.World
function ranks.open(device, options)
  options = check.options("ranks.open", options, { engine = true, timeout = true })
  if ranks.world then
    local open = ranks.world.device
    if device and device:match("^%w+") ~= open:match("^%w+") then
      failure.raise("invalid", "ranks.open: the world is open on %s, not %s; close it first", open, device)
    end
    if options.timeout then ranks.world.core:set_timeout(options.timeout) end
    return ranks.world
  end
  local opened = must(core.open(device or tensor.device(), options))
  local engine, rank, size, name = opened:facts()
  ranks.opened = true
  ranks.world = setmetatable({ core = opened, engine = engine, rank = rank, size = size, device = name }, World)
  return ranks.world
end

---Seconds that a rank which fails before the world is open gives rank 0 to say the same and end all.
local MOMENT = 5

---Seconds that the other ranks give the launcher to end them after the one that spoke: mpirun of Open MPI 4 may hang
---when several ranks fail at once.
local LINGER = 3

local function linger()
  sys.caught(true) -- the signal that stopped the run is not the launcher's last
  local last = sys.now() + LINGER
  while not sys.caught() and sys.now() < last do sys.sleep(0.05) end
end

---Whether this rank prints why it ends: where all ranks fail, only one does.  The others are notified.
---@param message string
---@param code string a status name
---@return boolean speaks
---@return string message with the number of the rank, if it is not rank 0
function ranks.speaks(message, code)
  local launch = core.launch()
  if not launch or launch.ranks == 1 then return true, message end
  local world = ranks.world
  local rank = world and world.rank or launch.rank or 0
  if code == "stopped" or code == "ok" then -- all ranks stop
    if rank > 0 and world and code == "stopped" then
      world:close()
      linger()
    end
    return rank == 0, message
  end
  local named = (rank == 0 or message:find("^rank %d+")) and message or ("rank %d: %s"):format(rank, message)
  if world and world.size > 1 then
    local speaks = world:tell(message, code)
    if not speaks then linger() end
    return speaks, named
  end
  if rank == 0 then return true, message end
  sys.sleep(MOMENT)
  return not sys.caught(), named
end

---This process works apart from others of its launcher: a dry run or a command, which are those of rank 0.
function ranks.work_apart() ranks.apart = true end

---How many processes a launcher started that never opened a world and so each do the same work; 1 if there is none.
---@return integer
function ranks.strangers()
  if ranks.world or ranks.apart or ranks.opened then return 1 end
  return (core.launch() or {}).ranks or 1
end

---The open world, or nil.
---@return seqrun.World?
function ranks.current() return ranks.world end

---Runs `work` on rank 0 and then on the others: for work that leaves files, which those after the first find.
---@generic T
---@param work fun(): T ...
---@return T ...
function ranks.in_turn(work)
  local world = ranks.world
  if not world or world.size == 1 then return work() end
  if world.rank > 0 then world:barrier() end
  local results = table.pack(work())
  if world.rank == 0 then world:barrier() end
  return table.unpack(results, 1, results.n)
end

---@class seqrun.launcher
---@field name "mpirun"|"srun"
---@field bound boolean it bound the process to processors
---@field rank? integer
---@field ranks? integer
---@field local_rank? integer on this machine
---@field local_ranks? integer

---The launcher that started this process as a rank, or nil.
---@return seqrun.launcher?
function ranks.launcher() return core.launch() end

return ranks
