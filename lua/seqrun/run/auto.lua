-- auto.lua - replaces `auto` in the config of a run that is being opened, on all ranks alike; the run stores it.
--
-- batch.micro_packs is the largest micro-batch that is worth its memory.  Half of the memory is left to what estimates
-- miss and to other programs.  On a CPU a micro-batch larger than ROWS is no faster: products are at full speed with
-- fewer rows, and activations leave the caches anyway.  precision is the dtype in which a layer is faster here.

local checkpoint = require("seqrun.checkpoint")
local config = require("seqrun.config")
local configs = require("seqrun.nn.config")
local core = require("seqrun.core.tensor")
local cost = require("seqrun.nn.cost")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local models = require("seqrun.tasks.shared.models")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local auto = {}

-- ---- packs of a micro-batch --------------------------------------------------------------------

local ROWS = 8192 -- of a micro-batch on a CPU
local UNKNOWN = 8 -- packs, without the size of the model
local SLACK = 10 / 9 -- what a step needs over the tensors that layers keep

---The design of the model: of the task's keys, or of the checkpoint in init.from; nil if it is not known.
local function design_of(cfg)
  local model = cfg.model
  local own = type(model) == "table" and model.family and model
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

---Packs that an update can give a micro-batch: all of a share, or where the micro-batches are the shares a quarter of
---a rank's part, as packs hold several sequences.
local function most_of(cfg, ranks)
  local sequences, shares = cfg.batch.sequences, cfg.batch.shares
  if shares then return math.max(1, sequences // shares) end
  return ranks == 1 and sequences or math.max(1, sequences // (4 * ranks))
end

---The number of packs, and why.
---@param cfg table values of a config, with its precision resolved
---@param ranks integer
---@return integer
---@return string reason
function auto.packs(cfg, ranks)
  local most, design, max_len = most_of(cfg, ranks), design_of(cfg), cfg.data.max_len
  if not design then return math.min(most, UNKNOWN), "auto: the size of the model is not known yet" end
  local limit, name = devices.memory()
  local row, state = bytes_of(design, cfg.precision, ((cfg.gate or {}).temperature or 1) > 1)
  local fits = limit and math.max(1, math.floor((limit / 2 - state) / (row * max_len))) or most
  local host = not (tensor.describe(tensor.device()) or {}).memory
  local rows = host and math.max(1, ROWS // max_len) or most
  local packs = math.min(most, fits, rows)
  if packs == most then return packs, cfg.batch.shares and "auto: the whole share" or "auto: the whole update" end
  if packs == fits then return packs, ("auto: half of the %s of %s"):format(text.bytes(limit), name) end
  return packs, ("auto: %s rows, more are not faster on a CPU"):format(text.commas(packs * max_len))
end

-- ---- precision ---------------------------------------------------------------------------------

local SECONDS = 0.5
local TIMED, SIZE = 512, 768 -- rows and width of the layer that is timed

---One linear layer with GELU, forward and backward, in a dtype.
---@param dtype "f32"|"bf16"
---@return fun(): number seconds
local function layer(dtype)
  local ops = require("seqrun.tensor.ops")
  local function made(shape, seed)
    return tensor.randn(shape, { seed = seed }):to(dtype):keep()
  end
  local x, w, b = made({ TIMED, SIZE }, 1), made({ SIZE, SIZE }, 2), made({ SIZE }, 3)
  x:requires_grad_()
  w:requires_grad_()
  return function()
    local scope <close> = tensor.scope()
    local began = sys.now()
    ops.linear(x, w, b, { act = "gelu" }):to("f32"):sum():backward()
    core.synchronize()
    return sys.now() - began
  end
end

---The best time of a layer in each dtype, taken in turns for half a second.
---@return table<"f32"|"bf16", number> seconds
local function probe()
  local layers, best, ends = { f32 = layer("f32"), bf16 = layer("bf16") }, {}, sys.now() + SECONDS
  repeat
    for dtype, time in pairs(layers) do best[dtype] = math.min(best[dtype] or math.huge, time()) end
  until sys.now() > ends
  return best
end

---The faster dtype on the current device, and why in a few words.
local function faster()
  local name = core.device():gsub(":.*", "")
  if name ~= "cpu" and name ~= "cuda" then return "f32", ("auto: %s is for checks, not for speed"):format(name) end
  local best = probe()
  local bf16 = best.bf16 < best.f32
  return bf16 and "bf16" or "f32", ("auto: a layer takes %.2f ms in bf16, %.2f ms in f32, with %s"):format(
    best.bf16 * 1e3, best.f32 * 1e3, devices.instructions())
end

-- ---- both --------------------------------------------------------------------------------------

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

---Replaces an `auto` by what it was before the stop, or by what is chosen now; returns why.
local function replace(values, key, before, choose)
  if values[key] ~= "auto" then return nil end
  values[key] = before and before[key]
  if values[key] then return "auto: as before the stop" end
  local reason
  values[key], reason = choose()
  return reason
end

---@param t { config: table, schema: table, folder: string, ranks: seqrun.RunRanks, screen: seqrun.Screen,
---  resume?: string|boolean }
---@return string|nil why_precision the reason, where it was `auto`
---@return string|nil why_micro that of the packs of a micro-batch
function auto.resolve(t)
  local cfg, before = t.config, t.resume and saved(t.folder, t.schema) or {}
  local function agreed(values, key, from, choose)
    local value, why = t.ranks:first_says(function()
      local reason = replace(values, key, from, choose)
      return values[key], reason
    end)
    values[key] = value
    return why
  end
  local why_precision = agreed(cfg, "precision", before, faster)
  local why_micro = agreed(cfg.batch, "micro_packs", before.batch, function()
    return auto.packs(cfg, t.ranks.size)
  end)
  instructions(t)
  return why_precision, why_micro
end

return auto
