-- memory.lua - what a run keeps in the memory of its device, by owner, and whether that fits.

local core = require("seqrun.core.tensor")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")
local train = require("seqrun.core.train")
local training = require("seqrun.tensor.training")

local memory = {}

---What a run keeps its memory for.
---@class seqrun.MemoryParts
---@field model table
---@field loader { summary: fun(): table }
---@field optimizer? table
---@field config? table
---@field ranks? seqrun.RunRanks

local SUMS = "sums of gradients" -- of shares that wait; not made yet in a dry run
local PANELS = "panels of weights" -- a layout of the device's own, not in its pool
local BUFFERS = "work space of products and uploads" -- of the device, beside its tensors
local UNPOOLED = { activations = true, [SUMS] = true, [PANELS] = true, [BUFFERS] = true }

---Elements of gradients apart from the store itself: sums of this rank's shares that wait, and of others' for this
---rank's part.
local function waiting_sums(t, loader, stored)
  local micro = math.ceil((loader.packs or 1) / loader.micro_packs)
  local total = math.max(1, t.config and t.config.batch.shares or math.min(8, micro))
  local rank, ranks = t.ranks and t.ranks.rank or 0, t.ranks and t.ranks.size or 1
  local own, received, config = 0, 0, t.config or {}
  for r = 0, ranks - 1 do
    local most, left = train.share_sums(total, r, ranks, ranks > 1)
    if r == rank then own = most else received = received + left end
  end
  if config.ranks and config.ranks.reduce == "library" then received = 0 end
  return own * stored + received * stored // ranks
end

local function packs_of(loader) return loader.arrange == "single" and 1 or loader.micro_packs end

---Rows of the largest micro-batch.
local function rows_of(loader) return packs_of(loader) * loader.max_len end

---Bytes of activations of a number of rows, at least; 0 for a model without activation_bytes.
local function activations_of(t, rows) return t.model.activation_bytes and t.model:activation_bytes(rows) or 0 end

---Elements whose moments, and whose f32 values, this rank keeps.  Rank 0 has all values while it saves.
local function held_of(t, count)
  local optimizer = t.optimizer
  if not optimizer or not optimizer.sharded then return count, count end
  local held, on_host = math.min(count, optimizer:held()), not (tensor.describe(tensor.device()) or {}).memory
  local whole = t.model.params.precision ~= "bf16" or t.ranks.leads or not on_host
  return held, whole and count or held
end

---Whether the optimizer keeps a moving average of the weights.
local function averages(t)
  if t.optimizer then return (t.optimizer.options or {}).average ~= nil end
  local o = t.config and t.config.optimizer
  return o ~= nil and (o.average or 0) > 0
end

---What is known before anything has run: the activations are a lower bound, 0 for a model that does not know.
---@param t seqrun.MemoryParts
---@return { name: string, bytes: integer }[] # the largest first
---@return integer total
function memory.owners(t)
  local params, loader = t.model.params, t.loader:summary()
  local count, real = params:count(), core.element_size()
  local moments, masters = held_of(t, count)
  local activations = activations_of(t, rows_of(loader))
  local owners = {
    { name = "parameters", bytes = real * masters },
    { name = "gradients", bytes = real * count },
    { name = "moments", bytes = 2 * real * moments },
    { name = "average of the weights", bytes = averages(t) and real * moments or 0 },
    { name = "bf16 copy", bytes = params.precision == "bf16" and 2 * count or 0 },
    { name = PANELS, bytes = params:layout_bytes() },
    { name = SUMS, bytes = waiting_sums(t, loader, count) * real },
    { name = "activations", bytes = activations },
    { name = BUFFERS, bytes = (tensor.describe(tensor.device()) or {}).reserved or 0 },
  }
  local total, present = 0, {}
  for _, owner in ipairs(owners) do
    total = total + owner.bytes
    if owner.bytes > 0 then present[#present + 1] = owner end
  end
  table.sort(present, function(a, b) return a.bytes > b.bytes end)
  return present, total
end

local function list(owners, most)
  local words = {}
  for i = 1, math.min(most, #owners) do words[i] = owners[i].name .. " " .. text.bytes(owners[i].bytes) end
  return table.concat(words, ", ")
end

---Three ways to need less, the most effective first.
local function ways_out(t, loader)
  local ways = {}
  if packs_of(loader) > 1 then ways[1] = ("lower batch.micro_packs (now %d)"):format(loader.micro_packs) end
  if t.model.recompute == false then ways[#ways + 1] = "set model.recompute=true" end
  ways[#ways + 1] = ("lower data.max_len (now %d)"):format(loader.max_len)
  if t.model.params.precision ~= "bf16" then ways[#ways + 1] = "set precision=bf16" end
  ways[#ways + 1] = "use a smaller model"
  ways[#ways + 1] = "use a device with more memory"
  return ("%s, %s or %s"):format(ways[1], ways[2], ways[3])
end

---Ends the program if the largest micro-batch cannot fit.
---@param t seqrun.MemoryParts
function memory.check(t)
  local limit, name = devices.memory()
  if not limit then return end
  local owners, total = memory.owners(t)
  if total <= limit then return end
  local loader = t.loader:summary()
  failure.raise("memory", "a micro-batch of %d packs of %d tokens needs at least %s, but %s has %s: %s; %s",
    packs_of(loader), loader.max_len, text.bytes(total), name, text.bytes(limit), list(owners, 3),
    ways_out(t, loader))
end

---The fewest packs of the largest micro-batch, before a plan is known: a sequence has 3 tokens or more.
local function fewest_packs(cfg)
  if cfg.pack.arrange == "single" then return 1 end
  local depth = cfg.pack.arrange == "packed" and math.max(1, cfg.data.max_len // 3) or 1
  return math.min(cfg.batch.micro_packs, math.ceil(cfg.batch.sequences / depth))
end

---While a run is open, a model that it cannot train is refused before its weights are made.
---@param t { config: table, ranks: seqrun.RunRanks, dry?: boolean, without_id?: boolean } config: without `auto`
---@return seqrun.Training # for seqrun.tensor.training.forget
function memory.expect(t)
  local cfg, ranks = t.config, t.ranks
  local function before_weights(model)
    local loader = { arrange = cfg.pack.arrange, max_len = cfg.data.max_len, micro_packs = fewest_packs(cfg) }
    local trained = setmetatable({ recompute = (cfg.model or {}).recompute or false }, { __index = model })
    local summary = function() return loader end
    memory.check { model = trained, config = cfg, ranks = ranks, loader = { summary = summary } }
  end
  return training.expect {
    ranks = require("seqrun.run.ranks").launched(), before_weights = before_weights, dry = t.dry,
    without_id = t.without_id,
  }
end

---What the ranks of a run keep; all of them call it.
---@param t seqrun.MemoryParts
---@return string
function memory.of_ranks(t)
  local owners, total = memory.owners(t)
  local others = 0
  for rank, theirs in ipairs(t.ranks:gather(total)) do
    if rank > 1 then others = math.max(others, theirs) end
  end
  return ("at least %s on rank 0 (%s), %s on the others"):format(text.bytes(total), list(owners, #owners),
    text.bytes(others))
end

---The lines of a dry run: by owner, with the activations as measured.
---@param t seqrun.MemoryParts
---@param rows? integer that were measured, if not a whole micro-batch: the rest is counted
---@return string
function memory.text(t, rows)
  local owners = memory.owners(t)
  local used, known = tensor.memory().peak, 0
  if rows then used = used + activations_of(t, rows_of(t.loader:summary())) - activations_of(t, rows) end
  for _, owner in ipairs(owners) do
    if not UNPOOLED[owner.name] then known = known + owner.bytes end
  end
  local total = 0
  for _, owner in ipairs(owners) do
    if owner.name == "activations" then
      owner.name, owner.bytes = "activations and scratch", math.max(0, used - known)
    end
    total = total + owner.bytes
  end
  table.sort(owners, function(a, b) return a.bytes > b.bytes end)
  local limit, name = devices.memory()
  local over = limit and total > limit and "; that does not fit: " .. ways_out(t, t.loader:summary()) or ""
  return ("%s%s on %s: %s%s"):format(text.bytes(total), limit and " of " .. text.bytes(limit) or "", name,
    list(owners, #owners), over)
end

return memory
