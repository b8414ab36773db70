-- eval - score a checkpoint on labelled data.

local converters = require("seqrun.converters")
local evaluate = require("seqrun.run.evaluate")
local failure = require("seqrun.failure")
local json = require("seqrun.core.json")
local report = require("seqrun.scoring.report")
local run_config = require("seqrun.predict.run_config")
local sr_data = require("seqrun.data")
local summary = require("seqrun.run.summary")
local tasks = require("seqrun.tasks")
local verb = require("seqrun.predict.verb")

local command = { summary = "score a checkpoint on labelled data: metrics, confusion matrix, worst mistakes" }

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("files", "labelled files (CSV, TSV, JSONL, CoNLL, SQuAD) or a data set (.sqr), and KEY=VALUE"):args("+")
  cmd:option("--mistakes", "number of worst mistakes to list"):argname("N"):convert(converters.whole(0, 1 << 20))
    :default("10")
  cmd:option("--part", "of a text data set: train or held"):choices { "train", "held" }:default("held")
  verb.define(cmd)
  cmd:flag("--json", "one JSON object")
  cmd:epilog([=[The keys data.* and columns.* say how files are read; their defaults are those of the run.

examples:
  seqrun eval runs/finetune_classify test.csv
  seqrun eval some/bert dev.tsv columns.text=sentence columns.label=label data.labels=[no,yes]]=])
end

---The labels of the model; names for classes that have none: their ids.
local function name_classes(cfg, facts)
  cfg.data.labels = cfg.data.labels or facts.labels
  if cfg.data.labels or not (facts.kind == "classify" or facts.kind == "tokens") then return end
  cfg.data.labels = {}
  for i = 1, facts.outputs do cfg.data.labels[i] = tostring(i - 1) end
end

---The examples of files, as the task reads them.
local function labelled(args, opened, files, arguments)
  local task = tasks[opened.facts.kind]
  local cfg = run_config.load(opened.facts, arguments)
  cfg.data.train, cfg.data.held = files, 0
  if args.max_len then cfg.data.max_len = args.max_len end
  cfg.data.max_len = math.min(cfg.data.max_len, opened.facts.config.max_position_embeddings or 512)
  name_classes(cfg, opened.facts)
  local data = task:data(cfg)
  if not args.json then
    for _, note in ipairs(data.notes) do verb.note("%s", (note:gsub("^train: ", ""))) end
  end
  cfg.batch.evaluation = math.max(1, args.batch_tokens // 32)
  return (task:loader(cfg, { dev = data.train, dev_part = "train", pretrained = data.pretrained }, "dev"))
end

---The examples of a text data set, for pretraining heads.
local function masked(args, opened, files)
  local corpus, message, code = sr_data.open(files[1], { vocab = opened.tokenizer.vocab })
  if not corpus then
    failure.raise(code, "%s has no task head, so it is scored on text: %s; fine-tune it to score labels",
      opened.facts.path, message)
  end
  local heads = {}
  for _, head in ipairs(opened.model.heads) do heads[#heads + 1] = head.name end
  return failure.must(sr_data.loader {
    data = corpus, part = args.part, max_len = math.min(args.max_len or 128, opened.max_len), epochs = 1, prefetch = 0,
    sequences = math.max(1, args.batch_tokens // 64), targets = heads,
  })
end

local function loader_of(args, opened)
  local files, arguments = run_config.split(args.files)
  if #files == 0 then failure.raise("config", "eval: no file to score on; give a labelled file or a data set") end
  if opened.facts.kind then return labelled(args, opened, files, arguments) end
  if #opened.model.heads == 0 then
    failure.raise("data", "%s has no heads to score; fine-tune it first", opened.facts.path)
  end
  return masked(args, opened, files)
end

---What the evaluation found, on stdout.
local function tell(args, opened, line, order, scoring)
  if args.json then
    print(json.encode {
      checkpoint = opened.facts.path, metrics = line, heads = scoring and report.plain(scoring, args.mistakes) or nil,
    })
    return
  end
  print(("%s on %s"):format(opened.facts.path, table.concat((run_config.split(args.files)), ", ")))
  for _, score in ipairs(summary.scores(line, order, {})) do print("  " .. score) end
  if scoring then print(report.text(scoring, args.mistakes)) end
end

function command.run(args)
  local opened = verb.open(args)
  local loader <close> = loader_of(args, opened)
  local line, order, scoring = evaluate.run(opened.model, loader, { from = loader:cursor(), updates = 0 })
  if not line then verb.check_end() end
  line.masked = line.masked > 0 and line.masked or nil
  tell(args, opened, line, order, scoring)
  return 0
end

return command
