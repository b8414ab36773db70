-- encode - vectors of texts, from any BERT.

local counted = require("seqrun.base.format").counted
local converters = require("seqrun.config.converters")
local encode = require("seqrun.predict.encode")
local encoding = require("seqrun.predict.encoding")
local failure = require("seqrun.base.failure")
local input = require("seqrun.predict.input")
local json = require("seqrun.core.json")
local run_config = require("seqrun.predict.run_config")
local same_file = require("seqrun.base.same_file")
local sys = require("seqrun.core.sys")
local tables = require("seqrun.predict.tables")
local vector_file = require("seqrun.predict.vector_file")
local verb = require("seqrun.predict.verb")

local command = { summary = "sentence embeddings: a vector for each line of text" }

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("files", "text, one per line; .jsonl: objects with `text`; .csv, .tsv: rows of one text or two; "
    .. "KEY=VALUE to name columns; default: standard input"):args("*")
  cmd:option("--format", "format of the input; default: by the name of the file, or lines")
    :choices { "lines", "tsv", "csv", "jsonl" }
  cmd:option("--pool", "mean of all tokens, cls, or last token; default: as in the directory, or mean")
    :choices { "mean", "cls", "last" }
  cmd:mutex(
    cmd:flag("--raw", "do not normalise the vectors to length 1"),
    cmd:flag("--normalise", "normalise them, overriding the directory; default: as in the directory, or yes"))
  cmd:option("--prompt", "text before each text, or the name of one in the directory; default: its default prompt; "
    .. "'': none"):argname("TEXT")
  cmd:option("--dimensions", "the first N numbers of each vector, for models trained so (Matryoshka); default: all")
    :argname("N"):convert(converters.whole(1, 65535))
  cmd:option("--out", "write a safetensors file with the tensor `embeddings` and the texts, which recipes/search.lua "
    .. "reads, instead of JSONL"):argname("FILE")
  verb.define(cmd, { auto = true })
  cmd:flag("--json", "with --out: print the counts as one JSON object")
  cmd:epilog([[examples:
  seqrun encode minilm < lines.txt > vectors.jsonl       {"line":1,"embedding":[0.01,...]}
  seqrun encode minilm lines.txt --out vectors.safetensors --pool cls --raw
  seqrun encode minilm reviews.csv columns.text=review   a table with a header]])
end

---What writes a line of output; 9 digits are exact for f32.
local function printer(several)
  return function(item)
    local place = { line = item.line, file = several and item.file or nil, error = item.wrong }
    if item.wrong then return (io.stdout:write(json.encode(place), "\n")) end
    local numbers = {}
    for i, x in ipairs(item.vector) do numbers[i] = ("%.9g"):format(x) end
    local head = json.encode(place):sub(1, -2)
    return (io.stdout:write(head, ',"embedding":[', table.concat(numbers, ","), "]}\n"))
  end
end

---Passes each vector on; returns their number, or nil if nobody reads any more; and how many items could not be used.
local function write_all(each, put)
  local count, wrong, first = 0, 0, nil
  for item in each do
    count = count + 1
    if item.wrong then
      wrong, first = wrong + 1, first or ("%s:%d: %s"):format(item.file, item.line, item.wrong)
    end
    local good, message, code = put(item)
    if not good then
      if not code then -- a closed pipe, unless a signal has ended the write
        verb.check_end()
        return nil
      end
      failure.raise(code, "%s", message)
    end
  end
  verb.check_end()
  return count, wrong, first
end

local function report(args, counts, seconds, size)
  local facts = { texts = counts.texts, truncated = counts.cut or 0, size = size, out = args.out, seconds = seconds }
  if args.json then print(json.encode(facts)) else
    print(("%s: %s of %d numbers in %.1f s"):format(args.out, counted(counts.texts, "vector"), size, seconds))
  end
end

---How vectors are made.
local function options_of(args, facts)
  local normalise = nil
  if args.normalise or args.raw then normalise = args.normalise == true end
  local options = failure.must(encode.pooling(facts, { pool = args.pool, normalise = normalise, prompt = args.prompt }))
  options.rows, options.bytes = args.batch_tokens, args.out ~= nil
  return options
end

---The items of the input, and what is to be closed.
local function open_input(args)
  local files, arguments = run_config.split(args.files)
  local format = verb.format(args.format, files)
  local columns = tables.named("encode", format, arguments)
  if columns then return tables.texts(verb.files(files), format, columns) end
  local items, message, code, rows = input.open {
    files = verb.files(files), format = format, keys = { "text", "pair" }, optional = { pair = true },
    named = args.format ~= "lines" and "columns.text=NAME" or nil,
  }
  return failure.must(items, message, code), rows
end

function command.run(args)
  local opened = verb.open(args, encode.heads)
  local next_item, rows = open_input(args)
  local guard <close> = rows
  local head = opened.model.heads[1]
  local counts, began, size = {}, sys.now(), head and head.size or opened.model.design.hidden
  if args.dimensions and args.dimensions > size then
    failure.raise("config", "--dimensions %d, but a vector has %d numbers", args.dimensions, size)
  end
  size = args.dimensions or size
  local function items()
    local item = next_item()
    if args.out and item and item.wrong then failure.raise("data", "%s:%d: %s", item.file, item.line, item.wrong) end
    return item
  end
  local options = options_of(args, opened.facts)
  options.head = head
  options.model, options.tokenizer, options.max_len = opened.model, opened.tokenizer, opened.max_len
  options.counts, options.dimensions = counts, args.dimensions
  local each = encoding.each(items, options)
  if not args.out then
    local _, wrong, first = write_all(each, printer(#run_config.split(args.files) > 1))
    verb.tell_cut(counts, opened.max_len)
    if (wrong or 0) > 0 then verb.fail_wrong(wrong, first, "see `error` in the output") end
    return 0
  end
  failure.must(same_file(args.out, args.files, "--out"))
  local out <close> = failure.must(vector_file.open(args.out, size, vector_file.facts(opened.facts.path, options)))
  counts.texts = write_all(each, function(item)
    return out:add(item.vector, item.pair and item.text .. "\t" .. item.pair or item.text)
  end)
  failure.must(out:commit())
  verb.tell_cut(counts, opened.max_len)
  report(args, counts, sys.now() - began, size)
  return 0
end

return command
