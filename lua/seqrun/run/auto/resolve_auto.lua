-- resolve_auto.lua - replaces `auto` in the config of a run that is being opened, on all ranks alike; the run stores
-- it.

local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local micro = require("seqrun.run.auto.micro")
local precision = require("seqrun.run.auto.precision")
local sys = require("seqrun.core.sys")

---The values of the run in this directory; nil without any.
local function saved(folder, schema)
  local path = folder .. "/config.yaml"
  local before = sys.exists(path) and failure.valid(config.load { schema = schema, file = path })
  return before and before.values
end

---Warns unless the instruction set is that of the config; that of a resumed run is compared with its checkpoint's.
local function instructions(t)
  local cfg, mine = t.config, devices.instructions()
  if cfg.instructions ~= "auto" and cfg.instructions ~= mine and not t.resume then
    local why = devices.refused_instructions()
    t.screen:warn("the config is of a run with %s instructions; this one has %s, and its results differ in the last "
      .. "bits%s", cfg.instructions, mine, why and (" (%s)"):format(why) or "")
  end
  cfg.instructions = mine
end

---@param t { config: table, schema: table, folder: string, ranks: seqrun.RunRanks, screen: seqrun.Screen,
---  resume?: string|boolean }
---@return string|nil why_precision the reason, where it was `auto`
---@return string|nil why_micro that of the packs of a micro-batch
return function(t)
  local cfg, all = t.config, t.ranks
  local before = t.resume and saved(t.folder, t.schema)
  local dtype, why_precision = all:first_says(function()
    local why = precision.resolve(cfg, before)
    return cfg.precision, why
  end)
  cfg.precision = dtype
  local packs, why_micro = all:first_says(function()
    local why = micro.resolve(cfg, before, all.size)
    return cfg.batch.micro_packs, why
  end)
  cfg.batch.micro_packs = packs
  instructions(t)
  return why_precision, why_micro
end
