-- predict - label lines with the head of a model.

local failure = require("seqrun.failure")
local input = require("seqrun.predict.input")
local json = require("seqrun.core.json")
local predict = require("seqrun.predict")
local verb = require("seqrun.predict.verb")

local command = { summary = "label lines of text with a fine-tuned model: one JSON object per line" }

local function number(word)
  local x = tonumber(word)
  if x then return x end
  return nil, ("'%s' is not a number"):format(word)
end

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("files", "the input; default: standard input"):args("*")
  cmd:option("--format", "lines, tsv (fields), csv or jsonl (objects); default: by the name of the file, or lines")
    :choices { "lines", "tsv", "csv", "jsonl" }
  cmd:flag("--pair", "lines are pairs: TEXT<TAB>PAIR; as --format tsv")
  cmd:flag("--text", "repeat the input in the output")
  cmd:option("--stride", "question answering: tokens between the starts of windows of a long context"):argname("N")
    :convert(number):default("128")
  cmd:option("--null-threshold", "question answering: answer nothing if the null score exceeds the best by this")
    :argname("X"):convert(number):default("0")
  verb.define(cmd)
  cmd:flag("--json", "the output is JSONL with or without this")
  cmd:epilog([[input by task (fields of tsv and csv in this order, keys of jsonl):
  classification, regression    text [pair]
  multiple choice               text choice choice ...       {"text": "..", "choices": ["..", ".."]}
  tokens                        text                         or {"words": ["..", ".."]}
  question answering            question context

examples:
  seqrun predict runs/finetune_classify < lines.txt      {"label":"yes","line":1,"probability":0.93,...}
  printf 'Is it?\tIt is.\n' | seqrun predict runs/finetune_pair --pair]])
end

---Kinds whose items have several fields.
local TABULAR = { choice = true, squad = true }

local function input_options(args, predictor)
  local wanted = predictor.kind.input
  local format = verb.format(args)
  if format == "lines" and (args.pair or TABULAR[predictor.head.kind]) then format = "tsv" end
  return {
    files = verb.files(args), format = format, keys = wanted.keys, optional = wanted.optional, lists = wanted.lists,
  }
end

---Adds what identifies the item.
local function add_origin(result, item, keys, with_text)
  result.line, result.id = item.line, item.id
  if not with_text then return end
  for _, key in ipairs(keys) do result[key] = result[key] or item[key] end
end

function command.run(args)
  local opened = verb.open(args)
  if not opened.facts.kind then
    return nil, ("%s has no task head; fine-tune it first, or use seqrun encode"):format(opened.facts.path), "data"
  end
  local predictor = predict.new(opened.model, {
    tokenizer = opened.tokenizer, max_len = opened.max_len, rows = args.batch_tokens, stride = args.stride,
    null_threshold = args.null_threshold,
  })
  local options = input_options(args, predictor)
  local items, message, code, rows = input.open(options)
  if not items then return nil, message, code end
  local guard <close> = rows
  local wrong = 0
  for result, item in predictor:each(items) do
    add_origin(result, item, options.keys, args.text)
    if item.wrong then wrong = wrong + 1 end
    if not io.stdout:write(json.encode(result), "\n") then return 0 end -- a closed pipe
  end
  verb.check_end()
  verb.tell_cut(predictor.counts, opened.max_len)
  if wrong > 0 then
    failure.raise("data", "%d lines could not be used; they have `error` in the output", wrong)
  end
  return 0
end

return command
