-- Examples of tensors and layouts; tests/spec/help_spec.lua runs them.

local examples = {
  ["sr.tensor"] = "sr.tensor({ { 1, 2 }, { 3, 4 } })",
  ["sr.zeros"] = "sr.zeros(2, 3)",
  ["sr.ones"] = 'sr.ones(2, 3, { dtype = "i32" })',
  ["sr.empty"] = "sr.empty(2, 3):fill_(7)",
  ["sr.full"] = "sr.full({ 2, 3 }, 0.5)",
  ["sr.arange"] = "sr.arange(0, 9, 3)",
  ["sr.rand"] = "sr.rand(2, 3)",
  ["sr.randn"] = "sr.randn(2, 3, { seed = 1 })",
  ["sr.cat"] = "sr.cat({ sr.zeros(1, 3), sr.ones(2, 3) }, 1)",
  ["sr.stack"] = "sr.stack { sr.zeros(3), sr.ones(3) }",
  ["sr.from_string"] = 'sr.from_string(string.pack("<i4i4", 7, 8), { 2 }, "i32")',
  ["sr.where"] = "x = sr.randn(5)\nsr.where(x:gt(0), x, 0)",
  ["sr.is_tensor"] = "sr.is_tensor(sr.ones(2))",
  ["sr.manual_seed"] = "sr.manual_seed(1)\nsr.rand(3)",
  ["sr.scope"] = "do\n  local scope <close> = sr.scope()\n  local y = sr.ones(3) * 2 -- freed at `end`\nend",
  ["sr.no_grad"] = "do\n  local quiet <close> = sr.no_grad()\n  y = sr.ones(2, { requires_grad = true }) * 2\nend\ny:requires_grad()",
  ["sr.enable_grad"] = "do\n  local quiet <close> = sr.no_grad()\n  local guard <close> = sr.enable_grad()\nend",
  ["sr.layout"] = "sr.layout { lens = { 3, 2 }, rows = 8 }",
  ["sr.use"] = 'sr.use("cpu")',
  ["sr.device"] = "sr.device()",
  ["sr.devices"] = "sr.devices()",
  ["sr.describe"] = 'sr.describe("cpu")',
  ["sr.memory"] = "sr.memory().used",
  ["sr.threads"] = "sr.threads()",
  ["sr.instructions"] = "sr.instructions()",
  ["sr.synchronize"] = "sr.synchronize()",
  ["sr.plugin"] = 'print(sr.plugin("my_plugin.so")) -- see recipes/plugin',
  ["sr.comms"] = "sr.comms()",
  ["sr.must"] = "corpus = sr.must(sr.data.open(sample.data))",
  ["sr.gradcheck"] = 'sr.use("ref")\nx = sr.randn(3, { requires_grad = true })\n'
    .. 'print(sr.gradcheck(function(t) return t:tanh():sum() end, { x }))\nsr.use("cpu")',
  ["Tensor"] = "x = sr.randn(2, 3)\nx:size(1), x:sum(), x * 2",
  ["Layout"] = "sample.layout:lengths()",
  ["Scope"] = "scope = sr.scope()\nscope:close()",
}

local function methods(class, object, calls)
  for name, call in pairs(calls) do examples[class .. ":" .. name] = object .. ":" .. name .. call end
end

for _, name in ipairs(require("seqrun.core.ops").unary) do
  methods("Tensor", "sr.tensor({ 0.5, 1, 2 })", { [name] = "()" })
end
methods("Tensor", "sr.tensor({ 1, 2, 3 })", {
  minimum = "(2)", maximum = "(2)", eq = "(2)", ne = "(2)", lt = "(2)", le = "(2)", gt = "(2)", ge = "(2)",
  add_ = "(1)", sub_ = "(1)", mul_ = "(2)", div_ = "(2)", fill_ = "(0)", zero_ = "()", clone = "()", detach = "()",
  shape = "()", size = "(1)", dim = "()", numel = "()", dtype = "()", device = "()", is_live = "()",
  is_contiguous = "()", version = "()", describe = "()", totable = "()", tostring_bytes = "()", contiguous = "()",
  requires_grad = "()", requires_grad_ = "()", to = '("bf16")', keep = "()", release = "()", cumsum = "()",
  equal = "(sr.ones(3))", uniform_ = "(0, 1)", normal_ = "(0, 1, { seed = 1 })", unsqueeze = "(1)", expand = "(2, 3)", var = "()", std = "()",
  copy_ = "(sr.ones(3))", same_storage = "(sr.ones(3))",
  logical_and = "(sr.tensor({ 0, 1, 1 }))", logical_or = "(sr.tensor({ 0, 0, 1 }))",
})
methods("Tensor", "sr.tensor({ { 3, 1, 2 }, { 4, 6, 5 } })", {
  sum = "(1)", mean = "(-1, true)", max = "(2)", min = "()", argmax = "(2)", argmin = "(2)", sort = "()",
  argsort = "(-1, true)", topk = "(2)", softmax = "(-1)", log_softmax = "(-1)", matmul = "(sr.ones(3, 4))",
  reshape = "(3, 2)", view = "(6)", permute = "(2, 1)", transpose = "(1, 2)", t = "()", narrow = "(2, 1, 2)",
  select = "(1, 2)", index = '(sr.tensor({ 1, 0 }, { dtype = "i32" }))',
})
methods("Tensor", "sr.ones(1, 3)", { squeeze = "(1)" })
methods("Tensor", 'sr.tensor({ 0, 2 }, { dtype = "i32" })', { one_hot = "(3)" })
methods("Tensor", "sr.tensor(7)", { item = "()" })
examples["Tensor:backward"] = "x = sr.tensor({ 1, 2 }, { requires_grad = true })\nx:square():sum():backward()\nx:grad()"
examples["Tensor:grad"] = examples["Tensor:backward"]
examples["Tensor:set_grad"] = "x = sr.ones(2, { requires_grad = true })\nx:set_grad(sr.zeros(2))"
examples["Tensor:zero_grad"] = "x = sr.ones(2, { requires_grad = true })\nx:sum():backward()\nx:zero_grad()"
examples["Tensor:hand_up"] = "do\n  local scope <close> = sr.scope()\n  kept = (sr.ones(2) + 1):hand_up()\nend\nkept"
methods("Layout", "sample.layout", {
  epochs = "()", lengths = "()", owners = "()", positions = "()", rows = "()", seed = "()", sequences = "()",
  scores = "(64)", squares = "()", starts = "()", tokens = "()", uids = "()",
  shorten = '({ 0, 2, 3 })',
})
examples["Layout:release"] = "sr.layout({ lens = { 2 } }):release()"

return examples
