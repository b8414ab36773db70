-- finetune.lua - fine-tuning, packed, beside Transformers on the same sequences, padded.
--
--   build/seqrun recipes/bench/finetune.lua train=FILE init=DIR [task=classify|regress] [text=1] [pair=] [label=2]
--       [header=false] [sequences=32] [max_len=128] [updates=6] [turns=3] [threads=2] [micro_packs=8]
--       [peer=true] [python=python3]
--
-- An update is forward, backward, clipping and AdamW over `sequences` examples, with the dropout of the checkpoint.
-- The systems take turns: in each turn, each runs the same `updates` updates.
--
-- packed   seqrun; making the batches is part of the time
-- longest  Transformers, padded to the longest sequence of the update
-- full     Transformers, padded to max_len
--
-- Prints real tokens per second and how many times as fast packed is: medians over the turns.
-- peer=false measures only packed.  recipes/bench/peers/finetune.py is the other side; it needs torch and transformers.

local sr = require("seqrun")
local common = require("common")
local json = require("seqrun.core.json")
local peer = require("peer")
local sys = require("seqrun.core.sys")

local options = common.options({
  train = "", init = "", task = "classify", text = "1", pair = "", label = "2", header = false, sequences = 32,
  max_len = 128, updates = 6, turns = 3, threads = 2, micro_packs = 8, peer = true, python = "python3", rate = 2e-5,
}, arg)
if options.train == "" or options.init == "" then
  print("nothing to measure: give train=FILE and init=DIR, a Hugging Face BERT")
  return
end
sr.use("cpu", { threads = options.threads })

-- ---- data ----------------------------------------------------------------------------------------

local facts = sr.must(sr.checkpoint.pretrained(options.init))

---A column: its name, or its number from 1.
local function column(value) return value ~= "" and (math.tointeger(tonumber(value)) or value) or nil end

---The training file as a data set.
local function read(out)
  local vocab = sr.must(facts.tokenizer:open { literal = true })
  return sr.must(sr.data.read {
    task = options.task, files = options.train, out = out, vocab = vocab, keep_text = false,
    columns = {
      text = column(options.text), pair = column(options.pair), label = column(options.label), header = options.header,
    },
  })
end

local scratch = os.tmpname()
local report = read(scratch .. ".sqr")
local corpus = sr.must(sr.data.open(scratch .. ".sqr"))

local function open_loader(prefetch)
  return sr.must(sr.data.loader {
    data = corpus, by = "sequences", sequences = options.sequences, max_len = options.max_len, too_long = "truncate",
    micro_packs = options.micro_packs, seed = 1, targets = { "label" }, prefetch = prefetch,
    per_square = 1 / (6 * facts.config.hidden_size),
  })
end

---The sequences of a batch, appended to `all`.
local function sequences_of(batch, all)
  local ids, types, lengths = batch:host "ids", batch:host "types", batch.layout:lengths()
  local labels = batch.targets.label.labels:reshape(-1):totable()
  for i, start in ipairs(batch.layout:starts()) do
    all[#all + 1] = {
      ids = table.move(ids, start + 1, start + lengths[i], 1, {}),
      types = table.move(types, start + 1, start + lengths[i], 1, {}), label = labels[i],
    }
  end
end

---Writes the sequences of all updates, one update per line; returns the real tokens of a turn.
local function dump(path)
  local file, tokens, loader <close> = assert(io.open(path, "w")), {}, open_loader(0)
  for turn = 1, options.turns do
    tokens[turn] = 0
    for _ = 1, options.updates do
      local update, all = loader:next(), json.array {}
      for i = 1, update.count do sequences_of(update:batch(i), all) end
      tokens[turn] = tokens[turn] + update.tokens
      file:write(json.encode(all), "\n")
    end
  end
  assert(file:close())
  return tokens
end

-- ---- the two sides -------------------------------------------------------------------------------

local head = options.task == "regress" and sr.nn.heads.regress { outputs = 1 }
  or sr.nn.heads.classify { labels = report.labels }
local bert = sr.must(sr.nn.pretrained(options.init, { heads = { head } }))
local optimizer = sr.optim.adamw(bert.params, { decay = 0.01 })

---Trains on one update; returns the seconds to get its batches, to compute, and of the optimizer.
local function train(loader)
  local began = sys.now()
  local update = loader:next()
  local drawn = sys.now()
  for batch in update:batches(bert.params) do
    local scope <close> = sr.scope()
    local loss = bert:losses(batch).total
    loss:backward()
    loss:item()
  end
  local computed = sys.now()
  optimizer:step { rate = options.rate, clip = 1 }
  return drawn - began, computed - drawn, sys.now() - computed
end

local spent = { data = 0, compute = 0, optimizer = 0 }

---Seconds of the next updates.
local function packed(loader)
  local began = sys.now()
  for _ = 1, options.updates do
    local data, compute, step = train(loader)
    spent.data, spent.compute, spent.optimizer = spent.data + data, spent.compute + compute, spent.optimizer + step
  end
  return sys.now() - began
end

-- ---- the comparison ------------------------------------------------------------------------------

local tokens = dump(scratch .. ".jsonl")
local other = options.peer and peer.start(options.python, common.folder .. "/peers/finetune.py", {
  scratch .. ".jsonl", options.init, options.task, report.labels and #report.labels or 1, options.max_len,
  options.threads,
})
print(("%s of %d sequences from %s, %s"):format(options.task, options.sequences, facts.path, common.machine()))
if other then print(other.about) end

do -- warm up
  local loader <close> = open_loader(0)
  train(loader)
end
local loader <close> = open_loader(2)
local arms = peer.in_turns(options.turns, function() return packed(loader) end, options.updates, { "longest", "full" },
  other)

local count = options.turns * options.updates
common.versus({ "packed", "longest", "full" }, arms, tokens, "updates", options.updates)
print(("an update of packed: %.1f tokens; %.1f ms to get its batches, %.1f to compute, %.1f of the optimizer"):format(
  common.sum(tokens) / count, 1e3 * spent.data / count, 1e3 * spent.compute / count, 1e3 * spent.optimizer / count))
if other then other:stop() end
for _, suffix in ipairs { "", ".sqr", ".jsonl" } do os.remove(scratch .. suffix) end
