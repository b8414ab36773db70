-- analyze.lua - what the metrics of a data set cost: tokens a second on one core, bytes, memory.
--
--     seqrun recipes/bench/analyze.lua [sequences=1000000] [only=rarity] [slow=false]
--
-- The data set is synthetic: fixed pairs of 10 to 200 tokens, a vocabulary of 30,522 with a long tail.  Times are CPU
-- time of one thread.  `count` is the pass over all tokens that rarity needs first; `order` sorts the sequences and
-- writes the file.  slow=true adds the metrics that take longer.

local sr = require("seqrun")
local common = require("common")
local metric = require("seqrun.core.metric")
local sys = require("seqrun.core.sys")

local options = common.options({ sequences = 1000000, only = "", slow = false }, arg)
local COUNT, VOCAB, TOGETHER = math.tointeger(options.sequences), 30522, 1000

local folder, guard <close> = common.scratch()

local function vocabulary()
  local words = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }
  for i = 6, VOCAB do words[i] = (i % 4 == 0 and "##%x" or "w%x"):format(i) end
  return table.concat(words, "\n") .. "\n"
end

---Random tokens, of which pieces are taken.
local function token_pool()
  local pool = {}
  for i = 1, 200 do
    local tokens = {}
    for k = 1, 1000 do tokens[k] = string.pack("<I2", 5 + math.floor((VOCAB - 5) * math.random() ^ 4)) end
    pool[i] = table.concat(tokens)
  end
  return pool
end

local function write_data(path)
  local w = sr.must(require("seqrun.core.data").writer(path))
  w:append(w:column("vocab", "bytes"), vocabulary())
  local ids, a, b = w:column("ids", "u16"), w:column("a_tokens", "u32"), w:column("b_tokens", "u32")
  math.randomseed(1)
  local pool = token_pool()
  for first = 1, COUNT, TOGETHER do
    local tokens, as, bs = {}, {}, {}
    for i = 1, math.min(TOGETHER, COUNT - first + 1) do
      local n, m, at = math.random(5, 100), math.random(5, 100), math.random(0, 800)
      tokens[i] = pool[math.random(#pool)]:sub(2 * at + 1, 2 * (at + n + m))
      as[i], bs[i] = string.pack("<I4", n), string.pack("<I4", m)
    end
    sr.must(w:append(ids, table.concat(tokens)))
    sr.must(w:append(a, table.concat(as)))
    sr.must(w:append(b, table.concat(bs)))
  end
  sr.must(w:meta("kind", "examples"))
  sr.must(w:commit())
end

local path = folder .. "/x.sqr"
write_data(path)
collectgarbage()
local corpus = sr.must(sr.data.open(path))
local before = sys.memory()
local analysis = sr.must(metric.analysis(corpus.core, { max_len = 65535, too_long = "truncate", nsp = false }, 1))

local begin = os.clock()
local counts, sequences, tokens = analysis:counts()
print(("%d sequences, %.1f M tokens"):format(sequences, tokens / 1e6))
print(("count           %7.1f M tokens/s"):format(tokens / (os.clock() - begin) / 1e6))

local function measure(name)
  sr.must(analysis:measure(name, { counts = counts, corpus = corpus.core }))
  sr.must(analysis:begin(folder .. "/part", name))
  local start = os.clock()
  repeat until sr.must(analysis:step())
  local seconds = os.clock() - start
  start = os.clock()
  sr.must(analysis:finish(folder .. "/metric", name, ""))
  local order = os.clock() - start
  print(("%-15s %7.1f M tokens/s, %6.2f us a sequence; order %.2f us, %.1f bytes a sequence"):format(name,
    tokens / seconds / 1e6, 1e6 * seconds / sequences, 1e6 * order / sequences,
    sys.stat(folder .. "/metric").size / sequences))
end

local names = { "length", "rarity" }
if options.slow then table.move({ "tfidf", "compressibility" }, 1, 2, 3, names) end
for _, name in ipairs(names) do
  if options.only == "" or options.only == name then measure(name) end
end
print(("memory          %.1f MiB above the %.1f MiB after opening the data set"):format(
  (select(2, sys.memory()) - before) / 2^20, before / 2^20))
