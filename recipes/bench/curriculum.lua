-- curriculum.lua - what a curriculum costs: draws from millions of examples, and rows that stay empty at each length.
--
--     seqrun recipes/bench/curriculum.lua [examples=16000000] [part=draws|rows|stages]
--
-- `draws`: two metrics over `examples` short examples; the time of an update of 1,024, and the memory of the sampler.
-- `rows`: real tokens over slots when sequences with the lengths of Wikipedia are cut to 64, 72, ... 512 tokens, as in
-- the published curriculum of BERT, in updates of 256 sequences and micro-batches of 8 packs of 512.
-- `stages`: real tokens per second of training at some of these lengths against those of full-length packed training,
-- in updates of `tokens` tokens, measured in turns; clock=cpu threads=1 on a machine that others use.

local sr = require("seqrun")
local common = require("common")
local lengths = require("lengths")
local merged = require("seqrun.base.merged")
local sys = require("seqrun.core.sys")

local options = common.options({
  examples = 1000000, sequences = 1024, updates = 200, part = "all", tokens = 8192, layers = 4, hidden = 256, turns = 3,
  threads = 0, clock = "wall",
}, arg)

local folder, guard <close> = common.scratch()

local words = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }
for i = 1, 95 do words[#words + 1] = "w" .. i end
sr.must(sys.write_file(folder .. "/vocab.txt", table.concat(words, "\n") .. "\n"))

---A data set of examples of these lengths, [CLS] and [SEP] included.
local function write(name, count, length_of)
  local path, i = ("%s/%s.sqr"):format(folder, name), 0
  local bodies = {}
  sr.must(sr.data.write { out = path, vocab = folder .. "/vocab.txt", examples = function()
    i = i + 1
    if i > count then return nil end
    local length = length_of(i) - 2
    if not bodies[length] then
      bodies[length] = {}
      for k = 1, length do bodies[length][k] = 5 + k % 95 end
    end
    return { a = bodies[length] }
  end })
  return sr.must(sr.data.open(path, { held = 0 }))
end

local function draws()
  local corpus = write("short", options.examples, function(i) return 3 + i % 4 end)
  local function metric(multiplier)
    return { kind = "fraction", schedule = function(c) return math.min(1, 0.2 + c.step / 250) end,
      metric = function(uid) return uid * multiplier % 1000003 end }
  end
  local curriculum = sr.curriculum { sequences = options.sequences, window = 1,
    metrics = { a = metric(7919), b = metric(104729) } }
  local loader <close> = sr.must(sr.data.loader { data = corpus, max_len = 8, order = curriculum, prefetch = 0 })
  collectgarbage()
  local before = sys.memory()
  local second = sr.must(loader.core:sampler({ curriculum.metrics.a:core(), curriculum.metrics.b:core() }, {}))
  sr.must(second:unlock { options.examples // 2, options.examples // 2 })
  print(("%d examples, 2 metrics: the sampler takes %.2f bytes an example"):format(options.examples,
    (sys.memory() - before) / options.examples))
  local changed, drawn = 0, 0
  for step = 1, options.updates do
    local prefix = math.floor(options.examples * math.min(1, 0.2 + step / 250))
    local began = os.clock()
    sr.must(second:unlock { prefix, prefix })
    local unlocked = os.clock()
    second:draw(step, options.sequences)
    changed, drawn = changed + unlocked - began, drawn + os.clock() - unlocked
  end
  print(("an update of %d: %.3f ms to draw; %.3f ms to unlock %.2f %% more of both metrics"):format(options.sequences,
    drawn / options.updates * 1e3, changed / options.updates * 1e3, 0.4))
end

---A data set of sequences with the lengths of Wikipedia.
local function wikipedia()
  local drawn = lengths.draw(common.lengths, 20000, 1)
  return write("wikipedia", #drawn, function(i) return math.max(5, drawn[i]) end)
end

local function rows()
  local corpus = wikipedia()
  local worst, at, all, seconds, updates = 1, 0, 0, 0, 0
  for length = 64, 512, 8 do
    local loader <close> = sr.must(sr.data.loader { data = corpus, max_len = 512, micro_packs = 8, prefetch = 0,
      mask = { max = 80 }, order = sr.curriculum { sequences = 256, length = length } })
    local tokens, slots, began = 0, 0, sys.now()
    for _ = 1, 12 do
      local update = loader:next()
      tokens, slots, updates = tokens + update.tokens, slots + update.slots, updates + 1
    end
    seconds = seconds + sys.now() - began
    all = all + tokens / slots
    print(("length %3d: %6.2f %% of the rows have a token"):format(length, 100 * tokens / slots))
    if tokens / slots < worst then worst, at = tokens / slots, length end
  end
  print(("lowest %.4f at %d, mean %.4f; %.2f ms to make an update"):format(worst, at, all / 57,
    seconds / updates * 1e3))
end

---Processor time is more reliable on a busy machine.
local now = options.clock == "cpu" and os.clock or sys.now

---Seconds of an update, from drawing it to the step, and its tokens.
local function train(loader, bert, optimizer)
  local began = now()
  local update = loader:next()
  for batch in update:batches() do
    local scope <close> = sr.scope()
    bert:losses(batch).total:backward()
  end
  optimizer:step { rate = 1e-5, clip = 1 }
  sr.synchronize()
  return now() - began, update.tokens
end

local function stages()
  if options.threads > 0 then sr.use("cpu", { threads = options.threads }) end
  local corpus = wikipedia()
  local bert = sr.nn.bert({
    vocab_size = 4096, hidden_size = options.hidden, num_hidden_layers = options.layers,
    num_attention_heads = options.hidden // 64, intermediate_size = 4 * options.hidden, heads = { "mlm" },
  }):initialise(1)
  local optimizer = sr.optim.adamw(bert.params, {})
  local function open(more)
    local o = { data = corpus, max_len = 512, micro_packs = 4, prefetch = 0, mask = { max = 80 } }
    return sr.must(sr.data.loader(merged(o, more)))
  end
  local arms = { { name = "packed", loader = open { packs = math.max(1, options.tokens // 512) } } }
  for _, length in ipairs { 64, 128, 192, 256, 384, 512 } do
    local order = sr.curriculum { tokens = options.tokens, length = length }
    arms[#arms + 1] = { name = length, loader = open { order = order } }
  end
  for turn = 0, options.turns do
    for _, arm in ipairs(arms) do
      local seconds, tokens = train(arm.loader, bert, optimizer)
      if turn > 0 then arm.best = math.max(arm.best or 0, tokens / seconds) end
    end
  end
  print(("full-length packed training: %.0f real tokens/s"):format(arms[1].best))
  for i = 2, #arms do
    local arm = arms[i]
    print(("length %3d: %.0f real tokens/s, %.3f of that"):format(arm.name, arm.best, arm.best / arms[1].best))
  end
end

local PARTS = { draws = draws, rows = rows, stages = stages }
for _, name in ipairs { "draws", "rows", "stages" } do
  if options.part == "all" or options.part == name then PARTS[name]() end
end
