-- What the prompt shows of tensors, heads and batches.

local fails = require("tests.support.fails")
local inside = require("seqrun.repl.inside")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = program.folder()

it("a histogram counts all numbers, and names those that are not finite", function()
  local text = inside.histogram({ 1, 2, 2, 5, 0 / 0 }, { bins = 4 })
  assert.matches("^4 numbers: mean 2.5, deviation 1.5, 1 to 5, and 1 NaN or infinite\n", text)
  local counts = {}
  for count in text:gmatch("\n%s+%S+%s+(%d+)") do counts[#counts + 1] = tonumber(count) end
  assert.same({ 1, 2, 0, 1 }, counts)
  assert.matches("^6 numbers: mean 1, deviation 0,", inside.histogram(sr.ones(2, 3, { dtype = "bf16" })))
  fails.raising("element 2 must be a number", inside.histogram, { 1, "x" })
  fails.raising("no finite number among 1", inside.histogram, { 1 / 0 })
end)

describe("attention", function()
  local corpus = small.corpus(folder)
  program.ok(small.words(corpus, "--out", folder .. "/run", "--max-steps", "1"))

  ---The probabilities as the picture gives them: token, strongest, token.
  local function rows_of(text)
    local rows = {}
    for token, p, most in text:gmatch("\n *(%S+) [^\n]- (%d%.%d%d) (%S+)") do
      rows[#rows + 1] = { token, tonumber(p), most }
    end
    return rows
  end

  it("of each token is that of the products of queries and keys", function()
    local bert = sr.must(sr.nn.pretrained(folder .. "/run"))
    local tokenizer = sr.must(sr.data.open(corpus)):tokenizer()
    local frame, scope <close> = {}, sr.scope()
    for i, id in ipairs(tokenizer:ids("the cat sees the dog")) do frame[i] = id end
    table.insert(frame, 1, tokenizer:special("cls"))
    frame[#frame + 1] = tokenizer:special("sep")
    local wanted
    local batch = { ids = sr.tensor(frame, { dtype = "i32" }), types = sr.zeros(#frame, { dtype = "i32" }),
      layout = sr.layout { lens = { #frame }, rows = #frame } }
    bert.encoder.training = false
    bert.encoder.attention = function(qkv, layout, options)
      if options.layer == 1 then -- head 1 of 2, of 8 columns each
        wanted = (qkv:narrow(2, 9, 8):matmul(qkv:narrow(2, 25, 8):transpose(1, 2)) / math.sqrt(8)):softmax(-1):totable()
      end
      return sr.ops.attention(qkv, layout, options)
    end
    bert:encode(batch)
    local file = folder .. "/heads.svg"
    local rows = rows_of(inside.attention(folder .. "/run", "the cat sees the dog", 1, 1, { svg = file }))
    assert.equal(#frame, #rows)
    for i, row in ipairs(rows) do
      assert.near(math.max(table.unpack(wanted[i])), row[2], 0.0051)
      assert.equal(tokenizer:token(frame[i]):sub(1, 13), row[1])
    end
    local drawn = assert(sys.read_file(file))
    assert.matches("^<svg .*layer 1, head 1: row attends to column.*%[CLS%].*<rect.*</svg>\n$", drawn)
  end)

  it("is the mean of the last layer's heads by default, and refuses others than there are", function()
    assert.matches("layer 1, mean of all heads", inside.attention(folder .. "/run", "the cat"))
    fails.raising("the layer must be an integer from 0 to 1, got 2", inside.attention, folder .. "/run", "a", 2)
    fails.raising("the head must be an integer from 0 to 1, got 2", inside.attention, folder .. "/run", "a", 0, 2)
    fails.raising("no such file", inside.attention, folder .. "/nothing", "a")
    local ansi = require("seqrun.draw.ansi")
    local before = ansi.is_dumb
    ansi.is_dumb = function() return true end
    local shown, text = pcall(inside.attention, folder .. "/run", ("cat "):rep(60))
    ansi.is_dumb = before
    assert.is_true(shown)
    assert.matches("\n%d+ of 62 columns fit here; { svg = FILE } draws all$", text)
    assert.is_nil(text:find("[\x80-\xff]"))
    fails.raising("tokens, but the model reads at most 64", inside.attention, folder .. "/run", ("cat "):rep(80))
  end)
end)

it("a batch is shown with its masks in place", function()
  local sample = require("seqrun.help.sample")()
  local text, ids = inside.batch(sample.batch, sample.corpus), sample.batch:host("ids")
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  assert.equal(sample.batch.sequences + 1, #lines)
  assert.equal(sample.batch.masked, select(2, text:gsub("%)", "")))
  local words = {}
  for i = 2, #lines do
    for word in lines[i]:sub(7):gmatch("%S+") do words[#words + 1] = (word:gsub("%(.*", "")) end
  end
  assert.equal(sample.batch.tokens, #words)
  for i = 1, 20 do assert.equal(sample.corpus:tokenizer():token(ids[i]), words[i]) end
  fails.raising("the second argument must be the data set", inside.batch, sample.batch)
end)

it("layer_norm is the norm of each row", function()
  local x, gamma = sr.randn(3, 8), sr.randn(8)
  local centred = x - x:mean(2, true)
  local wanted = centred / (centred:square():mean(2, true) + 1e-3):sqrt() * gamma + 1
  assert.is_true((sr.ops.layer_norm(x, gamma, sr.ones(8), { eps = 1e-3 }) - wanted):abs():max():item() < 1e-5)
end)
