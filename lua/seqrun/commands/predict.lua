-- predict - label lines with the head of a model.

local answers_file = require("seqrun.predict.answers_file")
local converters = require("seqrun.config.converters")
local decisions = require("seqrun.scores.decisions")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local predict = require("seqrun.predict")
local readers = require("seqrun.data.readers")
local run_config = require("seqrun.predict.run_config")
local same_file = require("seqrun.base.same_file")
local source = require("seqrun.predict.source")
local submission = require("seqrun.predict.submission")
local verb = require("seqrun.predict.verb")

local command = { summary = "label lines of text with a fine-tuned model: one JSON object per line" }

local function number(word)
  local x = tonumber(word)
  if x then return x end
  return nil, ("'%s' is not a number"):format(word)
end

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("files", "the input, and KEY=VALUE to name its columns; default: standard input"):args("*")
  cmd:option("--format", "lines, tsv (fields), csv, jsonl (objects), conll or squad; default: as the run, by the name "
    .. "of the file, or lines"):choices { "lines", "tsv", "csv", "jsonl", "conll", "squad" }
  cmd:flag("--pair", "lines are pairs: TEXT<TAB>PAIR; as --format tsv")
  cmd:option("--head", "of a model with several heads, the one to use; default: the first"):argname("NAME")
  cmd:flag("--text", "repeat the input in the output")
  cmd:option("--stride", "question answering, token classification: tokens between the starts of windows of a long "
    .. "text; default: as the run, 128"):argname("N"):convert(converters.whole(1, 65535))
  cmd:option("--null-threshold", "question answering: answer nothing if the null score exceeds the best by this; "
    .. "1e9: always answer, as in SQuAD 1.1; default: 0")
    :argname("X"):convert(number)
  cmd:option("--nbest", "question answering: list the N best answers"):argname("N"):convert(converters.whole(1, 1000))
  cmd:option("--split", "token classification: where a text is cut into words; bert: at white space and punctuation, "
    .. "white: at white space"):choices { "bert", "white" }
  verb.define_decode(cmd)
  cmd:option("--submission", "write a file for GLUE (index<TAB>prediction) or SQuAD (JSON of answers by id, "
    .. "beside it null_odds.json and, with --nbest, nbest_predictions.json) instead of JSONL"):argname("FILE")
  verb.define(cmd, { auto = true })
  verb.define_task(cmd)
  cmd:flag("--json", "the output is JSONL with or without this")
  cmd:epilog([[input by task (fields of tsv and csv in this order, keys of jsonl):
  classification, regression    text [pair]
  multiple choice               text choice choice ...       {"text": "..", "choices": ["..", ".."]}
  tokens                        text                         or {"words": ["..", ".."]}
  question answering            question context             or a SQuAD file (.json)
Tables and JSON objects are read with the columns of the run, or with columns.text=NAME, ...

examples:
  seqrun predict runs/finetune_classify < lines.txt      {"label":"yes","line":1,"probability":0.93,...}
  seqrun predict runs/finetune_classify new.csv columns.text=sentence columns.id=id
  seqrun predict runs/finetune_squad dev-v2.0.json --submission predictions.json
  printf 'Is it?\tIt is.\n' | seqrun predict runs/finetune_pair --pair]])
end

---The name of the head, if the model has it.
local function head_of(args, model)
  if not args.head or model:head(args.head) then return args.head end
  local names = model:loss_names()
  failure.raise("config", "the model has no head '%s'; it has %s", args.head, table.concat(names, ", "))
end

---What writes a submission, by what a task predicts.
local SUBMISSION = { labels = submission, answers = answers_file }

---Refuses options that the task of the head does not have.
local function check_options(args, kind, windows)
  verb.check_decode(args, kind)
  readers.check_windows({ task = kind.name, windows = windows }, kind.reader)
  local lists = kind.prediction.input and kind.prediction.input.lists or {}
  if args.split and not lists.words then
    failure.raise("config", "--split is for token classification (task=tokens), but the model is for task=%s; leave it "
      .. "out", kind.name)
  end
  local stride = args.stride and not kind.reader.cuts and not windows
  local given = args.nbest and "--nbest" or stride and "--stride" or args.null_threshold and "--null-threshold"
  if kind.reader.windows or not given then return end
  failure.raise("config", "%s is for question answering (task=squad)%s, but the model is for task=%s; leave it out",
    given, stride and ", token classification and data.windows" or "", kind.name)
end

---Refuses an id that an earlier row of a submission has.
local function check_id(seen, item)
  local place = ("%s:%d"):format(item.file, item.line)
  if item.id and seen[item.id] then
    failure.raise("data", "%s: its id '%s' is that of %s too, and a submission has one prediction for an id", place,
      item.id, seen[item.id])
  end
  seen[item.id or place] = place
end

---Adds what identifies the item.
local function add_origin(result, item, keys, with_text)
  result.line, result.id = item.line, item.id
  if not with_text then return end
  for _, key in ipairs(keys) do result[key] = result[key] or item[key] end
end

---Writes all results; returns how many items could not be used, which was the first, and how many there were; nil if
---nobody reads any more.
local function write_all(args, predictor, items, keys, out, several)
  local wrong, first, count, seen = 0, nil, 0, {}
  for result, item in predictor:each(items) do
    count = count + 1
    if item.wrong then
      wrong, first = wrong + 1, first or ("%s:%d: %s"):format(item.file, item.line, item.wrong)
    end
    if out then
      check_id(seen, item)
      out:add(result, item)
    else
      add_origin(result, item, keys, args.text)
      result.file = several and item.file or nil
      if not io.stdout:write(json.encode(result), "\n") then
        verb.check_end()
        return nil
      end
    end
  end
  verb.check_end()
  return wrong, first, count
end

function command.run(args)
  local opened = verb.open(args)
  if not opened.facts.kind then
    failure.raise("data", "%s has no task head; fine-tune it first, or use seqrun encode", opened.facts.path)
  end
  local writer = SUBMISSION[kinds.get(opened.facts.kind).prediction.submission]
  if args.submission and not writer then
    failure.raise("config", "--submission needs one label, value or answer per row, which %s does not have",
      opened.facts.kind)
  end
  local files, arguments = run_config.split(args.files)
  local usual = run_config.reading(opened.facts, arguments)
  if not args.max_len and usual.max_len then opened.max_len = math.min(usual.max_len, opened.max_len) end
  local predictor = predict.new(opened.model, {
    tokenizer = opened.tokenizer, head = head_of(args, opened.model), max_len = opened.max_len,
    rows = args.batch_tokens, stride = args.stride or usual.stride, query = usual.query, nbest = args.nbest,
    null_threshold = args.null_threshold, split = args.split, decode = args.decode, windows = usual.windows,
    too_long = args.stride and "windows" or usual.too_long,
  })
  local kind = kinds.get(predictor.head.kind)
  check_options(args, kind, usual.windows)
  local decided = decisions.text(predictor.head)
  if decided then verb.note("decided by %s", decided) end
  local items, rows = source.open {
    facts = opened.facts, kind = kind, labels = predictor.head.labels, files = files,
    arguments = arguments, format = args.format, pair = args.pair,
  }
  local guard <close> = rows
  failure.must(same_file(args.submission, args.files, "--submission"))
  local out <close> = args.submission and failure.must(writer.open(args.submission)) or nil
  local wrong, first, count = write_all(args, predictor, items, predictor.kind.input.keys, out, #files > 1)
  if not wrong then return 0 end
  if count == 0 and files[1] and files[1] ~= "-" then failure.raise("data", "%s: no rows", files[1]) end
  verb.tell_cut(predictor.counts, opened.max_len)
  if wrong > 0 then verb.fail_wrong(wrong, first, out and "nothing is written" or "see `error` in the output") end
  if out then failure.must(out:commit()) end
  return 0
end

return command
