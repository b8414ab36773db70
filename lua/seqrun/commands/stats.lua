-- stats - statistics of a data set.

local converters = require("seqrun.config.converters")
local formats = require("seqrun.draw.formats")
local shell = require("seqrun.base.format").shell

local command = { summary = "statistics of a data set: lengths, tokens, vocabulary, packing, duplicates" }

function command.define(cmd)
  cmd:argument("file", "a .sqr data set")
  cmd:option("--max-len", "maximum length of the examples; default: 128 for text, the longest of other examples")
    :argname("N"):convert(converters.whole(5, 65535))
  cmd:flag("--no-nsp", "of text: single texts, as with data.nsp=false, instead of sentence pairs")
  formats.define(cmd)
  cmd:epilog([[examples:
  seqrun stats runs/data/novels.sqr
  seqrun stats runs/data/novels.sqr --max-len 512 --json]])
end

---The data set that a run reads.
local function data_of(run)
  local history = require("seqrun.history.runs")
  local past = history.open(run)
  local path = past and (history.value(past.config, "data.file") or history.value(past.config, "data.train"))
  return path and path:find("%.sqr%]?$") and path
end

---Why a path is not a data set, if something else is known to be there.
local function explain(path, message)
  local sys = require("seqrun.core.sys")
  if not sys.exists(path) then return message .. require("seqrun.base.guess").file_hint(path) end
  local facts = require("seqrun.history.describe")(path)
  if not facts or facts.kind == "dataset" then return message end
  local data = facts.kind == "run" and data_of(path)
  return ("%s: a %s, not a data set; %s"):format(path, facts.kind,
    data and ("its data is " .. data) or ("seqrun info %s describes it"):format(shell(path)))
end

function command.run(args)
  local stats = require("seqrun.data.stats")
  local report, message, code = stats.examine(args.file, args.max_len, args.no_nsp)
  if not report then return nil, explain(args.file, message), code end
  formats.tell(args, {
    json = function() return report end,
    text = function() return require("seqrun.draw.live").fit_output(stats.text(report)) end,
  })
  return 0
end

return command
