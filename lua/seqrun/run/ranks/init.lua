-- ranks - what the ranks of a run exchange.
--
-- All ranks make the same calls in the same order.  Rank 0 leads: it alone writes files and prints.  What depends
-- on the time or on signals is decided once, for all.

local amounts = require("seqrun.run.loaders.amounts")
local exact = require("seqrun.base.exact")
local failure = require("seqrun.base.failure")
local json_file = require("seqrun.base.json_file")
local shares = require("seqrun.data.loader.shares")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local together = require("seqrun.run.ranks.world")
local world = require("seqrun.tensor.ranks")

local FILE_SYSTEM = 10 -- seconds after which a file is seen everywhere

---@class seqrun.RunRanks
---@field rank integer from 0
---@field size integer
---@field leads boolean rank 0
---@field world? seqrun.World
local Ranks = {}
Ranks.__index = Ranks

---@param open? seqrun.World nil: this process alone
---@return seqrun.RunRanks
local function new(open)
  local rank, size = open and open.rank or 0, open and open.size or 1
  return setmetatable({ world = open, rank = rank, size = size, leads = rank == 0 }, Ranks)
end

---Makes the device of the config the current one and opens the world that the launcher of this process has started.
---A dry run is that of rank 0.
---@param loaded seqrun.Config
---@param request table
---@param folder string
---@return seqrun.RunRanks
---@return string[] warnings
local function open(loaded, request, folder)
  local opened, warnings = together.open(loaded, request, folder)
  return new(opened), warnings
end

---@return boolean
function Ranks:several() return self.size > 1 end

---A plain value of each rank, rank 0 first.
---@generic T
---@param value T
---@return T[]
function Ranks:gather(value)
  if self.size == 1 then return { value } end
  local list = {}
  for i, text in ipairs(self.world:gather_text(exact.encode { value })) do
    list[i] = failure.must(exact.decode(text))[1]
  end
  return list
end

---What `decide` returns on rank 0, plain values, on all ranks.
---@param decide fun(): any ...
---@return any ...
function Ranks:first_says(decide)
  if self.size == 1 then return decide() end
  local said = self.leads and table.pack(decide()) or nil
  local list = {}
  for i = 1, said and said.n or 0 do list[i] = { said[i] } end
  local text = self.world:broadcast_text(said and exact.encode(list) or nil)
  if not self.leads then list = failure.must(exact.decode(text)) end
  local values = {}
  for i, box in ipairs(list) do values[i] = box[1] end
  return table.unpack(values, 1, #list)
end

---Runs `work` on rank 0; the others wait for its end.
---@param work fun()
function Ranks:first_does(work)
  self:first_says(function() work() end)
end

---Fails if a rank does not see the directory of rank 0, into which it writes its part of each checkpoint.
---@param folder string
---@param id string|nil of the run, on rank 0
function Ranks:check_folder(folder, id)
  id = self:first_says(function() return id end)
  local function sees() return (json_file.read(folder .. "/environment.json") or {}).id == id end
  local last = sys.now() + FILE_SYSTEM
  while not sees() and sys.now() < last do sys.sleep(0.1) end
  for i, seen in ipairs(self:gather(sees())) do
    if not seen then
      failure.raise("config", "rank %d does not see the directory of the run, %s, where it would save its part of the "
        .. "optimizer's state; start all ranks in one directory of a file system that they share", i - 1, folder)
    end
  end
end

---The number of processes that a launcher has started, before the world is open.
---@return integer
local function launched() return (world.launcher() or {}).ranks or 1 end

---Fails if an update has fewer shares than there are ranks.
local function check_shares(batch, loader, ranks)
  local count, packs = amounts.shares(batch, loader)
  if not count or count >= ranks then return end
  local way = packs < ranks and "raise batch.sequences"
    or ("set batch.shares=%d or a multiple (now %s)"):format(ranks, tostring(batch.shares or "none"))
  failure.raise("config", "%d ranks, but an update has %d share%s, of %d pack%s; start at most %d, or %s", ranks,
    count, count == 1 and "" or "s", packs, packs == 1 and "" or "s", count, way)
end

---Sums the gradients of the model over ranks; fails if some rank would have no share of an update, or has other parts.
---@param t { config: table, model: table, optimizer: table, loader: seqrun.Loader, loaders: seqrun.RunLoaders,
---  corpus?: table, dry?: boolean }
function Ranks:share_model(t)
  local cfg = t.config
  if t.dry and launched() > 1 then check_shares(cfg.batch, t.loader:summary(), launched()) end
  if self.size == 1 then return end
  together.check_parts(self.world, { corpus = t.corpus, plans = t.loaders:plans(), model = t.model })
  check_shares(cfg.batch, t.loader:summary(), self.size)
  local keys = cfg.ranks
  t.model.params:share_with(self.world, {
    reduce = keys.reduce, overlap = keys.overlap, bucket = keys.bucket, sharded = t.optimizer.sharded ~= nil,
  })
  self.world.trains = true
end

---The sum of each parameter, exactly.
local function sums_of(params)
  local quiet <close> = tensor.no_grad()
  local texts = {}
  for i, name in ipairs(params:names()) do
    local scope <close> = tensor.scope() -- of one parameter: all of them in f32 would be a second model
    texts[i] = ("%a"):format(params:get(name):detach():to("f32"):sum():item())
  end
  return texts
end

---Fails if the ranks start from different values, as a model has that is initialized from the clock.
---@param params seqrun.Params
function Ranks:check_values(params)
  if self.size == 1 then return end
  local all = self:gather(sums_of(params))
  for rank = 2, self.size do
    for i, name in ipairs(params:names()) do
      if all[rank][i] ~= all[1][i] then
        failure.raise("config", "rank %d starts from other values of %s than rank 0; initialize the model from a seed "
          .. "that is the same on all ranks, such as cfg.seed", rank - 1, name)
      end
    end
  end
end

---Gives all ranks the values of rank 0.
---@param params seqrun.Params
function Ranks:broadcast_values(params)
  if self.size == 1 then return end
  for _, name in ipairs(params:names()) do
    self.world:broadcast(params:master(name))
    self.world:wait()
  end
end

---Prepares an update: its batches() goes through those of this rank, and calls `ended` after them.
---@param update seqrun.Update
---@param ended? fun()
function Ranks:share_out(update, ended)
  update.ended = ended
  if self.size > 1 then update.rank, update.ranks = self.rank, self.size end
end

---"2 (mpi); shares of an update by rank: 1-3, 4-5; batch.shares=6 would be even".
---@param count integer shares of an update
---@param micro integer its micro-batches, which shares have equally many of only where batch.shares is set
---@return string
function Ranks:text(count, micro)
  local parts, size = {}, self.world and self.size or launched()
  for rank = 0, size - 1 do
    local first, last = shares.own { shares = count, rank = rank, ranks = size }
    parts[#parts + 1] = last > first and ("%d-%d"):format(first, last) or tostring(first)
  end
  local even = math.ceil(count / size) * size
  local uneven = even > count or micro % size > 0
  return ("%d (%s); shares of an update by rank: %s%s"):format(size, self.world and self.world.engine
    or "dry run: memory and time are those of one rank that computes all", table.concat(parts, ", "),
    uneven and ("; batch.shares=%d would be even"):format(even) or "")
end

---What a rank that does not lead has in the place of files and lines: every method does nothing.
local silent = setmetatable({}, {
  __index = function() return function() end end,
})

---Whether this process is a rank that leaves `work` to rank 0, before the world is open.
local function follows()
  local launcher = world.launcher()
  return launcher ~= nil and (launcher.rank or 0) > 0
end

return { new = new, open = open, silent = silent, launched = launched, follows = follows }
