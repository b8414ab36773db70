-- micro.lua - what `batch.micro_packs: auto` means: the largest micro-batch that is worth its memory.
--
-- Half of the memory is left to what estimates miss and to other programs.  On a CPU a micro-batch larger than ROWS is
-- no faster: products are at full speed with fewer rows, and activations leave the caches anyway.

local checkpoint = require("seqrun.checkpoint")
local configs = require("seqrun.nn.config")
local cost = require("seqrun.nn.cost")
local devices = require("seqrun.tensor.devices")
local models = require("seqrun.tasks.shared.models")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local micro = {}

local ROWS = 8192 -- of a micro-batch on a CPU
local UNKNOWN = 8 -- packs, without the size of the model
local SLACK = 10 / 9 -- what a step needs over the tensors that layers keep

---The design of the model: of the task's keys, or of the checkpoint in init.from; nil if it is not known.
local function design_of(cfg)
  local model = cfg.model
  local own = type(model) == "table" and rawget(model, "family") and model
  if not own then
    local facts = cfg.init.from and checkpoint.pretrained(cfg.init.from)
    return facts and facts.design or nil
  end
  local ok, design = pcall(configs.design, models.encoder_keys(own))
  return ok and design or nil
end

---Bytes of a row of activations, and of the parameters with their state.
local function bytes_of(design, precision, dense)
  local element = precision == "bf16" and 2 or 4
  local count, elements = cost.matrices(design) + design.vocabulary * design.embedding, 0
  for i = 0, design.layers - 1 do elements = elements + cost.layer_elements(design, i, dense) end
  return SLACK * elements * element, count * cost.state_bytes(precision)
end

---Packs that an update can give a micro-batch: all, or a quarter of a rank's or share's part, as packs hold several
---sequences.
local function most_of(cfg, ranks)
  local parts = math.max(cfg.batch.shares or 1, ranks)
  return parts == 1 and cfg.batch.sequences or math.max(1, cfg.batch.sequences // (4 * parts))
end

---The number of packs, and why.
---@param cfg table values of a config, with its precision resolved
---@param ranks integer
---@return integer
---@return string reason
function micro.packs(cfg, ranks)
  local most, design, max_len = most_of(cfg, ranks), design_of(cfg), cfg.data.max_len
  if not design then return math.min(most, UNKNOWN), "auto: the size of the model is not known yet" end
  local limit, name = devices.memory()
  local row, state = bytes_of(design, cfg.precision, ((cfg.gate or {}).temperature or 1) > 1)
  local fits = limit and math.max(1, math.floor((limit / 2 - state) / (row * max_len))) or most
  local host = not (tensor.describe(tensor.device()) or {}).memory
  local rows = host and math.max(1, ROWS // max_len) or most
  local packs = math.min(most, fits, rows)
  if packs == most then return packs, "auto: an update has no more" end
  if packs == fits then return packs, ("auto: half of the %s of %s"):format(text.bytes(limit), name) end
  return packs, ("auto: %s rows, more are no faster on a CPU"):format(text.commas(packs * max_len))
end

---Replaces `auto` in the config of a run that is being opened.
---@param cfg table
---@param before table|nil the values of the run that is resumed
---@param ranks integer
---@return string|nil reason
function micro.resolve(cfg, before, ranks)
  if cfg.batch.micro_packs ~= "auto" then return nil end
  local reason
  cfg.batch.micro_packs = before and before.batch.micro_packs
  if cfg.batch.micro_packs then return "auto: as before the stop" end
  cfg.batch.micro_packs, reason = micro.packs(cfg, ranks)
  return reason
end

return micro
