-- gradcheck - recorded gradients against finite differences.
--
-- Central differences in f64 are right to about eps^2 plus rounding / eps, so this runs on `ref`:
--
--   sr.use("ref")
--   assert(sr.gradcheck(function(x) return (x * x):sum() end, { sr.randn({ 3, 4 }, { requires_grad = true }) }))

local check = require("seqrun.base.check")
local tensor = require("seqrun.tensor")

---Numbers of the elements to try: all of them, or `samples` spread evenly.
local function spread(count, samples)
  local list = {}
  local stride = math.max(1, count / samples)
  local at = 1.0
  while at <= count do
    list[#list + 1] = math.floor(at)
    at = at + stride
  end
  return list
end

---(f(x + eps e_i) - f(x - eps e_i)) / 2 eps, changing x in place and back.
local function difference(fn, inputs, flat, i, eps)
  local element = flat:narrow(1, i, 1)
  local function at(shift)
    local scope <close> = tensor.scope()
    local quiet <close> = tensor.no_grad()
    element:add_(shift)
    local value = fn(table.unpack(inputs)):item()
    element:add_(-shift)
    return value
  end
  return (at(eps) - at(-eps)) / (2 * eps)
end

---Compares the gradients that `backward` finds with finite differences.
---@param fn fun(...: seqrun.Tensor): seqrun.Tensor a scalar function of the inputs
---@param inputs seqrun.Tensor[] real inputs with requires_grad are checked, all others only passed
---@param options? { eps?: number, tolerance?: number, samples?: integer } samples: elements tried of
---  each input, default 24; tolerance: |difference| over the largest gradient, default 1e-6; inputs that
---  are not f64 need an eps and a tolerance of their own
---@return true? ok
---@return string? message which input and element differ, with both numbers
local function gradcheck(fn, inputs, options)
  if type(fn) ~= "function" or type(inputs) ~= "table" then
    check.fail("gradcheck: expected a function and the list of its inputs, as in gradcheck(f, { x })")
  end
  options = options or {}
  local checked = false
  for _, x in ipairs(inputs) do checked = checked or x:requires_grad() end
  if not checked then
    check.fail("gradcheck: no input has requires_grad; make one with sr.randn({ 3, 4 }, { requires_grad = true })")
  end
  for _, x in ipairs(inputs) do
    if x:requires_grad() and x:dtype() ~= "f64" and not (options.eps and options.tolerance) then
      local given = "gradcheck: an input is " .. x:describe() .. ", too coarse for differences of 1e-5; "
      check.fail("%s", given .. 'make it on ref (sr.use("ref")), or give eps and tolerance')
    end
  end
  local eps, tolerance = options.eps or 1e-5, options.tolerance or 1e-6
  for _, x in ipairs(inputs) do
    if x:requires_grad() then x:zero_grad() end
  end
  fn(table.unpack(inputs)):backward()
  for k, x in ipairs(inputs) do
    if x:requires_grad() and x:numel() > 0 then
      local recorded = x:grad():reshape(x:numel()):totable()
      local largest = 1e-3
      for _, g in ipairs(recorded) do largest = math.max(largest, math.abs(g)) end
      local flat = x:detach():view(x:numel())
      for _, i in ipairs(spread(x:numel(), options.samples or 24)) do
        local wanted = difference(fn, inputs, flat, i, eps)
        local miss = math.abs(recorded[i] - wanted)
        if not (miss <= tolerance * largest) then
          local text = "gradcheck: input %d, element %d: backward gives %.9g, differences give %.9g"
          return nil, text:format(k, i, recorded[i], wanted)
        end
      end
    end
  end
  return true
end

return gradcheck
