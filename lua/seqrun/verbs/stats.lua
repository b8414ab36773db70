-- stats - what a data set holds.

local verb = { summary = "what a data set holds: lengths, vocabulary, [UNK], repeats" }

function verb.define(cmd)
  cmd:argument("file", "a .sqr data set")
  cmd:option("--max-len", "length of the examples that are drawn"):argname("N"):convert(math.tointeger):default(128)
  cmd:flag("--json", "one JSON object")
end

function verb.run(args)
  local stats = require("seqrun.data.stats")
  local max_len = math.tointeger(args.max_len)
  if not max_len or max_len < 5 or max_len > 65535 then
    return nil, "stats: --max-len is a whole number, 5..65535", "config"
  end
  local report, message, code = stats.examine(args.file, max_len)
  if not report then return nil, message, code end
  print(args.json and require("seqrun.core.json").encode(report) or stats.text(report))
  return 0
end

return verb
