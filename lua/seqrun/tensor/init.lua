-- tensor - creating and printing tensors; scopes.
--
-- A tensor is a handle; its storage belongs to the scope that was open when it was made and returns
-- to the pool when that closes.  `t:keep()` carries it out.  Dimensions and positions count from 1 and -1
-- is the last; values inside tensors (ids, rows, labels) count from 0 and are never shifted.

local check = require("seqrun.base.check")
local core = require("seqrun.core.tensor")
local ops = require("seqrun.core.ops")
local training = require("seqrun.tensor.training")
require("seqrun.tensor.sort")

local tensor = {
  scope = core.scope,
  layout = core.layout,
  device = core.device,
  devices = core.devices,
  describe = core.describe,
  memory = core.memory,
  threads = core.threads,
  instructions = core.instructions,
  synchronize = core.synchronize,
  plugin = core.plugin,
  comms = core.comms,
  where = ops.where,
  manual_seed = ops.manual_seed,
}

---Options of `sr.tensor`, `sr.zeros` and similar functions.
---@class seqrun.TensorOptions
---@field dtype? "f64"|"f32"|"bf16"|"i32"|"bool" default: the device's compute dtype
---@field device? string default: the current device
---@field requires_grad? boolean a leaf that collects its gradient

local KNOWN = { dtype = true, device = true, requires_grad = true }
local RANDOM = { dtype = true, device = true, requires_grad = true, seed = true, uid = true }
local DTYPES = { "f64", "f32", "bf16", "i32", "bool" }

local function check_options(name, options, known)
  options = check.options(name, options, known)
  if options.dtype ~= nil then check.choice(name .. ": dtype", options.dtype, DTYPES) end
  return options
end

local function finish(t, options)
  if options.requires_grad then t:requires_grad_(true) end
  return t
end

---Makes `name` the current device, where new tensors are created.
---@param name string "cpu", "ref", "cuda", "cuda:1", or "auto": cuda if it can be used, else cpu
---@param options? { threads?: integer }
function tensor.use(name, options)
  if name == "auto" then name = require("seqrun.tensor.devices").auto() end
  core.use(name, check.options("use", options, { threads = true }).threads)
end

---A tensor from a number or nested lists, or a copy of a tensor.
---@param values number|table|seqrun.Tensor
---@param options? seqrun.TensorOptions
---@return seqrun.Tensor
function tensor.tensor(values, options)
  options = check_options("tensor", options, KNOWN)
  if type(values) == "userdata" then
    local copy = values:detach():clone()
    if options.device then copy = copy:to(options.device) end
    if options.dtype then copy = copy:to(options.dtype) end
    return finish(copy, options)
  end
  return finish(core.from_table(values, options.dtype, options.device), options)
end

---A tensor from the bytes of its elements, little-endian.
---@param bytes string
---@param dims integer[]
---@param dtype string
---@return seqrun.Tensor
function tensor.from_string(bytes, dims, dtype)
  return core.from_string(bytes, dims, dtype)
end

---Raises if a list of sizes has named keys, which are options in the wrong place.
local function check_sizes(name, sizes)
  for key in pairs(sizes) do
    if type(key) == "string" then
      check.fail("%s: '%s' is among the sizes; options go into a table of their own, as in %s({ 3, 4 }%s, "
        .. "{ %s = ... })", name, key, name, name == "full" and ", 1" or "", key)
    end
  end
end

---Splits (d1, d2, ..., [options]) or ({d1, d2}, [options]) into sizes and options.
local function sizes_and_options(name, known, ...)
  local given = { ... }
  local count = select("#", ...)
  local first, last = given[1], given[count]
  if type(first) == "table" and #first > 0 or (type(first) == "table" and count == 2) then
    check_sizes(name, first)
    return first, check_options(name, given[2], known)
  end
  local options = type(last) == "table" and last or nil
  if options then given[count] = nil end
  return given, check_options(name, options, known)
end

local function filled(name, value, ...)
  local sizes, options = sizes_and_options(name, KNOWN, ...)
  return finish(core.full(sizes, value, options.dtype, options.device), options)
end

---A tensor of zeros: sizes, then options.
---@param ... integer|integer[]|seqrun.TensorOptions
---@return seqrun.Tensor
function tensor.zeros(...) return (filled("zeros", 0, ...)) end

---A tensor of ones: sizes, then options.
---@param ... integer|integer[]|seqrun.TensorOptions
---@return seqrun.Tensor
function tensor.ones(...) return (filled("ones", 1, ...)) end

---An uninitialised tensor: sizes, then options.
---@param ... integer|integer[]|seqrun.TensorOptions
---@return seqrun.Tensor
function tensor.empty(...)
  local sizes, options = sizes_and_options("empty", KNOWN, ...)
  return finish(core.empty(sizes, options.dtype, options.device), options)
end

---A tensor of one value.
---@param sizes integer[]
---@param value number|boolean
---@param options? seqrun.TensorOptions
---@return seqrun.Tensor
function tensor.full(sizes, value, options)
  if type(sizes) ~= "table" or type(value) ~= "number" and type(value) ~= "boolean" then
    check.fail("full: expected the sizes and a number, as in full({ 2, 3 }, 1)")
  end
  check_sizes("full", sizes)
  options = check_options("full", options, KNOWN)
  return finish(core.full(sizes, value, options.dtype, options.device), options)
end

local MOST = 1 << 27 -- numbers of arange, which pass through a list

---Numbers from `first` to `last`, both included.
---@param first number
---@param last number
---@param step? number
---@param options? seqrun.TensorOptions
---@return seqrun.Tensor
function tensor.arange(first, last, step, options)
  if not tonumber(first) or not tonumber(last) or step == 0 then
    check.fail("arange: expected the first and the last number, and a step that is not 0, as in arange(0, 9)")
  end
  local count = (last - first) // (step or 1) + 1
  if not (count <= MOST) then check.fail("arange: %.0f numbers are too many; at most %d", count, MOST) end
  if first + (step or 1) == first then check.fail("arange: the step %g is too small for %g", step or 1, first) end
  local list = {}
  for x = first, last, step or 1 do list[#list + 1] = x end
  if #list == 0 then return tensor.zeros(0, options) end
  return tensor.tensor(list, options)
end

local function random(name, kind, ...)
  local sizes, options = sizes_and_options(name, RANDOM, ...)
  local t = core.empty(sizes, options.dtype, options.device)
  return finish(ops.random_(t, kind, 0, 1, options), options)
end

---Uniform in [0, 1).  With the options `seed` or `uid` the numbers are a function of these two; otherwise each
---call draws new numbers from the global generator: see sr.manual_seed.
---@return seqrun.Tensor
function tensor.rand(...) return (random("rand", "uniform", ...)) end -- no tail call: errors name the function

---Normal with mean 0 and standard deviation 1; options as in sr.rand.
---@return seqrun.Tensor
function tensor.randn(...) return (random("randn", "normal", ...)) end

---Tensors end to end along a dimension, default the first.
---@param list seqrun.Tensor[]
---@param dim? integer
---@return seqrun.Tensor
function tensor.cat(list, dim)
  return ops.cat(list, dim or 1)
end

---Stacks tensors of the same shape along a new dimension.
---@param list seqrun.Tensor[]
---@param dim? integer default 1
---@return seqrun.Tensor
function tensor.stack(list, dim)
  local lifted = {}
  for i, t in ipairs(list) do lifted[i] = t:unsqueeze(dim or 1) end
  return ops.cat(lifted, dim or 1)
end

local Recording = {}
Recording.__index = Recording

function Recording:close()
  if self.closed then return end
  self.closed = true
  core.set_recording(self.before)
end
Recording.__close = Recording.close

---Disables recording while it is open: `local quiet <close> = sr.no_grad()`.
---@return { close: fun(self) }
function tensor.no_grad()
  return setmetatable({ before = core.set_recording(false) }, Recording)
end

---Enables recording again, inside a no_grad().
---@return { close: fun(self) }
function tensor.enable_grad()
  return setmetatable({ before = core.set_recording(true) }, Recording)
end

---Whether a value is a tensor.
---@param x any
---@return boolean
function tensor.is_tensor(x)
  return type(x) == "userdata" and getmetatable(x) == core.metatable
end

-- ---- printing -----------------------------------------------------------------------------------

core.metatable.__tostring = function(t)
  return require("seqrun.tensor.show")(t)
end
local require_grad = core.methods.requires_grad_
core.methods.requires_grad_ = function(t, on)
  require_grad(t, on)
  training.leaves[t] = on ~= false and not t:grad() or nil -- parameters have a gradient from the start
  return t
end
core.metatable.__newindex = function(_, key)
  local freeze = "freeze parameters by a group of the optimizer, { match = NAME, frozen = true }"
  local fix = key == "requires_grad" and freeze or "write in place with t[i]:fill_(number) or t[i]:copy_(tensor)"
  check.fail("a tensor's [%s] cannot be set; %s", tostring(key), fix)
end

---Lua converts the result of `<` to a boolean.
local function compared()
  check.fail("tensors cannot be compared with < or >=; use t:lt(u), le, gt or ge to compare elements")
end
core.metatable.__lt, core.metatable.__le = compared, compared

---Two handles are one value to `==` only where they are the same handle, which is never what is asked.
core.metatable.__eq = function(a, b)
  if not (tensor.is_tensor(a) and tensor.is_tensor(b)) then return false end
  check.fail("tensors cannot be compared with == or ~=; use a:equal(b), a:eq(b) to compare elements, or rawequal(a, b) "
    .. "for the same handle")
end

---Unknown methods, most likely misspelled.
setmetatable(core.methods, {
  __index = function(methods, key)
    if type(key) ~= "string" then
      local fix = "narrow() takes a range, index() a tensor of rows, counted from 0"
      check.fail("a tensor's index must be an integer, got a %s; %s", type(key), fix)
    end
    local names = {}
    for name in pairs(methods) do names[#names + 1] = name end
    check.fail("a tensor has no '%s'%s", key, require("seqrun.base.habits").hint(key, names))
  end,
})
core.metatable.__len = function(t)
  return t:dim() > 0 and t:size(1) or 0
end

return tensor
