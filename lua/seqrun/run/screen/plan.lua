-- plan.lua - what a run will do, in words: model size, packs, schedule.

local amounts = require("seqrun.run.loaders.amounts")
local config = require("seqrun.config")
local counters = require("seqrun.schedule.counters")
local devices = require("seqrun.tensor.devices")
local median = require("seqrun.base.median")
local parts = require("seqrun.tasks.shared.parts")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local plan = {}

---What a run is about to do.
---@class seqrun.Planned
---@field folder string
---@field config table
---@field schema table of the config
---@field model table
---@field loader seqrun.Loader
---@field ranks seqrun.RunRanks
---@field launched integer processes that a launcher has started
---@field total integer updates of the run
---@field last integer the one at which this process stops
---@field goals? string other ends, in words
---@field rate? function|table
---@field schedules? table<string, seqrun.ValueSchedule>
---@field notes? string[] about the data
---@field peak? number FLOP/s of a rank
---@field why_precision? string
---@field why_micro? string

local function packs_line(packing)
  local line = ("%s sequences, %s tokens per epoch in %s packs of %d: %s full, factor %.2f"):format(
    text.commas(packing.sequences), text.commas(packing.tokens), text.commas(packing.packs), packing.max_len,
    text.percent(packing.efficiency), packing.factor)
  local proof = packing.gap_packs == 0 and "which is optimal"
    or ("at most %d above the fewest possible"):format(packing.gap_packs)
  local reason = packing.reason and "\n          depth " .. packing.reason or ""
  return ("%s (%s; lower bound %s packs, %s)%s"):format(line, packing.solver, text.commas(packing.lower_bound), proof,
    reason)
end

local function plural(n, ending) return n == 1 and "" or ending end

local function update_line(t)
  local loader, batch = t.loader:summary(), t.config.batch
  local ending = t.goals
  local steps = ("%s of %s"):format(text.counted(t.last, "step"), text.commas(t.total))
  if t.last >= text.UNLIMITED then steps = ending elseif ending then steps = steps .. ", or " .. ending end
  local first = loader.by == "order" and t.loader.orders.curriculum
  if first then
    return ("%s sequences, about %d pack%s, at first; %s"):format(text.commas(first:first_update().sequences),
      loader.packs, plural(loader.packs, "s"), steps)
  end
  if loader.by == "order" then return "as its order decides; " .. steps end
  local micro, each = amounts.micro_batches(batch, loader), amounts.sequences(batch, loader)
  local drawn = ("%d pack%s (%.1f sequences) in %d micro-batch%s; %s"):format(loader.packs, plural(loader.packs, "s"),
    each, micro, plural(micro, "es"), steps)
  if t.last >= text.UNLIMITED then return drawn end
  return ("%s, %.2f epochs"):format(drawn, amounts.epochs(batch, loader, t.last) or 0)
end

---Which sentence pairs the epochs of a curriculum have.
local function draws_line(t)
  local curriculum = t.loader.orders and t.loader.orders.curriculum
  if not curriculum or t.loader.data:info().kind ~= "text" then return nil end
  if curriculum.examples == "fresh" then return "  draws   new sequences in every epoch; metrics are computed again" end
  return ("  draws   the same %s sequences in every epoch, with new masks; curriculum.examples=fresh draws new ones")
    :format(text.commas(curriculum.sampler:examples()))
end

---How rows are filled if they are not packed, although updates are drawn by the plan.
local function rows_line(t, packing)
  local arrange = t.config.pack.arrange
  if arrange == "single" then return "  rows    single: one sequence per micro-batch" end
  if arrange ~= "padded" then return nil end
  local full = packing.tokens / (packing.sequences * packing.max_len)
  return ("  rows    padded: one sequence per row, so %s of the slots are real tokens"):format(text.percent(full))
end

---"cuda (NVIDIA H100 80GB HBM3)", or "cpu (auto: REASON)".
local function device_text(t)
  local name = tensor.device()
  local facts = tensor.describe(name)
  if facts and facts.model then return ("%s (%s)"):format(name, facts.model) end
  local reason = t.config.device == "auto" and select(2, devices.auto())
  return reason and ("%s (%s)"):format(name, reason) or name
end

---"  compute bf16, avx2 instructions (auto: ...), peak 170 GFLOP/s".
local function compute_line(t)
  local why = t.why_precision and (" (%s)"):format(t.why_precision) or ""
  local most = t.peak and (", peak %.0f GFLOP/s%s"):format(t.peak / 1e9,
    t.config.peak_flops and "" or ", as measured") or ""
  local lesser = devices.lesser()
  return ("  compute %s, %s instructions%s%s%s"):format(t.model.params.precision or "f32", devices.instructions(),
    why, most, lesser and "\n          not " .. lesser or "")
end

---Who computes what: "2 (mpi); shares of an update by rank: 1-3, 4-5; ...".
local function ranks_text(t)
  local batch, loader = t.config.batch, t.loader:summary()
  local count = amounts.shares(batch, loader)
  if not count then return t.ranks:text(8, 8 * t.ranks.size) end
  return t.ranks:text(count, batch.shares or amounts.micro_batches(batch, loader))
end

---", with 92 % of the tokens" of a text of which pairs of sentences leave some out.
local function used_text(loader)
  local used = loader.used_share and loader:used_share()
  return used and (", with %.0f %% of the tokens of the text"):format(100 * used) or ""
end

---Passes over a source in a run beyond which repeating it hardly helps, says Muennighoff et al. 2023.
local MANY_PASSES = 40

---What a run draws from each source.
local function add_sources(t, lines)
  local epochs = amounts.epochs(t.config.batch, t.loader:summary(), t.last)
  for _, source in ipairs(t.loader.mixed or {}) do
    local run = epochs and epochs * source.passes
    lines[#lines + 1] = ("  source  %s: %s of what is drawn; %s in a pass, %.3g passes in an epoch%s"):format(
      source.name, text.percent(source.share), text.commas(source.items), source.passes,
      run and (", %.3g in the run"):format(run) or "")
    if run and run > MANY_PASSES and source.passes > 2 then
      lines[#lines + 1] = ("  warning: each sequence of %s is drawn %.0f times, %.1f times as often as without "
        .. "weights; beyond %d passes little more is learned from it: lower its weight"):format(source.name, run,
        source.passes, MANY_PASSES)
    end
  end
end

---The first lines of the log.
---@param t seqrun.Planned
---@return string
function plan.headline(t)
  local lines = {
    ("%s: %s parameters on %s, %s, %d thread%s, seed %d"):format(t.folder, text.commas(t.model.params:count()),
      device_text(t), t.model.params.precision or "f32", tensor.threads(), plural(tensor.threads(), "s"),
      t.config.seed),
    compute_line(t),
    "  plan    " .. packs_line(t.loader:plan()) .. used_text(t.loader),
    "  update  " .. update_line(t),
  }
  if t.why_micro then
    lines[#lines + 1] = ("  batch   %s in a micro-batch (%s)"):format(
      text.counted(t.config.batch.micro_packs, "pack"), t.why_micro)
  end
  lines[#lines + 1] = draws_line(t)
  add_sources(t, lines)
  if t.launched > 1 then lines[#lines + 1] = "  ranks   " .. ranks_text(t) end
  lines[#lines + 1] = rows_line(t, t.loader:plan())
  return table.concat(lines, "\n")
end

-- ---- the learning rate -----------------------------------------------------------------------

---The step from which on a schedule falls.
local function peak_of(rate, last, pace)
  for step = 1, last - 1 do
    if rate((step + 1) * pace) < rate(step * pace) then return step end
  end
  return last
end

---"1: 2e-05  60: 0.002 ..." at the turning points of a schedule.
---@param rate fun(step: number): number
---@param last integer
---@param pace number steps of the schedule per update
local function rate_points(rate, last, pace)
  local points, seen = {}, {}
  for _, step in ipairs { 1, peak_of(rate, last, pace), last // 4, last // 2, 3 * last // 4, last } do
    if step >= 1 and step <= last and not seen[step] then
      seen[step] = true
      points[#points + 1] = step
    end
  end
  table.sort(points)
  for i, step in ipairs(points) do points[i] = ("%s: %.3g"):format(text.commas(step), rate(step * pace)) end
  return table.concat(points, "   ")
end

---The schedule of the run named by init.from, if its config can be read and has one in steps.
local function earlier_rate(schema, from)
  local path = from and from .. "/config.yaml"
  if not path or not sys.exists(path) then return nil end
  local loaded = config.load { schema = schema, file = path }
  local values = loaded and loaded.values
  if not values or not values.rate.total or values.rate.by ~= "step" then return nil end
  return rate_points(parts.schedule(values), values.steps or values.rate.total - values.rate.from, 1)
end

---What a curriculum draws at the beginning, in the middle and at the end.
local function add_order(t, lines)
  local order = t.loader.options and t.loader.options.order
  if type(order) ~= "table" or not order.explain then return end
  for _, key in ipairs(order.schedules or {}) do
    if type(order[key]) == "table" then lines[#lines + 1] = "  " .. tostring(order[key]) end
  end
  local last = t.total < text.UNLIMITED and t.total or 1
  for _, step in ipairs(last > 2 and { 1, last // 2, last } or { 1 }) do
    lines[#lines + 1] = "  " .. tostring(order:explain(step)):gsub("\n", "\n  ")
  end
end

---The rate at some steps, if it is a function of them.
local function rate_text(t)
  local by = counters.OF[t.rate]
  if by and by ~= "step" then return "a function of " .. by end
  if type(t.rate) ~= "function" or t.total >= text.UNLIMITED then return tostring(t.rate) end
  return rate_points(t.rate, t.total, t.loader:summary().schedule_steps)
end

---The rate and the other schedules, and what a curriculum draws.
---@param t seqrun.Planned
---@return string[]
function plan.schedules(t)
  local lines, from = {}, t.config.init.from
  local earlier = earlier_rate(t.schema, from)
  if earlier then lines[1] = ("  rate    previous phase, %s: %s"):format(from, earlier) end
  if t.rate then lines[#lines + 1] = "  rate    " .. rate_text(t) end
  for _, name in ipairs(sorted(t.schedules or {})) do lines[#lines + 1] = "  " .. tostring(t.schedules[name]) end
  add_order(t, lines)
  return lines
end

---The median without the first.
local function typical(times) return median(table.move(times, 2, #times, 1, {})) end

---How long the run takes, as measured.
---@param t seqrun.Planned
---@param micros number[] seconds of each micro-batch; the first is not counted
---@param rests number[] seconds of the rest of each step: the optimizer
---@return string
---@return number|nil seconds of the whole run; nil if no number of steps ends it
function plan.time(t, micros, rests)
  local micro = amounts.micro_batches(t.config.batch, t.loader:summary())
  local step = typical(micros) * micro + typical(rests)
  local seconds = t.last < text.UNLIMITED and step * t.last or nil
  local whole = seconds and (", %s for %s"):format(text.duration(seconds), text.counted(t.last, "step")) or ""
  return ("%s per step (%d micro-batch%s of %s, %s for the optimizer; measured %s)%s"):format(
    text.duration(step), micro, plural(micro, "es"), text.duration(typical(micros)), text.duration(typical(rests)),
    text.counted(#micros - 1, "time"), whole), seconds
end

return plan
