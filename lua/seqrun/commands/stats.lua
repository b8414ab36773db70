-- stats - statistics of a data set.

local converters = require("seqrun.converters")

local command = { summary = "statistics of a data set: lengths, vocabulary, [UNK], duplicates" }

function command.define(cmd)
  cmd:argument("file", "a .sqr data set")
  cmd:option("--max-len", "maximum length of the examples"):argname("N"):convert(converters.whole(5, 65535))
    :default("128")
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[examples:
  seqrun stats runs/data/novels.sqr
  seqrun stats runs/data/novels.sqr --max-len 512 --json]])
end

function command.run(args)
  local stats = require("seqrun.data.stats")
  local report, message, code = stats.examine(args.file, args.max_len)
  if not report then return nil, message, code end
  print(args.json and require("seqrun.core.json").encode(report) or stats.text(report))
  return 0
end

return command
