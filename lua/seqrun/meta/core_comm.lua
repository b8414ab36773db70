---@meta

---Ranks: which launcher started this process, and worlds.
local comm = {}

---The launcher that started this process, by its environment; a number that it does not tell is absent.
---@return { name: "mpirun"|"srun", bound: boolean, rank?: integer, ranks?: integer, local_rank?: integer, local_ranks?: integer }?
function comm.launch() end

---The engines of the plug-in: what they are, or why one cannot be used.
---@return { name: string, facts?: string, problem?: string }[]|nil
---@return string? message
---@return string? code
function comm.engines() end

---Opens the world that the launcher has started, or one of this process alone.
---@param device string
---@param options? { engine?: "auto"|"self"|"mpi"|"nccl", timeout?: number }
---@return seqrun.core.World|nil
---@return string? message
---@return string? code
function comm.open(device, options) end

---An open world.  Calls return true, or nil, message, code when another rank failed.
---@class seqrun.core.World
local World = {}

---The engine, this rank from 0, the number of ranks, and the device.
---@return string engine
---@return integer rank
---@return integer ranks
---@return string device
function World:facts() end

---Waits until all calls are done.
function World:wait() end

---Waits until all ranks have come here.
function World:barrier() end

---Copies the root's tensor to all ranks.
---@param t seqrun.Tensor
---@param root integer
function World:broadcast(t, root) end

---Sets a tensor to its sum over ranks.
---@param t seqrun.Tensor
function World:all_reduce(t) end

---Sets the root's tensor to its sum over ranks; that of the others is undefined afterwards.
---@param t seqrun.Tensor
---@param root integer
function World:reduce(t, root) end

---Sets `part` to this rank's piece of the sum of `x` over ranks.
---@param part seqrun.Tensor
---@param x seqrun.Tensor
function World:reduce_scatter(part, x) end

---Sets `x` to the parts of all ranks.
---@param x seqrun.Tensor
---@param part seqrun.Tensor
function World:all_gather(x, part) end

---Sends a tensor to another rank.
---@param t seqrun.Tensor
---@param to integer
function World:send(t, to) end

---Receives a tensor from another rank.
---@param t seqrun.Tensor
---@param from integer
function World:receive(t, from) end

---The root's text on every rank.
---@param text string?
---@param root integer
---@return string
function World:broadcast_text(text, root) end

---The texts of all ranks, rank 0 first.
---@param text string
---@return string[]
function World:gather_text(text) end

---Tells the other ranks why this one ends; true on the rank that is to print it.
---@param code string a status name
---@param message string
---@return boolean
function World:tell(code, message) end

---Ends the processes of all ranks.
---@param code integer
function World:abort(code) end

---Sets how many seconds a wait gives the other ranks; 0: for ever.
---@param seconds number
function World:set_timeout(seconds) end

---Leaves the world.
function World:close() end

return comm
