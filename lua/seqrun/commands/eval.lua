-- eval - score a checkpoint: on labelled data with its task's head, else on text.

local converters = require("seqrun.config.converters")
local counted = require("seqrun.base.format").counted
local decided = require("seqrun.checkpoint.decided")
local deciding = require("seqrun.tasks.shared.deciding")
local evaluate = require("seqrun.run.evaluation.evaluate")
local kinds = require("seqrun.base.kinds")
local labels = require("seqrun.data.readers.labels")
local live = require("seqrun.draw.live")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local masked = require("seqrun.predict.masked")
local report = require("seqrun.scores.report")
local run_config = require("seqrun.predict.run_config")
local summary = require("seqrun.run.screen.summary")
local schemes = require("seqrun.scores.schemes")
local tasks = require("seqrun.tasks")
local verb = require("seqrun.predict.verb")

local command = { summary = "score a checkpoint on other data: losses, metrics, confusion matrix, worst mistakes" }

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("files", "labelled files (CSV, TSV, JSONL, CoNLL, SQuAD), a data set (.sqr), or for a model without "
    .. "a task's head also text; and KEY=VALUE"):args("+")
  cmd:option("--mistakes", "number of worst mistakes to list"):argname("N"):convert(converters.whole(0, 1 << 20))
    :default("10")
  cmd:option("--part", "of a data set: train or held; default: held of the one that the run was trained on, "
    .. "all of others"):choices { "train", "held" }
  cmd:option("--head", "of a model with several heads, the one to score; default: the first"):argname("NAME")
  cmd:flag("--fit", "fit the temperature and the thresholds on these files, as decide.temperature=true and "
    .. "decide.threshold=f1 or precision:0.9 say, or as the run did, and write them beside the weights, in decide.json")
  verb.define_decode(cmd)
  verb.define(cmd)
  verb.define_task(cmd)
  formats.define(cmd)
  cmd:epilog([=[The keys data.* and columns.* say how files are read, mask.* how tokens are masked; their defaults are
those of the run.  Of two classes, f1 and average precision are those of the second label.

examples:
  seqrun eval runs/pretrain runs/data/novels.sqr
  seqrun eval runs/pretrain other.txt
  seqrun eval runs/pretrain reviews.csv columns.text=review
  seqrun eval runs/finetune_classify test.csv
  seqrun eval runs/finetune_classify dev.csv --fit decide.threshold=f1 decide.temperature=true
  seqrun eval some/bert dev.tsv columns.text=sentence columns.label=label data.labels=[no,yes]]=])
end

---Makes the head that is named, else the first, the one whose task reads the files.
local function choose_head(args, facts)
  local heads, names, chosen = facts.task_heads or {}, {}, nil
  if #heads == 0 and args.head then
    failure.raise("config", "--head: %s does not have several task heads; leave --head out", facts.path)
  end
  for i, head in ipairs(heads) do
    names[i] = head.name
    if head.name == (args.head or heads[1].name) then chosen = head end
  end
  local all = table.concat(names, ", ")
  if #heads > 0 and not chosen then
    failure.raise("config", "--head: %s has no head '%s'; its heads are %s", facts.path, args.head, all)
  end
  if chosen then
    facts.kind, facts.labels, facts.outputs, facts.target = chosen.kind, chosen.labels, chosen.outputs, chosen.name
  end
  if #heads > 1 and not args.head then
    verb.note("scoring the head %s of %s; --head chooses another", chosen.name, all)
  end
end

---A task whose target has the name of a head, which may be another than the task gives it.
local function renamed(task, name)
  local target = task.target
  if not name or type(target) == "string" and target == name then return task end
  local own = { name = name, column = type(target) == "table" and (target.column or target.name) or target }
  for key, value in pairs(type(target) == "table" and target or {}) do own[key] = own[key] or value end
  local several = #task:targets() > 1
  return setmetatable({ targets = not several and function() return { own } end or nil }, { __index = task })
end

local function head_of(opened) return opened.model:head(opened.facts.target or opened.model.heads[1].name) end

---Lets the head fit what --fit asks for; refuses what would be fitted for nothing.
local function set_fit(args, opened, cfg, arguments)
  local facts, given = opened.facts, false
  for _, word in ipairs(arguments) do given = given or word:find("^decide%.") ~= nil end
  if given and not args.fit then
    failure.raise("config", "decide.* says what --fit fits; give --fit, or leave it out")
  end
  if not args.fit then return end
  local head = head_of(opened)
  head.decide = nil
  deciding.set(cfg.decide, head, tasks[facts.kind])
  if not head.deciding and not given then
    failure.raise("config", "--fit: say what to fit, decide.threshold=f1 (or precision:0.9) or decide.temperature=true")
  end
  opened.fits = head
end

---Writes what was fitted; returns where, nil without --fit.
local function write_fit(opened, scoring)
  local head = opened.fits
  if not head then return nil end
  for _, entry in ipairs(scoring.heads) do
    local problem = entry.head == head and entry.fitted and entry.fitted.problem
    if problem then failure.raise("data", "--fit: %s; nothing is written", problem) end
  end
  return decided.write(opened.facts, head.name, head.decide or { items = 0 })
end

---The examples of files, as the task reads them.
local function labelled(args, opened, files, arguments)
  local task = renamed(tasks[opened.facts.kind], opened.facts.target)
  local cfg = run_config.load(opened.facts, arguments)
  set_fit(args, opened, cfg, arguments)
  head_of(opened).windows = cfg.data.windows
  cfg.data.train, cfg.data.held, cfg.data.scoring = files, 0, true
  if args.max_len then cfg.data.max_len = args.max_len end
  cfg.data.specials = args.parse_specials or cfg.data.specials
  cfg.data.max_len = math.min(cfg.data.max_len, opened.facts.design.longest)
  local known = opened.facts.labels
  cfg.data.labels = cfg.data.labels or known or task.classes and labels.names(nil, opened.facts.outputs) or nil
  local data = task:data(cfg)
  if args.format == "table" then
    for _, note in ipairs(data.notes) do verb.note("%s", (note:gsub("train: ", "", 1))) end
  end
  cfg.batch.evaluation = math.max(1, args.batch_tokens // 32)
  return (task:loader(cfg, { dev = data.train, dev_part = "train", pretrained = data.pretrained }, "dev"))
end

---The loader, and what the losses are compared with: a unigram model of the run's training data.
local function loader_of(args, opened)
  local files, arguments = run_config.split(args.files)
  if #files == 0 then failure.raise("config", "eval: no file to score on; give a labelled file or a data set") end
  if opened.facts.kind then return labelled(args, opened, files, arguments), {} end
  if args.fit then failure.raise("config", "--fit is for a model with the head of a task; fine-tune it first") end
  if #opened.model.heads == 0 and opened.facts.family_heads.replaced then
    failure.raise("data", "%s is a discriminator, whose loss needs its generator: see replaced_loss of the run, or "
      .. "export the generator (--network generator) and score that", opened.facts.path)
  end
  if #opened.model.heads == 0 then
    failure.raise("data", "%s has no heads to score; fine-tune it first", opened.facts.path)
  end
  local loader, what = masked.open(opened.facts, opened.model, files, arguments, {
    vocab = opened.tokenizer.core, part = args.part, max_len = args.max_len, batch_tokens = args.batch_tokens,
  })
  return loader, what.part == "held" and opened.model:baselines(what.corpus) or {}, what
end

local PARTS = { held = ", its held-out part", train = ", its training part", all = "" }

local SEEN = {
  yes = "the model was trained on these texts; on new text it will do worse",
  maybe = "scored the whole data set, since the directory does not record the training data; if this was it, --part "
    .. "held scores the held-out part",
}

---Metrics, and those of each class by head, without what is not a score.
local function scores_of(line, scoring)
  local found = { metrics = line }
  for _, head in ipairs(scoring and report.plain(scoring, 0) or {}) do
    found.classes = found.classes or {}
    found.classes[head.name] = head.classes
  end
  return found
end

---What the evaluation found, on stdout.
local function tell(args, opened, found, baselines, what)
  local line, order, scoring = found.line, found.order, found.scoring
  if args.format ~= "table" then
    return formats.tell(args, {
      json = function()
        return {
          checkpoint = opened.facts.path, part = what and what.part, metrics = line,
          heads = scoring and report.plain(scoring, args.mistakes) or nil,
        }
      end,
      rows = function(format) return formats.facts(scores_of(line, scoring), format) end,
    })
  end
  local part = what and PARTS[what.part] or ""
  local count = line.masked and (": %s"):format(counted(line.masked, "masked token")) or ""
  print(("%s on %s%s%s"):format(opened.facts.path, table.concat((run_config.split(args.files)), ", "), part, count))
  for _, score in ipairs(summary.scores(line, order, baselines)) do print("  " .. score) end
  if what and SEEN[what.seen] then print(live.fit_output("  note: " .. SEEN[what.seen])) end
  local details = scoring and report.text(scoring, args.mistakes) or ""
  if details ~= "" then print(details) end
end

function command.run(args)
  if args.fit and args.average then
    failure.raise("config", "--fit is for the weights of a directory; seqrun export --average makes one of the average")
  end
  local opened = verb.open(args)
  choose_head(args, opened.facts)
  verb.check_decode(args, kinds.get(opened.facts.kind))
  local head = args.decode and head_of(opened)
  if head then head.decode = schemes.of_head(head, args.decode) and args.decode or "greedy" end
  local loader, baselines, what = loader_of(args, opened)
  local guard <close> = loader
  local progress <close> = live.work("evaluating", { unit = "updates", quiet = args.format ~= "table" })
  local line, order, scoring = evaluate.run(opened.model, loader, {
    from = loader:cursor(), updates = 0, baselines = baselines, progress = progress,
  })
  progress:finish()
  if not line then verb.check_end() end
  line.masked = line.masked > 0 and line.masked or nil
  local written = write_fit(opened, scoring)
  tell(args, opened, { line = line, order = order, scoring = scoring }, baselines, what)
  if written then verb.note("wrote %s, which predict, eval and export use from now on", written) end
  return 0
end

return command
