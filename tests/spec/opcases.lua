-- opcases - every op, as data.
--
-- ops_spec.lua compares, for every case: forward of every device with `ref`, gradients of `ref` with
-- finite differences, and gradients of every device with `ref`, in f32 and in bf16.  A new backend needs
-- no new tests.
--
-- A case:
--   name
--   make(r)     -> named inputs: nested tables; wrap integers as { i32 = ... } and masks as { bool = ... };
--                  a name with a leading "*" has no gradient.  r is a source of numbers, see below
--   run(sr, t)  -> list of outputs, from tensors of those names
--   tolerance   forward and backward, f32 against f64: largest error over largest magnitude.
--               Default 2e-6: a handful of roundings of 6e-8 each, grown by sums of tens of terms
--   bf16        the same in bf16, on inputs that are rounded before `ref` sees them; default 2^-8: a
--               rounding of 2^-9 at the output, and one at what the op takes in or saves; gradients four
--               times that
--   flows       how many of the outputs, from the first, gradients come from; default all
--   difference  finite differences: tolerance, or false when the op is not differentiable
local case = require("tests.spec.opcases_list")

-- ---- small ops -------------------------------------------------------------------------------

local POSITIVE = { sqrt = true, rsqrt = true, log = true, reciprocal = true }
local STEPS = { sign = true, floor = true, logical_not = true } -- have cases of their own
for _, name in ipairs(require("seqrun.core.ops").unary) do
  local draw = POSITIVE[name] and "positive" or "normal"
  if not STEPS[name] then
    case(name, function(r) return { x = r[draw] { 3, 70 } } end, function(_, t) return { t.x[name](t.x) } end,
      { tolerance = 4e-6 })
    case(name .. " of a transposed view", function(r) return { x = r[draw] { 5, 7 } } end,
      function(_, t) return { t.x:t()[name](t.x:t()) } end, { tolerance = 4e-6 })
  end
end
case("negation", function(r) return { x = r.normal { 9 } } end, function(_, t) return { -t.x } end)
case("sign", function(r) return { x = r.normal { 9 } } end, function(_, t) return { t.x:sign() } end,
  { difference = false })

case("floor", function() return { x = { -2.5, -0.25, 0.25, 7.75 }, ["*whole"] = { -2, -0.0, 3, 16777215 } } end,
  function(_, t) return { t.x:floor(), t.whole:floor() } end)
case("NaN and the infinities",
  function() return { ["*x"] = { 0 / 0, 1 / 0, -1 / 0, 0, -0.0 }, ["*y"] = { 1, 0 / 0, 1, -1, 2 } } end,
  function(_, t)
    local list, places = { t.x:minimum(t.y), t.x:maximum(t.y), t.x:max(), t.x:min() }, {}
    for _, name in ipairs { "sign", "abs", "relu", "tanh", "sigmoid", "erf", "exp", "floor", "sqrt", "square" } do
      list[#list + 1] = t.x[name](t.x)
    end
    for _, y in ipairs(list) do
      places[#places + 1] = y:ne(y) -- where y is NaN
      places[#places + 1], places[#places + 2] = y:eq(1 / 0), y:eq(-1 / 0)
    end
    places[#places + 1], places[#places + 2] = t.x:argmax(), t.x:argmin()
    return places
  end, { difference = false })

local BINARY = {
  ["+"] = function(a, b) return a + b end,
  ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end,
  ["/"] = function(a, b) return a / b end,
}
local SHAPES = {
  { "same shapes", { 4, 33 }, { 4, 33 } },
  { "a row", { 4, 33 }, { 33 } },
  { "a column", { 4, 33 }, { 4, 1 } },
  { "both broadcast", { 4, 1, 5 }, { 3, 1 } },
  { "a scalar", { 4, 3 }, {} },
}
for symbol, fn in pairs(BINARY) do
  for _, shape in ipairs(SHAPES) do
    case(("a %s b, %s"):format(symbol, shape[1]),
      function(r) return { a = r.normal(shape[2]), b = r.positive(shape[3]) } end,
      function(_, t) return { fn(t.a, t.b) } end)
  end
  case(("number %s tensor"):format(symbol), function(r) return { a = r.positive { 6 } } end,
    function(_, t) return { fn(2.5, t.a), fn(t.a, 2.5) } end)
end
case("a tensor used twice", function(r) return { a = r.normal { 6 } } end,
  function(_, t) return { t.a * t.a + t.a } end)
case("power", function(r) return { a = r.positive { 6, 5 } } end, function(_, t) return { t.a ^ 3, t.a ^ 0.5 } end,
  { tolerance = 5e-6 })
case("comparisons", function() return { ["*a"] = { 1, 2, 3, 4 }, ["*b"] = { 4, 2, 1, 4 } } end,
  function(_, t) return { t.a:eq(t.b), t.a:ne(t.b), t.a:lt(t.b), t.a:le(t.b), t.a:gt(t.b), t.a:ge(t.b) } end,
  { difference = false })
case("where", function(r)
  return { ["*c"] = { bool = { { 1, 0, 1 }, { 0, 0, 1 } } }, a = r.normal { 2, 3 }, b = r.normal { 2, 3 } }
end, function(sr, t) return { sr.where(t.c, t.a, t.b) } end)
case("where, broadcast, and with a number",
  function(r) return { ["*c"] = { bool = { 1, 0, 1 } }, a = r.normal { 2, 1 }, b = r.normal { 3 } } end,
  function(sr, t) return { sr.where(t.c, t.a, t.b), sr.where(t.c, t.a, 0), sr.where(t.c, -1, t.b) } end)
case("minimum and maximum", function(r) return { a = r.normal { 4, 9 }, b = r.normal { 9 } } end,
  function(_, t) return { t.a:minimum(t.b), t.a:maximum(t.b), t.a:maximum(0.1) } end)
case("power of two tensors", function(r) return { a = r.positive { 4, 5 }, b = r.normal { 5 } } end,
  function(_, t) return { t.a ^ t.b, 2 ^ t.b } end, { tolerance = 5e-6 })
case("logic", function() return { ["*a"] = { bool = { 1, 1, 0, 0 } }, ["*b"] = { bool = { 1, 0, 1, 0 } } } end,
  function(_, t) return { t.a:logical_and(t.b), t.a:logical_or(t.b), t.a:logical_not() } end,
  { difference = false })
case("whole numbers", function() return { ["*a"] = { i32 = { 7, -3, 0 } }, ["*b"] = { i32 = { 2, 5, -1 } } } end,
  function(_, t)
    return { t.a + t.b, t.a - t.b, t.a * t.b, -t.a, t.a:abs(), t.a:maximum(t.b), t.a:sum(), t.a:max() }
  end, { difference = false })
case("whole numbers that wrap", function() return { ["*a"] = { i32 = { 2147483647, -2147483648, 123456789 } } } end,
  function(_, t)
    return { t.a + 1, t.a - 5, t.a * t.a, t.a * -3, -t.a, t.a:abs(), t.a:square(), t.a:sum(), (t.a + t.a:abs()):sum() }
  end, { difference = false })
case("dtypes", function(r)
  return { x = r.normal { 3, 5 }, ["*i"] = { i32 = { 3, -1, 0 } }, ["*b"] = { bool = { 1, 0 } } }
end, function(_, t)
  local list = { t.x:to("bf16"):to("i32"), t.x:to("i32"):to("bool"), t.i:to("bf16"), t.b:to("i32") }
  list[5], list[6], list[7] = t.i / 2, t.b + t.b, t.x * 1
  return list
end)
case("writes in place", function(r) return { ["*a"] = r.normal { 4, 6 }, ["*b"] = r.positive { 6 } } end,
  function(_, t)
    local list = {}
    for i, name in ipairs { "add_", "sub_", "mul_", "div_", "copy_" } do
      local a = t.a:clone()
      list[i] = a[name](a, t.b)
    end
    list[6] = t.a:t():clone():add_(2):mul_(0.5)
    list[7] = t.a:clone()
    list[7]:narrow(2, 2, 3):fill_(3):sub_(t.b:narrow(1, 1, 3))
    list[7]:t():select(1, 6):zero_()
    return list
  end, { difference = false })
case("softmax along the first dimension", function(r) return { x = r.normal { 5, 3 } } end,
  function(_, t) return { t.x:softmax(1), t.x:log_softmax(1) } end, { tolerance = 5e-6 })
for _, name in ipairs { "sum", "mean" } do
  case(name, function(r) return { x = r.normal { 3, 4, 70 } } end,
    function(_, t) return { t.x[name](t.x), t.x[name](t.x, 1), t.x[name](t.x, -1), t.x[name](t.x, 2, true) } end,
    { tolerance = 4e-6 })
end
for _, name in ipairs { "max", "min" } do
  case(name, function(r) return { x = r.normal { 5, 37 } } end,
    function(_, t) return { (t.x[name](t.x)), (t.x[name](t.x, 2)) } end)
end
case("argmax and argmin", function(r) return { ["*x"] = r.normal { 5, 37 } } end,
  function(_, t) return { t.x:argmax(-1), t.x:argmin(1) } end, { difference = false })
case("sort and topk",
  function(r) return { x = r.normal { 3, 5, 37 }, ["*whole"] = { i32 = { 3, -1, 3, 0, -2147483648, 7 } } } end,
  function(_, t)
    local down, up, places = t.x:topk(7), t.x:sort(2), select(2, t.x:topk(3, 1, true))
    return { down, up, places, t.x:argsort(-1, true), t.whole:argsort(), t.whole:argsort(1, true), (t.whole:sort()) }
  end, { flows = 2 })
case("cumsum", function(r) return { x = r.normal { 4, 21, 3 } } end,
  function(_, t) return { t.x:cumsum(2), t.x:cumsum(), t.x:cumsum(1) } end, { tolerance = 5e-6 })
case("var and std", function(r) return { x = r.normal { 5, 37 } } end,
  function(_, t) return { t.x:var(), t.x:var(1, true), t.x:std(2), t.x:std(-1, false, 0) } end,
  { tolerance = 5e-6 })
case("one_hot", function() return { ["*labels"] = { i32 = { 0, 2, 3, 0, 1 } } } end,
  function(_, t) return { t.labels:one_hot(4) } end, { difference = false })
for _, shape in ipairs { { 1, 1, 1 }, { 3, 4, 5 }, { 17, 33, 65 }, { 64, 64, 64 }, { 1, 130, 7 }, { 130, 7, 1 } } do
  local m, k, n = table.unpack(shape)
  case(("matmul %dx%dx%d"):format(m, k, n), function(r) return { a = r.normal { m, k }, b = r.normal { k, n } } end,
    function(_, t) return { t.a:matmul(t.b) } end, { tolerance = 5e-6 })
  case(("matmul of transposed views %dx%dx%d"):format(m, k, n),
    function(r) return { a = r.normal { k, m }, b = r.normal { n, k } } end,
    function(_, t) return { t.a:t():matmul(t.b:t()) } end, { tolerance = 5e-6 })
end
case("batched matmul with broadcasting",
  function(r) return { a = r.normal { 2, 3, 4, 5 }, b = r.normal { 3, 5, 6 } } end,
  function(_, t) return { t.a:matmul(t.b) } end, { tolerance = 4e-6 })
for _, name in ipairs { "softmax", "log_softmax" } do
  case(name, function(r) return { x = r.normal { 4, 67 } } end, function(_, t) return { t.x[name](t.x, -1) } end,
    { tolerance = 5e-6 })
  case(name .. " of large and equal scores",
    function() return { x = { { 500, 0, -500 }, { 3, 3, 3 }, { -1e4, -1e4, -1e4 } } } end,
    function(_, t) return { t.x[name](t.x, -1) } end, {
      tolerance = 1e-5, -- of the largest score: its rounding error, times a sum of three
    })
end
case("reshape, transpose, permute, narrow, select, expand", function(r) return { x = r.normal { 4, 6 } } end,
  function(_, t)
    return {
      t.x:reshape(2, 12), t.x:transpose(1, 2):reshape(3, 8), t.x:reshape(2, 2, 6):permute(3, 1, 2):contiguous(),
      t.x:narrow(2, 2, 3) * 2, t.x:select(1, 3) * 2, t.x:narrow(1, 1, 1):expand(5, 6) * 2,
    }
  end)
case("squeeze, unsqueeze, t, view, clone, contiguous, index", function(r) return { x = r.normal { 4, 1, 6 } } end,
  function(_, t)
    local x = t.x:squeeze(2)
    return {
      x * 2, x:unsqueeze(1) * 2, x:t():contiguous(), x:view(2, 12) * 2, x:clone(), x[2] * 2, t.x[-1]:squeeze() * 2,
      x:index(x:narrow(2, 1, 1):reshape(4):lt(1e9):to("i32")),
    }
  end)
case("cat and stack", function(r) return { a = r.normal { 2, 3 }, b = r.normal { 2, 3 } } end,
  function(sr, t) return { sr.cat({ t.a, t.b }, 1), sr.cat({ t.a, t.b }, 2), sr.stack { t.a, t.b } } end)
case("gather_rows of three dimensions, and of none",
  function(r) return { x = r.normal { 4, 3, 5 }, ["*rows"] = { i32 = { 3, 3, 0 } } } end, function(sr, t)
    return { sr.ops.gather_rows(t.x, t.rows), sr.ops.gather_rows(t.x, sr.zeros(0, { dtype = "i32" })) }
  end)
case("gather_rows with repeated rows",
  function(r) return { x = r.normal { 6, 19 }, ["*rows"] = { i32 = { 5, 0, 5, 2 } } } end,
  function(sr, t) return { sr.ops.gather_rows(t.x, t.rows) } end)

case("put_rows",
  function(r) return { x = r.normal { 6, 19 }, y = r.normal { 3, 19 }, ["*rows"] = { i32 = { 5, 0, 2 } } } end,
  function(sr, t) return { sr.ops.put_rows(t.x, t.rows, t.y) } end)
case("put_rows of three dimensions, strided, all rows and none", function(r)
  return { x = r.normal { 4, 5, 3 }, y = r.normal { 5, 3, 4 }, ["*rows"] = { i32 = { 3, 1, 2, 0 } } }
end, function(sr, t)
  local none = t.y:narrow(3, 1, 4):transpose(1, 3):transpose(2, 3):narrow(1, 1, 0)
  return {
    sr.ops.put_rows(t.x, t.rows, t.y:transpose(1, 3):transpose(2, 3)),
    sr.ops.put_rows(t.x, sr.zeros(0, { dtype = "i32" }), none),
  }
end)
case("on_rows, with slack",
  function(r) return { x = r.normal { 6, 19 }, w = r.normal { 5, 19 }, ["*rows"] = { i32 = { 5, 0, 2 } } } end,
  function(sr, t)
    local function times(taken) return taken * t.w end
    return { sr.ops.on_rows(t.x, t.rows, times, { count = 5 }) }
  end)
case("on_rows in place, twice, and of no rows", function(r)
  return {
    x = r.normal { 4, 2, 3 }, w = r.normal { 3, 2, 3 }, ["*rows"] = { i32 = { 3, 1, 2 } }, ["*few"] = { i32 = { 1 } },
  }
end, function(sr, t)
  local none, in_place = sr.zeros(0, { dtype = "i32" }), { in_place = true }
  local y = sr.ops.on_rows(t.x * 2, t.rows, function(taken) return taken * t.w end, in_place)
  y = sr.ops.on_rows(y, t.few, function(taken) return taken:square() end, in_place)
  return { y, sr.ops.on_rows(t.x, none, function(taken) return taken end) }
end)

-- ---- linear ----------------------------------------------------------------------------------

for _, shape in ipairs { { 1, 1, 1 }, { 5, 3, 7 }, { 130, 48, 65 }, { 200, 128, 96 } } do
  local rows, inputs, outputs = table.unpack(shape)
  for _, act in ipairs { "none", table.unpack(require("seqrun.core.ops").activations) } do
    case(("linear %dx%dx%d %s"):format(rows, inputs, outputs, act), function(r)
      local w = r.normal({ outputs, inputs }, inputs ^ -0.5)
      return { x = r.normal { rows, inputs }, w = w, b = r.normal { outputs } }
    end, function(sr, t) return { sr.ops.linear(t.x, t.w, t.b, { act = act }) } end, {
      tolerance = 5e-6,
      -- a single derivative of a GELU may lie near its zero; SiLU has slopes of up to 1.1, which add two roundings up
      bf16 = rows == 1 and 2 ^ -6 or act == "silu" and 2 ^ -7 or nil,
    })
  end
end
case("linear without bias", function(r) return { x = r.normal { 5, 8 }, w = r.normal { 3, 8 } } end,
  function(sr, t) return { sr.ops.linear(t.x, t.w, nil) } end)

-- ---- gated activations -------------------------------------------------------------------------

for _, act in ipairs(require("seqrun.core.ops").activations) do
  for _, gate in ipairs { "first", "second" } do
    for _, shape in ipairs { { 3, 5 }, { 34, 48 } } do
      case(("gated %s, %dx%d, gate %s"):format(act, shape[1], shape[2], gate),
        function(r) return { x = r.normal { shape[1], 2 * shape[2] } } end,
        function(sr, t) return { sr.ops.gated(t.x, { act = act, gate = gate }) } end, { tolerance = 5e-6 })
    end
  end
end

-- ---- ops on a layout -------------------------------------------------------------------------

require("tests.spec.opcases_layout")
require("tests.spec.opcases_group")

-- ---- losses ----------------------------------------------------------------------------------

for _, shape in ipairs { { 1, 5, 8 }, { 7, 33, 16 }, { 40, 600, 32 }, { 0, 9, 8 } } do
  local rows, vocabulary, hidden = table.unpack(shape)
  case(("mlm_loss of %d rows, %d words"):format(rows, vocabulary), function(r)
    return {
      x = r.normal { rows, hidden }, word = r.normal { vocabulary, hidden }, bias = r.normal { vocabulary },
      ["*labels"] = { i32 = r.integers({ rows }, vocabulary) }, ["*weights"] = r.positive { rows },
    }
  end, function(sr, t)
    local total, nll, correct = sr.ops.mlm_loss(t.x, t.word, t.bias, t.labels, t.weights)
    return { total, nll, correct }
  end, { flows = 1, shapes = { x = { rows, hidden }, labels = { rows }, weights = { rows } }, tolerance = 5e-6 })
  case(("mlm_loss without bias, of %d rows, %d words"):format(rows, vocabulary), function(r)
    return {
      x = r.normal { rows, hidden }, word = r.normal { vocabulary, hidden },
      ["*labels"] = { i32 = r.integers({ rows }, vocabulary) }, ["*weights"] = r.positive { rows },
    }
  end, function(sr, t) return { (sr.ops.mlm_loss(t.x, t.word, nil, t.labels, t.weights)) } end,
    { flows = 1, shapes = { x = { rows, hidden }, labels = { rows }, weights = { rows } }, tolerance = 5e-6 })
  case(("cross_entropy of %d rows, %d classes"):format(rows, vocabulary), function(r)
    return {
      logits = r.normal { rows, vocabulary },
      ["*labels"] = { i32 = r.integers({ rows }, vocabulary) }, ["*weights"] = r.positive { rows },
    }
  end, function(sr, t)
    local total, nll, correct = sr.ops.cross_entropy(t.logits, t.labels, t.weights)
    return { total, nll, correct }
  end,
    { flows = 1, shapes = { logits = { rows, vocabulary }, labels = { rows }, weights = { rows } }, tolerance = 5e-6 })
end
for _, shape in ipairs { { 1, 3 }, { 40, 7 }, { 9, 1000 }, { 0, 4 } } do
  local rows, classes = table.unpack(shape)
  case(("sample of %d rows, %d classes"):format(rows, classes),
    function(r) return { ["*logits"] = r.normal { rows, classes } } end, function(sr, t)
      local layout, list = sr.layout { lens = { 5, 60 }, uids = { 9, 3 }, rows = 128, seed = 4 }, {}
      for m = 1, rows do list[m] = m end
      return { sr.ops.sample(t.logits, list, layout) }
    end, { shapes = { logits = { rows, classes } }, difference = false })
end
case("mse_loss",
  function(r) return { x = r.normal { 5 }, ["*target"] = r.normal { 5 }, ["*weights"] = r.positive { 5 } } end,
  function(sr, t) return { (sr.ops.mse_loss(t.x, t.target, t.weights)) } end)
case("cross_entropy with a weight of zero, large scores and ties", function()
  return {
    logits = { { 300, -300, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 1, 2, 2 } },
    ["*labels"] = { i32 = { 1, 2, 0, 1 } }, ["*weights"] = { 0, 1, 0.5, 2 },
  }
end, function(sr, t)
  local total, nll, correct = sr.ops.cross_entropy(t.logits, t.labels, t.weights)
  return { total, nll, correct }
end, { flows = 1 })

return case
