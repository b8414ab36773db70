-- schedule - learning rates (rates.lua), and schedules of everything else that changes during training (value.lua).

local explain = require("seqrun.schedule.explain")
local keys = require("seqrun.schedule.keys")

local schedule = { new = require("seqrun.schedule.value"), tokens = require("seqrun.schedule.tokens") }

for name, rate in pairs(require("seqrun.schedule.rates")) do schedule[name] = rate end

schedule.explain, schedule.changes, schedule.rates = explain.explain, explain.changes, explain.rates
schedule.by_workers = explain.by_workers
schedule.keys, schedule.read, schedule.rule = keys.keys, keys.read, keys.rule

return schedule
