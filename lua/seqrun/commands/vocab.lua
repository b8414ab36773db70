-- vocab - trains a WordPiece vocabulary on text.

local converters = require "seqrun.config.converters"
local sys = require "seqrun.core.sys"
local text = require "seqrun.text"

local MOST = 1 << 20 -- tokens of a vocabulary

local vocab = { summary = "train a WordPiece vocabulary on text" }

function vocab.define(cmd)
  cmd:argument("files", "text files, directories or .gz; - is standard input"):args("+")
  cmd:option("--size", "vocabulary size"):argname("N"):convert(converters.whole(6, MOST)):default("30522")
  cmd:option("--out", "the file to write"):argname("FILE"):count(1)
  cmd:flag("--cased", "keep case and accents")
  cmd:option("--min-freq", "minimum number of occurrences of a pair"):argname("N")
    :convert(converters.whole(1, MOST)):default("2")
  cmd:option("--limit-alphabet", "maximum number of characters in the alphabet"):argname("N")
    :convert(converters.whole(1, MOST)):default("1000")
  cmd:option("--threads", "number of threads; default: all"):argname("N"):convert(converters.threads)
  cmd:flag("--json", "print one JSON object")
  cmd:epilog([[examples:
  seqrun vocab --size 30000 --out vocab.txt my/texts
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

function vocab.run(args)
  local writable, reason, storage = sys.check_writable(args.out)
  if not writable then return nil, reason, storage end
  local made, counts, code = text.train {
    files = args.files, size = args.size, min_frequency = args.min_freq, limit_alphabet = args.limit_alphabet,
    lowercase = not args.cased, threads = args.threads,
  }
  if not made then return nil, counts, code end
  local saved, message, status = made:save(args.out)
  if not saved then return nil, message, status end
  report(args, made, counts)
  return 0
end

return vocab
