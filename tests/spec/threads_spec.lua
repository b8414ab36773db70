-- The same bits on 1, 2, 3 and 8 threads: every op that splits its work into tasks, at sizes with several
-- tasks, forward and backward.  tests/c/cpu.c does the same for each instruction set.

local sr = require("seqrun")

local HIDDEN, HEADS, INNER, WORDS, MASKED = 96, 3, 200, 1003, 700

local NORM = { [4] = true, [5] = true } -- weights of norms, which are f32 in every precision

local function leaf(shape, i, precision)
  return sr.randn(shape, { seed = 1, uid = i }):to(NORM[i] and "f32" or precision):requires_grad_()
end

local function whole(count, below)
  local list = {}
  for i = 1, count do list[i] = i * 7919 % below end
  return sr.tensor(list, { dtype = "i32" })
end

local function ragged()
  local lens, rows = {}, 0
  for i = 1, 40 do
    lens[i] = 1 + i * 37 % 130
    rows = rows + lens[i]
  end
  return sr.layout { lens = lens, rows = (rows + 127) // 128 * 128, seed = 3 }
end

---The bytes of all results of a pass, by name.
local function pass(precision)
  local scope <close> = sr.scope()
  local layout = ragged()
  local rows = layout:rows()
  local t, leaves = {}, {}
  for i, shape in ipairs {
    { WORDS, HIDDEN }, { 130, HIDDEN }, { 2, HIDDEN }, { HIDDEN }, { HIDDEN }, { 3 * HIDDEN, HIDDEN }, { 3 * HIDDEN },
    { INNER, HIDDEN }, { INNER }, { WORDS, INNER }, { WORDS }, { 5, INNER },
  } do
    leaves[i] = leaf(shape, i, precision)
  end
  local tables = { word = leaves[1], position = leaves[2], type = leaves[3], gamma = leaves[4], beta = leaves[5] }
  t.embed = sr.ops.embed(whole(rows, WORDS), whole(rows, 2), tables, layout, { dropout = 0.1 })
  t.qkv = sr.ops.linear(t.embed, leaves[6], leaves[7])
  t.rotary = sr.ops.rotary(t.qkv, layout, { heads = HEADS, theta = 1000 })
  t.attention = sr.ops.attention(t.rotary, layout, { heads = HEADS, dropout = 0.1, layer = 1 })
  t.norm = sr.ops.residual_norm(t.attention, t.embed, leaves[4], leaves[5], {
    dropout = 0.1, layer = 1, site = "feed", layout = layout,
  })
  t.rms, t.sum = sr.ops.residual_norm(t.norm, t.embed, leaves[4], nil, {
    kind = "rms", sum = true, dropout = 0.1, site = "projection", layout = layout,
  })
  t.plain = sr.ops.embed(whole(rows, WORDS), nil, { word = leaves[1] }, layout, { dropout = 0.1 })
  t.inner = sr.ops.linear(t.norm, leaves[8], leaves[9], { act = "gelu" })
  t.gated = sr.ops.gated(t.inner, { act = "silu", gate = "first" })
  t.dropout = sr.ops.dropout(t.inner, layout, { p = 0.2 })
  t.rows = sr.ops.gather_rows(t.dropout, whole(MASKED, rows))
  local labels, weights = whole(MASKED, WORDS), sr.rand({ MASKED }, { uid = 20 })
  t.mlm, t.nll = sr.ops.mlm_loss(t.rows, leaves[10], leaves[11], labels, weights)
  t.entropy = sr.ops.cross_entropy(sr.ops.linear(t.rows, leaves[12]), whole(MASKED, 5), weights)
  t.softmax = (t.inner:softmax(-1) * sr.randn({ rows, INNER }, { uid = 21 })):sum()
  t.log_softmax = t.inner:log_softmax(1):mean()
  local blocks = t.norm:reshape(rows // 128, 128, HIDDEN)
  t.matmul = blocks:matmul(blocks:transpose(2, 3)):mean()
  t.reduced = t.inner:sum() + t.inner:max() + t.inner:mean(1):sum() + t.inner:max(2):sum()
  t.means = t.rms:mean() + t.sum:mean() + t.plain:mean() + t.gated:mean()
  t.loss = t.means + t.mlm + t.entropy + t.softmax + t.log_softmax + t.matmul + t.reduced
  t.loss:backward()
  t.argmax = t.inner:argmax(2)
  local bytes = {}
  for name, x in pairs(t) do bytes[name] = x:contiguous():tostring_bytes() end
  for i, x in ipairs(leaves) do bytes["gradient " .. i] = x:grad():tostring_bytes() end
  return bytes
end

describe("the cpu device", function()
  for _, precision in ipairs { "f32", "bf16" } do
    it(("gives the same bits on 1, 2, 3 and 8 threads in %s"):format(precision), function()
      local before = sr.threads("cpu")
      sr.use("cpu", { threads = 1 })
      local alone = pass(precision)
      for _, threads in ipairs { 2, 3, 8 } do
        sr.use("cpu", { threads = threads })
        for name, bytes in pairs(pass(precision)) do
          assert.is_true(bytes == alone[name], ("%s differs on %d threads"):format(name, threads))
        end
      end
      sr.use("cpu", { threads = before })
    end)
  end
end)
