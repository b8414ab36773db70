-- Small ops on views of many shapes and strides: every device agrees with ref.
--
-- Shapes, orders of dimensions, slices and values are drawn with fixed seeds; integers, so that maxima
-- are often tied.

local sr = require("seqrun")

local ROUNDS = 60
local UNARY = { "exp", "abs", "square", "tanh", "sigmoid", "relu", "gelu", "gelu_tanh", "erf", "sign", "sin", "cos" }

---A separate generator: a spec must not change the state of math.random.
local function generator(seed)
  local state = seed * 2654435761 + 1
  return function(low, high)
    state = state * 6364136223846793005 + 1442695040888963407
    local unit = (state >> 11) / (1 << 53)
    if not low then return unit end
    return low + math.floor(unit * (high - low + 1))
  end
end

---The inputs of one round, the same on every device.
local function draw(random)
  local dims = random(1, 4)
  local round = { shape = {}, dtype = random() < 0.25 and "i32" or "f32", dim = random(1, dims), order = {} }
  local count = 1
  for i = 1, dims do
    round.shape[i] = random(1, random() < 0.1 and 600 // dims ^ 2 or 9)
    round.order[i], count = i, count * round.shape[i]
  end
  for i = dims, 2, -1 do
    local j = random(1, i)
    round.order[i], round.order[j] = round.order[j], round.order[i]
  end
  round.cut, round.cut_at, round.unary = random(1, dims), random() * 0.5, UNARY[random(1, #UNARY)]
  for _, name in ipairs { "a", "b" } do
    round[name] = {}
    for i = 1, count do
      round[name][i] = round.dtype == "i32" and random(-5, 5) or string.unpack("f", string.pack("f", random() * 4 - 2))
    end
  end
  return round
end

local function view(round, name)
  local t = sr.tensor(round[name], round.dtype == "i32" and { dtype = "i32" } or nil):reshape(table.unpack(round.shape))
  t = t:permute(table.unpack(round.order))
  local skipped = math.floor(t:size(round.cut) * round.cut_at)
  return t:narrow(round.cut, 1 + skipped, t:size(round.cut) - skipped)
end

local function results(round)
  local a, b, dim = view(round, "a"), view(round, "b"), round.dim
  local r = {
    add = a + b, subtract = a - b, multiply = a * b, scaled = a * 3, less = a:lt(b), equal = a:eq(b),
    sum = a:sum(dim), total = a:sum(), max = a:max(dim), argmax = a:argmax(dim), min = a:min(),
    spread = a + a:select(1, 1), joined = sr.cat({ a, b }, dim), chosen = sr.where(a:lt(b), a, b),
    converted = a:to(round.dtype == "f32" and "i32" or sr.zeros(1):dtype()), truth = a:to("bool"),
  }
  if round.dtype == "f32" then
    r[round.unary], r.divide, r.mean = a[round.unary](a), a / (b + 5), a:mean(dim)
    r.softmax, r.log_softmax = a:softmax(dim), a:log_softmax(dim)
    if a:dim() > 1 then r.matmul = a:matmul(b:transpose(-1, -2)) end
    local c = a:clone()
    c:mul_(2)
    c:add_(b)
    r.in_place = c
  end
  local lists = {}
  for name, t in pairs(r) do lists[name] = t:contiguous():reshape(t:numel()):totable() end
  return lists
end

local function number(x)
  return x == true and 1 or x == false and 0 or x
end

local function assert_near(name, got, wanted, seed)
  assert.equal(#wanted, #got, name)
  for i = 1, #wanted do
    local x, y = number(got[i]), number(wanted[i])
    local near = x == y or math.abs(x - y) <= 2e-5 * math.max(1, math.abs(y))
    if not near then error(("%s[%d] of round %d: %s, but ref gives %s"):format(name, i, seed, x, y)) end
  end
end

describe("small ops on views", function()
  local before = sr.device()
  after_each(function() sr.use(before) end)

  for _, device in ipairs(sr.devices()) do
    if device ~= "ref" then
      it(("of any strides agree on %s with ref"):format(device), function()
        for seed = 1, ROUNDS do
          local scope <close> = sr.scope()
          local round = draw(generator(seed))
          sr.use(device)
          local got = results(round)
          sr.use("ref")
          for name, wanted in pairs(results(round)) do assert_near(name, got[name], wanted, seed) end
        end
      end)
    end
  end
end)
