-- The predicted step of recipes/bench/roofline.lua, against the model itself.

local models = require("seqrun.advise.models")
local sr = require("seqrun")
local time = require("seqrun.advise.time")
local program = require("tests.support.program")

local exits, works = program.exits, program.works

local folder = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/") or ""
local traffic = dofile(folder .. "recipes/bench/traffic.lua")

---A small step, and the model that it is one of.
local function small()
  local work = {
    rows = 256, lengths = { 100, 60, 17 }, masked = 27, hidden = 64, layers = 2, heads = 2, inner = 128,
    vocabulary = 104, positions = 128, optimizer = "lamb",
  }
  local bert = sr.nn.bert {
    hidden_size = work.hidden, num_hidden_layers = work.layers, num_attention_heads = work.heads,
    intermediate_size = work.inner, vocab_size = work.vocabulary, max_position_embeddings = work.positions,
  }
  return work, bert
end

describe("the roofline of a step", function()
  it("has the parameters and the FLOP of the model", function()
    local work, bert = small()
    assert.equal(bert.params:count(), traffic.parameters(work))
    local layout = sr.layout { lens = work.lengths, rows = work.rows }
    local batch = { layout = layout, tokens = 177, targets = { mlm = { count = work.masked } } }
    local attended = (100 ^ 2 + 60 ^ 2 + 17 ^ 2) / 177
    work.masked = work.masked / 177
    assert.near(bert:flops(batch), 177 * models.flop(work, attended), 1e-3)
  end)

  it("takes the longer of what an op moves and computes, and its launches", function()
    local device = { peak = 100, mma = 0.5, copy = 10 }
    local c = { product = 0.5, edge = 1, packed = 0.2, launch = 9 }
    local function seconds(op)
      op.bytes, op.share, op.launches = op.bytes or 0, 0.5, op.launches or 0
      return time.op(c, device, op)
    end
    assert.same({ 100 + 2, "memory" }, { seconds { bytes = 500, launches = 2 } })
    assert.same({ 6, "compute" }, { seconds { attention = 60, bytes = 10 } })
    local products = { { calls = 3, m = 2, n = 4, k = 4 } }
    assert.same({ 3 * 64 / 50 * 2, "compute" }, { seconds { products = products, bytes = 10 } })
    assert.equal("launch", select(2, seconds { bytes = 5, launches = 2 }))
  end)

  it("grows with its work, and names every op once", function()
    local work, seen = small(), {}
    local function total(key)
      local sum = 0
      for _, op in ipairs(traffic.step(work)) do sum = sum + op[key] end
      return sum
    end
    for _, op in ipairs(traffic.step(work)) do
      assert.is_nil(seen[op.name])
      seen[op.name] = true
      assert.is_true(op.bytes > 0 and op.calls > 0 and op.launches >= op.calls, op.name)
    end
    local bytes, flops = total("bytes"), total("flops")
    work.layers = 4
    assert.is_true(total("bytes") > bytes and total("flops") > 1.5 * flops)
    work.optimizer = "adamw"
    assert.is_true(total("bytes") > bytes)
  end)

  it("is printed for every device, with measured times where there are some", function()
    local home = program.folder()
    local file = program.write(home, "h.tsv", "h100\tbase\t4096\tattention\t100\nh100\tbase\t4096\tstep\t9000\n")
    for _, device in ipairs { "h100", "h200", "a100" } do
      local out = works(program.run {
        folder .. "recipes/bench/roofline.lua", "device=" .. device, "model=base", "tokens=4096", "measured=" .. file,
      })
      assert.is_truthy(out:find("BERT%-base, " .. device:upper()))
      assert.equal(device == "h100", out:find("\nattention  [^\n]* 100 ") ~= nil)
    end
    local function step(rates)
      local out = works(program.run { folder .. "recipes/bench/roofline.lua", "model=base", "rates=" .. rates })
      return tonumber(out:match("\nstep +(%d+) "))
    end
    local slower = step("cautious") / step("expected")
    assert.is_true(slower > 1.06 and slower < 1.2, slower)
    exits(2, "rates is 'hoped'; choose one of: cautious, expected",
      program.run { folder .. "recipes/bench/roofline.lua", "rates=hoped" })
    exits(2, "device is 'b300'; choose one of: a100, a100%-40gb, b200, h100, h200",
      program.run { folder .. "recipes/bench/roofline.lua", "device=b300" })
  end)
end)
