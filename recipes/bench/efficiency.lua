-- efficiency.lua - does a curriculum or token dropping help?  Arms, seeds, budgets; held-out loss and a task.
--
--     build/seqrun recipes/bench/efficiency.lua                       8 arms, 3 seeds, 100 % and 50 % of the tokens
--     build/seqrun recipes/bench/efficiency.lua arms=baseline,token_drop seeds=1 tokens=2e5 shares=1 out=runs/try
--     build/seqrun recipes/bench/efficiency.lua hours=2               stop before the run that begins after 2 hours
--     build/seqrun recipes/bench/efficiency.lua only=report
--
-- Repeating the command continues where it stopped, also in the middle of a run.  Every arm trains a small BERT on two
-- novels and the definitions of WordNet (Debian's package wordnet-base) until the same number of effective tokens, with
-- the same decay over them, on the same examples with new masks in every update, drawn by the same sampler
-- (batch.ramp=32).  Then it is fine-tuned to say to which domain a definition belongs; the definitions that accuracy is
-- measured on are part of the text, without their domains, for all arms alike.
--
-- With peak=2e-3 and warmup=60 some seeds collapse and predict one word for ever; at 1e-3 and 200 they learn.

local directory = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = directory .. "/?.lua;" .. package.path

local arms = require("efficiency_arms")
local common = require("common")
local report = require("efficiency_report")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local options = common.options({
  out = "runs/efficiency", arms = table.concat(arms.NAMES, ","), seeds = "1,2,3", shares = "1,0.5", tokens = 1e7,
  hours = 1000, task = true, layers = 4, hidden = 128, evaluations = 6, threads = 0, only = "",
  peak = 1e-3, warmup = 200, tune_epochs = 4, tune_peak = 1e-3,
}, arg)

local began, program = sys.now(), assert(sys.real_path("/proc/self/exe")) -- before a build may replace it

local function split(text)
  local list = {}
  for word in text:gmatch("[^,]+") do list[#list + 1] = word end
  return list
end

local function numbers(text)
  local list = {}
  for i, word in ipairs(split(text)) do list[i] = assert(tonumber(word), text) end
  return list
end

local function quote(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end

---Runs the program itself; ends the experiment if it fails, so that a repeated command continues.
local function run(words)
  local line = { quote(program) }
  for i, word in ipairs(words) do line[i + 1] = quote(word) end
  local ok, how, code = os.execute(table.concat(line, " "))
  if ok then return end
  io.stderr:write(("efficiency: %s ended with %s %d; repeat the command to continue\n"):format(words[1], how, code))
  os.exit(how == "exit" and code or 1)
end

---The text: two novels, and the definitions of all nouns, verbs, adjectives and adverbs.
local function prepare(path)
  if sys.exists(path) then return end
  local definitions = {}
  for _, kind in ipairs { "noun", "verb", "adj", "adv" } do
    local file = "/usr/share/wordnet/data." .. kind
    if not sys.exists(file) then sr.must(nil, file .. " is missing; apt-get install wordnet-base", "missing") end
    for line in io.lines(file) do
      local gloss = line:match("^%d+ %d+ .-| (.*)$")
      if gloss then definitions[#definitions + 1] = gloss:gsub("%s+$", "") .. ".\n" end
    end
  end
  local text = options.out .. "/definitions.txt"
  sr.must(sys.write_file(text, table.concat(definitions, "\n")))
  local novels = directory .. "/../data/"
  sr.must(sr.data.prepare {
    inputs = { novels .. "emma.txt", novels .. "mansfieldpark.txt", text }, vocab = { size = 4000 }, out = path,
  })
end

---The rarity of the examples that a seed draws.
local function rarity(path, seed)
  local folder = ("%s/metrics-%d"):format(options.out, seed)
  local file = folder .. "/text.rarity.metric"
  if sys.exists(file) then return file end
  sr.must(sys.make_dirs(folder))
  local corpus = sr.must(sr.data.open(path, { held = 0.05 }))
  sr.must(sr.data.analyze { data = corpus, metrics = { "rarity" }, out = folder, max_len = 128, seed = seed })
  return file
end

---Arguments that all arms share.
local function usual(path, seed, tokens)
  local words = {
    "recipes/curriculum.lua", "data.file=" .. path, "seed=" .. seed, "rate.by=effective_tokens",
    ("rate.total=%d"):format(tokens), "rate.decay=linear", ("rate.peak=%g"):format(options.peak),
    ("rate.warmup=%d"):format(options.warmup), "model.num_hidden_layers=" .. options.layers,
    "model.hidden_size=" .. options.hidden, "model.intermediate_size=" .. 4 * options.hidden,
    "save.every=0", "save.minutes=3", "batch.ramp=32",
    ("eval.every=%d"):format(math.max(1, math.ceil(tokens / 2000 / options.evaluations))), -- an update has about 2,000
    "log.every=10", "--quiet",
  }
  if options.threads > 0 then words[#words + 1] = ("--threads=%d"):format(options.threads) end
  return words
end

---Trains one arm; a run that has ended is not repeated.
local function pretrain(folder, name, share, seed, path)
  local tokens = math.floor(options.tokens * share)
  local curve = report.curve(folder)
  if curve[#curve] and curve[#curve].effective_tokens >= tokens then return end
  local words = usual(path, seed, tokens)
  local own = arms.words(name, { tokens = tokens, rarity = rarity(path, seed) })
  table.move(own, 1, #own, #words + 1, words)
  if sys.exists(folder .. "/config.yaml") then
    words[#words + 1] = "--resume=" .. folder
  else
    table.move({ "--out", folder }, 1, 2, #words + 1, words)
  end
  run(words)
end

---Accuracy after fine-tuning.
local function finetune(folder, seed)
  local out, task = folder .. "/task", options.out .. "/task"
  local curve = report.curve(out)
  if #curve > 0 then return curve[#curve].accuracy or curve[#curve].classify_accuracy end
  if not sys.exists(task .. "/dev.tsv") then run { "recipes/data/wordnet.lua", "out=" .. task, "--quiet" } end
  run {
    "recipes/finetune.lua", "task=classify",
    "preset=demo", "init.from=" .. folder, "data.train=" .. task .. "/train.tsv",
    "data.dev=" .. task .. "/dev.tsv", "eval.epochs=0", "epochs=" .. options.tune_epochs,
    ("rate.peak=%g"):format(options.tune_peak), "seed=" .. seed, "--quiet",
    (sys.exists(out) and "--resume=" or "--out=") .. out,
  }
  curve = report.curve(out)
  return curve[#curve].accuracy or curve[#curve].classify_accuracy
end

---What a finished run has; nil if it has not ended.
local function result(folder, name, share, seed)
  local curve = report.curve(folder)
  local last = curve[#curve]
  if not last or last.effective_tokens < math.floor(options.tokens * share) then return nil end
  local task = report.curve(folder .. "/task")
  local scored = task[#task] or {}
  return {
    folder = folder, arm = name, share = share, seed = seed, loss = last.mlm_loss, step = last.step,
    effective_tokens = last.effective_tokens, raw_tokens = last.raw_tokens, train_seconds = last.train_seconds,
    accuracy = scored.accuracy or scored.classify_accuracy,
  }
end

local shares, seeds, names, runs = numbers(options.shares), numbers(options.seeds), split(options.arms), {}
for _, name in ipairs(names) do assert(arms.TITLES[name], "efficiency: unknown arm " .. name) end
local path = options.out .. "/text.sqr"
sr.must(sys.make_dirs(options.out))
if options.only ~= "report" then prepare(path) end

for _, seed in ipairs(seeds) do
  for _, share in ipairs(shares) do
    for _, name in ipairs(names) do
      local folder = ("%s/%s-%g-%d"):format(options.out, name, share, seed)
      if options.only ~= "report" and sys.now() - began < options.hours * 3600 then
        pretrain(folder, name, share, math.tointeger(seed), path)
        if options.task then finetune(folder, math.tointeger(seed)) end
        print(("%s: done after %.0f s"):format(folder, sys.now() - began))
      end
      runs[#runs + 1] = result(folder, name, share, math.tointeger(seed))
    end
  end
end

print(("\n%s; %d layers, hidden size %d, %.3g effective tokens"):format(common.machine(), options.layers,
  options.hidden, options.tokens))
report.print(runs, shares)
report.write_curves(options.out .. "/curves.tsv", runs)
local picture = require("efficiency_svg").draw(runs, shares)
if picture then
  sr.must(sys.write_file(options.out .. "/curves.svg", picture))
  print(("%s/curves.tsv and curves.svg have the curves"):format(options.out))
end
