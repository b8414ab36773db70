-- bf16 against double precision on the small golden BERT: at most twice the error that PyTorch makes in bf16.
--
-- tests/data/model/tiny/bf16.tsv has PyTorch's errors; tests/peers/torch_bf16.py wrote it and defines them.

local json = require("seqrun.core.json")
local sr = require("seqrun")
local support = require("tests.support.bert")
local sys = require("seqrun.core.sys")

local TINY = "tests/data/model/tiny/"
local TIMES = 2

---PyTorch's errors by tensor: all in bf16, and with autocast.
local function peers()
  local list = {}
  for line in io.lines(TINY .. "bf16.tsv") do
    local name, low, cast = line:match("^(%S+)\t([%d.e+-]+)\t([%d.e+-]+)$")
    if name then list[name] = { low = tonumber(low), cast = tonumber(cast) } end
  end
  return list
end

local function measure()
  local bert = sr.nn.bert(json.decode(assert(sys.read_file(TINY .. "config.json"))), { precision = "bf16" })
  assert(sr.checkpoint.load(TINY, { model = bert.params }))
  local batch = support.batch(support.input(), {})
  bert.params:zero_grad()
  local found, hidden = {}, bert:encode(batch)
  found.hidden = hidden
  found.mlm_logits = bert:head("mlm"):logits(sr.ops.gather_rows(hidden, batch.targets.mlm.rows))
  found.nsp_logits = bert:head("nsp"):logits(sr.ops.gather_rows(hidden, batch.targets.nsp.rows))
  local losses = bert:losses(batch)
  losses.total:backward()
  found.mlm_loss, found.nsp_loss = losses.mlm.total, losses.nsp.total
  for _, name in ipairs(bert.params:names()) do found["grad." .. name] = bert.params:get(name):grad() end
  for name, t in pairs(found) do found[name] = t:to("f32"):detach() end
  return found
end

local function norm(t) return math.sqrt((t * t):sum():item()) end

---As in torch_bf16.py.
local function errors(found, expected)
  local rows, all, off = {}, 0, 0
  for name, wanted in pairs(expected) do
    if name:find("^grad%.") then all = all + norm(wanted) ^ 2 end
  end
  all = math.sqrt(all)
  for name, wanted in pairs(expected) do
    local difference = found[name]:reshape(wanted:size()) - wanted
    if name:find("^grad%.") then
      rows[name] = norm(difference) / math.max(norm(wanted), 1e-3 * all)
      off = off + norm(difference) ^ 2
    else
      rows[name] = difference:abs():max():item() / wanted:abs():max():item()
    end
  end
  rows.gradients = math.sqrt(off) / all
  return rows
end

describe("bf16 on the golden BERT", function()
  local ours
  setup(function()
    sr.use("cpu")
    local scope <close> = sr.scope()
    ours = errors(measure(), assert(sr.checkpoint.read_tensors(TINY .. "expected.safetensors")))
  end)

  it("has at most twice PyTorch's error in every output and gradient", function()
    local count = 0
    for name, peer in pairs(peers()) do
      local error = assert(ours[name], name)
      assert.is_true(error <= TIMES * peer.low, ("%s: %.3e, PyTorch %.3e"):format(name, error, peer.low))
      count = count + 1
    end
    assert.equal(52, count)
  end)
  it("has at most twice the error of autocast, which keeps parameters in f32, in outputs and all gradients", function()
    local list = peers()
    for _, name in ipairs { "hidden", "mlm_logits", "nsp_logits", "gradients" } do
      assert.is_true(ours[name] <= TIMES * list[name].cast, ("%s: %.3e, PyTorch %.3e"):format(name, ours[name],
        list[name].cast))
    end
  end)
end)
