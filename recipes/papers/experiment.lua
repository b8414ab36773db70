-- experiment.lua - what the experiments have in common: arms that are trained once for each seed and kept, intervals
-- over the seeds, what they show, curves.
--
--     local options = experiment.open("scaling", { size = 1 }, { "size" }, arg)
--     experiment.each_seed(options, function(seed)
--       experiment.train(options, folder, { "recipes/pretrain.lua", "data.file=" .. path, "seed=" .. seed })
--     end)
--     local curve = experiment.curve(folder)
--     print(experiment.shown({ 3.1, 3.2, 3.0 }, "%.3f"))
--
-- An arm is a run in a folder of its own below `out`.  One that has ended is not run again; one that was stopped goes
-- on at its last checkpoint.  So an experiment is resumed by repeating its command.  Seeds are trained side by side, a
-- process each, as many as there are processors (jobs=N).  only=pilot trains the first two seeds and says what all of
-- them could find, and what they would cost; only=report trains nothing.

package.path = arg[0]:gsub("[^/]*$", "../bench/?.lua;") .. package.path -- common.lua is there

local common = require("common")
local drawing = require("seqrun.draw.svg")
local ending = require("seqrun.history.ending")
local interval = require("seqrun.base.interval")
local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local experiment = { interval = interval }

local PROGRAM = assert(sys.real_path("/proc/self/exe")) -- before a build may replace it

---Options that every experiment has.
local USUAL = { seeds = "1,2,3,4,5", size = 1, hours = 1000, threads = 0, jobs = 0, only = "" }

---What `only` may be; train is what a process of side_by_side does.
local ONLY = { [""] = true, report = true, pilot = true, train = true }

---Seeds of a pilot.
local PILOT = 2

-- ---- options -----------------------------------------------------------------------------------

---The words of a list with commas.
---@param text string
---@return string[]
function experiment.words(text)
  local list = {}
  for word in text:gmatch("[^,]+") do list[#list + 1] = word end
  return list
end

---The numbers of such a list.
---@param text string
---@return number[]
function experiment.numbers(text)
  local list = {}
  for i, word in ipairs(experiment.words(text)) do
    list[i] = tonumber(word) or common.refuse("'%s' in '%s' is not a number", word, text)
    list[i] = math.tointeger(list[i]) or list[i]
  end
  return list
end

---Raises if `out` holds an experiment with other settings: its arms are not those that are asked for.
local function check_same(out, options, fixed)
  local path, kept = out .. "/experiment.json", {}
  for _, key in ipairs(fixed) do kept[key] = options[key] end
  local text = sys.read_file(path)
  local before = text and json.decode(text)
  for _, key in ipairs(type(before) == "table" and fixed or {}) do
    if before[key] ~= nil and before[key] ~= kept[key] then
      common.refuse("%s was begun with %s=%s, now it is %s; give the same to continue, or another out=", out, key,
        tostring(before[key]), tostring(kept[key]))
    end
  end
  sr.must(sys.write_file(path, json.encode(kept) .. "\n"))
end

---Raises at numbers that no experiment can use.  Options whose default is a whole number above zero are counts.
local function check_numbers(options, defaults)
  for key, value in pairs(options) do
    if type(value) == "number" and value < 0 then common.refuse("%s must not be negative, got %g", key, value) end
    if math.type(defaults[key]) == "integer" and defaults[key] > 0 then
      options[key] = math.tointeger(value)
      if (options[key] or 0) < 1 then common.refuse("%s must be a positive integer, got %g", key, value) end
    end
  end
end

---Reads the command line and makes the directory `out`, by default runs/NAME.
---@param name string
---@param defaults table<string, string|number|boolean> further options
---@param fixed string[] options that all arms of a directory share, beside size
---@param arguments string[]
---@return table options `seeds` is a list of integers
function experiment.open(name, defaults, fixed, arguments)
  local all = { out = "runs/" .. name }
  for key, value in pairs(USUAL) do all[key] = value end
  for key, value in pairs(defaults) do all[key] = value end
  local options = common.options(all, arguments)
  if not ONLY[options.only] then
    common.refuse("only=%s: choose report, which prints the results so far, or pilot, which trains two seeds",
      options.only)
  end
  if options.size <= 0 then
    common.refuse("size must be positive, such as 0.1 for a rehearsal, got %g", options.size)
  end
  check_numbers(options, defaults)
  options.seeds = experiment.numbers(options.seeds)
  if #options.seeds == 0 then common.refuse("seeds is empty; give some, such as seeds=1,2,3") end
  local known = {}
  for _, seed in ipairs(options.seeds) do
    if math.type(seed) ~= "integer" or known[seed] then
      common.refuse("seeds: %s is %s; give different integers, such as seeds=1,2,3", tostring(seed),
        known[seed] and "listed twice" or "not an integer")
    end
    known[seed] = true
  end
  options.planned = #options.seeds
  if options.only == "pilot" then options.seeds = table.move(options.seeds, 1, PILOT, 1, {}) end
  sr.must(sys.make_dirs(options.out))
  check_same(options.out, options, table.move(fixed, 1, #fixed, 2, { "size" }))
  options.began = tonumber(os.getenv("SEQRUN_EXPERIMENT_BEGAN")) or sys.now()
  options.arguments = arguments
  return options
end

---Whether another arm may begin.
---@param options table
---@return boolean
function experiment.goes_on(options)
  return options.only ~= "report" and sys.now() - options.began < options.hours * 3600
end

-- ---- data that the demo has ---------------------------------------------------------------------

---Where the recipes are, with a slash at the end.
experiment.RECIPES = common.folder .. "/../"

experiment.NOVELS = { "data/emma.txt", "data/mansfieldpark.txt" }

---The definitions of WordNet, a document each.
local function definitions(path)
  local list = {}
  for _, kind in ipairs { "noun", "verb", "adj", "adv" } do
    local file = "/usr/share/wordnet/data." .. kind
    if not sys.exists(file) then sr.must(nil, file .. " is missing; apt-get install wordnet-base", "missing") end
    for line in io.lines(file) do
      local gloss = line:match("^%d+ %d+ .-| (.*)$")
      if gloss then list[#list + 1] = gloss:gsub("%s+$", "") .. ".\n" end
    end
  end
  sr.must(sys.write_file(path, table.concat(list, "\n")))
  return path
end

---Cuts the documents of a data set, end to end, into sequences of the lengths of Wikipedia at 512 tokens.
local function pieces(out, path)
  local corpus = sr.must(sr.data.open(path))
  local tokenizer, ids, examples = corpus:tokenizer(), {}, {}
  for i = 1, corpus:info().documents do
    local unit = sr.must(corpus.core:unit(i))
    table.move(unit, 1, #unit, #ids + 1, ids)
  end
  local drawn, at = require("lengths").draw(common.lengths, #ids // 64, 1), 1
  for _, length in ipairs(drawn) do
    local last = at + math.max(1, length - 2) - 1 -- [CLS] and [SEP]
    if last > #ids then break end
    examples[#examples + 1], at = { a = table.move(ids, at, last, 1, {}) }, last + 1
  end
  sr.must(sr.data.write { out = out, vocab = tokenizer, examples = examples })
  return out
end

---Writes a data set, unless it exists: the novels in recipes/data, WordNet's definitions, both as text, or both in
---sequences as long as those of Wikipedia.
---@param out string directory
---@param name "novels"|"definitions"|"text"|"wikipedia"
---@return string path
function experiment.data(out, name)
  local path = ("%s/%s.sqr"):format(out, name)
  if sys.exists(path) then return path end
  if name == "wikipedia" then return pieces(path, experiment.data(out, "text")) end
  local inputs = {}
  for i, novel in ipairs(name == "definitions" and {} or experiment.NOVELS) do
    inputs[i] = experiment.RECIPES .. novel
  end
  if name ~= "novels" then inputs[#inputs + 1] = definitions(out .. "/definitions.txt") end
  sr.must(sr.data.prepare { inputs = inputs, vocab = { size = 4000 }, out = path })
  return path
end

-- ---- arms --------------------------------------------------------------------------------------

---Runs the program; ends the experiment if that fails, so that a repeated command goes on.
---@param words string[]
function experiment.run(words)
  local line = { common.quote(PROGRAM) }
  for i, word in ipairs(words) do line[i + 1] = common.quote(word) end
  local ok, how, code = os.execute("exec " .. table.concat(line, " ")) -- no shell between, which Ctrl-C would kill
  if ok then return end
  io.stderr:write(("%s ended with %s %d; repeat the command to continue\n"):format(words[1], how, code))
  os.exit(how == "exit" and code or 1, true)
end

---Each seed as a process of its own, `jobs` at a time; they share the processors.
local function side_by_side(options, jobs)
  local line = {}
  for i, word in ipairs { PROGRAM, arg[0], table.unpack(options.arguments) } do line[i] = common.quote(word) end
  local threads = options.threads > 0 and options.threads or math.max(1, sr.threads() // jobs)
  local script = "printf '%%s\\n' %s | SEQRUN_EXPERIMENT_BEGAN=%.3f xargs -P %d -I{} %s only=train jobs=1 threads=%d "
    .. "seeds={}"
  local ok, how, code = os.execute(script:format(table.concat(options.seeds, " "), options.began, jobs,
    table.concat(line, " "), threads))
  if ok then return end
  io.stderr:write(("the experiment was stopped, or an arm failed (%s %d); repeat the command to continue\n"):format(how,
    code))
  os.exit(how == "exit" and code or 1, true)
end

---Trains what each seed has, by fn(seed), as long as arms may begin.
---@param options table of experiment.open
---@param fn fun(seed: integer)
function experiment.each_seed(options, fn)
  local jobs = math.min(#options.seeds, options.jobs > 0 and options.jobs or sr.threads())
  if options.only == "report" then return end
  if jobs > 1 and options.only ~= "train" then return side_by_side(options, jobs) end
  for _, seed in ipairs(options.seeds) do
    if experiment.goes_on(options) then fn(seed) end
  end
  if options.only == "train" then os.exit(0, true) end
end

---Whether the run in a folder has ended as it should.
---@param folder string
---@return boolean
function experiment.finished(folder) return (ending.read(folder) or {}).state == "finished" end

---Trains an arm, unless it has ended, and reports it.
---@param options table of experiment.open
---@param folder string
---@param words string[] a recipe and its arguments
function experiment.train(options, folder, words)
  if experiment.finished(folder) then return end
  local all = table.move(words, 1, #words, 1, {})
  if options.threads > 0 then all[#all + 1] = ("--threads=%d"):format(options.threads) end
  table.move({ "--out", folder, "--resume", "--quiet" }, 1, 4, #all + 1, all)
  experiment.run(all)
  print(("%s: done after %.0f s"):format(folder, sys.now() - options.began))
  io.stdout:flush()
end

---The recipe pretrain.lua and its arguments for a small BERT on single segments, with small steps between checkpoints.
---@param t { data: string, seed: integer, max_len: integer, sequences: integer, hidden: integer, layers: integer,
---  dropout: number, peak: number, by: string, total: number, evaluated: integer, logged: integer, recipe?: string }
---  by: what the schedule counts, up to total; evaluated: updates of an evaluation; logged: steps between lines
---@param more string[]
---@return string[]
function experiment.pretraining(t, more)
  local h = math.tointeger(t.hidden)
  local words = {
    t.recipe or experiment.RECIPES .. "pretrain.lua", "data.file=" .. t.data, "seed=" .. t.seed, "data.nsp=false",
    "data.max_len=" .. t.max_len, "mask.prob=0.3", ("mask.max=%d"):format(math.max(40, math.ceil(0.3 * t.max_len))),
    ("batch.sequences=%d"):format(t.sequences),
    "batch.micro_packs=32", "model.hidden_size=" .. h, ("model.num_hidden_layers=%d"):format(t.layers),
    ("model.num_attention_heads=%d"):format(math.max(1, h // 32)), "model.intermediate_size=" .. 4 * h,
    "model.max_position_embeddings=" .. t.max_len, ("model.hidden_dropout_prob=%g"):format(t.dropout),
    ("model.attention_probs_dropout_prob=%g"):format(t.dropout), "model.initializer=local",
    "model.initializer_range=0.05", "optimizer.betas=[0.9,0.98]", ("rate.peak=%g"):format(t.peak),
    "rate.by=" .. t.by, "rate.warmup_by=" .. t.by, ("rate.total=%d"):format(math.floor(t.total)),
    ("rate.warmup=%d"):format(math.floor(t.total / 10)), ("eval.updates=%d"):format(t.evaluated), "save.every=0",
    "save.minutes=3", ("log.every=%d"):format(t.logged),
  }
  return table.move(more, 1, #more, #words + 1, words)
end

---Processor seconds until a step: lines of metrics have the mean of their steps.
local function seconds_until(step, lines)
  local seconds, before, each = 0, 0, 0
  for _, line in ipairs(lines) do
    each = line.cpu_ms / 1000
    if line.step >= step then break end
    seconds, before = seconds + (line.step - before) * each, line.step
  end
  return seconds + (step - before) * each
end

---The evaluations of a run.  `train_seconds` is the processor time spent on training before each: experiments of many
---hours share their machine, so the clock says little.
---@param folder string
---@return table[]
function experiment.curve(folder)
  local list, lines = {}, {}
  for _, line in ipairs(sys.exists(folder .. "/metrics.jsonl") and sr.metrics.read(folder) or {}) do
    if line.type == "train" and type(line.cpu_ms) == "number" then lines[#lines + 1] = line end
    if line.type == "eval" then list[#list + 1] = line end
  end
  for _, line in ipairs(list) do line.train_seconds = seconds_until(line.step, lines) end
  return list
end

-- ---- numbers -----------------------------------------------------------------------------------

---"mean ± half of the 95 % interval"; the mean alone of one value, "-" of none.
---@param values number[]
---@param format string of one number, such as "%+.3f"
---@return string
function experiment.shown(values, format)
  if #values == 0 then return "-" end
  local found = interval(values)
  if not found.half then return format:format(found.mean) end
  return (format .. " ± " .. format:gsub("+", "")):format(found.mean, found.half)
end

---Half of the 95 % interval of the mean of n values of this deviation.
local function half_of(deviation, n)
  local values = {}
  for i = 1, n do values[i] = i end
  local own = interval(values)
  return own.half / own.deviation * deviation
end

---Seeds with which a mean of this size would differ from 0.
local function seeds_for(found)
  for n = 2, 500 do
    if half_of(found.deviation, n) < math.abs(found.mean) then return n end
  end
end

---What differences between runs of the same seed show: "shown", or what they exclude and how many seeds would tell; of
---a pilot, what all seeds could find.
---@param options table of experiment.open
---@param values number[]
---@param format string of one number, such as "%+.3f"
---@return string
function experiment.verdict(options, values, format)
  local found, plain = #values > 1 and interval(values) or {}, format:gsub("+", "")
  if not found.half then return "one seed: no interval" end
  if found.deviation == 0 then return found.mean == 0 and "equal" or "shown" end
  if options.only == "pilot" then
    return ("%d seeds could find %s"):format(options.planned, plain:format(half_of(found.deviation, options.planned)))
  end
  if math.abs(found.mean) > found.half then return "shown" end
  local seeds = seeds_for(found)
  return ("cannot tell; below %s and above %s are excluded%s"):format(format:format(found.mean - found.half),
    format:format(found.mean + found.half), seeds and ("; %d seeds would tell"):format(seeds) or "")
end

---Prints what each difference shows.
---@param options table of experiment.open
---@param list { name: string, values: number[], format?: string }[]
function experiment.conclude(options, list)
  local rows = { { "difference", "mean", "what it shows" } }
  for _, one in ipairs(list) do
    local format = one.format or "%+.3f"
    if #one.values > 0 then
      rows[#rows + 1] = {
        one.name, experiment.shown(one.values, format), experiment.verdict(options, one.values, format),
      }
    end
  end
  if #rows > 1 then common.print_table(rows, { true, false, true }) end
end

---Prints what a pilot cost, and what all seeds would.
---@param options table of experiment.open
---@param seconds number processor seconds of the pilot
function experiment.price(options, seconds)
  if options.only ~= "pilot" then return end
  local all = seconds * options.planned / #options.seeds
  print(("%d seeds took %.0f CPU seconds; all %d take %.0f, %.1f hours on two processors"):format(#options.seeds,
    seconds, options.planned, all, all / 7200))
end

---What `value` gives for each seed that has it.
---@param seeds integer[]
---@param value fun(seed: integer, i: integer): any
---@return any[]
function experiment.over(seeds, value)
  local list = {}
  for i, seed in ipairs(seeds) do list[#list + 1] = value(seed, i) or nil end
  return list
end

---The value of a curve at x, between its points; nil outside.
---@param curve table[]
---@param key string of x
---@param value string
---@param x number
---@return number?
function experiment.value_at(curve, key, value, x)
  for i, point in ipairs(curve) do
    if point[key] == x then return point[value] end
    local before = curve[i - 1]
    if before and before[key] < x and x < point[key] then
      return before[value] + (x - before[key]) / (point[key] - before[key]) * (point[value] - before[value])
    end
  end
end

---The x from which on a falling curve is at most this value, between its points; nil if it never is.
---@param curve table[]
---@param key string of x
---@param value string
---@param most number
---@return number?
function experiment.reaches(curve, key, value, most)
  for i, point in ipairs(curve) do
    if point[value] <= most then
      local before = curve[i - 1]
      if not before then return point[key] end
      local part = (before[value] - most) / (before[value] - point[value])
      return before[key] + part * (point[key] - before[key])
    end
  end
end

-- ---- curves ------------------------------------------------------------------------------------

local POINTS = 40

---The mean of some curves where all of them are: { x, mean, half }, half nil for one curve.
---@param curves table[][]
---@param key string
---@param value string
---@return number[][]
function experiment.mean(curves, key, value)
  local first, last, points = -math.huge, math.huge, {}
  for _, curve in ipairs(curves) do
    if #curve < 2 then return points end
    first, last = math.max(first, curve[1][key]), math.min(last, curve[#curve][key])
  end
  if not (last > first) or #curves == 0 then return points end
  for i = 0, POINTS do
    local x, values = i == POINTS and last or first + (last - first) * i / POINTS, {}
    for k, curve in ipairs(curves) do values[k] = experiment.value_at(curve, key, value, x) end
    local found = interval(values)
    points[i + 1] = { x, found.mean, found.half }
  end
  return points
end

local WIDTH, HEIGHT, GAP = 400, 400, 24

---A chart of mean curves, an interval around each.
---@class seqrun.bench.Panel
---@field title string
---@field x { key: string, label: string, scale?: number, log?: boolean, low?: number, high?: number, ticks?: table[] }
---@field y { key: string, label: string, log?: boolean }
---@field series { name: string, curves: table[][], colour: integer, points?: boolean, style?: "dash" }[] points: dots
---  as they are

local function series_of(panel)
  local list = {}
  for _, one in ipairs(panel.series) do
    local points, scale = {}, panel.x.scale or 1
    if one.points then
      for i, point in ipairs(one.curves[1]) do points[i] = { point[panel.x.key], point[panel.y.key] } end
    else
      points = experiment.mean(one.curves, panel.x.key, panel.y.key)
    end
    for i, p in ipairs(points) do points[i] = { p[1] * scale, p[2], p[3] } end
    if #points > 0 then
      list[#list + 1] = { points = points, class = drawing.colour(one.colour), name = one.name,
        kind = one.points and "dots" or nil, style = one.style }
    end
  end
  return list
end

---Writes charts side by side, `columns` in a row, as FILE; nothing if none has a curve.
---@param path string
---@param title string
---@param panels seqrun.bench.Panel[]
---@param columns? integer default 3
function experiment.draw(path, title, panels, columns)
  local charts, most = {}, columns or 3
  for _, panel in ipairs(panels) do
    local series = series_of(panel)
    if #series > 0 then
      local at = { (#charts % most) * (WIDTH + GAP), (#charts // most) * (HEIGHT + GAP) }
      charts[#charts + 1] = drawing.chart {
        title = panel.title, heading = panel.title, width = WIDTH, height = HEIGHT, at = at, series = series,
        x = {
          label = panel.x.label, log = panel.x.log, low = panel.x.low or not panel.x.log and 0 or nil,
          high = panel.x.high, ticks = panel.x.ticks,
        },
        y = { label = panel.y.label, even = not panel.y.log, log = panel.y.log },
      }
    end
  end
  if #charts == 0 then return end
  local rows = (#charts + most - 1) // most
  local width, height = math.min(most, #charts) * (WIDTH + GAP) - GAP, rows * (HEIGHT + GAP) - GAP
  sr.must(sys.write_file(path, drawing.page(width, height, charts, title)))
  print(("%s has the curves"):format(path))
end

return experiment
