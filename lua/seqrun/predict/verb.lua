-- verb.lua - what the commands encode, predict and eval share: options, the model of a directory, messages.

local checkpoint = require("seqrun.checkpoint")
local counted = require("seqrun.base.format").counted
local converters = require("seqrun.config.converters")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.data.readers.formats")
local opening = require("seqrun.predict.opening")
local output = require("seqrun.base.output")
local precision = require("seqrun.predict.precision")
local pretrained = require("seqrun.checkpoint.bert")
local schemes = require("seqrun.scores.schemes")
local sys = require("seqrun.core.sys")
local tasks = require("seqrun.tasks")
local tensor = require("seqrun.tensor")

local verb = {}

---Adds the options of the device.
function verb.define_device(cmd)
  cmd:option("--device", "device: auto, cpu, cuda, cuda:N, ref"):argname("NAME"):default("cpu")
    :convert(devices.converter)
end

---Adds the option that takes the averaged weights.
function verb.define_average(cmd)
  cmd:flag("--average", "use the moving average of the weights, of a run with optimizer.average")
end

---Adds the options of the model.
---@param cmd table
---@param options? { batch_tokens?: string, auto?: boolean, long?: string, specials?: false } auto: --precision may be
---  that; specials: false where it has no texts that may hold any; long: what happens to longer texts, "are truncated"
function verb.define(cmd, options)
  options = options or {}
  cmd:option("--max-len", ("maximum length in tokens; longer texts %s; default: the model's"):format(
    options.long or "are truncated")):argname("N"):convert(converters.whole(opening.LEAST, opening.MOST))
  cmd:option("--batch-tokens", "tokens per batch"):argname("N"):convert(converters.whole(16, 1 << 20))
    :default(options.batch_tokens or "2048")
  if options.auto then
    cmd:option("--precision", "f32 or bf16; auto: bf16 if the device multiplies bf16 and vectors stay within 1 %")
      :choices { "auto", "f32", "bf16" }:default("f32")
  else
    cmd:option("--precision", "f32 or bf16"):choices { "f32", "bf16" }:default("f32")
  end
  if options.specials ~= false then
    cmd:flag("--parse-specials", "read special tokens that stand in texts, such as [E1], as these tokens; default: as "
      .. "the run did, or as plain text")
  end
  verb.define_average(cmd)
  verb.define_device(cmd)
  cmd:option("--threads", "number of threads; default: all"):argname("N"):convert(converters.threads)
end

---Adds the option for the tags of words.
function verb.define_decode(cmd)
  cmd:option("--decode", "token classification: valid: only sequences of tags that the scheme of the model allows; "
    .. "greedy: the most probable tag of each word; or the scheme; default: as in training")
    :choices { "valid", "greedy", table.unpack(schemes.NAMES) }
end

---Refuses --decode where the task has no tags.
---@param args table
---@param kind? table
function verb.check_decode(args, kind)
  if not args.decode or kind and kind.prediction.chain then return end
  failure.raise("config", "--decode is for token classification (task=tokens), but the model is for task=%s; leave it "
    .. "out", kind and kind.name or "none")
end

---Adds the option for models of tasks that do not ship.
function verb.define_task(cmd)
  cmd:option("--task", "Lua file with the task of the model, if the task does not ship with seqrun"):argname("FILE")
end

---Formats by the ending of a file; one without an ending is read as standard input is.
local FORMATS = {
  tsv = "tsv", csv = "csv", jsonl = "jsonl", ndjson = "jsonl", txt = "lines", text = "lines", [""] = "lines",
}

---What to do with files of other endings.
local WAYS = {
  json = "write an object per line (`jq -c '.[]' IN.json > OUT.jsonl`)",
  sqr = "give the files that it was made from; seqrun eval scores data sets",
}

local function by_name(path) return FORMATS[formats.ending(path)] or formats.ending(path) end

---The format of the input: as set, by the name of the first file, or lines.
---@param format? string
---@param files string[]
---@param reader? table of a task, which may have formats of its own
---@param option? string that sets the format, "--format"
---@return string
---@return string? own the reader's format, where the ending can mean that too
function verb.format(format, files, reader, option)
  if format then return format end
  option = option or "--format"
  for i = 2, #files do
    if by_name(files[i]) ~= by_name(files[1]) then
      failure.raise("config", "%s and %s are of different formats, by their names; read them one after the other, or "
        .. "say %s", files[1], files[i], option)
    end
  end
  local ending = formats.ending(files[1] or "")
  local _, own = next(reader and reader.formats or {})
  if own == "squad" and ending == "json" then return own end
  if own == "conll" and formats.of(files[1] or "", nil) == own then return own end
  if not FORMATS[ending] then
    failure.raise("config", "%s: not a known format of texts, by its name; %s, or say %s lines", files[1],
      WAYS[ending] or "convert it to .jsonl, .csv or lines of text", option)
  end
  return FORMATS[ending], reader and reader.formats and reader.formats[ending]
end

---The files to read; standard input without any.
---@param files string[]
---@return string[]
function verb.files(files)
  for _, file in ipairs(files) do
    if sys.is_dir(file) then failure.raise("config", "%s is a directory; name files, such as %s/*.txt", file, file) end
  end
  return #files > 0 and files or { "-" }
end

---Makes the device of the options the current one.
function verb.use_device(args)
  tensor.use(args.device, { threads = args.threads })
end

---The tokenizer of a directory; failures are raised.
---@param facts seqrun.Pretrained
---@param args? { parse_specials?: boolean }
---@return seqrun.text.Tokenizer
function verb.tokenizer(facts, args) return opening.tokenizer(facts, args) end

---A line for stderr.
verb.note = output.note

---Says that a run has weights that may be better than the newest ones.
function verb.note_best(args)
  if sys.is_dir(args.dir .. "/best") then verb.note("using the newest checkpoint; the best is in %s/best", args.dir) end
end

---The weights of a directory in a precision.
local function load_model(args, opened, heads, dtype)
  local model, _, report = failure.must(pretrained(args.dir, {
    heads = heads and heads(opened.facts), precision = dtype, average = args.average,
  }))
  model.training = false
  return model, report
end

---The model in bf16 if that is faster here and close enough, else as it is.
local function faster(args, opened, heads, model)
  if args.precision ~= "auto" or not precision.multiplies_bf16() then return model end
  local rounded = load_model(args, opened, heads, "bf16")
  local error = precision.error(model, rounded, opened.tokenizer)
  if not (error <= precision.TOLERANCE) then
    verb.note("computing in f32, as bf16 changes vectors by up to %.1f %%", error * 100)
    return model
  end
  verb.note("computing in bf16, which changes vectors by up to %.1f %%; --precision f32 is exact", error * 100)
  return rounded
end

---Opens the model of a directory; failures are raised.
---@param args table
---@param heads? fun(facts: seqrun.Pretrained): table instead of those of the directory
---@return { model: seqrun.Bert, facts: seqrun.Pretrained, tokenizer: seqrun.text.Tokenizer, max_len: integer }
function verb.open(args, heads)
  if args.task then failure.must(tasks.open(args.task)) end
  local facts = failure.must(checkpoint.pretrained(args.dir))
  local opened = { facts = facts, tokenizer = verb.tokenizer(facts, args) }
  opened.max_len = opening.max_len(facts, args.max_len, facts.max_len)
  verb.use_device(args)
  verb.note_best(args)
  local model, report = load_model(args, opened, heads, args.precision ~= "auto" and args.precision or "f32")
  opening.check_whole(facts, report)
  opened.model = faster(args, opened, heads, model)
  sys.signals("stream")
  return opened
end

---Fails if a signal ended the stream early.
function verb.check_end()
  local signal = sys.caught()
  if signal then failure.raise("stopped", "stopped by signal %s", signal) end
end

---Fails since some lines could not be used.
---@param wrong integer how many
---@param first string the first one, and why
---@param rest? string
---@param done? string "used"
function verb.fail_wrong(wrong, first, rest, done)
  failure.raise("data", "%s could not be %s%s %s%s", counted(wrong, "line"), done or "used",
    wrong > 1 and ", the first is" or ":", first, rest and "; " .. rest or "")
end

---Tells how many texts were truncated.
function verb.tell_cut(counts, max_len)
  if not counts.cut then return end
  verb.note("%s %s truncated to %d tokens; --max-len sets the limit", counted(counts.cut, "text"),
    counts.cut == 1 and "was" or "were", max_len)
end

return verb
