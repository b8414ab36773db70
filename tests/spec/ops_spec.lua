-- Every op in opcases.lua: gradients of `ref` against finite differences, every device against `ref`.

local sr = require("seqrun")
require("tests.support.devices").late()
local cases = require("tests.spec.opcases")

local each_device = require("tests.support.devices").each(it)

-- ---- numbers: the same on every device, exact in f32 -----------------------------------------------

---A generator of numbers that depends only on the name of the case.
local function source(name)
  local state = 1
  for i = 1, #name do state = (state * 31 + name:byte(i)) % 2147483647 end
  local function unit()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  local r = {}
  function r.round(x) return (string.unpack("f", string.pack("f", x))) end
  local function fill(shape, make, depth)
    depth = depth or 1
    if depth > #shape then return make() end
    local list = {}
    for i = 1, shape[depth] do list[i] = fill(shape, make, depth + 1) end
    return list
  end
  function r.normal(shape, deviation)
    return fill(shape, function()
      return r.round((deviation or 1) * math.sqrt(-2 * math.log(unit())) * math.cos(2 * math.pi * unit()))
    end)
  end
  function r.positive(shape) return fill(shape, function() return r.round(0.5 + unit()) end) end
  function r.integers(shape, below) return fill(shape, function() return math.floor(unit() * below) end) end
  return r
end

---Tensors of a case on the current device: by name, and in a fixed order with the names.
local function tensors(case)
  local made = case.make(source(case.name))
  local named, order = {}, {}
  for key, value in pairs(made) do
    local quiet = key:sub(1, 1) == "*"
    local name = quiet and key:sub(2) or key
    local dtype
    if type(value) == "table" then
      if value.i32 then dtype, value = "i32", value.i32 end
      if type(value) == "table" and value.bool then dtype, value = "bool", value.bool end
    end
    local shape = case.shapes and case.shapes[name]
    local empty = shape and shape[1] == 0
    local options = { dtype = dtype, requires_grad = not quiet }
    if empty then
      local dims = table.move(shape, 1, #shape, 1, {})
      dims[#dims + 1] = options
      named[name] = sr.zeros(table.unpack(dims))
    else
      named[name] = sr.tensor(value, options)
    end
    order[#order + 1] = name
  end
  table.sort(order)
  return named, order
end

---A scalar of the outputs that no symmetry can hide a mistake from: sum of output_i x fixed weights.
local function scalar(outputs, flows)
  local total
  for k, y in ipairs(outputs) do
    if k > (flows or #outputs) then break end
    if y:dtype() == "f32" or y:dtype() == "f64" then
      local weights = source("weights " .. k).positive { math.max(1, y:numel()) }
      if y:numel() > 0 then
        local w = sr.tensor(weights):reshape(table.unpack(y:shape()))
        local part = (y * w):sum()
        total = total and total + part or part
      end
    end
  end
  return total
end

local function run(case)
  local named, order = tensors(case)
  local outputs = case.run(sr, named)
  local result = { outputs = {}, gradients = {} }
  for k, y in ipairs(outputs) do result.outputs[k] = y:reshape(y:numel()):totable() end
  local total = scalar(outputs, case.flows)
  if total and case.difference ~= false then
    total:backward()
    for _, name in ipairs(order) do
      local t = named[name]
      if t:requires_grad() and t:grad() then result.gradients[name] = t:grad():reshape(t:numel()):totable() end
    end
  end
  return result
end

---Largest error over largest magnitude.
local function distance(got, wanted)
  local miss, most = 0, 0
  for i, w in ipairs(wanted) do
    if type(w) == "boolean" then
      if w ~= got[i] then return 1 end
    else
      local d = math.abs(got[i] - w)
      if d ~= d then return d end
      miss, most = math.max(miss, d), math.max(most, math.abs(w))
    end
  end
  return miss / math.max(most, 1e-3)
end

local function on(device, fn)
  local before = sr.device()
  sr.use(device)
  local scope <close> = sr.scope()
  local ok, result = pcall(fn)
  sr.use(before)
  if not ok then error(result, 0) end
  return result
end

describe("ref against finite differences:", function()
  for _, case in ipairs(cases) do
    if case.difference ~= false then
      it(case.name .. (case.slow and " #slow" or ""), function()
        on("ref", function()
          local named, order = tensors(case)
          local list = {}
          for i, name in ipairs(order) do list[i] = named[name] end
          local function fn(...)
            local given = { ... }
            local by_name = {}
            for i, name in ipairs(order) do by_name[name] = given[i] end
            return scalar(case.run(sr, by_name), case.flows) or sr.zeros(1):sum()
          end
          local samples = case.slow and 2 or 6
          assert.is_true(sr.gradcheck(fn, list, { samples = samples, tolerance = case.difference or 1e-6 }))
        end)
      end)
    end
  end
end)

for _, device in ipairs(sr.devices()) do
  if device ~= "ref" then
    describe(device .. " against ref:", function()
      for _, case in ipairs(cases) do
        it(case.name .. (case.slow and " #slow" or ""), function()
          local wanted = on("ref", function() return run(case) end)
          local got = on(device, function() return run(case) end)
          local tolerance = case.tolerance or 2e-6
          for k, y in ipairs(wanted.outputs) do
            local d = distance(got.outputs[k], y)
            assert.is_true(d <= tolerance, ("output %d: %.3e"):format(k, d))
          end
          for name, g in pairs(wanted.gradients) do
            assert.is_truthy(got.gradients[name], "no gradient of " .. name)
            local d = distance(got.gradients[name], g)
            assert.is_true(d <= tolerance * 4, ("gradient of %s: %.3e"):format(name, d))
          end
        end)
      end
    end)
  end
end

describe("the decoder's loss", function()
  each_device("is the same without a gradient, when only a few rows of logits are in memory at a time", function()
    local rows, words = 300, 40
    local labels, weights = {}, {}
    for m = 1, rows do labels[m], weights[m] = m * 7 % words, 1 / m end
    local x, word = sr.randn({ rows, 8 }, { seed = 1, uid = 1 }), sr.randn({ words, 8 }, { seed = 1, uid = 2 })
    local bias, label = sr.randn({ words }, { seed = 1, uid = 3 }), sr.tensor(labels, { dtype = "i32" })
    local rest = { bias, label, sr.tensor(weights) }
    local kept = { sr.ops.mlm_loss(x:clone():requires_grad_(), word, table.unpack(rest)) }
    local plain = { sr.ops.mlm_loss(x, word, table.unpack(rest)) }
    for k = 1, 3 do assert.equal(kept[k]:detach():tostring_bytes(), plain[k]:tostring_bytes()) end
  end)
end)

---fn, or the wait after it, raises a message that the pattern matches.
local function refuses(pattern, fn)
  assert.error_matches(function()
    fn()
    sr.synchronize()
  end, pattern)
end

describe("embed", function()
  each_device("rejects a sequence longer than the position table, and ids out of range", function()
    local tables = {
      word = sr.zeros(4, 8), position = sr.zeros(3, 8), type = sr.zeros(2, 8), gamma = sr.ones(8), beta = sr.zeros(8),
    }
    local function embed(lens, ids, types)
      ids, types = sr.tensor(ids, { dtype = "i32" }), sr.tensor(types, { dtype = "i32" })
      return sr.ops.embed(ids, types, tables, sr.layout { lens = lens }, { eps = 1e-12 })
    end
    embed({ 3, 1 }, { 0, 1, 2, 3 }, { 0, 1, 1, 0 })
    refuses("position table has 3 rows", function() embed({ 4 }, { 0, 1, 2, 3 }, { 0, 0, 0, 0 }) end)
    refuses("embed: id.* 4.*table has", function() embed({ 2 }, { 0, 4 }, { 0, 0 }) end)
    refuses("embed: type.* 2.*table has", function() embed({ 2 }, { 0, 1 }, { 0, 2 }) end)
  end)

  each_device("and the losses reject labels out of range", function()
    local labels = { sr.tensor({ 2, 3 }, { dtype = "i32" }), sr.tensor({ -1, 0 }, { dtype = "i32" }) }
    for _, label in ipairs(labels) do
      local weights = sr.ones(2)
      refuses("cross_entropy: label", function() sr.ops.cross_entropy(sr.zeros(2, 3), label, weights) end)
      refuses("mlm_loss: label", function()
        sr.ops.mlm_loss(sr.zeros(2, 8), sr.zeros(3, 8), sr.zeros(3), label, weights)
      end)
    end
  end)
end)
