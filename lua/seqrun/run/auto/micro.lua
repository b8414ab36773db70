-- micro.lua - what `batch.micro_packs: auto` means: the largest micro-batch that is worth its memory.
--
-- Half of the memory is left to what estimates miss and to other programs.  On a CPU a micro-batch larger than ROWS is
-- no faster: products are at full speed with fewer rows, and activations leave the caches anyway.

local checkpoint = require("seqrun.checkpoint")
local devices = require("seqrun.tensor.devices")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local micro = {}

local ROWS = 8192 -- of a micro-batch on a CPU
local UNKNOWN = 8 -- packs, without the size of the model
local VOCABULARY = 30522 -- where the config does not say
local STATE = 16 -- bytes of a parameter: weight, gradient, two moments
local SLACK = 2 -- what a step keeps over the tensors that backward reads

---Hidden size, layers and inner size of the model: of the task's keys, or of the checkpoint in init.from.
local function size_of(cfg)
  local model = cfg.model
  if type(model) == "table" and model.hidden_size then return model end
  local from = cfg.init.from and checkpoint.resolve(cfg.init.from)
  local encoded = from and sys.read_file(from .. "/config.json", 1 << 20)
  local ok, found = pcall(json.decode, encoded or "")
  return ok and type(found) == "table" and found.hidden_size and found.num_hidden_layers and found or nil
end

---Bytes of a row of activations, and of the parameters with their state.
local function bytes_of(size, precision)
  local h, layers, inner = size.hidden_size, size.num_hidden_layers, size.intermediate_size or 4 * size.hidden_size
  local element = precision == "bf16" and 2 or 4
  local count = layers * (4 * h * h + 2 * h * inner) + (size.vocab_size or VOCABULARY) * h
  return SLACK * layers * (6 * h + inner) * element, count * STATE
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
  local most, size, max_len = most_of(cfg, ranks), size_of(cfg), cfg.data.max_len
  if not size then return math.min(most, UNKNOWN), "auto: the size of the model is not known yet" end
  local limit, name = devices.memory()
  local row, state = bytes_of(size, cfg.precision)
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
