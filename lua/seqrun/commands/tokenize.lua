-- tokenize - text to ids, line by line.

local converters = require "seqrun.config.converters"
local core = require "seqrun.core.text"
local failure = require "seqrun.base.failure"
local stored = require "seqrun.text.stored"

local tokenize = { summary = "print the token ids of each line of text" }

function tokenize.define(cmd)
  cmd:argument("files", "text files, directories, .gz or .zst; default: standard input"):args("*")
  cmd:option("--vocab", "a directory, a tokenizer.json or a vocab.txt"):argname("PATH"):count(1)
  cmd:flag("--ids", "print ids; without this and --offsets, print tokens")
  cmd:flag("--offsets", "print first:last of each token in code points (with --ids: id:first:last)")
  cmd:flag("--cased", "with a vocab.txt: keep case and accents")
  cmd:flag("--keep-accents", "with a vocab.txt: lower-case, but keep accents")
  cmd:flag("--specials", "add special tokens such as [CLS] and [SEP] to each line")
  cmd:flag("--literal", "treat [MASK] and other special tokens in the text as plain text")
  cmd:flag("--json", "print a JSON object for each line, with tokens, ids and offsets")
  cmd:option("--threads", "number of threads; default: all"):argname("N"):convert(converters.threads)
  cmd:epilog([[examples:
  echo 'She was very [MASK].' | seqrun tokenize --vocab vocab.txt
  seqrun tokenize --vocab vocab.txt --ids --specials lines.txt
  seqrun tokenize --vocab model/tokenizer.json --json lines.txt]])
end

function tokenize.run(args)
  local tokenizer = failure.must(stored.tokenizer(args.vocab, {
    lowercase = not args.cased, keep_accents = args.keep_accents, literal = args.literal == true,
  }))
  if (args.cased or args.keep_accents) and select(2, tokenizer:text()) then
    local flag = args.cased and "--cased" or "--keep-accents"
    return nil, ("tokenize: %s applies to vocab.txt only; %s has a tokenizer.json, which sets "
      .. "it"):format(flag, args.vocab),
      "config"
  end
  local files = #args.files > 0 and args.files or { "-" }
  io.stdout:flush()
  local counts = failure.must(core.encode(tokenizer, files, {
    ids = args.ids or args.json, offsets = args.offsets or args.json, frame = args.specials, json = args.json,
    threads = args.threads,
  }))
  if counts.invalid > 0 then
    io.stderr:write(("seqrun: %d invalid UTF-8 sequences were read as U+FFFD\n"):format(counts.invalid))
  end
  return 0
end

return tokenize
