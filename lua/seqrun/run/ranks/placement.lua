-- placement.lua - where a rank computes: its GPU, its processors and its threads.
--
-- The launcher's binding is respected.  Ranks that it gave the same processors split them evenly, without cutting cores
-- or memory nodes where that is possible; each is bound to its part, and so is the memory that its threads touch first.

local core = require("seqrun.core.tensor")
local json = require("seqrun.core.json")
local ranks = require("seqrun.tensor.ranks")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local topology = require("seqrun.run.ranks.topology")

local placement = {}

---Whether Slurm shows each rank one GPU, its own (--gpus-per-task=1): all of them call it cuda:0.
local function has_own_gpu(launch)
  local shown = os.getenv("CUDA_VISIBLE_DEVICES")
  return launch.name == "srun" and shown ~= nil and shown ~= "" and not shown:find(",", 1, true)
end

---The device of this rank: ranks of a machine take its GPUs in turn.
---@param name string as the config has it
---@return string
function placement.device(name)
  local launch = ranks.launcher()
  local several = launch and (launch.local_ranks or launch.ranks) > 1
  local own = several and "cuda:" .. (has_own_gpu(launch) and 0 or launch.local_rank or 0) or "cuda"
  if name == "auto" then name = require("seqrun.tensor.devices").auto(own) end
  return name == "cuda" and own or name
end

---What the other ranks need to know of this one.
local function about(cfg, rank)
  local machine = sys.machine()
  return {
    rank = rank, host = machine.host, cpus = sys.affinity(), processors = machine.processors,
    threads = cfg.threads or 0,
  }
end

local function key(a) return a.host .. " " .. table.concat(a.cpus, ",") end

---Ranks with the processors of this one, in order, and this rank's place among them, from 0.
local function sharers(all, rank)
  local list, place = {}, 0
  for r, a in ipairs(all) do
    if key(a) == key(all[rank + 1]) then
      if r == rank + 1 then place = #list end
      list[#list + 1] = a
    end
  end
  return list, place
end

---Threads of a rank, as the config has them or its part of the processors.
local function threads_of(a, count)
  if a.threads > 0 then return a.threads end
  return math.max(1, a.processors // count)
end

---The ranks whose processors overlap with those of this rank, directly or through others, the first first; and how
---many processors they have together.
local function neighbours(all, rank)
  local processors, count, member = {}, 0, {}
  local function join(r)
    member[r] = true
    for _, cpu in ipairs(all[r].cpus) do
      if not processors[cpu] then processors[cpu], count = true, count + 1 end
    end
  end
  local function touches(a)
    for _, cpu in ipairs(a.cpus) do
      if processors[cpu] then return true end
    end
  end
  join(rank + 1)
  local grew = true
  while grew do
    grew = false
    for r, a in ipairs(all) do
      if not member[r] and a.host == all[rank + 1].host and touches(a) then
        join(r)
        grew = true
      end
    end
  end
  local list = {}
  for r, a in ipairs(all) do
    if member[r] then list[#list + 1] = a end
  end
  return list, count
end

---"HOST: 4 threads of 4 ranks share 2 processors", where that is too many; for the first of those ranks only.
local function oversubscribed(all, rank)
  local list, processors = neighbours(all, rank)
  local mine, total = all[rank + 1], 0
  if list[1] ~= mine then return "" end
  for _, a in ipairs(list) do
    total = total + threads_of(a, #sharers(all, a.rank))
    if #a.cpus == processors then processors = math.min(processors, a.processors) end -- a quota of the machine
  end
  if total <= processors then return "" end
  local fix = #list > 1 and "start fewer ranks or lower threads"
    or "lower threads, or start with mpirun --bind-to none"
  return ("%s: %d threads of %d rank%s share %d processor%s, which is slow; %s"):format(mine.host, total, #list,
    #list == 1 and "" or "s", processors, processors == 1 and "" or "s", fix)
end

---Binds this rank and sets its threads.
---@param world seqrun.World
---@param cfg { threads?: integer, ranks?: { bind: boolean } }
---@return string[] warnings the same on every rank
function placement.resolve(world, cfg)
  local all = {}
  for r, text in ipairs(world:gather_text(json.encode(about(cfg, world.rank)))) do all[r] = json.decode(text) end
  local list, place = sharers(all, world.rank)
  local mine, n = all[world.rank + 1], #list
  local threads, part = threads_of(mine, n), #mine.cpus // n
  local bind = cfg.ranks and cfg.ranks.bind and n > 1
  if bind and threads <= part and mine.processors == #mine.cpus then
    sys.bind(table.move(topology.order(mine.cpus), place * part + 1, (place + 1) * part, 1, {}))
  end
  if core.threads() ~= threads then tensor.use(tensor.device(), { threads = threads }) end
  local warnings, said = {}, { [""] = true }
  for _, line in ipairs(world:gather_text(oversubscribed(all, world.rank))) do
    if not said[line] then warnings[#warnings + 1] = line end
    said[line] = true
  end
  return warnings
end

return placement
