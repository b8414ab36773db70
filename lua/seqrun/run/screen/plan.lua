-- plan.lua - what a run will do: model size, packs, schedule; with --dry-run also memory and time, measured on a
-- few micro-batches.

local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local goals = require("seqrun.run.checks.goals")
local memory = require("seqrun.run.checks.memory")
local parts = require("seqrun.tasks.shared.parts")
local sanity = require("seqrun.run.checks.sanity")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.base.format")

local plan = {}

---Steps of a rehearsal, each of one micro-batch: the first is a warmup and is not counted; the others take some
---seconds, until timings are steady.
local FEWEST, MOST, SECONDS = 3, 50, 3

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

---Sequences of an update, on average.
local function sequences_of(self, loader)
  return loader.by == "sequences" and self.config.batch.sequences or loader.packs * loader.factor
end

---Micro-batches of an update, on average; all shares have the same number.
local function micro_batches(self, loader)
  if loader.arrange == "single" then return math.floor(sequences_of(self, loader) + 0.5) end
  local micro, shares = math.ceil(loader.packs / loader.micro_packs), self.config.batch.shares or 1
  return math.ceil(micro / shares) * shares
end

---Shares of an update, on average; nil if its order decides.
---@param self seqrun.Run
---@return integer|nil shares
---@return integer packs, or rows of one sequence
function plan.shares(self)
  local loader = self.loader:summary()
  if loader.by == "order" then return nil, 0 end
  local rows = loader.arrange == "packed" and loader.packs or math.floor(sequences_of(self, loader))
  return math.min(self.config.batch.shares or 8, micro_batches(self, loader), rows), rows
end

local function plural(n, ending) return n == 1 and "" or ending end

---Passes over the data of the whole run; nil where its order or a counter decides.
---@param self seqrun.Run
---@return number|nil
function plan.epochs(self)
  local loader = self.loader:summary()
  if loader.by == "order" or self.last >= text.UNLIMITED then return nil end
  if loader.by == "sequences" then return self.last * sequences_of(self, loader) / math.max(1, loader.sequences) end
  return self.last * loader.packs / math.max(1, loader.packs_per_epoch)
end

---Warnings about settings that are probably mistakes.
---@param self seqrun.Run
---@return string[]
function plan.warnings(self)
  local list = sanity.rates(self.config)
  list[#list + 1] = sanity.heads(self)
  list[#list + 1] = sanity.simt(self)
  list[#list + 1] = sanity.epochs(self, plan.epochs(self) or 0)
  return list
end

local function update_line(self)
  local loader = self.loader:summary()
  local ending = goals.text(self.goals)
  local steps = ("%s of %s"):format(text.counted(self.last, "step"), text.commas(self.total))
  if self.last >= text.UNLIMITED then steps = ending elseif ending then steps = steps .. ", or " .. ending end
  local first = loader.by == "order" and self.loader.orders.curriculum
  if first then
    return ("%s sequences, about %d pack%s, at first; %s"):format(text.commas(first:first_update().sequences),
      loader.packs, plural(loader.packs, "s"), steps)
  end
  if loader.by == "order" then return "as its order decides; " .. steps end
  local micro, each = micro_batches(self, loader), sequences_of(self, loader)
  local drawn = ("%d pack%s (%.1f sequences) in %d micro-batch%s; %s"):format(loader.packs, plural(loader.packs, "s"),
    each, micro, plural(micro, "es"), steps)
  if self.last >= text.UNLIMITED then return drawn end
  return ("%s, %.2f epochs"):format(drawn, plan.epochs(self) or 0)
end

---Which sentence pairs the epochs of a curriculum have.
local function draws_line(self)
  local curriculum = self.loader.orders and self.loader.orders.curriculum
  if not curriculum or self.loader.data:info().kind ~= "text" then return nil end
  if curriculum.examples == "fresh" then return "  draws   new sequences in every epoch; metrics are computed again" end
  return ("  draws   the same %s sequences in every epoch, with new masks; curriculum.examples=fresh draws new ones")
    :format(text.commas(curriculum.sampler:examples()))
end

---How rows are filled if they are not packed, although updates are drawn by the plan.
local function rows_line(self, packing)
  local arrange = self.config.pack.arrange
  if arrange == "single" then return "  rows    single: one sequence per micro-batch" end
  if arrange ~= "padded" then return nil end
  local full = packing.tokens / (packing.sequences * packing.max_len)
  return ("  rows    padded: one sequence per row, so %s of the slots are real tokens"):format(text.percent(full))
end

---"cuda (NVIDIA H100 80GB HBM3)", or "cpu (auto: REASON)".
local function device_text(self)
  local name = tensor.device()
  local facts = tensor.describe(name)
  if facts and facts.model then return ("%s (%s)"):format(name, facts.model) end
  local reason = self.config.device == "auto" and select(2, devices.auto())
  return reason and ("%s (%s)"):format(name, reason) or name
end

---"  compute bf16, avx2 instructions (auto: ...), peak 170 GFLOP/s".
local function compute_line(self)
  local why = self.why_precision and (" (%s)"):format(self.why_precision) or ""
  local most = self.peak and (", peak %.0f GFLOP/s%s"):format(self.peak / 1e9,
    self.config.peak_flops and "" or ", as measured") or ""
  local lesser = devices.lesser()
  return ("  compute %s, %s instructions%s%s%s"):format(self.model.params.precision or "f32", devices.instructions(),
    why, most, lesser and "\n          not " .. lesser or "")
end

---Who computes what: "2 (mpi); shares of an update by rank: 1-3, 4-5; ...".
local function ranks_text(self)
  local count = plan.shares(self)
  if not count then return self.ranks:text(8, 8 * self.ranks.size) end
  return self.ranks:text(count, self.config.batch.shares or micro_batches(self, self.loader:summary()))
end

---The first lines of the log.
---@param self seqrun.Run
---@return string
function plan.headline(self)
  local lines = {
    ("%s: %s parameters on %s, %s, %d thread%s, seed %d"):format(self.folder, text.commas(self.model.params:count()),
      device_text(self), self.model.params.precision or "f32", tensor.threads(), plural(tensor.threads(), "s"),
      self.config.seed),
    compute_line(self),
    "  plan    " .. packs_line(self.loader:plan()),
    "  update  " .. update_line(self),
  }
  if self.why_micro then
    lines[#lines + 1] = ("  batch   %d packs in a micro-batch (%s)"):format(self.config.batch.micro_packs,
      self.why_micro)
  end
  lines[#lines + 1] = draws_line(self)
  local rehearsed = self.request.dry_run and require("seqrun.run.ranks").launched() > 1
  if self.ranks:several() or rehearsed then lines[#lines + 1] = "  ranks   " .. ranks_text(self) end
  lines[#lines + 1] = rows_line(self, self.loader:plan())
  return table.concat(lines, "\n")
end

---What is to be said about the data; warnings in lines of their own.
---@param self seqrun.Run
---@param say fun(format: string, ...)
function plan.tell_notes(self, say)
  for _, note in ipairs(self.notes or {}) do
    local warning = note:match("^warning: (.*)$")
    if warning then self.progress:warn("%s", warning) else say("  data    %s", note) end
  end
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

-- ---- time and memory -------------------------------------------------------------------------

---An update that returns only its first micro-batch, and calls `done` when asked for the next.
local function shortened(update, done)
  return setmetatable({
    batches = function()
      local batches, given = update:batches(), false
      return function()
        if given then
          done()
          return nil
        end
        given = true
        return batches()
      end
    end,
  }, { __index = update })
end

---The median without the first.
local function typical(times)
  local sorted = table.move(times, 2, #times, 1, {})
  table.sort(sorted)
  return sorted[(#sorted + 1) // 2]
end

local function names_of(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  return names
end

---What a curriculum draws at the beginning, in the middle and at the end.
local function tell_order(self, say)
  local order = self.loader.options and self.loader.options.order
  if type(order) ~= "table" or not order.explain then return end
  for _, key in ipairs { "length", "sequences", "tokens", "mask" } do
    if type(order[key]) == "table" then say("  %s", tostring(order[key])) end
  end
  local last = self.total < text.UNLIMITED and self.total or 1
  for _, step in ipairs(last > 2 and { 1, last // 2, last } or { 1 }) do
    say("  %s", (tostring(order:explain(step)):gsub("\n", "\n  ")))
  end
end

---@param self seqrun.Run
---@param micros number[] seconds of each micro-batch
---@param rests number[] seconds of the rest of each step: the optimizer
local function tell(self, micros, rests)
  local cfg, say = self.config, function(...) self.progress:tell(...) end
  local loader = self.loader:summary()
  local _, peak = sys.memory()
  say("%s", plan.headline(self))
  plan.tell_notes(self, say)
  local earlier = earlier_rate(self.loaded.schema, cfg.init.from)
  if earlier then say("  rate    previous phase, %s: %s", cfg.init.from, earlier) end
  if self.rate then
    local steps = type(self.rate) == "function" and self.total < text.UNLIMITED
    say("  rate    %s", steps and rate_points(self.rate, self.total, loader.schedule_steps) or tostring(self.rate))
  end
  for _, name in ipairs(names_of(self.schedules or {})) do say("  %s", tostring(self.schedules[name])) end
  tell_order(self, say)
  say("  memory  %s; peak memory of the process %s", memory.text(self), text.bytes(peak))
  local micro = micro_batches(self, loader)
  local step = typical(micros) * micro + typical(rests)
  local whole = self.last < text.UNLIMITED
    and (", %s for %s"):format(text.duration(step * self.last), text.counted(self.last, "step")) or ""
  say("  time    %s per step (%d micro-batch%s of %s, %s for the optimizer; measured %d times)%s",
    text.duration(step), micro, plural(micro, "es"), text.duration(typical(micros)), text.duration(typical(rests)),
    #micros - 1, whole)
  local long = self.last < text.UNLIMITED and sanity.duration(self, step * self.last)
  if long then self.progress:warn("%s", long) end
  say("  out     %s; nothing was written", self.folder)
end

---Replaces the loop in a dry run: runs a few micro-batches and prints the estimates.
---@param self seqrun.Run
---@param name string of the loader; only the first loop is rehearsed
---@return fun(): integer?, seqrun.Update?
function plan.rehearse(self, name)
  if self.rehearsed then return function() end end
  self.rehearsed = true
  local micros, rests = {}, {}
  local first, began, half = sys.now(), nil, nil
  local update = self.loaders:next(name, 1, 0)
  if not update then failure.raise("data", "too few examples for one update; lower batch.sequences") end
  return function()
    local now = sys.now()
    if began then micros[#micros + 1], rests[#rests + 1] = (half or now) - began, now - (half or now) end
    if sys.caught() then failure.raise("stopped", "stopped; nothing was written") end
    if #micros >= MOST or #micros >= FEWEST and now - first >= SECONDS then
      tell(self, micros, rests)
      return nil
    end
    began, half = sys.now(), nil
    self.step_began, self.waited = began, 0
    self.imbalance, self.counters = update.imbalance, update.counters
    return 1, shortened(update, function() half = sys.now() end)
  end
end

return plan
