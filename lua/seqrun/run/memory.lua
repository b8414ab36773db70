-- memory.lua - what a run keeps in the memory of its device, by owner, and whether that fits.

local failure = require("seqrun.failure")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.run.text")

local memory = {}

---Bytes that the current device has for this run, and its name in messages; nil if unknown.
---@return integer|nil bytes
---@return string name
function memory.limit()
  local name = tensor.device()
  local facts = tensor.describe(name) or {}
  if not facts.memory then
    local total = sys.machine().memory
    return total > 0 and total or nil, "this machine"
  end
  local usable = facts.free > 0 and facts.free + tensor.memory().held or facts.memory
  return math.min(usable, facts.memory), ("%s (%s)"):format(name, facts.model)
end

---Stores of gradients that wait for their neighbours while the shares of an update are summed.
local function waiting_sums(self, loader)
  local micro = math.ceil((loader.packs or 1) / loader.micro_packs)
  local shares = self.config and self.config.batch.shares or math.min(8, micro)
  return math.ceil(math.log(math.max(1, shares), 2))
end

local function packs_of(loader) return loader.arrange == "single" and 1 or loader.micro_packs end

---Rows of the largest micro-batch.
local function rows_of(loader) return packs_of(loader) * loader.max_len end

---What is known before anything has run: the activations are a lower bound, 0 for a model that does not tell.
---@param self seqrun.Run
---@return { name: string, bytes: integer }[] # the largest first
---@return integer total
function memory.owners(self)
  local params, loader = self.model.params, self.loader:summary()
  local count, real = params:count(), tensor.device() == "ref" and 8 or 4
  local activations = self.model.activation_bytes and self.model:activation_bytes(rows_of(loader)) or 0
  local owners = {
    { name = "parameters", bytes = real * count },
    { name = "gradients", bytes = real * count },
    { name = "moments", bytes = 2 * real * count },
    { name = "bf16 copy", bytes = params.precision == "bf16" and 2 * count or 0 },
    { name = "sums of shares", bytes = waiting_sums(self, loader) * real * count },
    { name = "activations", bytes = activations },
    { name = "products and uploads", bytes = (tensor.describe(tensor.device()) or {}).reserved or 0 },
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
local function ways_out(self, loader)
  local ways = {}
  if packs_of(loader) > 1 then ways[1] = ("lower batch.micro_packs (now %d)"):format(loader.micro_packs) end
  if self.model.recompute == false then ways[#ways + 1] = "set model.recompute=true" end
  ways[#ways + 1] = ("lower data.max_len (now %d)"):format(loader.max_len)
  if self.model.params.precision ~= "bf16" then ways[#ways + 1] = "set precision=bf16" end
  ways[#ways + 1] = "use a smaller model"
  return ("%s, %s or %s"):format(ways[1], ways[2], ways[3])
end

---Ends the program if the largest micro-batch cannot fit.
---@param self seqrun.Run
function memory.check(self)
  local limit, name = memory.limit()
  if not limit then return end
  local owners, total = memory.owners(self)
  if total <= limit then return end
  local loader = self.loader:summary()
  failure.raise("memory", "a micro-batch of %d packs of %d tokens needs at least %s, but %s has %s: %s; %s",
    packs_of(loader), loader.max_len, text.bytes(total), name, text.bytes(limit), list(owners, 3),
    ways_out(self, loader))
end

---The lines of a dry run: by owner, with the activations as measured.
---@param self seqrun.Run
---@return string
function memory.text(self)
  local owners = memory.owners(self)
  local used, known = tensor.memory().peak, 0
  for _, owner in ipairs(owners) do
    local pooled = owner.name ~= "activations" and owner.name ~= "sums of shares" -- not yet made in a dry run
      and owner.name ~= "products and uploads"
    if pooled then known = known + owner.bytes end
  end
  local total = 0
  for _, owner in ipairs(owners) do
    if owner.name == "activations" then
      owner.name, owner.bytes = "activations and scratch", math.max(0, used - known)
    end
    total = total + owner.bytes
  end
  table.sort(owners, function(a, b) return a.bytes > b.bytes end)
  local limit, name = memory.limit()
  return ("%s%s on %s: %s"):format(text.bytes(total), limit and " of " .. text.bytes(limit) or "", name,
    list(owners, #owners))
end

return memory
