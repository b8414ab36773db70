-- experts.lua - mixtures of experts in a run: their config keys, and the gate that is dense at first and sparse in the
-- end.
--
--     model: { experts: 4 }
--     gate: { temperature: 4, total: 0.3 }
--
-- While the gate is dense, its logits are divided by a temperature that falls to 1, and a token goes to every expert
-- whose probability is at least gate.threshold times an even share.  With a high temperature these are all.
--
-- Source: Nie et al. 2021, arXiv:2112.14397, without its noise.

local c = require("seqrun.config")
local configs = require("seqrun.nn.config")
local failure = require("seqrun.base.failure")
local keys = require("seqrun.nn.keys.experts")
local models = require("seqrun.tasks.shared.models")
local schedule = require("seqrun.schedule")

local experts = {}

local function default_of(name) return keys.KEYS[name].default end

---The keys of a model, beside those of its family.
experts.model_keys = {
  { "experts", c.list(c.integer { min = 0, max = keys.MOST }, { default = { 0 }, one = true, min = 1,
    doc = "experts in the feed-forward block of each layer, or a number for each layer; 0: none" }) },
  { "experts_chosen", c.integer { default = default_of "experts_chosen", min = 1, max = keys.MOST,
    doc = "experts per token" } },
  { "experts_capacity", c.number { default = 0, min = 0,
    doc = "capacity of an expert in training, as a multiple of an even share of the micro-batch's tokens; tokens "
      .. "beyond it are dropped, so packing changes results; 0: no limit" } },
  { "experts_residual", c.boolean { default = false, doc = "add a feed-forward block for all tokens to the "
    .. "experts" } },
  { "experts_balance", c.number { default = default_of "experts_balance", min = 0,
    doc = "factor of the load-balancing loss" } },
  { "experts_z", c.number { default = default_of "experts_z", min = 0,
    doc = "factor of the loss of large router logits" } },
}

---The key of the gate, as a field of a schema.
experts.key = { "gate", c.map {
  { "temperature", c.number { default = 1, min = 1,
    doc = "initial temperature of the routers; it falls to 1, and tokens use fewer and fewer experts; 1: sparse from "
      .. "the start" } },
  { "total", c.number { default = 0.3, min = 0,
    doc = "step, or value of the counter rate.by, at which the gate is sparse; up to 1: a fraction of the run" } },
  { "threshold", c.number { default = 0.5, min = 0, max = 1,
    doc = "until then a token uses every expert whose probability is at least this multiple of an even share" } },
} }

local function has_experts(model)
  for _, count in ipairs(model.experts or {}) do
    if count ~= 0 then return true end
  end
  return false
end

---Rules for config.load.
experts.rules = {
  {
    keys = { "model" },
    check = function(model)
      local options = models.encoder_keys(model)
      local good, message = pcall(configs.whole, options, 0)
      if good then return nil end
      message = tostring(message):gsub("^%S-:%d+: ", "")
      return message:find("experts", 1, true) and (message:gsub("^[%w_-]+: ", "")) or nil
    end,
  },
  {
    keys = { "gate.temperature", "model" },
    check = function(temperature, model)
      if temperature == 1 or has_experts(model) then return nil end
      return "gate.temperature needs experts, as in model.experts=4"
    end,
  },
}

---@class seqrun.GateSchedule
---@field schedule seqrun.ValueSchedule of the temperature
---@field threshold number
---@field encoder seqrun.Encoder
local Gate = {}
Gate.__index = Gate

---The gate that a config asks for, set on the model; nil if it is sparse from the start.
---@param cfg table
---@param encoder seqrun.Encoder
---@param steps? number of the run, or the end of its counter rate.by, of which a `total` of at most 1 is a fraction
---@return seqrun.GateSchedule|nil
function experts.gate(cfg, encoder, steps)
  local group = cfg.gate
  if not group or group.temperature == 1 then return nil end
  if not encoder then failure.raise("config", "gate.temperature: the model has no encoder; leave it out") end
  local d = encoder.design
  local problem = keys.dropout_problem(d.layers, keys.most(d.experts.counts), d.dropout.inner)
  if problem then failure.raise("config", "gate.temperature: while the gate is dense, %s", problem) end
  local total = group.total
  if total <= 1 then
    if not steps then
      failure.raise("config", "gate.total is %g, a fraction of the run, but its steps are not known; give steps", total)
    end
    total = total * steps
  end
  local self = setmetatable({
    threshold = group.threshold, encoder = encoder, schedule = schedule.new {
      name = "gate.temperature", type = "linear", min = 1, max = group.temperature, total = math.max(1, total),
      down = true, by = (cfg.rate or {}).by,
    },
  }, Gate)
  self:set(self.schedule.value)
  return self
end

---Sets the temperature: 1 makes the gate sparse.
---@param temperature number
function Gate:set(temperature)
  self.encoder.gate = temperature > 1 and { temperature = temperature, threshold = self.threshold } or nil
end

---Sets the temperature of an update, before its first batch.
---@param update seqrun.Update
---@return number temperature
function Gate:before(update)
  self:set(self.schedule:advance(update.counters))
  return self.schedule.value
end

return experts
