-- summary.lua - what a report says about its runs, as plain values: the JSON of `seqrun report --json`, from which
-- the page is made.

local arms = require("seqrun.report.arms")
local comparison = require("seqrun.history.comparison")
local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local plans = require("seqrun.report.plans")
local predictions = require("seqrun.report.predictions")
local sys = require("seqrun.core.sys")
local TOTALS = require("seqrun.history.metrics").TOTALS

local summary = {}

---@class seqrun.report.Run
---@field name string short, and different from the others'
---@field history seqrun.History
---@field heads string[] the names of losses
---@field scores string[] further metrics of evaluations
---@field resumes integer[] the steps at which it was resumed
---@field plans seqrun.report.Plan[]
---@field unread? string why some plans are left out
---@field samples? seqrun.report.Samples
---@field arm? integer the runs of an arm differ in their seeds alone, and have one colour

---Most runs of a report, and most colours: more arms cannot be distinguished in one picture.
local MOST, MOST_ARMS = 60, 12

-- ---- names -------------------------------------------------------------------------------------

---The last `count` parts of a path.
local function tail(path, count)
  local parts = {}
  for part in path:gmatch("[^/]+") do parts[#parts + 1] = part end
  return table.concat(parts, "/", math.max(1, #parts - count + 1))
end

---As few parts of each path as make all names different.
local function short_names(paths)
  for count = 1, 16 do
    local names, seen, same = {}, {}, false
    for i, path in ipairs(paths) do
      names[i] = tail(path, count)
      same, seen[names[i]] = same or seen[names[i]], true
    end
    if not same then return names end
  end
  return paths
end

---The directories of the runs that some paths mean; a directory of runs means all of them.
local function directories(paths, unlisted)
  local list, seen, none = {}, {}, {}
  for _, path in ipairs(paths) do
    path = path:gsub("(.)/+$", "%1")
    local found = sys.exists(path .. "/MANIFEST") and {} or history.find(path, nil, unlisted)
    if #found == 0 then none[#none + 1] = path end
    for _, dir in ipairs(found) do
      local real = sys.real_path(dir) or dir
      if not seen[real] then list[#list + 1], seen[real] = dir, true end
    end
  end
  for _, path in ipairs(none) do -- of several, such as runs/*, directories that are not runs are left out
    if #list == 0 or not sys.exists(path) or sys.exists(path .. "/MANIFEST") then list[#list + 1] = path end
  end
  if #list > MOST then
    failure.raise("config", "report: %d runs are too many, at most %d fit a page; name those to compare", #list, MOST)
  end
  return list
end

-- ---- one run -----------------------------------------------------------------------------------

---Names of losses; those with training lines only, such as baselines' losses of evaluations, are not heads.
local function heads_of(found)
  local list, seen = {}, {}
  local rows = #found.train > 0 and { found.train[1], found.train[#found.train] } or found.evals
  for _, key in ipairs(comparison.keys({ { train = rows } }, { "train" })) do
    local name = key:match("^(.+)_loss$")
    if name and not seen[name] then list[#list + 1], seen[name] = name, true end
  end
  table.sort(list, function(a, b)
    if (a == "mlm") ~= (b == "mlm") then return a == "mlm" end
    return a < b
  end)
  return list
end

---Whether two metrics have the same values in all evaluations.
local function is_same(evals, a, b)
  for _, row in ipairs(evals) do
    if row[a] ~= row[b] then return false end
  end
  return true
end

---Metrics of evaluations other than losses and accuracies of heads; equal ones once.
local function scores_of(found, heads)
  local list, shown = {}, {}
  for _, name in ipairs(heads) do shown[#shown + 1] = name .. "_accuracy" end
  for _, key in ipairs(comparison.keys({ found }, { "evals" })) do
    local counter = TOTALS[key] or key == "masked"
    local twice = key:find("_loss$") or key:find("_accuracy$")
    for _, other in ipairs(shown) do twice = twice or key ~= other and is_same(found.evals, key, other) end
    if not counter and not twice then list[#list + 1], shown[#shown + 1] = key, key end
  end
  return list
end

---The steps at which run.log says that the run was resumed.
local function resumes_of(dir)
  local steps = {}
  local log = failure.valid(sys.read_file(dir .. "/run.log", 1 << 24)) or ""
  for step in ("\n" .. log):gmatch("\nresumed from [^\n]* at step (%d+)") do
    steps[#steps + 1] = math.tointeger(step)
  end
  return steps
end

local function examine(found, name, options)
  local heads = heads_of(found)
  local run = {
    name = name, history = found, heads = heads, scores = scores_of(found, heads), resumes = resumes_of(found.dir),
  }
  run.plans, run.unread = plans.of(found)
  if options.samples > 0 then run.samples = predictions.of(found, options.samples) end
  return run
end

-- ---- all of them ---------------------------------------------------------------------------------

---Why figures of the runs may not be comparable, and what is left out.
---@param runs seqrun.report.Run[] of gather
---@return string[]
function summary.notes(runs)
  local pasts = {}
  for i, run in ipairs(runs) do pasts[i] = run.history end
  local notes = #runs > 1 and comparison.of(pasts).notes or {}
  for _, one in ipairs(runs.unreadable or {}) do
    notes[#notes + 1] = ("left out: %s: %s"):format(one.dir, one.reason)
  end
  for _, run in ipairs(runs) do
    if run.unread then notes[#notes + 1] = ("plans are left out: %s"):format(run.unread) end
  end
  return notes
end

---Reads the runs that some paths mean; fails if none of them can be read.
---@param paths string[]
---@param options { samples: integer } samples: sentences to fill in, of each run
---@return seqrun.report.Run[] runs `unreadable`: those that are left out
---@return string? message about those
function summary.gather(paths, options)
  local found, unlisted = {}, {}
  local dirs = directories(paths, unlisted)
  for _, dir in ipairs(dirs) do
    if history.is_run(dir) then
      found[#found + 1] = dir
    else
      failure.raise(select(3, history.open(dir)), "%s", (select(2, history.open(dir))))
    end
  end
  local pasts, bad, message = history.read(found, nil, unlisted)
  if #pasts == 0 then failure.raise("data", "%s", message) end
  local runs, names = { unreadable = bad }, {}
  for i, past in ipairs(pasts) do names[i] = past.dir end
  names = short_names(names)
  for i, past in ipairs(pasts) do runs[i] = examine(past, names[i], options) end
  local of
  runs.arms, of = arms.of(runs)
  for i, run in ipairs(runs) do run.arm = of[i] end
  local shown = #runs.arms > 0 and #runs.arms or #runs
  if shown > MOST_ARMS then
    failure.raise("config", "report: %d runs are too many, at most %d fit a page; name those to compare, or runs that "
      .. "differ in their seeds alone", shown, MOST_ARMS)
  end
  return runs, message
end

local function last(rows) return rows[#rows] or json.null end

---One run for JSON.
local function plain_run(run)
  local h = run.history
  return {
    name = run.name, dir = h.dir, state = h.state, reason = h.reason or json.null, step = h.step, seconds = h.seconds,
    train_lines = h.lines, damaged_lines = h.damaged, heads = json.array(run.heads),
    resumed_at = json.array(run.resumes), train = last(h.train), eval = last(h.evals), config = h.config,
    environment = h.environment or json.null, checkpoints = json.array(h.checkpoints),
    events = json.array(h.events), plans = plans.plain(run.plans),
    samples = run.samples and predictions.plain(run.samples) or json.null, scores = h.scores or json.null,
  }
end

---The whole for JSON.
---@param runs seqrun.report.Run[]
---@return table
function summary.plain(runs)
  local list = json.array()
  for i, run in ipairs(runs) do list[i] = plain_run(run) end
  local differences = json.array(arms.differences(runs))
  for _, one in ipairs(differences) do json.array(one.values) end
  return { runs = list, differences = differences, notes = json.array(summary.notes(runs)) }
end

return summary
