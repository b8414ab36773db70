-- babylm.lua - an entry of the BabyLM challenge, track strict-small: 10 million words, at most 10 epochs.
--
-- The text: the challenge's corpus of 10 million words, a file for each of its sources.  Words are counted as the
-- challenge does, by white space, when the data set is prepared and in every update:
--
--     seqrun recipes/prepare.lua 'inputs=[babylm_10M/*.train]' out=runs/data/babylm.sqr vocab.size=16384
--     seqrun recipes/babylm.lua
--     seqrun recipes/babylm.lua preset=tiny                    a trial on the novels
--
-- The rules are checked: a data set of more words than the track allows is refused, and so are more than 10 epochs.
-- The models after 1, 2, ... 10, 20, ... 100 million words are kept in runs/babylm/chck_1M and so
-- on, as the challenge names its revisions, each a directory that Transformers loads; the last one is runs/babylm.
--
--     seqrun score runs/babylm/chck_10M blimp/          minimal pairs, from the challenge's evaluation data
--     seqrun export runs/babylm DIR                     the final model, to be uploaded as revision `main`
--
-- What else a full entry needs: the corpus itself, which is not in this repository; some hours (on 2 cores days: use
-- preset=tiny to try it); the challenge's zero-shot evaluation and fine-tuning of each model (babylm-eval), and an
-- upload of each chck_ directory as the revision of its name.  Track strict: track=strict and 100 million words, with
-- save.at.words up to 1_000_000_000, every 100 million.

local sr = require "seqrun"
local c = sr.config
local task = sr.tasks.pretraining

local WORDS = { strict_small = 10000000, strict = 100000000 }

local run <close> = sr.run.open {
  recipe = arg, task = task, keys = {
    { "track", c.enum({ "strict_small", "strict" }, { default = "strict_small",
      doc = "track of the challenge: 10 or 100 million words" }) },
    { "epochs", c.integer { default = 10, min = 1, max = 10, doc = "passes over the words; the rules allow 10" } },
  },
}
local cfg = run.config

---The words of a data set, which the track must allow.
local function count_words(corpus)
  local train, held = corpus:info().train, corpus:info().held
  if not train.words then
    sr.must(nil, ("babylm: %s has not counted its words; prepare it with recipes/prepare.lua"):format(
      corpus:info().path), "config")
  end
  local words = train.words + held.words
  if words > WORDS[cfg.track] then
    sr.must(nil, ("babylm: %s has %d words, but track %s allows %d; prepare less text"):format(corpus:info().path,
      words, cfg.track, WORDS[cfg.track]), "config")
  end
  return train.words, words
end

local corpus, message, code = sr.data.open(cfg.data.file, { held = cfg.data.held })
if code == "missing" then
  message = ("babylm: %s; prepare the challenge's corpus: seqrun recipes/prepare.lua 'inputs=[babylm_10M/*.train]' "
    .. "out=runs/data/babylm.sqr vocab.size=16384"):format(message:match("^[^;]*"))
end
sr.must(corpus, message, code)
local each, words = count_words(corpus)

local function loader(part)
  local options = task.loader_options(cfg, corpus, part, run:saved_plan())
  if part == "train" then options.epochs = cfg.epochs end -- the data ends there
  return sr.must(sr.data.loader(options))
end

local bert = sr.nn.bert(task.model_options(cfg, corpus)):initialise(cfg.seed)
bert.recompute = cfg.model.recompute

local train = loader("train")
local optimizer = sr.optim[cfg.optimizer.name](bert.params, task.optimizer_options(cfg, bert, train))
local rate = sr.run.schedule(cfg)

run:start {
  corpus = corpus, loader = train, held = cfg.data.held > 0 and loader("held") or nil, model = bert,
  optimizer = optimizer, rate = rate,
  notes = { ("track %s: %d words in the text, %d of them trained on, at most %d times"):format(cfg.track, words, each,
    cfg.epochs) },
}

for step, update in run:steps(train) do
  run:before(update)
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = run:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(update.counters), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end
