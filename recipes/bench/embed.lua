-- embed.lua - contrastive training, to be run in turns with sentence-transformers on the same pairs.
--
--   build/seqrun recipes/bench/embed.lua train=pairs.csv init=DIR [batch=32] [updates=20] [max_len=128] [threads=1]
--       [precision=f32] [rate=2e-5] [micro_packs=64]
--   python3 recipes/bench/peers/embed.py pairs.csv DIR --batch 32 --updates 20 --threads 1 [--bf16]
--
-- An update is forward, loss, backward, clipping and AdamW over `batch` rows of the file, with the dropout of the
-- checkpoint; making its batches is part of the time.  Prints real tokens per second by the clock and by processor
-- time, which other programs on the machine disturb less; the first update warms up.

local sr = require("seqrun")
local common = require("common")
local json = require("seqrun.core.json")
local merged = require("seqrun.base.merged")
local sys = require("seqrun.core.sys")

local options = common.options({
  train = "", init = "", batch = 32, updates = 20, max_len = 128, threads = 1, precision = "f32", rate = 2e-5,
  micro_packs = 64,
}, arg)
if options.train == "" or options.init == "" then
  print("nothing to measure: give train=FILE and init=DIR, a Hugging Face BERT")
  return
end
sr.use("cpu", { threads = options.threads })

local task = sr.tasks.embed
local scratch = os.tmpname()
local facts = sr.must(sr.checkpoint.pretrained(options.init))
sr.must(sr.data.read {
  task = "embed", files = options.train, out = scratch .. ".sqr",
  vocab = sr.must(facts.tokenizer:open { literal = true }),
})
local corpus = sr.must(sr.data.open(scratch .. ".sqr", { held = 0 }))
local scored = require("seqrun.tasks.embed.texts").unpack(sr.must(corpus:column("about", 1))).score ~= nil

local head = sr.nn.heads.embed { objective = { loss = scored and "cosent" or "mnrl", temperature = 0.05 } }
local model = sr.nn.bert(merged({ precision = options.precision }, facts.config, { heads = { head } }))
sr.must(sr.checkpoint.load(facts.path, { model = model.params, seed = 1 }))
local optimizer = sr.optim.adamw(model.params, { decay = 0.01 })
local contrast = task:contrast(model)

local groups = sr.data.groups(corpus, { groups = options.batch, seed = 1 })
local loader = sr.must(sr.data.loader {
  data = corpus, max_len = options.max_len, too_long = "truncate", micro_packs = options.micro_packs,
  targets = task:targets(), order = function(update)
    local list = {}
    for _, group in ipairs(groups(update)) do table.move(group, 1, #group, #list + 1, list) end
    return list
  end,
})

local began, cpu, tokens
for i = 0, options.updates do
  if i == 1 then began, cpu, tokens = sys.now(), os.clock(), 0 end
  local update = loader:next()
  contrast:begin(update)
  for batch in update:batches(model.params) do
    local scope <close> = sr.scope()
    contrast:losses(batch).total:backward()
  end
  optimizer:step { rate = options.rate, clip = 1 }
  if tokens then tokens = tokens + update.tokens end
end
sr.synchronize()
print(json.encode {
  updates = options.updates, tokens_per_second = tokens / (sys.now() - began),
  tokens_per_cpu_second = tokens / (os.clock() - cpu),
})
sys.remove(scratch)
sys.remove(scratch .. ".sqr")
