-- Larger models from smaller ones, worked out by hand; initial weights scaled by depth.

local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local tiling = require("seqrun.nn.tiling")

local works = program.works

local function rows(x) return x:contiguous():totable() end

describe("tiling", function()
  it("rounds layers, halves to even", function()
    local function layers(old, new)
      local list = {}
      for j = 0, new - 1 do list[j + 1] = tiling.layer(j, old, new) end
      return list
    end
    assert.same({ 0, 0, 1, 2, 2, 2 }, layers(3, 6)) -- 0, 0.5, 1, 1.5, 2, 2.5
    assert.same({ 0, 1, 2, 2 }, layers(3, 4)) -- 0, 0.75, 1.5, 2.25
    assert.same({ 0, 1, 2 }, layers(3, 3))
    local large = layers(22, 28) -- ModernBERT-large from base
    assert.same({ 0, 1, 2, 2, 3 }, table.move(large, 1, 5, 1, {})) -- 2.36 and 3.14
    assert.equal(11, large[15]) -- 14 * 22 / 28
    assert.equal(21, large[28])
    assert.same({ 0, 0 }, layers(1, 2)) -- 0.5 goes to 0, and no layer lies behind the last
  end)

  it("puts a row in the middle of a longer one and repeats it outwards", function()
    assert.same({ 1, 2, 0, 1, 2, 0, 1, 2 }, tiling.places(3, 8)) -- begins at (8 - 3) // 2 = 2
    assert.same({ 0, 1, 2 }, tiling.places(3, 3))
    assert.same({ 0, 1, 2, 0 }, tiling.places(3, 4))
    assert.same({ 3, 1, 2, 3, 1 }, rows(tiling.tile(sr.tensor { 1, 2, 3 }, { 5 })))
  end)

  it("does so with rows and columns of each block", function()
    local x = sr.tensor { { 1, 2 }, { 3, 4 }, { 10, 20 }, { 30, 40 } }
    assert.same({ { 1, 2, 1 }, { 3, 4, 3 }, { 1, 2, 1 }, { 10, 20, 10 }, { 30, 40, 30 }, { 10, 20, 10 } },
      rows(tiling.tile(x, { 6, 3 }, 2)))
    assert.same({ { 40, 30, 40, 30 }, { 2, 1, 2, 1 }, { 4, 3, 4, 3 }, { 20, 10, 20, 10 }, { 40, 30, 40, 30 },
      { 2, 1, 2, 1 } }, rows(tiling.tile(x, { 6, 4 })))
  end)

  it("takes q, k and v, and both halves of a gated block, one by one where they are one tensor", function()
    local encoder = {
      prefix = "model.", names = { layer = "layers.%d.", qkv = "attn.Wqkv", up = "mlp.Wi" },
      design = { layers = 4, heads = 2, kv_heads = 2, gate = "second" }, family = { name = "x" },
    }
    local function source(name) return { tiling.source(encoder, 3, name) } end
    assert.same({ "model.layers.1.attn.Wqkv.weight", 3 }, source "model.layers.1.attn.Wqkv.weight")
    assert.same({ "model.layers.2.mlp.Wi.weight", 2 }, source "model.layers.3.mlp.Wi.weight")
    assert.same({ "model.layers.2.mlp.Wo.weight", 1 }, source "model.layers.2.mlp.Wo.weight")
    assert.same({ "head.dense.weight", 1 }, source "head.dense.weight")
  end)
end)

describe("a model", function()
  local folder, corpus = small.folder()

  local function run(out, ...)
    local words = small.words(corpus, "--out", folder .. "/" .. out, "--max-steps", "1", ...)
    local code, stdout, stderr = program.run(words)
    return code, stdout .. stderr
  end

  it("is tiled from the checkpoint of a smaller one, and trains", function()
    assert.equal(0, (run("small", "rate.peak=0")))
    works(run("large", "init.from=" .. folder .. "/small", "init.tile=true", "rate.peak=0",
      "model.hidden_size=24", "model.num_attention_heads=3", "model.num_hidden_layers=3",
      "model.intermediate_size=40"))
    local function read(name) return sr.nn.pretrained(folder .. "/" .. name).params end
    local old, new = read "small", read "large"
    local function value(params, name) return rows(params:value_of(name)) end
    -- 24 from 16: begins at 4, so that element 5 is the first of the old ones; 40 from 32 as well
    for j, i in pairs { [0] = 0, 1, 1 } do -- 0, 2/3, 4/3
      local query = ("bert.encoder.layer.%d.attention.self.query.weight")
      local a, b = value(old, query:format(i)), value(new, query:format(j))
      assert.equal(a[1][1], b[5][5])
      assert.equal(a[16][1], b[4][5])
      assert.equal(a[13][14], b[1][2])
      local up = "bert.encoder.layer.%d.intermediate.dense.bias"
      assert.equal(value(old, up:format(i))[29], value(new, up:format(j))[1])
    end
    local word = "bert.embeddings.word_embeddings.weight"
    assert.equal(value(old, word)[7][16], value(new, word)[7][4])
    assert.same(value(old, "cls.predictions.bias"), value(new, "cls.predictions.bias"))
  end)

  it("is not tiled from what is larger, of another family, or has other rows", function()
    assert.equal(0, (run("source")))
    local from = "init.from=" .. folder .. "/source"
    for words, keys in pairs {
      ["has 2 layers, the model 1"] = { from, "model.num_hidden_layers=1" },
      ["a model is tiled from a smaller one"] = { from, "model.hidden_size=8" },
      ["has 64 rows, the model's 80"] = { from, "model.max_position_embeddings=80" },
      ["init.carry must be weights"] = { from, "init.carry=moments" },
      ["init.tile needs init.from"] = {},
    } do
      local code, text = run("refused", "init.tile=true", table.unpack(keys))
      assert.not_equal(0, code)
      assert.is_truthy(text:find(words, 1, true), text)
    end
  end)

  it("may begin with smaller weights where layers add up", function()
    local function deviation(x)
      local n, sum, squares, most = 0, 0, 0, 0
      for _, row in ipairs(rows(x)) do
        for _, v in ipairs(row) do
          n, sum, squares, most = n + 1, sum + v, squares + v * v, math.max(most, math.abs(v))
        end
      end
      return math.sqrt(squares / n - (sum / n) ^ 2), most
    end
    local bert = sr.nn.bert {
      hidden_size = 128, num_hidden_layers = 8, num_attention_heads = 2, vocab_size = 50, initializer = "depth",
    }:initialise(1)
    for name, sigma in pairs {
      ["attention.self.query"] = 0.02, ["intermediate.dense"] = 0.02, ["attention.output.dense"] = 0.005,
      ["output.dense"] = 0.005, -- 0.02 / sqrt(2 * 8)
    } do
      local found, most = deviation(bert.params:value_of(("bert.encoder.layer.3.%s.weight"):format(name)))
      assert.is_true(most <= 2 * sigma * (1 + 1e-6), ("%s: %g"):format(name, most))
      assert.is_true(math.abs(found / (0.8796 * sigma) - 1) < 0.03, ("%s: %g"):format(name, found)) -- cut at 2 sigma
    end
  end)
end)
