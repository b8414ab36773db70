-- report - one HTML file about one or several runs.

local converters = require("seqrun.config.converters")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local command = { summary = "write a report of one or several runs: one HTML file with curves, plan and predictions" }

function command.define(cmd)
  cmd:argument("runs", "directories of runs, or directories that contain some"):args("+")
  cmd:option("-o --out", "the file; default: report.html in the run, or here for several runs; -: standard output")
    :argname("FILE")
  cmd:option("--by", "the horizontal axis of curves"):choices { "step", "tokens", "raw", "effective", "seconds" }
    :default("step")
  cmd:option("--samples", "held-out sentences that each run's model fills in; 0: none")
    :argname("N"):convert(converters.whole(0, 200)):default("10")
  cmd:flag("--json", "print the data of the report as one JSON object; with --out also write the file")
  cmd:epilog([[The file needs neither a network nor scripts. Runs may be in any state.

examples:
  seqrun report runs/demo/phase1
  seqrun report runs/a runs/b -o compared.html --by tokens
  seqrun report runs/pretrain --json]])
end

local function file_of(args, runs)
  return args.out or (#runs == 1 and runs[1].history.dir .. "/report.html" or "report.html")
end

---Whether the report can be written there, and takes the place of nothing but a page.
local function check_file(path)
  local facts = sys.stat(path)
  if facts and facts.kind == "file" and facts.size > 0 then
    local file <close> = failure.must(io.open(path, "rb"))
    local start = file:read(64)
    if not (start and start:lower():find("^%s*<!doctype html")) then
      return nil, path .. ": exists and is not an HTML page; choose another file with --out", "config"
    end
  end
  return sys.check_writable(path)
end

function command.run(args)
  local file = args.out and args.out ~= "-" and args.out
  if file then failure.must(check_file(file)) end
  local summary = require("seqrun.report.summary")
  local runs, unreadable = summary.gather(args.runs, { samples = args.samples })
  local function done()
    if unreadable then return nil, unreadable, "data" end
    return 0
  end
  if args.json then print(json.encode(summary.plain(runs))) end
  if args.json and not file then return done() end
  local page = require("seqrun.report.page")(runs, args.by)
  if args.out == "-" then
    io.stdout:write(page)
    return done()
  end
  file = file or file_of(args, runs)
  failure.must(sys.write_file(file, page))
  if not args.json then print(("%s: %d KiB; open it in a browser"):format(file, math.ceil(#page / 1024))) end
  return done()
end

return command
