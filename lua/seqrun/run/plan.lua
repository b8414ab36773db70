-- plan.lua - what a run is going to do: its size, its packs, its schedule; with --dry-run also its
-- memory and time, from a few micro-batches that are really computed.

local config = require("seqrun.config")
local failure = require("seqrun.failure")
local parts = require("seqrun.run.parts")
local pretraining = require("seqrun.run.schema")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local text = require("seqrun.run.text")

local plan = {}

---Micro-batches of a rehearsal: the first finds caches cold, the others are timed.
local REHEARSED = 3

local function packs_line(packing)
  local line = ("%s sequences, %s tokens an epoch in %s packs of %d: %s full, factor %.2f"):format(
    text.commas(packing.sequences), text.commas(packing.tokens), text.commas(packing.packs), packing.max_len,
    text.percent(packing.efficiency), packing.factor)
  local proof = packing.gap_packs == 0 and "which is optimal"
    or ("at most %d above the fewest possible"):format(packing.gap_packs)
  return ("%s (%s; lower bound %s packs, %s)"):format(line, packing.solver, text.commas(packing.lower_bound), proof)
end

local function update_line(self)
  local loader = self.loader:summary()
  local micro = math.ceil(loader.packs / loader.micro_packs)
  local epochs = self.last * loader.packs / math.max(1, loader.packs_per_epoch)
  return ("%d packs (%.1f sequences) in %d micro-batch%s; %s steps of %s, %.2f epochs"):format(
    loader.packs, loader.packs * loader.factor, micro, micro == 1 and "" or "es", text.commas(self.last),
    text.commas(self.total), epochs)
end

---What the log begins with.
---@param self seqrun.Run
---@return string
function plan.headline(self)
  local lines = {
    ("%s: %s parameters on %s, %d thread%s, seed %d"):format(self.folder, text.commas(self.model.params:count()),
      self.config.device, tensor.threads(), tensor.threads() == 1 and "" or "s", self.config.seed),
    "  plan    " .. packs_line(self.loader:plan()),
    "  update  " .. update_line(self),
  }
  return table.concat(lines, "\n")
end

-- ---- the learning rate -----------------------------------------------------------------------

---"1: 2e-05  60: 0.002 ..." at the points where a schedule turns.
---@param rate fun(step: integer): number
---@param cfg table the `rate` part of a config
---@param last integer
local function rate_points(rate, cfg, last)
  local points, seen = {}, {}
  for _, step in ipairs { 1, cfg.warmup - cfg.from, last // 4, last // 2, 3 * last // 4, last } do
    if step >= 1 and step <= last and not seen[step] then
      seen[step] = true
      points[#points + 1] = step
    end
  end
  table.sort(points)
  for i, step in ipairs(points) do points[i] = ("%s: %.3g"):format(text.commas(step), rate(step)) end
  return table.concat(points, "   ")
end

---The schedule of the run that this one starts from, when its folder tells.
local function earlier_rate(from)
  local path = from and from .. "/config.yaml"
  if not path or not sys.exists(path) then return nil end
  local loaded = config.load { schema = pretraining.schema, file = path }
  if not loaded then return nil end
  local values = loaded.values
  return rate_points(parts.schedule(values), values.rate, values.steps or values.rate.total - values.rate.from)
end

-- ---- time and memory -------------------------------------------------------------------------

---An update that hands out its first micro-batch only.
local function shortened(update)
  return setmetatable({
    batches = function()
      local batches, given = update:batches(), false
      return function()
        if given then return nil end
        given = true
        return batches()
      end
    end,
  }, { __index = update })
end

local function tell(self, seconds)
  local cfg, say = self.config, function(...) self.progress:tell(...) end
  local params = self.model.params:count()
  local loader = self.loader:summary()
  local micro = math.ceil(loader.packs / loader.micro_packs)
  local _, peak = sys.memory()
  say("%s", plan.headline(self))
  local earlier = earlier_rate(cfg.init.from)
  if earlier then say("  rate    before, in %s: %s", cfg.init.from, earlier) end
  say("  rate    %s", rate_points(self.rate, cfg.rate, self.total))
  say("  memory  %s for parameters, gradients and moments; the process took at most %s", text.bytes(16 * params),
    text.bytes(peak))
  local step = seconds * micro
  say("  time    %s a step, measured on %d micro-batches of %d; %s for %s steps", text.duration(step),
    REHEARSED - 1, micro, text.duration(step * self.last), text.commas(self.last))
  say("  out     %s; nothing was written", self.folder)
end

---Stands in for the loop of a run that is only planned: computes a few micro-batches and tells.
---@param self seqrun.Run
---@param loader seqrun.Loader
---@return fun(): integer?, seqrun.Update?
function plan.rehearse(self, loader)
  local times, turn, began = {}, 0, nil
  local update = loader:next()
  if not update then failure.raise("data", "the data set holds no whole update") end
  return function()
    if began then times[turn] = sys.now() - began end
    if sys.caught() then failure.raise("stopped", "stopped; nothing was written") end
    if turn == REHEARSED then
      tell(self, math.min(table.unpack(times, 2)))
      return nil
    end
    turn = turn + 1
    began = sys.now()
    self.step_began, self.waited = began, 0
    return 1, shortened(update)
  end
end

return plan
