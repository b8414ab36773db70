-- sort.lua - methods of tensors composed of other ops: sort, argsort, topk, cumsum, var, std, one_hot, equal.
--
-- Sorting is a bitonic network over (value, position) pairs: log2(n)^2 / 2 passes of elementwise ops, on any device.
-- The first few are found one after the other, which takes a pass each.
-- Equal values keep their order, and NaN sorts as infinity.

local check = require("seqrun.base.check")
local core = require("seqrun.core.tensor")
local ops = require("seqrun.core.ops")

---@class seqrun.Tensor
local Tensor = core.methods

local LEAST, LARGEST = -2147483648, 2147483647

local function check_dim(name, x, dim)
  if x:dim() == 0 then check.fail("%s", name .. ": a tensor without dimensions has nothing to order") end
  local whole = math.tointeger(dim or -1)
  if not whole or whole == 0 or whole > x:dim() or whole < -x:dim() then
    check.fail("%s: dimension %s is out of range for %s", name, tostring(dim), x:describe())
  end
  return whole < 0 and x:dim() + 1 + whole or whole
end

local function check_flag(name, value, option)
  if value == nil or type(value) == "boolean" then return end
  check.fail("%s: %s must be true or false, got %s", name, option, check.show(value))
end

---x with dimension `dim` last; and last back to `dim`, which is the same swap.
local function swapped(x, dim) return dim == x:dim() and x or x:transpose(dim, x:dim()) end

local function range(count, device)
  local list = {}
  for i = 1, count do list[i] = i - 1 end
  return core.from_table(list, "i32", device)
end

-- ---- sorting -------------------------------------------------------------------------------------

---The keys (R, n) that a network compares: whole numbers or reals without NaN.
local function keys_of(x)
  local kind = x:dtype()
  if kind == "bool" then return x:to("i32") end
  if kind == "i32" then return x end
  if kind == "bf16" then x = x:to("f32") end
  return ops.where(x:eq(x), x, math.huge)
end

---Appends columns that sort behind all others.
local function padded(keys, count, descending)
  local least, largest = -math.huge, math.huge
  if keys:dtype() == "i32" then least, largest = LEAST, LARGEST end
  local pad = core.full({ keys:size(1), count }, descending and least or largest, keys:dtype(), keys:device())
  return ops.cat({ keys, pad }, 2)
end

---One pass: compares columns j apart, in blocks of k that ascend and descend in turn.
local function pass(keys, places, k, j, descending)
  local rows, n = keys:size(1), keys:size(2)
  local shape = { rows, n // (2 * j), 2, j }
  local function halves(t)
    t = t:reshape(shape)
    return t:select(3, 1), t:select(3, 2)
  end
  local a, b = halves(keys)
  local p, q = halves(places)
  local after = descending and a:lt(b) or a:gt(b)
  local wrong = after:logical_or(a:eq(b):logical_and(p:gt(q)))
  local down = {}
  for i = 1, n // (2 * j) do down[i] = { ((i - 1) * 2 * j // k) % 2 == 1 } end
  local swap = wrong:ne(core.from_table(down, "bool", keys:device()):expand(n // (2 * j), j))
  local function merged(first, second)
    local low, high = ops.where(swap, second, first), ops.where(swap, first, second)
    return ops.cat({ low:unsqueeze(3), high:unsqueeze(3) }, 3):reshape(rows, n)
  end
  return merged(a, b), merged(p, q)
end

---The positions (R, n) i32 that sort the rows of x (R, n).
local function order_of(x, descending)
  local rows, n = x:size(1), x:size(2)
  local size = 1
  while size < n do size = size * 2 end
  local keys, places = keys_of(x), range(size, x:device()):unsqueeze(1):expand(rows, size)
  if size > n then keys = padded(keys, size - n, descending) end
  local k = 2
  while k <= size do
    local j = k // 2
    while j >= 1 do
      local scope <close> = core.scope(x:device())
      keys, places = pass(keys, places, k, j, descending)
      keys:hand_up()
      places:hand_up()
      j = j // 2
    end
    k = k * 2
  end
  return places:narrow(2, 1, n):contiguous()
end

---The positions (R, count) i32 of the first elements in the order of each row, found one after the other: the next is
---the best of those behind the last, in value or in place.
local function first_of(x, descending, count)
  local keys, list = keys_of(x), {}
  local worst = keys:dtype() == "i32" and (descending and LEAST or LARGEST) or (descending and -math.huge or math.huge)
  local places = range(keys:size(2), x:device())
  local behind = core.full(keys:shape(), true, "bool", x:device())
  for i = 1, count do
    local scope <close> = core.scope(x:device())
    local left = ops.where(behind, keys, worst)
    local best = descending and left:max(2, true) or left:min(2, true)
    local equal = keys:eq(best)
    list[i] = equal:logical_and(behind):to("i32"):argmax(2, true)
    behind = equal:logical_and(places:gt(list[i])):logical_or(descending and keys:lt(best) or keys:gt(best))
    list[i]:hand_up()
    behind:hand_up()
  end
  return ops.cat(list, 2)
end

---Whether to find the first `count` of n one after the other: a pass of the network costs about as much as one of them.
local function is_few(count, n)
  local doublings = math.ceil(math.log(n, 2))
  return count and 2 * count < doublings * (doublings + 1) // 2
end

---The order of the rows of x, whose last dimension is the one to sort; or its first `count`.
local function unrecorded_order(x, descending, count)
  local before = core.set_recording(false)
  local scope <close> = core.scope(x:device())
  local n = x:size(x:dim())
  local ok, order = pcall(function()
    local flat = x:detach():contiguous():reshape(x:numel() // math.max(1, n), n)
    if is_few(count, n) then return first_of(flat, descending, count) end
    return order_of(flat, descending)
  end)
  core.set_recording(before)
  if not ok then error(order, 0) end
  return order:hand_up()
end

---The elements of x (..., n) at `order` (R, k), in its shape; gradients flow to x.
local function taken(x, order, count)
  local n, rows = x:size(x:dim()), order:size(1)
  local first = range(rows, x:device()):unsqueeze(2) * n
  local flat = (order + first):reshape(-1)
  local shape = x:shape()
  shape[#shape] = count
  return x:contiguous():reshape(-1):index(flat):reshape(shape), order:reshape(shape)
end

local function sorted(x, dim, descending, count)
  local last = swapped(x, dim)
  local n = last:size(last:dim())
  if x:numel() == 0 then return x, core.empty(x:shape(), "i32", x:device()) end
  local order = unrecorded_order(last, descending, count)
  if count and count < order:size(2) then order = order:narrow(2, 1, count):contiguous() end
  local values, places = taken(last, order, count or n)
  return swapped(values, dim), swapped(places, dim)
end

---The values in order along a dimension, and their positions from 0; equal values keep their order, NaN sorts as
---infinity.
---@param dim? integer default: the last
---@param descending? boolean
---@return seqrun.Tensor values
---@return seqrun.Tensor positions i32
function Tensor:sort(dim, descending)
  dim = check_dim("sort", self, dim)
  check_flag("sort", descending, "descending")
  local values, places = sorted(self, dim, descending)
  return values, places
end

---The positions, from 0, that sort along a dimension.
---@param dim? integer default: the last
---@param descending? boolean
---@return seqrun.Tensor # i32
function Tensor:argsort(dim, descending)
  dim = check_dim("argsort", self, dim)
  check_flag("argsort", descending, "descending")
  local _, places = sorted(self:detach(), dim, descending)
  return places
end

---The k largest values along a dimension in descending order, and their positions from 0.
---@param k integer
---@param dim? integer default: the last
---@param smallest? boolean the smallest instead, ascending
---@return seqrun.Tensor values
---@return seqrun.Tensor positions i32
function Tensor:topk(k, dim, smallest)
  local whole = math.tointeger(k)
  dim = check_dim("topk", self, dim)
  check_flag("topk", smallest, "smallest")
  local n = self:size(dim)
  if not whole or whole < 1 or whole > n then
    check.fail("topk: k must be an integer from 1 to %d, the size of the dimension; got %s", n, tostring(k))
  end
  local values, places = sorted(self, dim, not smallest, whole)
  return values, places
end

-- ---- running sums, spread, classes -----------------------------------------------------------------

---Whether a sum of i32 is off by 2^32 somewhere, which f32 has room to say.
local function wraps(a, b, sum)
  if sum:dtype() ~= "i32" or sum:numel() == 0 then return false end
  return (a:to("f32") + b:to("f32") - sum:to("f32")):abs():max():item() > 2 ^ 31
end

---Running sums along a dimension; those of i32 must fit it.
---@param dim? integer default: the last
---@return seqrun.Tensor
function Tensor:cumsum(dim)
  dim = check_dim("cumsum", self, dim)
  local kind = self:dtype()
  local wider = { bool = "i32", bf16 = "f32" } -- sums round once
  local y = wider[kind] and self:to(wider[kind]) or self
  local n, step = self:size(dim), 1
  while step < n do
    local one, other = y:narrow(dim, step + 1, n - step), y:narrow(dim, 1, n - step)
    local sum = one + other
    if wraps(one, other, sum) then check.fail("cumsum: a sum of i32 does not fit i32; use x:to(\"f32\") instead") end
    y = ops.cat({ y:narrow(dim, 1, step), sum }, dim)
    step = step * 2
  end
  if kind == "bf16" then return y:to(kind) end
  return rawequal(y, self) and self:clone() or y
end

local function variance(name, x, dim, keep, correction)
  local count = dim and x:size(dim) or x:numel()
  correction = correction or 1
  if count - correction <= 0 then
    check.fail("%s: %d values are too few for correction = %g; use %s(dim, keep, 0)", name, count, correction, name)
  end
  local centred = x - (dim and x:mean(dim, true) or x:mean())
  local squares = centred:square()
  return (dim and squares:sum(dim, keep) or squares:sum()) / (count - correction)
end

---Variance over one dimension, or all.
---@param dim? integer
---@param keep? boolean
---@param correction? number subtracted from the count: 1 (the default) is the estimate from a sample, 0 the mean square
---@return seqrun.Tensor
function Tensor:var(dim, keep, correction) return (variance("var", self, dim, keep, correction)) end

---Standard deviation over one dimension, or all: the square root of the variance.
---@param dim? integer
---@param keep? boolean
---@param correction? number
---@return seqrun.Tensor
function Tensor:std(dim, keep, correction)
  local squared = variance("std", self, dim, keep, correction)
  return squared:sqrt()
end

---Whether both have the same shape and values.
---@param other seqrun.Tensor
---@return boolean
function Tensor:equal(other)
  local shape, theirs = table.concat(self:shape(), ","), table.concat(other:shape(), ",")
  return shape == theirs and self:ne(other):sum():item() == 0
end

local MOST_CLASSES = 1 << 24

---One-hot vectors: one more dimension, of `classes` elements, which is 1 at the label and 0 elsewhere.  Labels must be
---from 0 to classes - 1.
---@param classes integer
---@return seqrun.Tensor # of the device's compute dtype
function Tensor:one_hot(classes)
  local whole = math.tointeger(classes)
  if self:dtype() ~= "i32" or not whole or whole < 1 then
    check.fail("one_hot: expected a tensor of i32 and the number of classes, as in labels:one_hot(3)")
  end
  if whole > MOST_CLASSES then check.fail("one_hot: %d classes are too many; at most 2^24", whole) end
  local least, largest = 0, 0
  if self:numel() > 0 then least, largest = self:min():item(), self:max():item() end
  if least < 0 or largest >= whole then
    local wrong = least < 0 and least or largest
    check.fail("one_hot: label %d is not a class from 0 to %d", wrong, whole - 1)
  end
  local real = core.empty({ 0 }, nil, self:device()):dtype()
  return self:unsqueeze(-1):eq(range(whole, self:device())):to(real)
end
