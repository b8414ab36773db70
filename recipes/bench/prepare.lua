-- prepare.lua - text to a data set, beside the tokenizer alone on the same text and threads:
--
--     seqrun recipes/bench/prepare.lua [times=60] [threads=1,2] [vocab=FILE] [runs=5]
--
-- The text is the two novels, `times` times, in one file; vocab=FILE is a vocab.txt or the tokenizer.json of any
-- tokenizer.  Each run takes both in turns; medians are printed, by the clock and by the processor time of all threads,
-- which other programs disturb less, the median of the ratios of the runs, and the peak of memory.

local sr = require("seqrun")
local common = require("common")
local core = require("seqrun.core.text")
local sys = require("seqrun.core.sys")

local options = common.options({ times = 60, threads = "1,2", vocab = "tests/data/tokenizer/vocab.txt", runs = 5 }, arg)

local folder, guard <close> = common.scratch()

local novels = {}
for i, name in ipairs { "emma", "mansfieldpark" } do
  novels[i] = sr.must(sys.read_file(("recipes/data/%s.txt"):format(name)))
end
local text, path = table.concat(novels, "\n\n"), folder .. "/text.txt"
local file = assert(io.open(path, "w"))
for _ = 1, options.times do file:write(text, "\n\n") end
assert(file:close())
local bytes = options.times * (#text + 2)
local tokenizer = sr.must(sr.text.tokenizer { vocab = options.vocab }).core

---The times of an action, by the clock and of the processor; an action may return the first.
local function timed(action)
  local start, used = sys.now(), os.clock()
  local seconds = action() or sys.now() - start
  return { clock = seconds, cpu = os.clock() - used }
end

---The median of what `value` gives for each run.
local function median(runs, value)
  local list = {}
  for i, run in ipairs(runs) do list[i] = value(run) end
  return common.median(list)
end

print(("%.1f MB of text, %d processors, median of %d runs in turns"):format(bytes / 1e6, sys.machine().processors,
  options.runs))
print("threads   tokenizer     prepare   ratio   processor: tokenizer  prepare   ratio   peak of memory")
for threads in tostring(options.threads):gmatch("%d+") do
  local runs = {}
  for i = 1, options.runs do
    local bare = timed(function()
      sr.must(core.encode(tokenizer, path, { count_only = true, threads = math.tointeger(threads) }))
    end)
    local whole = timed(function()
      return sr.must(sr.data.prepare {
        inputs = path, out = folder .. "/x.sqr", vocab = tokenizer, threads = math.tointeger(threads), overwrite = true,
      }).seconds
    end)
    runs[i] = { bare = bare, whole = whole }
    collectgarbage()
  end
  local function of(which, clock) return median(runs, function(run) return run[which][clock] end) end
  local function ratio(clock) return median(runs, function(run) return run.bare[clock] / run.whole[clock] end) end
  print(("%7s  %6.1f MB/s  %6.1f MB/s    %.2f            %6.2f s  %6.2f s    %.2f   %.0f MB"):format(threads,
    bytes / of("bare", "clock") / 1e6, bytes / of("whole", "clock") / 1e6, ratio("clock"), of("bare", "cpu"),
    of("whole", "cpu"), ratio("cpu"), select(2, sys.memory()) / 1e6))
end
