-- advise.lua - fits the layout advisor to a table of measured layouts, and judges it on studies that were left out.
--
--   build/seqrun recipes/papers/advise.lua FILE.tsv [by=group|study] [device=a100]
--
-- FILE has a heading and a line a trial, with tabs: study, model, hidden, layers, heads, ffn, vocab, seq, world, gbs,
-- mbs, tp, pp, dp, ckpt, sp, kernel, status (ok, oom; other lines are left out), step_s, mfu.  by=group leaves out all
-- studies of a model and sequence length at a time, by=study one study.  Prints the constants of all rows first
-- (for lua/seqrun/advise/coefficients.lua).
--
-- MFU error    mean of |predicted / measured - 1| over the layouts that ran
-- Spearman     rank correlation of predicted and measured MFU within a study, mean over the studies
-- memory       share of the trials whose verdict (fits or not) was right
-- regret       what the layout that is advised first among those that ran loses against the best one, mean

package.path = arg[0]:gsub("[^/]*$", "../bench/?.lua;") .. package.path

local common = require("common")
local correlation = require("seqrun.scores.correlation")
local fit = require("advise_fit")
local memory = require("seqrun.advise.memory")
local models = require("seqrun.advise.models")
local time = require("seqrun.advise.time")

local file = arg[1] and not arg[1]:find("^%-") and table.remove(arg, 1)
local options = common.options({ by = "group", device = "a100" }, arg)
if not file then common.refuse("name the table of layouts first") end
local device = models.device(options.device)

local function row_of(t)
  local function n(key) return math.tointeger(tonumber(t[key])) end
  local model = {
    name = t.model, hidden = n "hidden", layers = n "layers", heads = n "heads", inner = n "ffn",
    vocabulary = n "vocab", gated = true, causal = true, masked = 1,
  }
  return {
    study = t.study, group = t.model .. " x " .. t.seq, fits = t.status == "ok", seconds = tonumber(t.step_s),
    mfu = tonumber(t.mfu),
    job = { model = model, device = device, seq = n "seq", batch = n "gbs", devices = n "world", kernel = t.kernel },
    layout = {
      micro_batch = n "mbs", tensor = n "tp", pipeline = n "pp", data = n "dp", recompute = t.ckpt == "1",
      sequence_parallel = t.sp == "1", zero = 1,
    },
  }
end

local function load(path)
  local rows = {}
  for _, t in ipairs(common.read_table(path)) do
    if t.status == "ok" or t.status == "oom" then rows[#rows + 1] = row_of(t) end
  end
  return rows
end

-- ---- judging -------------------------------------------------------------------------------------

---Judges the predictions that the rows of one study carry.
local function judge(rows)
  local guessed, measured, off, right, best, first = {}, {}, 0, 0, 0, nil
  local advised -- the first in the advised order: layouts predicted to fit, fastest first
  for _, row in ipairs(rows) do
    if row.said_fits == row.fits then right = right + 1 end
    if row.said_fits and (not advised or row.said_mfu > advised.said_mfu) then advised = row end
    if row.fits then
      guessed[#guessed + 1], measured[#measured + 1] = row.said_mfu, row.mfu
      off, best = off + math.abs(row.said_mfu / row.mfu - 1), math.max(best, row.mfu)
      if row.said_fits and (not first or row.said_mfu > first.said_mfu) then first = row end
    end
  end
  return {
    rows = #rows, ran = #measured, error = off / #measured, spearman = correlation.spearman(guessed, measured),
    memory = right / #rows, regret = first and 1 - first.mfu / best or 1, first_fits = advised == first,
  }
end

local function predict(rows, coefficients)
  for _, row in ipairs(rows) do
    row.said_mfu = time.mfu(row.job, (time.step(row.job, row.layout, coefficients.time)))
    row.said_need = memory.need(row.job, row.layout, coefficients.memory) / row.job.device.memory
    row.said_fits = row.said_need <= 1
  end
end

local function distinct(rows, key)
  local seen, list = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row[key]] then
      seen[row[key]] = true
      list[#list + 1] = row[key]
    end
  end
  table.sort(list)
  return list
end

local function part(rows, key, value, want)
  local list = {}
  for _, row in ipairs(rows) do
    if (row[key] == value) == want then list[#list + 1] = row end
  end
  return list
end

local function percent(x) return ("%.1f %%"):format(100 * x) end

---A table of the studies, with means: of the error over rows, of the rest over studies.
local function report(rows, title)
  local lines, sum, ran, all, count, firsts = {}, { spearman = 0, regret = 0 }, 0, 0, 0, 0
  local off, right = 0, 0
  lines[1] = { title, "trials", "ran", "MFU error", "Spearman", "memory right", "regret", "first one runs" }
  for _, study in ipairs(distinct(rows, "study")) do
    local j = judge(part(rows, "study", study, true))
    lines[#lines + 1] = {
      study, j.rows, j.ran, percent(j.error), ("%.2f"):format(j.spearman), percent(j.memory),
      ("%.3f"):format(j.regret), j.first_fits and "yes" or "no",
    }
    for key in pairs(sum) do sum[key] = sum[key] + j[key] end
    off, right, ran, all, count = off + j.error * j.ran, right + j.memory * j.rows, ran + j.ran, all + j.rows, count + 1
    firsts = firsts + (j.first_fits and 1 or 0)
  end
  lines[#lines + 1] = {
    "all", all, ran, percent(off / ran), ("%.2f"):format(sum.spearman / count), percent(right / all),
    ("%.3f"):format(sum.regret / count), ("%d of %d"):format(firsts, count),
  }
  common.print_table(lines)
  print()
end

local function print_coefficients(coefficients)
  for _, kind in ipairs { "time", "memory" } do
    local cells = {}
    for i, spec in ipairs(fit[kind]) do cells[i] = ("%s = %.4g"):format(spec[1], coefficients[kind][spec[1]]) end
    print(("  %s = { %s },"):format(kind, table.concat(cells, ", ")))
  end
  print()
end

local rows = load(file)
local left = {}
predict(rows, fit.guesses())
report(rows, "physical guesses, no fit")
local whole = fit.fit(rows)
print_coefficients(whole)
predict(rows, whole)
report(rows, "fitted on all")
for _, name in ipairs(distinct(rows, options.by)) do
  local apart = part(rows, options.by, name, true)
  local c = fit.fit(part(rows, options.by, name, false))
  predict(apart, c)
  table.move(apart, 1, #apart, #left + 1, left)
end
report(left, "each " .. options.by .. " left out")
