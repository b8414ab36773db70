-- resolve_auto.lua - replaces `auto` in the config of a run that is being opened, on all ranks alike; the run stores
-- it.

local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local micro = require("seqrun.run.auto.micro")
local precision = require("seqrun.run.auto.precision")
local sys = require("seqrun.core.sys")

---The values of the run in this directory; nil without any.
local function saved(self)
  local path = self.folder .. "/config.yaml"
  local before = sys.exists(path) and config.load { schema = self.loaded.schema, file = path }
  return before and before.values
end

---Warns unless the instruction set is that of the config; that of a resumed run is compared with its checkpoint's.
local function instructions(self)
  local cfg, mine = self.config, devices.instructions()
  if cfg.instructions ~= "auto" and cfg.instructions ~= mine and not self.request.resume then
    local why = devices.refused_instructions()
    self.progress:warn("the config is of a run with %s instructions; this one has %s, and its results differ in the "
      .. "last bits%s", cfg.instructions, mine, why and (" (%s)"):format(why) or "")
  end
  cfg.instructions = mine
end

---@param self seqrun.Run with its progress and ranks
return function(self)
  local cfg, all = self.config, self.ranks
  local before = self.request.resume and saved(self)
  cfg.precision, self.why_precision = all:first_says(function()
    local why = precision.resolve(cfg, before)
    return cfg.precision, why
  end)
  cfg.batch.micro_packs, self.why_micro = all:first_says(function()
    local why = micro.resolve(cfg, before, all.size)
    return cfg.batch.micro_packs, why
  end)
  instructions(self)
end
