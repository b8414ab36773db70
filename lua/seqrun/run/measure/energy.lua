-- energy.lua - joules that the processor packages have used, where the kernel reports it (RAPL, /sys/class/powercap).
--
-- Counters are in microjoules and wrap; they count all programs of the machine.  Many systems let only root read them.

local sys = require("seqrun.core.sys")

local Energy = {}
Energy.__index = Energy

local ROOT = "/sys/class/powercap"
local MOST = 64 -- packages

local function number_in(path)
  return tonumber((sys.read_file(path)))
end

---@param root? string in place of /sys/class/powercap
---@return seqrun.Energy|nil # nil if no counter can be read
local function open(root)
  local zones = {}
  for i = 0, MOST - 1 do
    local zone = ("%s/intel-rapl:%d"):format(root or ROOT, i)
    local now = number_in(zone .. "/energy_uj")
    if not now then break end
    local range = number_in(zone .. "/max_energy_range_uj") or 0
    zones[#zones + 1] = { path = zone .. "/energy_uj", last = now, range = range }
  end
  return #zones > 0 and setmetatable({ zones = zones }, Energy) or nil
end

---@class seqrun.Energy
---Joules since the last call, or since it was opened.
---@return number
function Energy:joules()
  local sum = 0
  for _, zone in ipairs(self.zones) do
    local now = number_in(zone.path) or zone.last
    local used = now - zone.last
    sum, zone.last = sum + (used < 0 and used + zone.range or used), now
  end
  return sum / 1e6
end

return { open = open }
