-- saving.lua - does a curriculum or token dropping save data?  Arms, seeds, budgets; held-out loss and a task.
--
--     build/seqrun recipes/papers/saving.lua                     all three together, 5 seeds, 3 shares of the tokens
--     build/seqrun recipes/papers/saving.lua arms=baseline,composed,rarity,token_drop shares=1,0.5 seeds=1,2,3
--     build/seqrun recipes/papers/saving.lua tasks=domains,novels                               and what they are worth
--     build/seqrun recipes/papers/saving.lua seeds=1 size=0.01 out=runs/try                                a rehearsal
--     build/seqrun recipes/papers/saving.lua hours=2               stop before the run that begins after 2 hours
--     build/seqrun recipes/papers/saving.lua only=report
--     build/seqrun recipes/papers/saving.lua part=finetune init=minilm train=MRPC/train.tsv dev=MRPC/dev.tsv
--
-- Every arm trains a small BERT on two novels and the definitions of WordNet (Debian's package wordnet-base) until the
-- same number of effective tokens, 4 million at size 1, with the same warm-up and decay over them, on the same examples
-- with new masks in every update, drawn by the same sampler (batch.ramp=32).  With tasks=NAMES it is then fine-tuned
-- for tasks of readout.lua, as are random weights; the texts of the tasks are part of the text, without their labels,
-- for all arms alike.  data=FILE.sqr trains on that instead.  part=finetune is in saving_finetune.lua.
--
-- Repeating the command goes on where it stopped, also in the middle of a run.

local experiment = require("experiment") -- first: it says where common.lua is
local arms = require("saving_arms")
local common = require("common")
local readout = require("readout")
local report = require("saving_report")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local options = experiment.open("saving", {
  part = "pretrain", data = "", arms = "", shares = "", tokens = 4e6, tasks = "", glue = "", layers = 4, hidden = 128,
  evaluations = 6, peak = 1e-3, warmup = 0.1,
  init = "", train = "", dev = "",
  words = "task=pair,columns.header=false,columns.text=4,columns.pair=5,columns.label=1",
  tune_tokens = 3e5, tune_batch = 32, max_len = 128, score = "accuracy",
}, { "part", "data", "tokens", "layers", "hidden", "peak", "warmup", "evaluations", "init", "train",
  "dev", "words", "tune_tokens", "tune_batch", "max_len", "score" }, arg)

---What part= is: its arms, and how one is trained and what it shows.
---@class seqrun.papers.Part
---@field names string[]
---@field titles table<string, string>
---@field file string of the picture
---@field about string
---@field y { key: string, label: string } of the curves
---@field before? fun(seed: integer) what all arms of a seed need
---@field after? fun() prints what only this part has
---@field train fun(name: string, share: number, seed: integer)
---@field result fun(name: string, share: number, seed: integer): table?

local finetune = options.part == "finetune"
if options.shares == "" then options.shares = finetune and "1" or "1,0.75,0.5" end
local shares = experiment.numbers(options.shares)
for _, share in ipairs(shares) do
  if share <= 0 or share > 1 then common.refuse("shares: %g is not a share of the tokens; use shares such as "
    .. "1,0.5", share) end
end
if not finetune and options.part ~= "pretrain" then
  common.refuse("part=%s: it is pretrain or finetune", options.part)
end
local tokens_of_all = options.tokens * options.size

---The rarity of the examples that a seed draws.
local function rarity(path, seed)
  local folder = ("%s/metrics-%d"):format(options.out, seed)
  local file = ("%s/%s.rarity.metric"):format(folder, path:match("([^/]*)%.sqr$") or path:match("[^/]*$"))
  if sys.exists(file) then return file end
  sr.must(sys.make_dirs(folder))
  local corpus = sr.must(sr.data.open(path, { held = 0.05 }))
  sr.must(sr.data.analyze { data = corpus, metrics = { "rarity" }, out = folder, max_len = 128, seed = seed,
    nsp = false })
  return file
end

---Weights as they are drawn: what a task is compared with.
local UNTRAINED = "untrained"

local tasks = {}
for i, name in ipairs(finetune and {} or experiment.words(options.tasks)) do tasks[i] = readout.task(options, name) end

---Arguments that all arms share.
local function usual(path, seed, tokens)
  return {
    experiment.RECIPES .. "curriculum.lua", "data.file=" .. path, "data.nsp=false", "seed=" .. seed,
    "rate.by=effective_tokens", ("rate.total=%d"):format(tokens), "rate.decay=linear",
    ("rate.peak=%g"):format(options.peak), "rate.warmup_by=effective_tokens",
    ("rate.warmup=%d"):format(tokens * options.warmup // 1), ("model.num_hidden_layers=%d"):format(options.layers),
    ("model.hidden_size=%d"):format(options.hidden), ("model.intermediate_size=%d"):format(4 * options.hidden),
    "save.every=0", "save.minutes=3", "batch.ramp=32", "log.every=10",
    ("eval.every=%d"):format(math.max(1, math.ceil(tokens / 2000 / options.evaluations))),
  }
end

local function pretrain(folder, name, tokens, seed, path)
  local words = usual(path, seed, tokens)
  local own = name == UNTRAINED and { "rate.peak=1e-12", "rate.warmup=0" } or arms.words(name, {
    tokens = tokens, least = 32, max_len = 128, metric = "rarity", easiest = 5, file = rarity(path, seed),
  })
  experiment.train(options, folder, table.move(own, 1, #own, #words + 1, words))
end

local function folder_of(name, share, seed) return ("%s/%s-%g-%d"):format(options.out, name, share, seed) end

---What a finished run has; nil if it has not ended.
local function result(name, share, seed)
  local folder = folder_of(name, share, seed)
  if not experiment.finished(folder) then return nil end
  local curve = experiment.curve(folder)
  local last = curve[#curve]
  return {
    folder = folder, curve = curve, arm = name, share = share, seed = seed, loss = last.mlm_loss, step = last.step,
    effective_tokens = last.effective_tokens, raw_tokens = last.raw_tokens, train_seconds = last.train_seconds,
  }
end

---Scores of the tasks of an arm, and less those of the baseline with the same share and of random weights.
local function print_tasks(names)
  local verdicts = {}
  for _, task in ipairs(tasks) do
    local function scores(name, share, base, base_share)
      return experiment.over(options.seeds, function(seed)
        local own = readout.score(task, folder_of(name, share, seed))
        local other = base and readout.score(task, folder_of(base, base_share or share, seed))
        return own and (other or not base) and own - (other or 0)
      end)
    end
    print(("%s, random weights: %s"):format(task.name, experiment.shown(scores(UNTRAINED, 1), "%.3f")))
    for _, share in ipairs(shares) do
      for _, name in ipairs(names) do
        local title = ("%s, %s at %g %%"):format(task.name, name, 100 * share)
        print(("%s: %s"):format(title, experiment.shown(scores(name, share), "%.3f")))
        local function add(base, base_share)
          verdicts[#verdicts + 1] = { name = title .. " less " .. base, values = scores(name, share, base, base_share) }
        end
        add(UNTRAINED, 1)
        if name ~= "baseline" then add("baseline") end
      end
    end
  end
  experiment.conclude(options, verdicts)
end

---@return seqrun.papers.Part
local function pretraining()
  local names = options.arms == "" and arms.USUAL or options.arms == "all" and arms.NAMES
    or experiment.words(options.arms)
  for _, name in ipairs(names) do
    if not arms.TITLES[name] then
      common.refuse("unknown arm '%s'; choose all,%s", name, table.concat(arms.NAMES, ","))
    end
  end
  local path = options.data ~= "" and options.data or options.only ~= "report" and experiment.data(options.out, "text")
  if options.data ~= "" and not sys.exists(path) then common.refuse("data=%s: no such file", path) end
  return {
    names = names, titles = arms.TITLES, file = "saving", y = { key = "mlm_loss", label = "nats" }, result = result,
    about = ("%d layers, hidden size %d, %.3g effective tokens"):format(options.layers, options.hidden, tokens_of_all),
    train = function(name, share, seed)
      pretrain(folder_of(name, share, seed), name, math.floor(tokens_of_all * share), seed, path)
      for _, task in ipairs(tasks) do readout.train(options, task, folder_of(name, share, seed), seed) end
    end,
    before = function(seed)
      local folder = folder_of(UNTRAINED, 1, seed)
      if #tasks > 0 then pretrain(folder, UNTRAINED, 1, seed, path) end
      for _, task in ipairs(tasks) do readout.train(options, task, folder, seed) end
    end,
    after = function() print_tasks(names) end,
  }
end

local part, runs = finetune and require("saving_finetune")(options) or not finetune and pretraining(), {}
if not part then return end
experiment.each_seed(options, function(seed)
  if part.before then part.before(seed) end
  for _, share in ipairs(shares) do
    for _, name in ipairs(part.names) do
      if experiment.goes_on(options) then part.train(name, share, seed) end
    end
  end
end)
for _, seed in ipairs(options.seeds) do
  for _, share in ipairs(shares) do
    for _, name in ipairs(part.names) do runs[#runs + 1] = part.result(name, share, seed) end
  end
end

print(("\n%s; %s"):format(common.machine(), part.about))
report.print(runs, shares, part)
if part.after then part.after() end
report.write_curves(options.out .. "/curves.tsv", runs, part)
experiment.draw(("%s/%s.svg"):format(options.out, part.file), "data efficiency", report.panels(runs, shares, part))
