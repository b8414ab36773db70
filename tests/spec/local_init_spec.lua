-- initializer = "local": at the start, half of the heads look at a token beside their own.

local sr = require "seqrun"

local OFFSETS = { -1, 1, -2, 2 }

local function model(initializer, more)
  local config = {
    hidden_size = 128, num_hidden_layers = 2, num_attention_heads = 8, intermediate_size = 32, vocab_size = 50,
    max_position_embeddings = 40, initializer = initializer,
  }
  for key, value in pairs(more or {}) do config[key] = value end
  local bert = sr.nn.bert(config) -- no tail call: the error names this line
  return bert
end

---Values of a parameter.
local function value(bert, name) return bert.params:value_of("bert." .. name):totable() end

---The scores of a head of layer 0 for the embedding of each position, without words.
local function scores(bert, head)
  local positions = bert.params:value_of "bert.embeddings.position_embeddings.weight"
  local size = bert.config.hidden_size // bert.config.num_attention_heads
  local function rows(kind)
    local name = ("bert.encoder.layer.0.attention.self.%s.weight"):format(kind)
    local whole = positions:matmul(bert.params:value_of(name):transpose(1, 2))
    return whole:narrow(2, head * size + 1, size)
  end
  return rows "query":matmul(rows "key":transpose(1, 2)):totable()
end

describe("local initial weights", function()
  it("have heads whose scores are highest at the token before, after, two before and two after", function()
    local scope <close> = sr.scope()
    local bert = model "local":initialise(3)
    for head, offset in ipairs(OFFSETS) do
      for i, row in ipairs(scores(bert, head - 1)) do
        local best = 1
        for j = 1, #row do best = row[j] > row[best] and j or best end
        if row[i + offset] then assert.equal(i + offset, best, ("head %d, position %d"):format(head, i)) end
      end
    end
  end)

  it("change positions, queries and keys only, and the config of a checkpoint not at all", function()
    local scope <close> = sr.scope()
    local normal, near = model("normal"):initialise(3), model("local"):initialise(3)
    for _, name in ipairs(normal.params:names()) do
      local changed = name:find "position_embeddings" or name:find "query.weight" or name:find "key.weight"
      local short = name:gsub("^bert%.", "")
      if name:find "^bert%." and changed then
        assert.not_same(value(normal, short), value(near, short), name)
      elseif name:find "^bert%." then
        assert.same(value(normal, short), value(near, short), name)
      end
    end
    assert.same(normal.config, near.config)
  end)

  it("take heads of any size, an encoder alone, and bf16", function()
    for _, more in ipairs {
      { hidden_size = 6, num_attention_heads = 6 }, { hidden_size = 9, num_attention_heads = 3 },
      { num_attention_heads = 1, max_position_embeddings = 1 }, { precision = "bf16" },
    } do
      local scope <close> = sr.scope()
      local bert = model("local", more):initialise(1)
      assert.truthy(bert.params:value_of("bert.embeddings.position_embeddings.weight"):sum():item() ~= 0)
    end
    local encoder = sr.nn.encoder {
      hidden_size = 8, num_attention_heads = 2, num_hidden_layers = 1, initializer = "local",
    }
    local positions = encoder:initialise(1).params:value_of "bert.embeddings.position_embeddings.weight"
    assert.near(0.02 * math.sqrt(2), positions[1][5]:item(), 1e-6)
  end)

  it("have a name that is known", function()
    assert.error_matches(function() model("locl"):initialise(1) end,
      "^bert: initializer is 'locl'; choose normal, depth or local")
  end)
end)
