-- optim - AdamW, LAMB, StableAdamW and Muon over a parameter store.
--
--   local opt = sr.optim.lamb(bert.params, { decay = 0.01 })
--   local result = opt:step { rate = rate(step), clip = 1.0 }   -- norm, clip, check and update
--   ... result.norm, result.applied                             -- read whenever; waits only then
--
-- Parameters labelled "no_decay" (biases, LayerNorm) get neither weight decay nor a trust ratio.  `groups`
-- overrides options for parameters whose names match a Lua pattern; later groups win.
--
-- An update with a non-finite gradient changes nothing; after `max_skipped` consecutive ones the run ends.
--
-- With `world` of several ranks each keeps the moments of its part of the store only and updates that part (ZeRO-1);
-- the values have the same bits as those of one rank.  `shard = false` keeps all moments on every rank.

local average = require("seqrun.optim.average")
local check = require("seqrun.base.check")
local core = require("seqrun.core.tensor")
local counted = require("seqrun.base.format").counted
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local muon = require("seqrun.optim.muon")
local ranks = require("seqrun.tensor.ranks")
local segments = require("seqrun.optim.segments")
local strict = require("seqrun.base.strict")
local tensor = require("seqrun.tensor")
local train = require("seqrun.core.train")

local optim = {}

---@class seqrun.OptimGroup
---@field match string a Lua pattern for names
---@field rate? number factor on the learning rate
---@field decay? number
---@field trust? boolean LAMB: scale by ||w|| / ||u||
---@field frozen? boolean
---@field muon? boolean Muon: whether it updates them; by default matrices of hidden layers

---@class seqrun.OptimOptions
---@field betas? number[] default { 0.9, 0.999 }
---@field eps? number default 1e-6, outside the root
---@field decay? number decoupled weight decay; default 0.01
---@field power? number effective betas are beta^power, for batches of packs; default 1
---@field peak? number decay is fully decoupled: weights shrink by rate / peak * decay, not by rate * decay; not of lamb
---@field momentum? number Muon: of matrices; default 0.95
---@field nesterov? boolean Muon: default true
---@field scale? "rms"|"shape" Muon: factor on updates of matrices, 0.2 sqrt(max(rows, columns)), which suits rates of
---  AdamW, or sqrt(max(1, rows / columns)); default "rms"
---@field matrix_rate? number Muon: factor on the rate of matrices; default 1
---@field split? boolean Muon: q, k and v in one parameter, and the halves of a gated block, are matrices of their own;
---  default true
---@field average? number decay of an exponential moving average of the weights, such as 0.9999; none by default
---@field clip_eps? boolean clip by clip / (norm + 1e-6); default true, but false for lamb
---@field max_skipped? integer default 3
---@field groups? seqrun.OptimGroup[]
---@field world? seqrun.World the ranks that train together
---@field shard? boolean over its ranks; default true

---@class seqrun.Optimizer
---@field kind "adamw"|"lamb"|"stable_adamw"|"muon"
---@field params seqrun.Params
---@field options seqrun.OptimOptions with defaults filled in
---@field pending seqrun.StepResult[] steps whose results have not been read
---@field serial integer number of steps so far
---@field rate? number learning rate of the last step
---@field factor? number what scale_rate() set
---@field observer? fun(what: "share"|"sum") what observe() set
local Optimizer = {}
Optimizer.__index = Optimizer
for name, method in pairs(average.methods) do Optimizer[name] = method end
local FIELDS = { "kind", "params", "options", "segments", "serial", "rate", "factor", "last", "world", "sharded",
  "swapped", "observer", "split" }
strict.seal(Optimizer, "the optimizer", FIELDS)

local OPTIONS = {
  betas = true, eps = true, decay = true, power = true, clip_eps = true, max_skipped = true, groups = true,
  world = true, shard = true, peak = true, momentum = true, nesterov = true, scale = true, matrix_rate = true,
  split = true, average = true,
}

---Those that only Muon has.
local MUON_OPTIONS = {
  momentum = "number", nesterov = "boolean", scale = "string", matrix_rate = "number", split = "boolean",
}

---What optimizers of other libraries call an option, or take elsewhere.
local ELSEWHERE = {
  lr = "the learning rate is an argument of each step, optimizer:step { rate = 1e-3 }", weight_decay = "use decay",
  beta1 = "use betas, such as { 0.9, 0.999 }", clip = "clip is an argument of each step, optimizer:step { clip = 1 }",
}
ELSEWHERE.learning_rate, ELSEWHERE.rate, ELSEWHERE.beta2 = ELSEWHERE.lr, ELSEWHERE.lr, ELSEWHERE.beta1

---Refuses options that this kind does not have.
local function check_kind(kind, options)
  for key, of in pairs(MUON_OPTIONS) do
    if options[key] ~= nil and kind ~= "muon" then
      check.fail("optim: '%s' is an option of muon; %s does not have it", key, kind)
    end
    if options[key] ~= nil then check.value("optim: " .. key, options[key], of) end
  end
  if options.peak == nil then return end
  check.value("optim: peak", options.peak, "number")
  if kind == "lamb" then
    check.fail("optim: lamb's trust ratio scales its decay; leave out peak")
  end
  if not (options.peak > 0 and options.peak < math.huge) then
    check.fail("optim: peak is %g; it must be the largest rate of the schedule, above 0", options.peak)
  end
end

local function check_options(kind, params, options)
  if type(params) ~= "table" or not params.core then check.fail("optim: expected parameters, such as bert.params") end
  for key, fix in pairs(ELSEWHERE) do
    if options[key] ~= nil then check.fail("optim: unknown option '%s'; %s", key, fix) end
  end
  check.options("optim", options, OPTIONS)
  check_kind(kind, options)
  local betas = options.betas
  if betas and (type(betas) ~= "table" or #betas ~= 2) then
    check.fail("optim: betas must be two numbers, such as { 0.9, 0.999 }")
  end
  for i, beta in ipairs(betas or {}) do check.value("optim: beta" .. i, beta, "number") end
  segments.check_numbers("optim", options, "eps", "decay", "power")
end

---Refuses moments, and an average, that cannot fit beside the values and gradients.
local function check_memory(params, parts, whole)
  local count, real = params:count(), core.element_size()
  devices.check_fits((2 + (whole.average and 3 or 2) / parts) * count * real, count, "with gradients and moments")
end

local function new(kind, params, options)
  options = options or {}
  check_options(kind, params, options)
  segments.check_groups(options.groups or {})
  local whole = {
    betas = options.betas or { 0.9, 0.999 },
    eps = options.eps or 1e-6,
    decay = options.decay or 0.01,
    power = options.power or 1,
    clip_eps = options.clip_eps,
    max_skipped = options.max_skipped or 3,
    groups = options.groups or {}, peak = options.peak,
    average = options.average ~= nil and average.check(options.average) or nil,
  }
  if whole.clip_eps == nil then whole.clip_eps = kind ~= "lamb" end
  for key, value in pairs(kind == "muon" and muon.defaults(options) or {}) do whole[key] = value end
  local list = segments.new(kind, params, whole)
  local matrices, split = muon.matrices(list)
  local world = options.world and options.world.size > 1 and options.world or nil
  local first, last
  if world and options.shard ~= false then first, last = train.cut(params.core, world.rank, world.size) end
  check_memory(params, first and world.size or 1, whole)
  local made = train.optim(params.core, {
    method = kind, beta1 = whole.betas[1], beta2 = whole.betas[2], eps = whole.eps,
    power = whole.power, clip_eps = whole.clip_eps, max_skipped = whole.max_skipped, first = first, last = last,
    momentum = whole.momentum, nesterov = whole.nesterov, average = whole.average,
  }, matrices)
  return strict.keep(setmetatable({
    kind = kind, params = params, options = strict.fixed(whole, "the optimizer: options", nil, true), segments = list,
    core = made, pending = {}, serial = 0,
    world = world, sharded = first and train.sharded(made, world.core), split = split,
  }, Optimizer), FIELDS)
end

---AdamW (Loshchilov and Hutter 2017).
---@param params seqrun.Params
---@param options? seqrun.OptimOptions
---@return seqrun.Optimizer
function optim.adamw(params, options)
  return (new("adamw", params, options)) -- in parentheses, no tail call: error messages name the function
end

---LAMB (You et al. 2019): the update of each tensor is scaled by ||w|| / ||u||.
---@param params seqrun.Params
---@param options? seqrun.OptimOptions
---@return seqrun.Optimizer
function optim.lamb(params, options) return (new("lamb", params, options)) end

---StableAdamW (Wortsman et al. 2023): AdamW whose rate is divided, tensor by tensor, by the root mean square of
---g / sqrt(v) where that is above 1; it needs no clipping.
---@param params seqrun.Params
---@param options? seqrun.OptimOptions
---@return seqrun.Optimizer
function optim.stable_adamw(params, options) return (new("stable_adamw", params, options)) end

---Muon (Jordan 2024) for matrices of hidden layers, whose update is an orthogonal matrix; AdamW for the rest.
---@param params seqrun.Params
---@param options? seqrun.OptimOptions
---@return seqrun.Optimizer
function optim.muon(params, options) return (new("muon", params, options)) end

---The result of a step; reading a field waits for the device.
---@class seqrun.StepResult
---@field norm number global gradient norm, before clipping
---@field finite boolean
---@field applied boolean
local Result = {}

function Result.__index(result, key)
  if key ~= "norm" and key ~= "finite" and key ~= "applied" then return nil end
  local optimizer = rawget(result, "optimizer")
  if optimizer then optimizer:read_results() end
  return rawget(result, key)
end

---Waits for the device and reads the results of all steps since the last call.
---nil, message, "numeric" after too many consecutive steps with a non-finite loss or gradient.
---@return seqrun.StepResult|nil of the last step
---@return string? message
---@return string? code
function Optimizer:read_results()
  local _, message, code = self.core:read_results()
  for _, result in ipairs(self.pending) do
    local values = self.core:result(result.serial)
    result.norm, result.finite, result.applied = values.norm, values.finite, values.applied
    result.optimizer = nil
    self.last = result
  end
  self.pending = {}
  if message then return nil, message, code end
  return self.last
end

function Result.__tostring(result)
  local text = result.applied and "applied" or "skipped: NaN or infinity"
  return ("update: gradient norm %.6g, %s"):format(result.norm, text)
end

function Optimizer:__tostring()
  local applied, skipped = self:counts()
  return ("%s of %s: %s, %d skipped"):format(self.kind, counted(#self.params.list, "parameter"),
    counted(applied, "update"), skipped)
end

local STEP = { rate = true, clip = true, loss = true, zero_grad = true }

local function guard(ok, message, code)
  if ok == nil and message then failure.raise(code, "%s", message) end
end

---The loss that the finite check reads: with several ranks, the sum of theirs, so that all skip the same updates.
local function agreed_loss(self, loss)
  local world = self.world or self.params.exchange and ranks.current() -- a recipe may name none
  if not world or self.sharded then return loss end
  local sum = loss and loss:detach():clone():view { 1 } or tensor.zeros(1)
  world:all_reduce(sum)
  world:wait()
  return sum
end

---Fails for parameters whose gradients no one sums over the ranks: each rank would train its own.
local function check_shared(self)
  local world, strangers = ranks.current(), ranks.strangers()
  if strangers > 1 then
    failure.raise("config", "optimizer:step: %d processes were started, and each would train a separate model; open "
      .. "the run with sr.run.open, or the ranks with require('seqrun.tensor.ranks').open(), or start one process",
        strangers)
  end
  if not world or not world.trains then return end
  if self.params.exchange then
    if self.params.total or self.params.summed then return end
    failure.raise("config", "optimizer:step: no loop over update:batches() since the last step; only that loop sums "
      .. "gradients over %d ranks", world.size)
  end
  failure.raise("config", "these parameters ('%s', ...) are not those of the model that run:start got, and %d ranks "
    .. "would train them apart; put all parameters into one sr.params, or start one rank", self.params:names()[1],
    world.size)
end

---Multiplies the rate of all later steps.  Not part of state(): a run saves it.
---@param factor number 1: the rate as given
function Optimizer:scale_rate(factor)
  if type(factor) ~= "number" or not (factor >= 0 and factor < math.huge) then
    check.fail("%s", "optim: scale_rate: expected a factor of at least 0, got " .. check.show(factor))
  end
  self.factor = factor ~= 1 and factor or nil
end

---Calls `observer` while the store has the gradient of a share of this rank, and in a step while it has that of the
---update.
---@param observer? fun(what: "share"|"sum") nil: no longer
function Optimizer:observe(observer)
  self.observer = observer
  self.params.observer = observer
end

---One update with the gradients in the store: norm, clipping, finite check, update.  Ends the run after too many
---consecutive skipped updates.  Gradients are cleared afterwards, unless `zero_grad = false`; "keep" says that the next
---step is to have them as well.
---@param t { rate: number, clip?: number, loss?: seqrun.Tensor, zero_grad?: boolean|"keep" } clip: maximum global
---  norm; loss: the update is skipped if it is not finite
---@return seqrun.StepResult
function Optimizer:step(t)
  if type(t) ~= "table" or type(t.rate) ~= "number" or t.rate ~= t.rate then
    local given = type(t) == "table" and ("; its rate is %s (does the function that gives it return a number?)"):format(
      check.show(t.rate)) or ""
    check.fail("%s", "optim: step requires a learning rate, as in opt:step { rate = 1e-4, clip = 1 }" .. given)
  end
  check.options("optim: step", t, STEP)
  if self.swapped then check.fail("optim: step: the model has the averaged weights; close use_average() first") end
  check_shared(self)
  local book = self.params.book
  if book then book:check_step(self) end
  local waiting, room = self.core:pending()
  if waiting == room then guard(self:read_results()) end
  if self.observer then self.observer("share") end
  self.params:finish_update(self.sharded ~= nil)
  if self.observer then self.observer("sum") end
  do
    local scope <close> = tensor.scope()
    self.rate = self.factor and t.rate * self.factor or t.rate
    guard((self.sharded or self.core):step(self.rate, t.clip or 0, agreed_loss(self, t.loss)))
  end
  if t.zero_grad ~= false and t.zero_grad ~= "keep" then self.params:clear() end
  self.params.kept = t.zero_grad == false
  self.serial = self.serial + 1
  local result = setmetatable({ optimizer = self, rate = self.rate, serial = self.serial }, Result)
  self.pending[#self.pending + 1] = result
  return result
end

---Makes the f32 values of all parameters whole on rank 0, before they are read there; needed only for a sharded
---optimizer with bf16 copies.  All ranks call it.
function Optimizer:gather()
  if self.sharded then guard(self.sharded:gather()) end
end

---Elements of the store whose moments this optimizer keeps.
---@return integer
function Optimizer:held()
  local first, last = self.core:range()
  return last - first
end

---Steps applied, steps skipped, and steps skipped in a row.
---@return integer applied
---@return integer skipped
---@return integer in_a_row
function Optimizer:counts()
  self:read_results()
  local applied, skipped, in_a_row = self.core:counts()
  return applied, skipped, in_a_row
end

---Both moments of a parameter, as views into the store; nil if this optimizer owns only part of them.  Of a matrix of
---Muon there is only the first: the second view holds the direction of its last step.
---@param name string
---@return seqrun.Tensor? m
---@return seqrun.Tensor? v
function Optimizer:moments(name)
  local i = self.params.index[name]
  if not i then check.fail("optim: no parameter named '%s'", tostring(name)) end
  local shape = self.params:shape(name)
  local m, v, first, last = self.core:piece(i)
  if not m or last - first < self.params:get(name):numel() then return nil end
  return m:view(shape), v:view(shape)
end

---@class seqrun.MomentPiece
---@field name string "m.NAME", "v.NAME" or "average.NAME"
---@field tensor seqrun.Tensor flat view of its elements first, first + 1 ... last - 1, from 0
---@field first integer
---@field last integer
---@field size integer elements of the whole parameter

---The moments that this optimizer owns, and with `averaged` what it has of the average.
---@param averaged boolean
---@return seqrun.MomentPiece[]
function Optimizer:pieces(averaged)
  local pieces = {}
  for i, param in ipairs(self.params.list) do
    local m, v, first, last = self.core:piece(i)
    local size = self.params:get(param.name):numel()
    local second = not self.segments[i].rows and v or nil -- that of a matrix of Muon is not state
    local own = averaged and self.core:average_piece(i) or nil
    for kind, view in pairs { m = m, v = second, average = own } do
      pieces[#pieces + 1] = {
        name = kind .. "." .. param.name, tensor = view, first = first, last = last, size = size, param = param.name,
      }
    end
  end
  table.sort(pieces, function(a, b) return a.name < b.name end)
  return pieces
end

---The name of the file of a checkpoint that holds the moments of this rank.
---@return string
function Optimizer:file()
  if not self.sharded then return "trainer/optim.safetensors" end
  return ("trainer/optim-rank%d-of-%d.safetensors"):format(self.world.rank, self.world.size)
end

---The state for a checkpoint: plain values, and tensors by name: "m.NAME", "v.NAME" and "average.NAME", or
---"m.NAME[first:last]" for a piece (elements from 0, `last` excluded).
---@return { tensors: table<string, seqrun.Tensor>, values: table<string, any> }
function Optimizer:state()
  local tensors = {}
  local applied, skipped, in_a_row = self:counts()
  local averaged = self:averaged()
  for _, piece in ipairs(self:pieces(averaged > 0)) do
    if piece.last - piece.first == piece.size then
      tensors[piece.name] = piece.tensor:view(self.params:shape(piece.param))
    else
      tensors[("%s[%d:%d]"):format(piece.name, piece.first, piece.last)] = piece.tensor
    end
  end
  return {
    tensors = tensors,
    values = {
      kind = self.kind, power = self.options.power, applied = applied, skipped = skipped, in_a_row = in_a_row,
      averaged = averaged > 0 and averaged or nil, split = self.split or nil,
    },
  }
end

---Takes over the values of a state whose moments were loaded into a new phase: StableAdamW, whose moments are weighed
---by the number of updates, goes on counting them; the others count from 1.  The average continues if both have one.
---nil, message, "data" if the moments are of no use here.
---@param values table of state()
---@return true|nil
---@return string? message
---@return string? code
function Optimizer:carry(values)
  if values.kind == "muon" and self.kind ~= "muon" then
    return nil, ("the checkpoint was written by muon, which has no second moments of matrices, as %s needs; carry the "
      .. "weights only"):format(self.kind), "data"
  end
  local goes_on = self.kind == "stable_adamw" and math.type(values.applied) == "integer"
  local averaged = self:takes_average(values) and values.averaged or 0
  if goes_on or averaged > 0 then
    self.core:set_counts(goes_on and values.applied or 0, 0, 0, self.options.power, averaged)
  end
  return true
end

---Restores the plain values of a state, including the power of the betas, which comes from the first plan of the
---run; checkpoint.load fills the tensors.  nil, message, "data" for the state of another optimizer.
---@param values table
---@return true|nil
---@return string? message
---@return string? code
function Optimizer:restore(values)
  for _, key in ipairs { "applied", "skipped", "in_a_row" } do
    if math.type(values[key]) ~= "integer" or values[key] < 0 then
      return nil, ("the optimizer's '%s' must be a non-negative integer"):format(key), "data"
    end
  end
  if type(values.power) ~= "number" or not (values.power > 0 and values.power < math.huge) then
    return nil, "the optimizer's 'power' must be a positive number", "data"
  end
  if values.kind ~= self.kind then
    return nil, ("the checkpoint was written by %s, not %s"):format(tostring(values.kind), self.kind), "data"
  end
  if (values.split or false) ~= self.split then
    return nil, ("the checkpoint was written with optimizer.muon.split=%s, which sets whether q, k and v in one "
      .. "matrix, and the halves of a gated block, are separate matrices; resume with it"):format(not self.split),
      "config"
  end
  self:read_results()
  local averaged = self:takes_average(values) and values.averaged or 0
  self.core:set_counts(values.applied, values.skipped, values.in_a_row, values.power, averaged)
  self.options.power = values.power
  return true
end

return optim
