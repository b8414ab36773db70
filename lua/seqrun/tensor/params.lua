-- params.lua - the parameters of a model, by name, over one contiguous store.
--
--   local p = sr.params.new {
--     { name = "w", shape = { 3, 4 }, init = "normal", std = 0.02, group = "decay" },
--     { name = "b", shape = { 3 }, init = "zeros", group = "no_decay" },
--   }
--   p:initialise(seed); local w = p:get "w"
--
-- `group` is a label for optimizers: "decay" (the default) or "no_decay".
--
-- sr.params.new(list, { precision = "bf16" }) adds a bf16 copy that ops read to the f32 masters and gradients;
-- parameters with keep = "f32" are read in f32.  Write to parameters with p:set(name, values).

local check = require("seqrun.base.check")
local core = require("seqrun.core.tensor")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local train = require("seqrun.core.train")
local training = require("seqrun.tensor.training")

local params = {}

---@class seqrun.ParamSpec
---@field name string
---@field shape integer[]
---@field init? "normal"|"zeros"|"ones" default "normal", truncated at two standard deviations
---@field std? number standard deviation of "normal"; default 0.02
---@field pad_rows_to? integer rows in the store are padded to a multiple of this; the padding is never visible
---@field fuse? string members of one group are stored contiguously and available as one tensor
---@field group? string label for optimizers; default "decay"
---@field keep? "f32" always read in f32, such as norm weights
---@field upcycles? string the parameter of a checkpoint without experts whose values an expert takes
---@field tied? string[] further names under which checkpoints repeat it
---@field blocks? integer[] rows of the matrices that are stacked, such as q, k and v; for optimizers
---@field looked_up? boolean its rows are looked up or decoded, not multiplied by `linear`
---@field transposed? boolean checkpoints hold the matrix as (columns, rows)
---@field longer? { why: string, most?: integer } a checkpoint may have up to `most` more rows, which are left out

---@class seqrun.Params
---@field core userdata the store itself
---@field precision "f32"|"bf16" dtype that ops read; "f32" is f64 on ref
---@field rename? fun(name: string): string names of tensors in files to those of parameters
---@field made string where it was made, "FILE:LINE: "
---@field reached? boolean there are gradients of a backward pass, as far as look() was called
---@field cleared? string where zero_grad() dropped such gradients
---@field kept? boolean the last step left them, with zero_grad = false
---@field written table<string, boolean> parameters that were initialised, loaded or set
---@field book? table of the run that trains it (run/checks/loop.lua)
local Params = {}
Params.__index = Params
require("seqrun.base.strict").seal(Params, "params", { "core", "precision", "list", "exchange", "rename",
  "observer" })

local KNOWN = {
  name = "string", shape = "table", init = "string", std = "number", pad_rows_to = "number", fuse = "string",
  group = "string", keep = "string", tied = "table", longer = "table", blocks = "table",
  transposed = "boolean", upcycles = "string", looked_up = "boolean",
}
local OPTIONS = { precision = true }

local function check_spec(i, spec)
  if type(spec) ~= "table" or type(spec.name) ~= "string" or type(spec.shape) ~= "table" then
    check.fail("params: parameter %d needs a name and a shape; expected { name = 'w', shape = { 3, 4 } }", i)
  end
  local what = ("params: '%s'"):format(spec.name)
  check.options(what, spec, KNOWN)
  for key, value in pairs(spec) do check.value(("%s: %s"):format(what, key), value, KNOWN[key]) end
  if spec.keep ~= nil and spec.keep ~= "f32" then
    check.fail("%s: keep is '%s'; use 'f32', or leave it out", what, spec.keep)
  end
end

---The precision option, checked.
local function precision_of(options)
  check.options("params", options, OPTIONS)
  local precision = options.precision
  if precision == nil then return "f32" end
  return check.choice("params: precision", precision, { "f32", "bf16" })
end

---Refuses parameters that cannot fit, before anything is allocated: the store has values and gradients.
local function check_memory(list)
  local elements = 0.0
  for _, spec in ipairs(list) do
    local size = 1.0
    for _, length in ipairs(spec.shape) do size = size * length end
    elements = elements + size
  end
  local real = core.element_size()
  local ranks = (training.current() or {}).ranks -- then parameters will have moments too
  local copies, what = 2 + (ranks and 2 / ranks or 0), ranks and "with gradients and moments" or "and their gradients"
  devices.check_fits(copies * elements * real, elements, what)
end

---Creates a store of these parameters on the current device; all are zero until initialise() or set().
---@param list seqrun.ParamSpec[]
---@param options? { precision?: "f32"|"bf16" } dtype that ops read; default f32
---@return seqrun.Params
function params.new(list, options)
  if type(list) ~= "table" then check.fail("params: expected a list of { name =, shape = }") end
  for i, spec in ipairs(list) do check_spec(i, spec) end
  local precision = precision_of(options or {})
  check_memory(list)
  local made = train.params(list, precision == "bf16" and "bf16" or nil)
  local self = setmetatable({
    core = made, shares = train.shares(made), precision = precision, list = {}, index = {}, made = sys.where(),
    gradient = made:grad(), written = {},
  }, Params)
  self.seen, training.stores[self] = self.gradient:version(), true
  for i, spec in ipairs(list) do
    self.list[i] = {
      name = spec.name, shape = { table.unpack(spec.shape) }, group = spec.group or "decay",
      fuse = spec.fuse, tied = spec.tied, longer = spec.longer, blocks = spec.blocks, transposed = spec.transposed,
      upcycles = spec.upcycles, zeros = spec.init == "zeros" or spec.std == 0,
      linear = #spec.shape == 2 and not (spec.keep or spec.looked_up or spec.upcycles),
    }
    self.index[spec.name] = i
  end
  return self
end

local function index_of(self, name)
  local i = self.index[name]
  if i then return i end
  local hint = guess.hint(tostring(name), self:names())
  check.fail("params: no parameter named '%s'%s", tostring(name), hint)
end

---The parameter as ops read it: a leaf, whose grad is a view of the gradient store.
---@param name string
---@return seqrun.Tensor
function Params:get(name)
  return self.core:get(self.index[name] or index_of(self, name))
end

---The master values of a parameter, which the optimizer updates and checkpoints hold; in f32 the leaf itself.
---Call refresh() after writing to them.
---@param name string
---@return seqrun.Tensor
function Params:master(name)
  return self.core:master(self.index[name] or index_of(self, name))
end

---Updates the copies that ops read, after writes to masters.
function Params:refresh() self.core:refresh() end

---All members of a fuse group as one leaf, concatenated by rows.
---@param group string
---@return seqrun.Tensor
function Params:fused(group) return self.core:fused(group) end

---@return string[] # in the order of the list
function Params:names()
  local names = {}
  for i, param in ipairs(self.list) do names[i] = param.name end
  return names
end

---@param name string
---@return boolean
function Params:has(name) return self.index[name] ~= nil end

---@param name string
---@return integer[]
function Params:shape(name) return { table.unpack(self.list[index_of(self, name)].shape) } end

---Number of elements, without padding.
---@return integer
function Params:count() return (self.core:elements()) end

---Bytes that the device keeps of the matrices in a layout of its own, after the first pass forward and backward.
---@return integer
function Params:layout_bytes()
  local sum = 0
  for _, param in ipairs(self.precision == "bf16" and self.list or {}) do
    sum = sum + (param.linear and core.layout_bytes(param.shape[1], param.shape[2]) or 0)
  end
  return sum
end

---Writes the initial values, a function of the seed and each parameter's name, not of their order.
---@param seed integer
---@param name? string only this parameter
---@return seqrun.Params
function Params:initialise(seed, name)
  if self.book then
    check.fail("initialise: run:start has set these weights already (random ones, those of init.from, or of the "
      .. "checkpoint that it resumes from), and this would replace them; initialise before run:start")
  end
  self.core:initialise(seed, name and index_of(self, name))
  for _, each in ipairs(name and { name } or self:names()) do self.written[each] = true end
  return self
end

---Whether a backward pass has added to the gradients since the last look: then their version has moved.
---@return boolean
function Params:look()
  local before = self.seen
  self.seen = self.gradient:version()
  if self.seen == before then return false end
  self.reached, self.cleared = true, nil
  return true
end

---The gradients are those that the store itself has made of them.
local function mark(self) self.seen = self.gradient:version() end

---Clears the gradients after a step.
function Params:clear()
  self.shares:drop()
  self.core:zero_grad()
  self.clean, self.summed, self.reached, self.cleared, self.kept = true, false, false, nil, nil
  mark(self)
end

---Clears the gradients, including the sums of shares.
function Params:zero_grad()
  self:look()
  local place = sys.where()
  local dropped = self.reached and place or nil
  self:clear()
  self.cleared, self.cut, self.cut_by = dropped, place, "params:zero_grad()"
end

-- The gradient of an update is summed over its shares in a fixed tree, so that its bits do not depend on how
-- the shares are computed (core/train/shares.h).  `update:batches(params)` makes the first calls, the
-- optimizer the last; until then `grad` of a parameter is that of the current share.

---Begins an update of `shares` shares.  Existing gradients are added to its first share.
---@param shares integer
function Params:begin_update(shares)
  if self.exchange and self.total then
    failure.raise("config", "a loop over update:batches() began without optimizer:step after the one before; "
      .. "with several ranks each update needs its step")
  end
  if self.exchange and self.rank > 0 and not self.clean then self:clear() end -- rank 0 has the first share
  self:look()
  self.total, self.clean, self.cut = shares, false, nil
  self.shares:begin(shares)
  mark(self)
end

---A micro-batch of a share begins.
---@param share integer from 1
---@param last boolean of this rank in this update
function Params:begin_batch(share, last)
  if not self.exchange then return end
  self.last_share = last and share or nil
  failure.must(self.exchange:batch(self.total, self.last_share))
end

---Ends share i; later gradients belong to another.
---@param i integer from 1
function Params:end_share(i)
  if self.cut then
    check.fail("%s was called inside the loop over update:batches() (%s), which adds up the gradients of all "
      .. "micro-batches of an update; %s", self.cut_by, self.cut:gsub(": $", ""), self.cut_by == "optimizer:step"
      and "call it once, behind the loop" or "leave it out: optimizer:step clears them")
  end
  self:look()
  if self.observer then self.observer("share") end
  if i ~= self.last_share then self.shares:end_share(i) end
  mark(self)
end

---The micro-batches of an update have ended: the last share of this rank goes to the others, as far as it has not yet.
function Params:end_batches()
  if not self.exchange then return end
  self:look()
  failure.must(self.exchange:rest(self.total, self.last_share))
  self.last_share = nil
  mark(self)
end

---Ends the update: the gradients are its sum, over all ranks, or if its loop ended early the sum of the shares computed
---so far, which several ranks refuse.
---@param piece? boolean of several ranks: the sum of this rank's piece of the store is enough
function Params:finish_update(piece)
  self:look()
  self.cut, self.cut_by = sys.where(), "optimizer:step"
  if self.exchange and self.total then
    failure.must(self.exchange:reduce(self.total))
    if not piece then failure.must(self.exchange:gather()) end
    self.total, self.summed = nil, true
  else
    self.shares:finish()
  end
  mark(self)
end

---Elements of a bucket in one mebibyte.
local MIB = (1 << 20) // 4

---@class seqrun.ShareOptions
---@field reduce? "exact"|"library" exact: in the order of the shares, for the same bits with any number of ranks
---@field sharded? boolean each rank needs the gradients of this rank's part of the store only
---@field overlap? boolean exchange gradients of finished layers during the backward pass; default true
---@field bucket? number MiB of gradients that are sent together; default 16

---Sums the gradients of each update over the ranks of a world; all of them make the same updates.
---@param world seqrun.World
---@param options? seqrun.ShareOptions
function Params:share_with(world, options)
  local o = options or {}
  self.rank = world.rank
  self.exchange = train.exchange(self.shares, world.core, {
    library = o.reduce == "library", sharded = o.sharded or false, overlap = o.overlap ~= false,
    bucket = math.max(1, math.floor((o.bucket or 16) * MIB)),
  })
end

---A copy of a parameter's values, outside of any graph.
---@param name string
---@return seqrun.Tensor
function Params:value_of(name) return self:master(name):detach():clone() end

---Writes a parameter's values.
---@param name string
---@param values seqrun.Tensor|number[]|number[][]|number
function Params:set(name, values)
  local guard <close> = tensor.no_grad()
  local i = index_of(self, name)
  local master = self.core:master(i):detach()
  if type(values) ~= "userdata" then values = tensor.tensor(values, { device = master:device() }) end
  master:copy_(values)
  self.written[name] = true
  self:refresh()
end

---Names of parameters that nothing has written values to: all are zero, as they do not begin.
---@return string[]
function Params:unwritten()
  local scope <close>, list = tensor.scope(), {}
  for _, param in ipairs(self.list) do
    local idle = not (self.written[param.name] or param.zeros)
    if idle and self:master(param.name):detach():ne(0):sum():item() == 0 then list[#list + 1] = param.name end
  end
  return list
end

---One line per parameter.
function Params:__tostring()
  local lines = {}
  for i, param in ipairs(self.list) do
    lines[i] = ("%-64s (%s)"):format(param.name, table.concat(param.shape, ", "))
  end
  lines[#lines + 1] = ("%d parameters, %d elements"):format(#self.list, self:count())
  return table.concat(lines, "\n")
end

return params
