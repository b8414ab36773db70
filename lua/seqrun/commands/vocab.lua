-- vocab - trains a vocabulary on text: WordPiece as a vocab.txt, byte-level BPE as a tokenizer.json.

local converters = require "seqrun.config.converters"
local core = require "seqrun.core.text"
local failure = require("seqrun.base.failure")
local inputs = require "seqrun.text.inputs"
local same_file = require("seqrun.base.same_file")
local sys = require "seqrun.core.sys"

local MOST = 1 << 20 -- tokens of a vocabulary
local LEAST_BPE = 5 + 256 -- special tokens and bytes

local vocab = { summary = "train a WordPiece or byte-level BPE vocabulary on text" }

function vocab.define(cmd)
  cmd:argument("files", "text files, .jsonl, directories, .gz or .zst; - is standard input"):args("+")
  cmd:option("--size", "vocabulary size"):argname("N"):convert(converters.whole(6, MOST)):default("30522")
  cmd:option("--out", "the file to write: a vocab.txt, or with --model bpe a tokenizer.json"):argname("FILE"):count(1)
  cmd:option("--model", "wordpiece, or bpe: byte-level BPE"):argname("NAME"):choices { "wordpiece", "bpe" }
    :default("wordpiece")
  cmd:flag("--cased", "keep case and accents; BPE always does")
  cmd:option("--min-freq", "minimum number of occurrences of a pair"):argname("N")
    :convert(converters.whole(1, MOST)):default("2")
  cmd:option("--limit-alphabet", "maximum number of characters in the alphabet of WordPiece"):argname("N")
    :convert(converters.whole(1, MOST)):default("1000")
  cmd:option("--column", "the member of JSONL records that has their text"):argname("NAME"):default("text")
  cmd:option("--where", "only JSONL records for which this holds"):argname("CONDITION")
  cmd:option("--threads", "number of threads; default: all"):argname("N"):convert(converters.threads)
  cmd:flag("--json", "print one JSON object")
  cmd:epilog([[examples:
  seqrun vocab --size 30000 --out vocab.txt my/texts
  seqrun vocab --model bpe --size 50000 --out tokenizer.json my/texts
  seqrun vocab --out vocab.txt --column body --where "lang == 'en'" dump.jsonl.zst
  zcat dump.gz | seqrun vocab --out vocab.txt -]])
end

---What was left out, as text.
local function notes(counts)
  local list = {}
  local function note(n, what) if n > 0 then list[#list + 1] = ("%d %s"):format(n, what) end end
  note(counts.too_long, "words of more than 100 characters left out")
  note(counts.out_of_reach, "words with characters outside the alphabet left out")
  note(counts.forgotten, "occurrences of rare words dropped")
  note(counts.invalid, "invalid UTF-8 sequences dropped")
  return list
end

local function report(args, made, counts)
  if args.json then
    counts.size, counts.out, counts.fingerprint = #made, args.out, made:fingerprint()
    print(require("seqrun.core.json").encode(counts))
    return
  end
  print(("%s: %d tokens from %d words, %d of them different"):format(args.out, #made, counts.words, counts.distinct))
  if #made < args.size then
    print(("  the text does not yield more; %d were requested"):format(args.size))
  end
  for _, line in ipairs(notes(counts)) do print("  " .. line) end
end

---Trains byte-level BPE and writes its tokenizer.json.
local function train_bpe(args, records)
  if args.size < LEAST_BPE then
    return nil, ("vocab: --size is %d; byte-level BPE has at least %d tokens"):format(args.size, LEAST_BPE), "config"
  end
  local made, counts = failure.must(core.train_bpe(args.files, {
    size = args.size, min_frequency = args.min_freq, threads = args.threads, records = records,
  }))
  failure.must(sys.write_file(args.out, made .. "\n"))
  local tokenizer = failure.must(core.parse_tokenizer(made, args.out))
  report(args, tokenizer, counts)
  return 0
end

---Trains a WordPiece vocabulary and writes its vocab.txt.
local function train_wordpiece(args, records)
  local made, counts = failure.must(core.train(args.files, {
    size = args.size, min_frequency = args.min_freq, limit_alphabet = args.limit_alphabet,
    lowercase = not args.cased, threads = args.threads, records = records,
  }))
  failure.must(made:save(args.out))
  report(args, made, counts)
  return 0
end

function vocab.run(args)
  failure.must(same_file(args.out, args.files, "--out"))
  failure.must(sys.make_dirs(args.out:match("^(.*)/") or "."))
  failure.must(sys.check_writable(args.out))
  local how = { columns = { text = args.column }, where = args.where }
  return (args.model == "bpe" and train_bpe or train_wordpiece)(args, inputs.texts(args.files, how, "vocab"))
end

return vocab
