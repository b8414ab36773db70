-- watch - a live view of runs: curves, speed, memory, alerts.

local converters = require("seqrun.config.converters")
local guess = require("seqrun.base.guess")
local history = require("seqrun.history.runs")
local sys = require("seqrun.core.sys")

local command = { summary = "a live view of runs in the terminal: curves, speed, memory, alerts" }

local seconds = converters.number("'%s' is not a number of seconds from 0.2 to 3600", function(x)
  return x >= 0.2 and x <= 3600 and x
end)

function command.define(cmd)
  cmd:argument("runs", "runs, or directories of runs; they may appear later"):args("+")
  cmd:option("--key", "the metric whose curves are drawn first, such as mlm_loss, lr, f1"):argname("NAME")
  cmd:flag("--log", "a logarithmic vertical axis")
  cmd:option("--every", "seconds between updates of the view"):argname("SECONDS"):default("1"):convert(seconds)
  cmd:flag("--once", "print one picture and exit; the default if the output is not a terminal")
  cmd:epilog([[Keys: q quits, tab shows the next metric (shift-tab the previous one), l makes the axis logarithmic. The
view only reads files that runs write, and runs continue when it ends. It says whether a run has not started yet, has
ended, was killed, or has stopped writing.

examples:
  seqrun watch runs/pretrain
  seqrun watch runs/sweep_finetune --key f1
  ssh host seqrun watch --once runs/pretrain]])
end

---Why nothing can be shown, where nobody waits for a run to begin.
local function missing(path)
  if not sys.exists(path) then return ("%s: no such directory%s"):format(path, guess.file_hint(path)), "missing" end
  if sys.is_dir(path) and #history.find(path, nil, {}) > 0 then return nil end
  local _, message, code = history.open(path)
  return message, code
end

function command.run(args)
  local once = args.once or not sys.is_terminal(1)
  for _, path in ipairs(args.runs) do
    local message, code = missing(path)
    local is_file = sys.exists(path) and not sys.is_dir(path)
    if message and (once or is_file) then return nil, message, code end
  end
  require("seqrun.watch").run(args.runs, { every = args.every, once = args.once, key = args.key, log = args.log })
  local signal = sys.caught()
  if signal == "TERM" or signal == "USR1" then return nil, "stopped by signal " .. signal, "stopped" end
  return 0
end

return command
