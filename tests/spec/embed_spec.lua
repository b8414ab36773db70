-- Training vectors of texts: the losses by their formulas, gradients by cached representations, files, scores.

local cosent = require("seqrun.tasks.embed.cosent")
local new_contrast = require("seqrun.tasks.embed.contrast")
local Head = require("seqrun.tasks.embed.head")
local json = require("seqrun.core.json")
local objective = require("seqrun.tasks.embed.objective")
local it_on = require("tests.support.devices").it_on(it)
local on = require("tests.support.devices").on
local program = require("tests.support.program")
local ranking = require("seqrun.scores.ranking")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local VOCAB = "tests/data/model/tiny/vocab.txt"
local folder = program.folder()

---Texts of parts, each of its own row by default.
local function texts(...)
  local list = {}
  for _, one in ipairs { ... } do
    list[#list + 1] = { group = one[1], part = one[2], same = one[3], score = one[4] }
  end
  return list
end

---The value and the gradient of an objective, and of the same by finite differences.
local function gradient_of(options, values, list)
  local loss = objective.new(options)
  local function at(rows) return loss:of(sr.tensor(rows), list).value end
  local found = loss:of(sr.tensor(values), list)
  local gradient, step = found.gradient:totable(), 1e-5
  for i, row in ipairs(values) do
    for k, x in ipairs(row) do
      row[k] = x + step
      local above = at(values)
      row[k] = x - step
      local below = at(values)
      row[k] = x
      assert.is_near((above - below) / (2 * step), gradient[i][k], 1e-6)
    end
  end
  return found
end

local function check_gradient(...) return on("ref", gradient_of, ...) end

local VALUES = {
  { 0.3, -0.8, 0.5 }, { -0.2, 0.4, 0.9 }, { 0.7, 0.1, -0.4 },
  { 0.5, -0.6, 0.2 }, { 0.1, 0.9, 0.3 }, { 0.6, -0.2, -0.7 }, { -0.9, 0.2, 0.1 },
}

local function unit(row)
  local sum = 0
  for _, x in ipairs(row) do sum = sum + x * x end
  local out = {}
  for i, x in ipairs(row) do out[i] = x / sum ^ 0.5 end
  return out
end

local function cosine(a, b)
  local sum = 0
  a, b = unit(a), unit(b)
  for i, x in ipairs(a) do sum = sum + x * b[i] end
  return sum
end

---InfoNCE by its formula: queries and candidates as places in VALUES; left_out[i][j].
local function infonce(queries, candidates, temperature, left_out)
  local sum = 0
  for i, q in ipairs(queries) do
    local total = 0
    for j, c in ipairs(candidates) do
      if not (left_out and left_out[i] and left_out[i][j]) then
        total = total + math.exp(cosine(VALUES[q], VALUES[c]) / temperature)
      end
    end
    sum = sum + math.log(total) - cosine(VALUES[q], VALUES[candidates[i]]) / temperature
  end
  return sum / #queries
end

describe("the loss of an update", function()
  local rows = texts({ 0, 0, "a" }, { 1, 0, "b" }, { 2, 0, "c" }, { 0, 1, "d" }, { 1, 1, "e" }, { 2, 1, "f" },
    { 1, 2, "g" })

  it("is InfoNCE over all positives and negatives, and has its gradient", function()
    for _, block in ipairs { 1, 5, 1000 } do
      local found = check_gradient({ loss = "mnrl", temperature = 0.1, block = block }, VALUES, rows)
      assert.is_near(infonce({ 1, 2, 3 }, { 4, 5, 6, 7 }, 0.1), found.value, 1e-9)
    end
    local both = check_gradient({ loss = "mnrl", temperature = 0.1, both = true }, VALUES, rows)
    local one, other = infonce({ 1, 2, 3 }, { 4, 5, 6, 7 }, 0.1), infonce({ 4, 5, 6 }, { 1, 2, 3 }, 0.1)
    assert.is_near((one + other) / 2, both.value, 1e-9)
  end)

  it("leaves out what is no negative: the positive again, the anchor itself, other positives of the anchor", function()
    local list = texts({ 0, 0, "a" }, { 1, 0, "b" }, { 2, 0, "a" }, { 0, 1, "d" }, { 1, 1, "d" }, { 2, 1, "f" },
      { 1, 2, "b" })
    -- anchor a: d again, and f, a positive of a too; anchor b: d again, and itself; the second a: d
    local out = { { [2] = true, [3] = true }, { [1] = true, [4] = true }, { [1] = true } }
    local found = check_gradient({ loss = "mnrl", temperature = 0.2 }, VALUES, list)
    assert.is_near(infonce({ 1, 2, 3 }, { 4, 5, 6, 7 }, 0.2, out), found.value, 1e-9)
  end)

  it("adds up over prefixes of the vectors", function()
    local whole = check_gradient({ loss = "mnrl", temperature = 0.1, dims = { 2, 3 } }, VALUES, rows).value
    local short = {}
    for i, row in ipairs(VALUES) do short[i] = { row[1], row[2] } end
    local scope <close> = sr.scope()
    local one = objective.new { loss = "mnrl", temperature = 0.1 }
    local sum = one:of(sr.tensor(VALUES), rows).value + one:of(sr.tensor(short), rows).value
    assert.is_near(sum, whole, 1e-5)
  end)

  it("is CoSENT on scored pairs", function()
    local list, scores = {}, { 3, 1, 1 }
    for i = 1, 6 do
      list[i] = { group = (i - 1) % 3, part = (i - 1) // 3, same = tostring(i), score = scores[(i - 1) % 3 + 1] }
    end
    local values = table.move(VALUES, 1, 6, 1, {})
    local found = check_gradient({ loss = "cosent", temperature = 0.05 }, values, list)
    local c, total = {}, 1
    for i = 1, 3 do c[i] = cosine(values[i], values[i + 3]) end
    for i = 1, 3 do
      for j = 1, 3 do
        if scores[i] < scores[j] then total = total + math.exp(20 * (c[i] - c[j])) end
      end
    end
    assert.is_near(math.log(total), found.value, 1e-9)
    assert.is_near(0, (cosent({ 0.1, 0.9 }, { 2, 2 }, 20)), 0)
  end)

  it_on("ref", "is the squared distance from a teacher's vectors", function()
    local teacher = sr.tensor { { 1, 0, 0 }, { 0, 1, 0 } }
    local found = gradient_of({ loss = "mse", temperature = 1, teacher = teacher },
      { { 0.5, 0, 1 }, { 0, 1, 0 } }, texts({ 1, 0, "a" }, { 0, 0, "b" }))
    assert.is_near((0.25 + 1 + 1 + 1 + 1) / 6, found.value, 1e-9)
  end)

  it_on("ref", "learns the temperature", function()
    local loss = objective.new { loss = "mnrl", temperature = 0.2, learn = true }
    local function at(x) return loss:of(sr.tensor(VALUES), rows, sr.tensor({ x }, { dtype = "f64" })) end
    assert.is_near((at(0.3 + 1e-5).value - at(0.3 - 1e-5).value) / 2e-5, at(0.3).scale:totable()[1], 1e-6)
  end)
end)

-- ---- gradients by cached representations -----------------------------------------------------------

---A file of pairs and hard negatives of random words, and its data set.
local function corpus(count)
  local words, lines, draw = {}, { "anchor,positive,negative" }, require("tests.support.draws")(7)
  for line in io.lines(VOCAB) do words[#words + 1] = not line:find("^[%[#]") and line or nil end
  local function text()
    local list = {}
    for i = 1, 2 + draw(9) do list[i] = words[draw(#words) + 1] end
    return table.concat(list, " ")
  end
  for _ = 1, count do lines[#lines + 1] = ("%s,%s,%s"):format(text(), text(), text()) end
  local path = folder .. "/pairs.csv"
  assert(sys.write_file(path, table.concat(lines, "\n") .. "\n"))
  local out = folder .. "/pairs.sqr"
  if not sys.exists(out) then sr.must(sr.data.read { task = "embed", files = path, out = out, vocab = VOCAB }) end
  return sr.must(sr.data.open(out, { held = 0 }))
end

local function model_of(options, precision)
  return sr.nn.bert {
    vocab_size = 1000, hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 64,
    max_position_embeddings = 48, heads = { Head.new(options) }, precision = precision,
  }:initialise(5)
end

local function update_of(set, packs, ranks)
  local groups = sr.data.groups(set, { groups = 24, seed = 1 })
  local loader = sr.must(sr.data.loader {
    data = set, max_len = 32, micro_packs = packs, seed = 3, targets = { { name = "embed", column = "about" } },
    prefetch = 0, ranks = ranks, order = function(update)
      local list = {}
      for _, group in ipairs(groups(update)) do table.move(group, 1, #group, #list + 1, list) end
      return list
    end,
  })
  return loader:next()
end

---The gradients of all parameters as bytes, and as lists.
local function gradients(model)
  local bytes, numbers = {}, {}
  for _, name in ipairs(model.params:names()) do
    local g = model.params:get(name):grad():to("f32"):contiguous()
    bytes[name], numbers[name] = g:tostring_bytes(), g:reshape(-1):totable()
  end
  return bytes, numbers
end

local function by_cache(model, update)
  local contrast, value = new_contrast(model), nil
  contrast:begin(update)
  for batch in update:batches(model.params) do
    local scope <close> = sr.scope()
    local losses = contrast:losses(batch)
    losses.total:backward()
    value = value or losses.total:item()
  end
  return value, gradients(model)
end

---Every tape is kept; backward runs in the order of the micro-batches.
local function by_tapes(model, update)
  local contrast, head = new_contrast(model), model.heads[1]
  local scope <close> = sr.scope()
  contrast:begin(update)
  local tapes = {}
  for i = 1, update.count do
    local batch = update:batch(i)
    tapes[i] = head:vectors(model.encoder:states(batch), batch.targets.embed)
  end
  local i = 0
  for batch in update:batches(model.params) do
    i = i + 1
    tapes[i]:backward(contrast.gradients[i])
    if i == 1 and head.learn then
      head:optional(Head.SCALE):backward(contrast.found.scale)
    end
    assert.is_truthy(batch)
  end
  return gradients(model)
end

describe("cached representations", function()
  for _, options in ipairs {
    { pool = "mean" }, { pool = "cls", dense = { outputs = 12, activation = "tanh" } }, { pool = "last" },
    { pool = "mean", objective = { loss = "mnrl", temperature = 0.1, both = true, learn = true, dims = { 8, 32 } } },
  } do
    local name = options.pool .. (options.objective and ", both directions, learned temperature" or "")
    it("have the gradients of keeping every tape, to the bit, with dropout: " .. name, function()
      local set = corpus(60)
      local update = update_of(set, 2)
      assert.is_true(update.count > 5)
      local value, cached = by_cache(model_of(options), update)
      local kept = by_tapes(model_of(options), update_of(set, 2))
      assert.is_true(value > 1)
      for parameter, bytes in pairs(kept) do assert.is_true(bytes == cached[parameter], parameter) end
    end)
  end

  it("have those of one undivided batch within 1e-6", function()
    local set = corpus(60)
    local one, many = update_of(set, 1000), update_of(set, 1)
    assert.equal(1, one.count)
    assert.is_true(many.count > 5)
    local whole_value, _, whole = by_cache(model_of {}, one)
    local value, _, parts = by_cache(model_of {}, many)
    assert.is_near(whole_value, value, 1e-6)
    local error, size = 0, 0 -- squares of the norms
    for name, list in pairs(whole) do
      for i, x in ipairs(list) do error, size = error + (x - parts[name][i]) ^ 2, size + x ^ 2 end
    end
    assert.is_true(error <= 1e-12 * size, ("%g of %g"):format(error ^ 0.5, size ^ 0.5))
  end)
end)

describe("the ranks of texts", function()
  it("give nDCG, MRR and recall as trec_eval computes them", function()
    local scope <close> = sr.scope()
    local found = ranking.score {
      queries = sr.tensor { { 1, 0 }, { 0, 1 }, { 1, 0 } },
      documents = sr.tensor { { 0.9, 0 }, { 0.8, 1 }, { 0.7, 0 } },
      wanted = { { [3] = 2, [1] = 1 }, { [2] = 1 }, {} }, own = { [2] = 1 },
    }
    local gain = 1 + 2 / math.log(4, 2)
    local best = 2 + 1 / math.log(3, 2)
    assert.is_near((gain / best + 1) / 2, found.ndcg_at_10, 1e-6)
    assert.is_near(1, found.mrr_at_10, 1e-9)
    assert.is_near((0.5 + 1) / 2, found.recall_at_1, 1e-9)
  end)

  it("of queries are those of trec_eval", function() -- tests/peers/ranking.py, with pytrec_eval
    for _, case in ipairs(json.decode(assert(sys.read_file("tests/data/scores/ranking.json")))) do
      local wanted = {}
      for i, grades in ipairs(case.wanted) do
        wanted[i] = {}
        for document, grade in pairs(grades) do wanted[i][math.tointeger(tonumber(document)) + 1] = grade end
      end
      local found = ranking.score { queries = sr.tensor(case.queries), documents = sr.tensor(case.documents),
        wanted = wanted, own = {} }
      for _, name in ipairs { "ndcg_at_10", "mrr_at_10", "recall_at_1", "recall_at_10", "recall_at_100" } do
        assert.is_near(case[name], found[name], 1e-6, name)
      end
    end
  end)
end)
