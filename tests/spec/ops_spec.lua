-- Every op in opcases.lua: gradients of `ref` against finite differences, every device against `ref` in
-- each of its precisions.

local sr = require("seqrun")
require("tests.support.devices").late()
require("tests.support.devices").gpus()
local cases = require("tests.spec.opcases")
local within = require("tests.support.within")

local each_device = require("tests.support.devices").each(it)

-- ---- numbers: the same on every device, exact in f32 -----------------------------------------------

local abs, cos, floor, log, sqrt, TURN = math.abs, math.cos, math.floor, math.log, math.sqrt, 2 * math.pi
local POINT = 0x1.8p32 -- added and taken away, it leaves a multiple of 2^-20: exact in f32 below 16

---A generator of numbers that depends only on the name of the case; without a name, all are one row of them.
local function source(name)
  local state = 1
  for i = 1, #(name or "") do state = (state * 31 + name:byte(i)) % 2147483647 end
  local function unit()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  local function fill(shape, make, depth)
    local list, n = {}, shape[depth]
    if not n then return make() end
    if depth == #shape then
      for i = 1, n do list[i] = make() end
    else
      for i = 1, n do list[i] = (name or i == 1) and fill(shape, make, depth + 1) or list[1] end
    end
    return list
  end
  local r = {}
  function r.round(x) return (string.unpack("f", string.pack("f", x))) end
  function r.normal(shape, deviation)
    deviation = deviation or 1
    return fill(shape, function() return deviation * sqrt(-2 * log(unit())) * cos(TURN * unit()) + POINT - POINT end, 1)
  end
  function r.positive(shape) return fill(shape, function() return unit() + (0.5 + POINT) - POINT end, 1) end
  function r.integers(shape, below) return fill(shape, function() return floor(unit() * below) end, 1) end
  return r
end

local fixed = {}

---Fixed weights of the numbers of an output.
local function weights_of(k, count)
  local key = k .. " " .. count
  fixed[key] = fixed[key] or source("weights " .. k).positive { math.max(1, count) }
  return fixed[key]
end

---What stays f32 in every precision: weights of norms and of losses.
local ALWAYS_F32 = { gamma = true, beta = true, weights = true }

---A real input.  In bf16 `ref` gets the rounded numbers, too.
local function real(name, value, precision)
  if precision ~= "bf16" or ALWAYS_F32[name] then return sr.tensor(value) end
  local rounded = sr.tensor(value, { dtype = "bf16" })
  return sr.device() == "ref" and rounded:to("f64") or rounded
end

---The case whose tests run, with what they share; no other is kept, for the collector's sake.
local current = {}

local function shared(case)
  if current.case ~= case then current = { case = case, made = case.make(source(case.name)), truth = {} } end
  return current
end

local function numbers(case) return shared(case).made end

---Tensors of a case on the current device: by name, and in a fixed order with the names.
local function tensors(case, precision)
  local made = numbers(case)
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
    if empty then
      local dims = table.move(shape, 1, #shape, 1, {})
      dims[#dims + 1] = { dtype = dtype or (real(name, { 0 }, precision):dtype()) }
      named[name] = sr.zeros(table.unpack(dims))
    else
      named[name] = dtype and sr.tensor(value, { dtype = dtype }) or real(name, value, precision)
    end
    if not quiet then named[name]:requires_grad_() end
    order[#order + 1] = name
  end
  table.sort(order)
  return named, order
end

---A scalar of the outputs that no symmetry can hide a mistake from: sum of output_i x fixed weights.
local function scalar(outputs, flows, precision)
  local total
  for k, y in ipairs(outputs) do
    if k > (flows or #outputs) then break end
    if y:dtype() == "f32" or y:dtype() == "f64" or y:dtype() == "bf16" then
      if y:numel() > 0 then
        local w = real("w", weights_of(k, y:numel()), precision):reshape(table.unpack(y:shape()))
        local part = (y * w):sum()
        total = total and total + part or part
      end
    end
  end
  return total
end

---@return { outputs: any[][], gradients: table<string, number[]> }
local function run(case, precision)
  local named, order = tensors(case, precision)
  local outputs = case.run(sr, named)
  assert(#outputs > 0, "the case has no outputs")
  local result = { outputs = {}, gradients = {} }
  for k, y in ipairs(outputs) do result.outputs[k] = y:reshape(y:numel()):totable() end
  if case.difference == false then return result end
  local total = assert(scalar(outputs, case.flows, precision), "no output that a gradient can come from")
  total:backward()
  for _, name in ipairs(order) do
    local t = named[name]
    if t:requires_grad() then
      local g = assert(t:grad(), "no gradient of " .. name)
      assert(g:dtype() ~= "bf16", "gradients of leaves add up in f32")
      result.gradients[name] = g:reshape(t:numel()):totable()
    end
  end
  return result
end

---Largest error over largest magnitude.
local function distance(got, wanted)
  if #got ~= #wanted then return math.huge end
  local miss, most = 0, 0
  for i, w in ipairs(wanted) do
    if type(w) == "boolean" then
      if w ~= got[i] then return 1 end
    else
      local d = abs(got[i] - w)
      if d ~= d then return d end
      if d > miss then miss = d end
      if w > most or -w > most then most = abs(w) end
    end
  end
  return miss / math.max(most, 1e-3)
end

local on = require("tests.support.devices").on

---What the names of a case's tests need to know: whether it takes long (many numbers, or many products), and whether
---it has numbers that can be rounded.
local function outline(case)
  if case.outline then return case.outline end
  local count, reals = 0, false
  local function add(value)
    if type(value) ~= "table" then count = count + 1 return end
    for _, part in pairs(value) do
      if count <= 4000 then add(part) end
    end
  end
  for _, value in pairs(case.make(source())) do
    if not case.slow then add(value) end
    reals = reals or type(value) ~= "table" or not (value.i32 or value.bool)
  end
  case.outline = { large = case.slow or count > 4000, reals = reals }
  return case.outline
end

---Gradients of a case on `ref` against finite differences.
local function differentiate(case)
  local named, order = tensors(case)
  local list = {}
  for i, name in ipairs(order) do list[i] = named[name] end
  local function fn(...)
    local given = { ... }
    local by_name = {}
    for i, name in ipairs(order) do by_name[name] = given[i] end
    return scalar(case.run(sr, by_name), case.flows) or sr.zeros(1):sum()
  end
  local samples = outline(case).large and 2 or 6
  assert.is_true(sr.gradcheck(fn, list, { samples = samples, tolerance = case.difference or 1e-6 }))
end

---What `ref` gives, kept for the next device.
local function truth(case, precision)
  local results = shared(case).truth
  if not results[precision] then results[precision] = on("ref", function() return run(case, precision) end) end
  return results[precision]
end

---A case on a device against the same on `ref`.
local function compare(case, device, precision)
  local wanted = truth(case, precision)
  local got = on(device, function() return run(case, precision) end)
  local tolerance = case.tolerance or 2e-6
  if precision == "bf16" then tolerance = case.bf16 or 2 ^ -8 end
  assert.equal(#wanted.outputs, #got.outputs)
  for k, y in ipairs(wanted.outputs) do
    local d = distance(got.outputs[k], y)
    within.check(d, tolerance, "output " .. k)
  end
  for name, g in pairs(wanted.gradients) do
    local d = distance(got.gradients[name], g)
    within.check(d, tolerance * 4, "gradient of " .. name)
  end
end

---The late device runs the kernels of cpu: what is large shows nothing new there.
local function applies(case, device, precision)
  if device == "late" and outline(case).large then return false end
  return precision == "f32" or (case.bf16 ~= false and outline(case).reals)
end

---Tests that are run once only, not again with an eager collector, to which numbers are alike in every precision; and
---those of minutes: the kernels of simt for f32 are the plain ones, where a long sequence shows nothing new.
local function tag(case, device, precision)
  local plain = device == "simt" and precision == "f32"
  if plain and case.slow and case.name:find "^attention" then return " #slow #long" end
  return (case.slow or device == "simt" or precision == "bf16") and " #slow" or ""
end

---Each case by itself: the tests of a case share its numbers.
for _, case in ipairs(cases) do
  if case.difference ~= false then
    it("ref against finite differences: " .. case.name .. " #slow", function()
      on("ref", function() differentiate(case) end)
    end)
  end
  for _, device in ipairs(sr.devices()) do
    for _, precision in ipairs { "f32", "bf16" } do
      if device ~= "ref" and applies(case, device, precision) then
        local name = ("%s in %s against ref: %s"):format(device, precision, case.name)
        it(name .. tag(case, device, precision), function() compare(case, device, precision) end)
      end
    end
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

  each_device("counts a row as correct only if its label is the first of the largest logits, of all words", function()
    local words, labels = 700, { 0, 1, 699, 300, 300 }
    local x, word = sr.zeros(5, 8), sr.zeros(words, 8)
    local flat = sr.tensor(labels, { dtype = "i32" })
    local correct = select(3, sr.ops.mlm_loss(x, word, sr.zeros(words), flat, sr.ones(5)))
    assert.same({ 1, 0, 0, 0, 0 }, correct:totable())
    local bias = {}
    for i = 1, words do bias[i] = (i == 301 or i == 651) and 2 or 0 end
    correct = select(3, sr.ops.mlm_loss(x, word, sr.tensor(bias), flat, sr.ones(5)))
    assert.same({ 0, 0, 0, 1, 1 }, correct:totable())
  end)

  each_device("has a NaN in the rows whose logits have one, and in no others", function()
    local x = sr.tensor { { 1, 1 }, { 0 / 0, 1 }, { 1, 2 } }
    local word = sr.randn({ 500, 2 }, { seed = 3, uid = 1 })
    local labels = sr.tensor({ 1, 2, 3 }, { dtype = "i32" })
    local nll = select(2, sr.ops.mlm_loss(x, word, sr.zeros(500), labels, sr.ones(3))):totable()
    assert.is_true(nll[1] == nll[1] and nll[2] ~= nll[2] and nll[3] == nll[3])
  end)

  it("is that of the bias where rows have no elements, with more words than a block of the product", function()
    local label = sr.tensor({ 1, 2999 }, { dtype = "i32" })
    local loss = sr.ops.mlm_loss(sr.zeros(2, 0), sr.zeros(3000, 0), sr.ones(3000), label, sr.ones(2))
    assert.is_true(math.abs(loss:item() - 2 * math.log(3000)) < 1e-3)
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

  each_device("rejects indices without their table, and positions out of range", function()
    local layout = sr.layout { lens = { 2 } }
    local function i32(list) return sr.tensor(list, { dtype = "i32" }) end
    local function embed(types, tables, options)
      tables.word = sr.zeros(4, 8)
      return sr.ops.embed(i32 { 0, 1 }, types, tables, layout, options)
    end
    refuses("types are given, but the type table is missing", function() embed(i32 { 0, 0 }, {}) end)
    refuses("positions are given, but the position table is missing", function()
      embed(nil, {}, { positions = i32 { 0, 0 } })
    end)
    refuses("embed: position.* 3.*table has", function()
      embed(nil, { position = sr.zeros(3, 8) }, { positions = i32 { 2, 3 } })
    end)
    refuses("embed: beta without gamma", function() embed(nil, { beta = sr.zeros(8) }) end)
    refuses("embed: an RMS norm has no beta", function()
      embed(nil, { gamma = sr.ones(8), beta = sr.zeros(8) }, { kind = "rms" })
    end)
    refuses("embed: kind.*batch", function() embed(nil, { gamma = sr.ones(8) }, { kind = "batch" }) end)
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

describe("topk", function()
  local values = { math.huge, -math.huge, 0 / 0, -2, -1, 0, 1, 2 }
  local function draw(kind)
    local rows = {}
    for r = 1, 6 do
      rows[r] = {}
      for i = 1, 60 do
        local value = values[(r * r + 7 * i * i + 3 * i) % (kind == "f32" and 8 or 5) + (kind == "f32" and 1 or 4)]
        rows[r][i] = r == 2 and -2 or value
      end
    end
    return sr.tensor(rows):to(kind)
  end

  for _, kind in ipairs { "f32", "bf16", "i32", "bool" } do
    it(("of few %s is the beginning of what sort gives, ties, infinities and NaN too"):format(kind), function()
      local x = draw(kind == "bf16" and "f32" or kind):to(kind)
      for _, dim in ipairs { 1, 2 } do
        for _, smallest in ipairs { false, true } do
          local _, order = x:sort(dim, not smallest)
          for k = 1, 6 do
            local found, places = x:topk(k, dim, smallest)
            assert.same(order:narrow(dim, 1, k):totable(), places:totable())
            assert.equal(kind, found:dtype())
          end
        end
      end
    end)
  end
end)

each_device("sample is keyed by all 32 bits of a sequence and of an epoch", function()
  local logits, seen, high = sr.zeros(1, 100000), {}, 1 << 31
  for _, key in ipairs { { high, 0 }, { high + 1, 0 }, { 2 * high - 1, 0 }, { 3, high }, { 3, 2 * high - 1 } } do
    local layout = sr.layout { lens = { 1 }, uids = { key[1] }, epochs = { key[2] }, seed = 4 }
    local id = sr.ops.sample(logits, { 0 }, layout):totable()[1]
    assert.is_nil(seen[id])
    seen[id] = true
  end
end)
