-- analyze - metrics of the sequences of a data set, for curricula.

local converters = require("seqrun.config.converters")
local analysis = require("seqrun.analysis")
local data = require("seqrun.data")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local show = require("seqrun.analysis.show")
local sys = require("seqrun.core.sys")
local verb = require("seqrun.predict.verb")

local command = { summary = "metrics of every sequence of a data set: length, rarity, loss, ..., for curricula" }

---A seed may be any integer, as in a config.
local integer = converters.number("'%s' is not an integer", math.tointeger)

local probability = converters.number("'%s' is not a probability from 0 to 1", function(x)
  return x >= 0 and x <= 1 and x
end)

function command.define(cmd)
  cmd:argument("data", "a .sqr data set")
  cmd:option("--metric", "metrics, by name, or .lua files that return a function of a sequence"):argname("NAME")
    :args("+"):count("*")
  cmd:option("--checkpoint", "of the metric loss: a run, a checkpoint or a Hugging Face directory"):argname("DIR")
  cmd:option("--corpus", "of the metric tfidf: the data set to compare with"):argname("FILE")
  cmd:option("--slots", "of rarity: entries of the table of counts; default: the vocabulary plus 1"):argname("N")
    :convert(converters.whole(1, 1 << 21))
  cmd:option("--out", "directory of the metric files; default: that of the data set"):argname("DIR")
  cmd:option("--part", "train or held"):choices { "train", "held" }:default("train")
  cmd:option("--held", "fraction of a text that is held out, as in data.held"):argname("X"):convert(probability)
  cmd:option("--max-len", "of text: maximum length of a sequence, as in data.max_len; default 128"):argname("N")
    :convert(converters.whole(5, 65535))
  cmd:option("--split", "of fixed examples: in pieces of --max-len tokens, as too_long: split"):args(0)
  cmd:option("--single", "of text: single sequences instead of pairs"):args(0)
  cmd:option("--short-seq-prob", "of text, as in data.short_seq_prob; default 0.1"):argname("P"):convert(probability)
  cmd:option("--short-seq-by", "of text, as in data.short_seq_by"):choices { "sequence", "document" }
  cmd:option("--seed", "of text: seed of the pairs; default 42, as in runs"):argname("N"):convert(integer)
  cmd:option("--threads", "number of threads; default: all"):argname("N"):convert(converters.threads)
  verb.define_device(cmd)
  cmd:option("--precision", "of the metric loss: f32 or bf16"):choices { "f32", "bf16" }:default("f32")
  formats.define(cmd)
  cmd:epilog([[metrics:
  length            tokens, [CLS] and [SEP] included
  rarity            sum of -ln p(token); rarity_integer: truncated; length_rarity: by length, ties by rarity
  token_counts      accumulated: occurrences of each token
  compressibility   bytes of the text after deflate over bytes before
  tfidf             distance (1 - cosine) to --corpus
  loss              mean loss of the sequence under --checkpoint

examples:
  seqrun analyze runs/data/novels.sqr --metric length rarity
  seqrun analyze runs/data/novels.sqr --metric loss --checkpoint runs/pretrain --max-len 128
  seqrun analyze runs/data/novels.sqr --metric capitals.lua]])
end

---The options of the metrics that have some.
local function specs_of(args)
  local specs = {}
  for _, list in ipairs(args.metric) do
    for _, name in ipairs(type(list) == "table" and list or { list }) do
      local spec = name
      if name == "loss" then spec = { name = name, checkpoint = args.checkpoint, precision = args.precision } end
      if name == "tfidf" then spec = { name = name, corpus = args.corpus } end
      if name:find("rarity") and args.slots then spec = { name = name, slots = args.slots } end
      specs[#specs + 1] = spec
    end
  end
  return specs
end

function command.run(args)
  local specs = specs_of(args)
  if #specs == 0 then
    return nil, "analyze: name the metrics, such as --metric length rarity; see seqrun analyze --help", "config"
  end
  local corpus = failure.must(data.open(args.data, { held = args.held }))
  if args.out then failure.must(sys.make_dirs(args.out)) end
  verb.use_device(args)
  sys.signals("work")
  local made = failure.must(analysis.analyze {
    data = corpus, metrics = specs, out = args.out, part = args.part, max_len = args.max_len,
    nsp = not args.single and corpus:info().kind == "text", short_seq_prob = args.short_seq_prob,
    short_seq_by = args.short_seq_by, seed = args.seed or 42,
    too_long = args.split and "split" or nil, threads = args.threads,
    progress = args.format == "table" and function(line) io.stderr:write("seqrun: ", line, "\n") end or nil,
  })
  local reports = {}
  for i, metric in ipairs(made) do reports[i] = show.figures(metric) end
  formats.tell(args, {
    json = function() return { data = args.data, metrics = reports } end,
    text = function()
      local parts = {}
      for i, report in ipairs(reports) do parts[i] = show.text(report) end
      return table.concat(parts, "\n\n")
    end,
    rows = function(format)
      return formats.rows(reports, { "name", "path", "count", "distinct", "min", "max", "mean", "sum" }, format)
    end,
  })
  return 0
end

return command
