-- saving_finetune.lua - part=finetune of saving.lua: curricula by length and by loss, and token dropping, in
-- fine-tuning a checkpoint on a labelled file, such as MiniLM on MRPC.
--
-- The baseline of a seed trains first, with the largest share of the tokens: the curriculum by loss orders the examples
-- by their loss under it, as the published one does.  All arms end at the same number of effective tokens.

local arms = require("saving_arms")
local common = require("common")
local config = require("seqrun.config")
local experiment = require("experiment")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

---Effective tokens of a run.
local function tokens_of(options, share) return math.floor(options.tune_tokens * options.size * share) end

local function words_of(options, share, seed)
  local tokens = tokens_of(options, share)
  local words = {
    experiment.RECIPES .. "finetune.lua", "init.from=" .. options.init, "data.train=" .. options.train,
    "data.dev=" .. options.dev, "data.folder=" .. options.out .. "/sets",
    ("data.max_len=%d"):format(options.max_len), "seed=" .. seed, "rate.by=effective_tokens",
    "rate.warmup_by=effective_tokens", ("rate.total=%d"):format(tokens), ("rate.warmup=%d"):format(tokens // 10),
    "rate.decay=linear", "rate.peak=1e-4", "eval.epochs=0", ("eval.every=%d"):format(math.max(1, tokens // 1700 // 4)),
    "save.every=0", "save.minutes=3", "log.every=5", ("batch.sequences=%d"):format(options.tune_batch),
  }
  local own = experiment.words(options.words)
  return table.move(own, 1, #own, #words + 1, words)
end

---The data set that these words train on.
local function set_of(words)
  local own = {}
  for i = 2, #words do
    if not words[i]:find("^preset=") then own[#own + 1] = words[i] end
  end
  local task = sr.tasks.choose(own)
  local schema, rules = sr.run.schema(task)
  return task:data(sr.must(config.load { schema = schema, rules = rules, arguments = own }).values).train:info().path
end

local function folder_of(options, name, share, seed)
  return ("%s/finetune-%s-%g-%d"):format(options.out, name, share, seed)
end

---The metric file of the losses of the training examples under the baseline of a seed that had most tokens.
local function losses(options, seed, share)
  local folder = ("%s/metrics-%g-%d"):format(options.out, share, seed)
  local function found()
    for _, name in ipairs(sys.list(folder) or {}) do
      if name:find("%.loss%.metric$") then return folder .. "/" .. name end
    end
  end
  if found() then return found() end
  sr.must(sys.make_dirs(folder))
  experiment.run { "analyze", set_of(words_of(options, share, seed)), "--metric", "loss", "--held", "0",
    "--checkpoint", folder_of(options, "baseline", share, seed), "--out", folder }
  return found() or common.refuse("%s has no metric file of the loss", folder)
end

---Arms that order examples by their loss under the baseline.
local BY_LOSS = { loss = true, composed = true }

local function train(options, name, share, seed, most)
  local words = words_of(options, share, seed)
  local own = arms.words(name, {
    tokens = tokens_of(options, share), least = math.max(8, options.max_len // 8 // 8 * 8), max_len = options.max_len,
    metric = "loss", easiest = 20, file = BY_LOSS[name] and losses(options, seed, most) or nil,
  })
  experiment.train(options, folder_of(options, name, share, seed), table.move(own, 1, #own, #words + 1, words))
end

---The last evaluation, with its loss and its score under their own names; nil if the run has not ended.
local function result(options, name, share, seed)
  local folder = folder_of(options, name, share, seed)
  if not experiment.finished(folder) then return nil end
  local curve = experiment.curve(folder)
  local last = curve[#curve]
  local loss, score = last.loss, last[options.score]
  for key, value in pairs(last) do
    if key:find("_loss$") then loss = loss or value end
    if key:find("_" .. options.score .. "$") then score = score or value end
  end
  return {
    folder = folder, curve = curve, arm = name, share = share, seed = seed, loss = loss, accuracy = score,
    step = last.step, effective_tokens = last.effective_tokens, raw_tokens = last.raw_tokens,
    train_seconds = last.train_seconds,
  }
end

---The arms that are asked for, the baseline first: the others are compared with it.
local function names_of(options)
  local names = { "baseline" }
  for _, name in ipairs(options.arms == "" and arms.TUNING or experiment.words(options.arms)) do
    if not arms.TUNING_TITLES[name] then
      common.refuse("unknown arm '%s'; choose %s", name, table.concat(arms.TUNING, ","))
    end
    if name ~= "baseline" then names[#names + 1] = name end
  end
  return names
end

---@param options table of saving.lua
---@return seqrun.papers.Part? # nil where there is nothing to measure
return function(options)
  for _, key in ipairs { "init", "train", "dev" } do
    if options[key] == "" then
      local example = "part=finetune init=minilm train=MRPC/train.tsv dev=MRPC/dev.tsv"
      return print(("nothing to measure: give %s=, as in %s"):format(key, example))
    end
    if not sys.exists(options[key]) then common.refuse("%s=%s: no such file", key, options[key]) end
  end
  local most = math.max(table.unpack(experiment.numbers(options.shares)))
  return {
    names = names_of(options), titles = arms.TUNING_TITLES, file = "finetune",
    about = ("%s, %.3g effective tokens"):format(options.init, tokens_of(options, 1)),
    y = { key = options.score, label = options.score },
    before = function(seed) train(options, "baseline", most, seed, most) end,
    train = function(name, share, seed) train(options, name, share, seed, most) end,
    result = function(name, share, seed) return result(options, name, share, seed) end,
  }
end
