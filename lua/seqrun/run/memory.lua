-- memory.lua - whether a run fits the machine, before its first step allocates anything.

local failure = require("seqrun.failure")
local sys = require("seqrun.core.sys")

local memory = {}

---Ends the program if the largest micro-batch cannot fit into memory.  Only models that have
---activation_bytes(rows), a lower bound, are checked.
---@param self seqrun.Run
function memory.check(self)
  local total = sys.machine().memory
  if total == 0 or not self.model.activation_bytes then return end
  local loader = self.loader:summary()
  local packs = loader.arrange == "single" and 1 or loader.micro_packs
  local rows = packs * loader.max_len
  local params = 16 * self.model.params:count() -- with gradients and two moments
  local needed = params + self.model:activation_bytes(rows)
  if needed <= total then return end
  local gib = 1 << 30
  failure.raise("memory", "a micro-batch of %d packs of %d tokens needs at least %.1f GiB with parameters (%.1f GiB), "
    .. "but this machine has %.1f GiB; lower batch.micro_packs or data.max_len%s", packs, loader.max_len,
    needed / gib, params / gib, total / gib, self.model.recompute == false and ", or set model.recompute=true" or "")
end

return memory
