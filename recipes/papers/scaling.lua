-- scaling.lua - loss as a function of compute: three widths at three budgets, a fit, and what it predicts for a fourth
-- width and budget, which is then trained.
--
--     build/seqrun recipes/papers/scaling.lua                          30 runs, some minutes
--     build/seqrun recipes/papers/scaling.lua size=0.2 seeds=1 out=runs/try         a rehearsal of a minute
--     build/seqrun recipes/papers/scaling.lua only=report
--     build/seqrun recipes/papers/scaling.lua widths=64,128,192 budgets=1e12,2e12,4e12 next=256,8e12 batch=16   an hour
--
-- A budget is model FLOP, forward and backward, at size 1; a run ends where it is spent, and its rate reaches zero
-- there.  N is FLOP per token / 6, the products of the masked-LM head included; D is tokens.  The model is a BERT of
-- `layers` layers on the novels and the definitions (or data=FILE.sqr), without next-sentence prediction; its rate is
-- that of width 128 times sqrt(128 / width), which was not searched for.
--
-- loss = E + A / N^a + B / D^b is fitted to the means over seeds, no term negative; and to each seed by itself, for the
-- intervals (Student's t over seeds).  The fourth run is not part of any fit; that of a seed is compared with what the
-- fit of this seed predicts.  Repeating the command goes on where it stopped.

local experiment = require("experiment") -- first: it says where common.lua is
local common = require("common")
local fit = require("scaling_fit")
local sys = require("seqrun.core.sys")

local options = experiment.open("scaling", {
  widths = "32,64,96", budgets = "1e11,2e11,4e11", next = "128,8e11", layers = 2, peak = 2e-3, data = "", batch = 8,
}, { "layers", "peak", "data", "batch" }, arg)

local widths, budgets = experiment.numbers(options.widths), experiment.numbers(options.budgets)
local after = experiment.numbers(options.next)
if #after ~= 2 then common.refuse("next=%s: give a width and a budget, such as 128,8e11", options.next) end
if #widths * #budgets < 4 then common.refuse("the fit needs at least four widths and budgets together") end

local function folder_of(width, budget, seed) return ("%s/%d-%g-%d"):format(options.out, width, budget, seed) end

local function words_of(path, width, budget, seed)
  local flop = budget * options.size
  return experiment.pretraining({
    data = path, seed = seed, max_len = 128, sequences = options.batch, hidden = width, layers = options.layers,
    dropout = 0, peak = options.peak * math.sqrt(128 / width), by = "flops", total = flop, evaluated = 40, logged = 10,
  }, {})
end

---Trains a width at a budget.
local function train(path, width, budget, seed)
  if not experiment.goes_on(options) then return end
  experiment.train(options, folder_of(width, budget, seed), words_of(path, width, budget, seed))
end

---N, D and the losses of the seeds; nil unless all have ended.
local function result(width, budget)
  local point = { width = width, budget = budget, losses = {}, N = 0, D = 0, seconds = 0 }
  for i, seed in ipairs(options.seeds) do
    local folder = folder_of(width, budget, seed)
    local curve = experiment.finished(folder) and experiment.curve(folder) or {}
    local last = curve[#curve]
    if not last then return nil end
    local n = #options.seeds
    point.losses[i] = last.mlm_loss
    point.N, point.D = point.N + last.flops / last.real_tokens / 6 / n, point.D + last.real_tokens / n
    point.seconds = point.seconds + last.train_seconds / n
  end
  point.loss, point.flop = experiment.interval(point.losses).mean, 6 * point.N * point.D
  return point
end

local path = options.data ~= "" and options.data or nil
if path and not sys.exists(path) then common.refuse("data=%s: no such file", path) end
path = path or options.only ~= "report" and experiment.data(options.out, "text")
experiment.each_seed(options, function(seed)
  for _, budget in ipairs(budgets) do
    for _, width in ipairs(widths) do train(path, width, budget, seed) end
  end
end)

-- ---- the fit, before the fourth is trained ---------------------------------------------------------

local points = {}
for _, budget in ipairs(budgets) do
  for _, width in ipairs(widths) do points[#points + 1] = result(width, budget) end
end
if #points < #widths * #budgets then
  print(("%d of %d runs have ended for all seeds; the fit needs all"):format(#points, #widths * #budgets))
  return
end

local found, by_seed = fit.fit(points), fit.by_seed(points)

local function print_runs(list)
  local rows = { { "width", "budget, FLOP", "N", "tokens, M", "held-out loss", "fit", "CPU s" } }
  for i, p in ipairs(list) do
    rows[i + 1] = {
      p.width, ("%.3g"):format(p.budget * options.size), ("%.3g"):format(p.N), ("%.2f"):format(p.D / 1e6),
      experiment.shown(p.losses, "%.3f"), ("%.3f"):format(fit.loss(found, p.N, p.D)),
      ("%.0f"):format(p.seconds),
    }
  end
  common.print_table(rows)
end

print(("\n%s; %d layers, size %g, seeds %s"):format(common.machine(), options.layers, options.size,
  table.concat(options.seeds, ",")))
print_runs(points)

---N and D of a run that has not been trained: D from its budget, N from the widths in log-log.
local function shape_of(width, budget)
  local a, b = points[1], points[1]
  for _, p in ipairs(points) do
    if p.width < a.width then a = p end
    if p.width > b.width then b = p end
  end
  local slope = math.log(b.N / a.N) / math.log(b.width / a.width)
  local N = b.N * (width / b.width) ^ slope
  return N, budget * options.size / 6 / N
end

---What the fits of the seeds give; of one seed nothing, since it is the fit of the means.
local function of_seeds(value)
  local list = {}
  for _, one in ipairs(#by_seed > 1 and by_seed or {}) do list[#list + 1] = value(one) end
  return list
end

---" (0.31 ± 0.05)", and of how many seeds, where some have none.
local function between(list, format)
  if #list == 0 then return "" end
  local some = #list < #by_seed and (", %d of %d seeds"):format(#list, #by_seed) or ""
  return (" (%s%s)"):format(experiment.shown(list, format), some)
end

local function print_fit()
  local off = math.sqrt(found.squares / #points)
  print(("\nloss = %.2f + %.3f (%.3g / N)^%.2f + %.3f (%.3g / D)^%.2f; root of the mean square error %.3f"):format(
    found.x[1], found.x[2], found.scale.N, found.a, found.x[3], found.scale.D, found.b, off))
  local problem = fit.problem(found)
  if problem then return print(problem .. ", so the exponents mean nothing") end
  local function exponent(of)
    return between(of_seeds(function(one) return not fit.problem(one) and of(one) or nil end), "%.3f")
  end
  print(("a = %.3f%s, b = %.3f%s; with the best N the loss falls as FLOP^-%.3f%s towards E"):format(found.a,
    exponent(function(one) return one.a end), found.b, exponent(function(one) return one.b end), fit.exponent(found),
    exponent(fit.exponent)))
  for _, budget in ipairs(budgets) do
    local best, loss = fit.best(found, budget * options.size)
    print(("  %.3g FLOP: best N %.3g, loss %.3f"):format(budget * options.size, best, loss))
  end
end

local N, D = shape_of(after[1], after[2])
print_fit()
print(("\nwidth %d at %.3g FLOP (N = %.3g, %.2f M tokens): predicted loss %.3f%s"):format(after[1],
  after[2] * options.size, N, D / 1e6, fit.loss(found, N, D),
  between(of_seeds(function(one) return fit.loss(one, N, D) end), "%.3f")))
print("in brackets: mean ± half width of the 95 % interval (Student's t) of fits to each seed by itself")
io.stdout:flush()

for _, seed in ipairs(options.seeds) do train(path, after[1], after[2], seed) end
local fourth = result(after[1], after[2])
if fourth then
  local least, misses, falls = points[1], {}, {}
  for _, p in ipairs(points) do least = p.loss < least.loss and p or least end
  for s, loss in ipairs(fourth.losses) do
    misses[s] = fit.loss(by_seed[s], fourth.N, fourth.D) - loss
    falls[s] = least.losses[s] - loss
  end
  local text = "trained: %s (N = %.3g, %.2f M tokens); by seed, predicted less trained: %s; the best so far less it: %s"
  print(text:format(experiment.shown(fourth.losses, "%.3f"), fourth.N, fourth.D / 1e6,
    experiment.shown(misses, "%+.3f"), experiment.shown(falls, "%+.3f")))
end

-- ---- curves --------------------------------------------------------------------------------------

local series = {}
for i, width in ipairs(widths) do
  local curve = {}
  for _, p in ipairs(points) do
    if p.width == width then curve[#curve + 1] = { flop = p.flop, loss = p.loss } end
  end
  series[i] = { name = "width " .. width, curves = { curve }, colour = i, points = true }
end
if fourth then
  series[#series + 1] = { name = ("width %d, not in the fit"):format(after[1]), colour = 6, points = true,
    curves = { { { flop = fourth.flop, loss = fourth.loss } } } }
end
---The least losses of the fit between two budgets.
local function draw_fit(name, first, last, style)
  local curve = {}
  for i = 0, 20 do
    local flop = options.size * first * (last / first) ^ (i / 20)
    curve[i + 1] = { flop = flop, loss = select(2, fit.best(found, flop)) }
  end
  series[#series + 1] = { name = name, curves = { curve }, colour = 7, style = style }
end
local low, high = math.min(table.unpack(budgets)), math.max(table.unpack(budgets))
draw_fit("fit, best N", low, high)
if after[2] > high then draw_fit("extrapolated", high, 2 * after[2], "dash") end
experiment.draw(options.out .. "/scaling.svg", "scaling", { {
  title = "held-out loss by compute", x = { key = "flop", label = "FLOP", log = true },
  y = { key = "loss", label = "nats" }, series = series,
} })
