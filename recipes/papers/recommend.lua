-- recommend.lua - the recommendations of a study of parallel layouts (arXiv 2311.05610) as hypotheses: which of them
-- hold, judged by the advisor over eight models and devices, and by measured layouts.
--
--     build/seqrun recipes/papers/recommend.lua                         a minute; trains nothing, needs no GPU
--     build/seqrun recipes/papers/recommend.lua layouts=layouts.tsv     the measured trials of the study beside it
--     build/seqrun recipes/papers/recommend.lua cases=13b-2k,bert
--
-- A hypothesis compares pairs of layouts that differ in one respect and fit both: `faster` is the geometric mean over
-- pairs of the factor by which the recommended one is faster, with its 95 % interval over cases (models and devices);
-- `pairs` says in how many it is; a verdict from one case, which has no interval, says so.  A second table has the
-- fastest layout of each case, and what the fastest one costs that does not follow a recommendation.  `layouts` is a
-- table as for recipes/papers/advise.lua.
--
-- The last part takes the layout of the study's 70.5 % of MFU apart and, with `layouts`, says how much of it the trials
-- beside it allow, whatever the constants.

local experiment = require("experiment") -- first: it says where common.lua is
local claims = require("recommend_claims")
local common = require("common")
local sr = require("seqrun")
local study_best = require("recommend_best")
local sys = require("seqrun.core.sys")

---Models and devices: the four of the study that have a smallest set of devices, and four beside it.
local CASES = {
  { name = "13b-2k", model = "llama-13b", seq = 2048, batch = 2048, devices = 64, device = "a100" },
  { name = "13b-8k", model = "llama-13b", seq = 8192, batch = 512, devices = 64, device = "a100" },
  { name = "30b-2k", model = "llama-30b", seq = 2048, batch = 2048, devices = 64, device = "a100" },
  { name = "65b-2k", model = "llama-65b", seq = 2048, batch = 2048, devices = 64, device = "a100" },
  { name = "70b-h100", model = "llama-2-70b", seq = 4096, batch = 1024, devices = 128, device = "h100" },
  { name = "8b-h200", model = "llama-3-8b", seq = 8192, batch = 512, devices = 64, device = "h200" },
  { name = "bert", model = "bert-large", seq = 512, attended = 386, batch = 1536, devices = 64, device = "h100" },
  { name = "modernbert", model = "modernbert-large", seq = 8192, batch = 512, devices = 32, device = "a100" },
}

local options = common.options({ cases = "", layouts = "", out = "runs/recommend" }, arg)

---The layouts of a case that fit, for all kernels of the claims.
local function rows_of(case)
  local rows, encoder = {}, not case.model:find("llama", 1, true)
  for _, kernel in ipairs(encoder and { "packed" } or { "flash1", "flash2", "flash2_rms" }) do
    local asked = { kernel = kernel }
    for key, value in pairs(case) do asked[key] = value end
    asked.name = nil
    for _, layout in ipairs((sr.advise(asked) or { layouts = {} }).layouts) do
      layout.seconds, layout.kernel = layout.step_seconds, kernel
      rows[#rows + 1] = layout
    end
  end
  return rows
end

---The trials of a table that ran, by study.
local function measured_of(path)
  if not sys.exists(path) then common.refuse("layouts=%s: no such file", path) end
  local studies = {}
  for _, t in ipairs(common.read_table(path)) do
    if t.status == "ok" then
      studies[t.study] = studies[t.study] or {}
      table.insert(studies[t.study], {
        micro_batch = tonumber(t.mbs), tensor = tonumber(t.tp), pipeline = tonumber(t.pp), interleave = 1,
        sequence_parallel = t.sp == "1", recompute = t.ckpt == "1", selective = false, kernel = t.kernel,
        study = t.study, seconds = tonumber(t.step_s), mfu = tonumber(t.mfu),
        hidden = tonumber(t.hidden), seq = tonumber(t.seq), batch = tonumber(t.gbs), devices = tonumber(t.world),
      })
    end
  end
  return studies
end

---The mean of logarithms; nil of none.
local function log_mean(factors)
  local sum = 0
  for _, factor in ipairs(factors) do sum = sum + math.log(factor) end
  return #factors > 0 and sum / #factors or nil
end

---"1.16 (1.09 to 1.24)": the geometric mean over cases, and its interval.
local function shown(logs)
  if #logs == 0 then return "-" end
  local found = experiment.interval(logs)
  if not found.half then return ("%.2f"):format(math.exp(found.mean)) end
  return ("%.2f (%.2f to %.2f)"):format(math.exp(found.mean), math.exp(found.mean - found.half),
    math.exp(found.mean + found.half))
end

---A hypothesis over several lists of rows: means by list, faster pairs, all pairs.
local function judge(claim, lists)
  local logs, faster, all = {}, 0, 0
  for _, rows in ipairs(lists) do
    local factors = claims.factors(rows, claim)
    logs[#logs + 1] = log_mean(factors)
    all = all + #factors
    for _, factor in ipairs(factors) do faster = faster + (factor > 1 and 1 or 0) end
  end
  return logs, faster, all
end

local function verdict(logs, faster, all)
  if all == 0 then return "-" end
  local found = experiment.interval(logs)
  local low, high = found.mean - (found.half or 0), found.mean + (found.half or 0)
  local one = found.half and "" or " (one case)" -- which has no interval
  if low > 0 then return (faster == all and "holds always" or "holds") .. one end
  return (high < 0 and "does not hold" or "depends") .. one
end

local function print_claims(lists, studies)
  local rows = { { "recommended", "verdict", "faster", "pairs" } }
  if studies then table.move({ "measured", "faster", "pairs" }, 1, 3, 5, rows[1]) end
  for _, claim in ipairs(claims.LIST) do
    local logs, faster, all = judge(claim, lists)
    local row = { claim.title, verdict(logs, faster, all), shown(logs), ("%d of %d"):format(faster, all) }
    if studies then
      logs, faster, all = judge(claim, studies)
      table.move({ verdict(logs, faster, all), shown(logs), ("%d of %d"):format(faster, all) }, 1, 3, 5, row)
    end
    rows[#rows + 1] = row
  end
  common.print_table(rows)
end

local function name_of(l)
  return ("mb %d, tp %d, pp %d%s%s%s"):format(l.micro_batch, l.tensor, l.pipeline,
    (l.interleave or 1) > 1 and " x " .. l.interleave or "", l.sequence_parallel and ", sp" or "",
    l.recompute and ", recompute" or l.selective and ", selective" or "")
end

---What the fastest layout of a kind takes over the fastest of all.
local function cost(rows, best, wanted)
  local other = claims.fastest(rows, wanted)
  return other and ("%.2f"):format(other.seconds / best.seconds) or "none fits"
end

local function print_fastest(cases, lists)
  local rows = { { "case", "fastest", "MFU", "micro-batch > 1", "recompute", "selective", "not interleaved",
    "no tensor ranks", "no pipeline" } }
  for i, case in ipairs(cases) do
    local best = claims.fastest(lists[i])
    local function only(wanted) return cost(lists[i], best, wanted) end
    rows[#rows + 1] = {
      case.name, name_of(best), ("%.1f %%"):format(100 * best.mfu), only(function(l) return l.micro_batch > 1 end),
      only(function(l) return l.recompute end), only(function(l) return l.selective end),
      only(function(l) return l.interleave == 1 end), only(function(l) return l.tensor == 1 end),
      only(function(l) return l.pipeline == 1 end),
    }
  end
  common.print_table(rows)
end

---MFU of the fastest layout by micro-batch.
local function draw(cases, lists)
  local series = {}
  for i, case in ipairs(cases) do
    local curve, micro = {}, 1
    while micro <= 64 do
      local best = claims.fastest(lists[i], function(l) return l.micro_batch == micro end)
      if best then curve[#curve + 1] = { micro = micro, mfu = 100 * best.mfu } end
      micro = 2 * micro
    end
    series[i] = { name = case.name, curves = { curve }, colour = i, points = true }
  end
  sr.must(sys.make_dirs(options.out))
  experiment.draw(options.out .. "/recommend.svg", "recommend", { {
    title = "fastest layout by micro-batch", x = { key = "micro", label = "sequences of a micro-batch", log = true },
    y = { key = "mfu", label = "MFU, %" }, series = series,
  } })
end

local cases, lists = {}, {}
for _, case in ipairs(CASES) do
  local wanted = options.cases == ""
  for _, name in ipairs(experiment.words(options.cases)) do wanted = wanted or name == case.name end
  local rows = wanted and rows_of(case) or {}
  if #rows > 0 then cases[#cases + 1], lists[#lists + 1] = case, rows end
end
if #cases == 0 then
  local known = {}
  for i, case in ipairs(CASES) do known[i] = case.name end
  common.refuse("cases=%s: choose %s", options.cases, table.concat(known, ","))
end
local studies = options.layouts ~= "" and {} or nil
if studies then
  local by_name, names = measured_of(options.layouts), {}
  for name in pairs(by_name) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do studies[i] = by_name[name] end
end

print(("advisor, %d cases%s, %s"):format(#cases, studies and (", %d measured studies"):format(#studies) or "",
  os.date("%Y-%m-%d")))
print_claims(lists, studies)
print()
print("fastest layout of each case; then what the fastest one with another choice takes, in its time")
print_fastest(cases, lists)
print()
study_best.print(studies)
draw(cases, lists)
