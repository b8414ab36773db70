-- first.lua - looks at the first update of a process: whether the losses of the recipe are what they say, and which
-- parameters their gradients reach.  Values are read here only, so that no later step waits for the device.

local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted
local ops = require("seqrun.core.ops")
local randomness = require("seqrun.tensor.randomness")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local training = require("seqrun.tensor.training")

---@class seqrun.FirstUpdate
---@field model table
---@field source table gives the losses
---@field optimizer table
---@field ranks seqrun.RunRanks
---@field rate? fun(counters: seqrun.Counters): number
---@field warn fun(format: string, ...: any)
---@field update? seqrun.Update while it lasts
---@field seen table<string, table> what its micro-batches have of each loss
---@field names string[] of these losses, in order
---@field roots { value: number, where: string }[] what backward passes began at
---@field versions? table<seqrun.Tensor, integer> of leaves that are no parameters, before the update
local First = {}
First.__index = First

---@param t table the fields above, up to `warn`
---@return seqrun.FirstUpdate
local function new(t)
  t.seen, t.names, t.roots, t.totals, t.targets = {}, {}, {}, {}, {}
  return setmetatable(t, First)
end

local MOST = 4 -- names in a message

local function is_finite(x) return math.abs(x) < math.huge end

---Values of a tensor that are 0.
local function zeros(x) return x:eq(0):to("f32"):sum():item() end

---Values that are NaN or infinite: only of others the difference from themselves is 0.
local function lost(x) return x:numel() - math.tointeger(zeros(x - x)) end

---"the loss 'share' (own.lua:12)", with the place of the function that gives it.
local function title(self, name)
  local head = type(self.model.head) == "function" and self.model:head(name)
  return ("the loss '%s'%s"):format(name, check.place(head and head.loss or self.source.losses))
end

---Leaves that are no parameters and still live; the collector may have released some already.
local function leaves()
  local list = {}
  collectgarbage()
  for leaf in pairs(training.leaves) do
    local good, live = pcall(leaf.is_live, leaf)
    if good and live then list[#list + 1] = leaf end
  end
  return list
end

---An update begins: what its passes begin at and reach is noted.
---@param update seqrun.Update
function First:begin(update)
  if self.done or self.update then return end
  self.update, self.versions, self.began = update, {}, setmetatable({}, { __mode = "k" })
  for _, leaf in ipairs(leaves()) do self.versions[leaf] = leaf:grad() and -1 or leaf:version() end
  for _, store in ipairs(training.live_stores()) do
    store.core:reached()
    if store ~= self.model.params then store.clean = false end
  end
  ops.refuse_pairs(true)
  training.look(function(root)
    if tensor.is_tensor(root) and root:is_live() and root:numel() == 1 then
      if self.began[root] and not self.twice then
        self.warn("%sbackward() begins at this total once more, so gradients count twice; call it once", sys.where())
        self.twice = true
      end
      self.began[root] = true
      self.roots[#self.roots + 1] = { value = root:detach():item(), where = sys.where() }
    end
  end)
end

-- ---- a micro-batch ---------------------------------------------------------------------------

---Fails if more values differ from 0 than there are items.
---@param loss seqrun.Loss
local function check_count(loss)
  for _, key in ipairs { "items", "correct" } do
    local x = loss[key]
    local n = x and x:numel() > loss.count and x:numel() - math.tointeger(zeros(x:detach())) or 0
    if n > loss.count then
      check.fail("run:tally: '%s' has %d values other than 0 in `%s`, but a count of %d, the number of items: leave it "
        .. "out for that of the target, or make the values 0 that do not count", loss.name, n, key, loss.count)
    end
  end
end

---How many values of a tensor are NaN or infinite.
local function bad(x) return x and x:dtype() ~= "i32" and lost(x:detach()) or "none" end

---Warns of a loss that is NaN or infinite.
---@return boolean # whether it is
local function warn_lost(self, loss, target, value)
  if is_finite(value) then return false end
  self.warn("%s is NaN or infinite in update %d, as are %s of its items and %s of the labels of its target: the update "
    .. "is skipped", title(self, loss.name), self.update.index + 1, bad(loss.items), bad(target and target.labels))
  return true
end

---Warns of a total that is not the weighted sum of the items.
---@return boolean # whether it has
local function warn_weights(self, loss, target, value)
  local weights = target and target.weights
  if not weights or not loss.items or loss.reduced or loss.items:numel() ~= weights:numel() then return false end
  local sum = (loss.items:detach():reshape(-1):to(weights:dtype()) * weights:reshape(-1)):sum():item()
  local larger = math.max(math.abs(sum), math.abs(value))
  if not is_finite(sum) or math.abs(sum - value) <= 0.02 * larger + 1e-6 then return false end
  self.warn("%s has a total of %.4g in a micro-batch, but its items times target.weights sum to %.4g: the weights "
    .. "divide by the items of the whole update of %d micro-batches; return total = (items * target.weights):sum(), or "
    .. "reduced = true if the total is meant so", title(self, loss.name), value, sum, self.update.count)
  return true
end

---Doubles what makes a loss a part of that of its update; what is returned takes it back.
local function doubled(batch)
  local kept = {}
  local function multiply(object, key, factor)
    kept[#kept + 1] = { object, key, rawget(object, key) }
    if object[key] then rawset(object, key, object[key] * factor) end
  end
  multiply(batch, "update_sequences", 0.5)
  for _, target in pairs(batch.targets) do
    multiply(target, "weights", 2)
    multiply(target, "denominator", 0.5)
  end
  return function()
    for _, one in ipairs(kept) do rawset(table.unpack(one, 1, 3)) end
  end
end

---Warns of a person's losses without items that remain as they are where the parts of an update are doubled: losses()
---is called once more.
local function check_weights(self, batch, losses)
  local list, random = {}, randomness.state()
  for _, loss in ipairs(losses) do
    if not loss.items and not loss.reduced and title(self, loss.name):find("%(") then list[#list + 1] = loss end
  end
  if #list == 0 or not batch.targets then return end
  local restore = doubled(batch)
  local twice = self.source:losses(batch)
  restore()
  randomness.restore(random)
  for _, loss in ipairs(list) do
    local value, other = loss.total:item(), twice[loss.name] -- nil: one that the loop has added
    if other and value ~= 0 and value == other.total:item() then
      self.seen[loss.name].warned = true
      self.warn("%s has a total that does not depend on target.weights, which divide by the items of the whole update "
        .. "of %d micro-batches; return total = (items * target.weights):sum(), and items, or reduced = true if it is "
        .. "divided by update.count", title(self, loss.name), self.update.count)
    end
  end
end

---Takes one loss of a micro-batch.
local function take(self, loss, target)
  local seen = self.seen[loss.name]
  if not seen then
    seen = { least = math.huge, most = -math.huge, count = 0, sums = {}, own = not target }
    self.seen[loss.name], self.names[#self.names + 1] = seen, loss.name
  end
  local value = loss.total:detach():item()
  seen.least, seen.most, seen.count = math.min(seen.least, value), math.max(seen.most, value), seen.count + loss.count
  seen.own = seen.own and not loss.items and not loss.reduced
  for metric, pair in pairs(loss.sums or {}) do seen.sums[metric] = (seen.sums[metric] or 0) + pair[2] end
  seen.warned = seen.warned or warn_lost(self, loss, target, value) or warn_weights(self, loss, target, value)
end

---Takes the losses of a micro-batch of this update.
---@param batch seqrun.Batch
---@param losses seqrun.Losses
function First:tally(batch, losses)
  if not self.update then return end
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  self.totals[#self.totals + 1] = losses.total:detach():item()
  for name in pairs(batch.targets or {}) do self.targets[name] = true end
  for _, loss in ipairs(losses) do
    check_count(loss)
    take(self, loss, batch.targets and batch.targets[loss.name])
  end
  if #self.totals == 1 and self.update.count > 1 then check_weights(self, batch, losses) end
end

-- ---- the end of the update -------------------------------------------------------------------

---What the totals of all micro-batches say.
local function check_losses(self)
  for _, name in ipairs(self.names) do
    local seen = self.seen[name]
    if seen.own and not seen.warned and #self.totals > 1 and seen.least == seen.most and seen.most ~= 0 then
      self.warn("%s is %.4g in each of the %d micro-batches of an update, whose losses are added up; divide it by "
        .. "update.count, and say reduced = true", title(self, name), seen.most, #self.totals)
    end
    for metric, count in pairs(seen.sums) do
      if count == 0 and seen.count > 0 then
        self.warn("%s gives the metric %s with a count of 0, so it is not reported; use { sum, number of items }",
          title(self, name), metric)
      end
    end
  end
end

---What backward passes began at.
local function check_roots(self)
  local sum, total, n, least, most = 0, 0, self.update.count, math.huge, -math.huge
  for _, value in ipairs(self.totals) do total = total + value end
  for i, root in ipairs(self.roots) do
    local added = root.value - (self.totals[i] or 0)
    sum, least, most = sum + root.value, math.min(least, added), math.max(most, added)
    if not is_finite(root.value) and is_finite(total) then
      return self.warn("%sbackward() begins at NaN or infinity, though losses.total is finite, so the update is "
        .. "skipped: see what this loop adds to it", root.where)
    end
  end
  if n < 2 or #self.totals ~= n or #self.roots < n then return end -- a rank may have none
  if math.abs(sum * n - total) < 1e-3 * math.abs(total) then
    self.warn("%sbackward() begins at losses.total / %d, but the totals of the micro-batches are parts of the mean "
      .. "over the update already; call losses.total:backward()", self.roots[1].where, n)
  elseif #self.roots == n and most - least <= 1e-5 * math.abs(total) and math.abs(least) > 1e-4 * math.abs(total) then
    self.warn("%sbackward() begins at losses.total and %.4g more in each of the %d micro-batches, which are added up, "
      .. "and no metric has it; pass it to losses:add(name, { total = x / update.count, count = 1, reduced = true })",
      self.roots[1].where, least, n)
  end
end

---Warns of a rate of 0 that the schedule does not give.
local function check_rate(self)
  if self.optimizer.rate ~= 0 or not self.rate then return end
  local good, rate = pcall(self.rate, self.update.counters)
  if not good or type(rate) ~= "number" or rate == 0 then return end
  self.warn("the learning rate of the first update is 0, but the schedule gives %.3g for it; steps count from 1: call "
    .. "optimizer:step { rate = rate(update.counters) }", rate)
end

---What the passes of all ranks have reached, by parameter; the targets of their batches are put together.
local function reached_by_all(self)
  local reached = {}
  for _, rank in ipairs(self.ranks:gather { reached = self.model.params.core:reached(), targets = self.targets }) do
    for name in pairs(rank.targets) do self.targets[name] = true end
    for i, is in ipairs(rank.reached) do reached[i] = reached[i] or is end
  end
  return reached
end

---Parameters that get no gradient in an update with these targets, as known beforehand.
local function silent_ones(self)
  local silent, encoder, present = {}, self.model.encoder, {}
  for name in pairs(self.targets) do present[#present + 1] = name end
  local groups = type(self.model.frozen) == "function" and encoder and self.model:frozen(present) or {}
  for i, param in ipairs(self.model.params.list or {}) do
    local segment = self.optimizer.segments and self.optimizer.segments[i]
    silent[i] = segment and segment.frozen
    for _, group in ipairs(groups) do silent[i] = silent[i] or param.name:find(group.match) ~= nil end
  end
  return silent
end

local function listed(names)
  local more = #names > MOST and (" and %d more"):format(#names - MOST) or ""
  return table.concat(names, ", ", 1, math.min(#names, MOST)) .. more
end

---Leaves by hand, and parameters of other stores, that got a gradient and that nothing has moved.
local function strange_ones(self)
  local list = {}
  for _, leaf in ipairs(leaves()) do
    local is_written = self.versions[leaf] and leaf:version() ~= self.versions[leaf]
    if leaf:grad() and not is_written then list[#list + 1] = ("(%s)"):format(table.concat(leaf:shape(), ", ")) end
  end
  for _, store in ipairs(training.live_stores()) do
    for i, is in ipairs(store ~= self.model.params and not store.clean and store.core:reached() or {}) do
      if is then list[#list + 1] = store.list[i].name end
    end
  end
  table.sort(list)
  return list
end

---Warns of parameters that no gradient has reached, and of tensors that got one and are no parameters.
local function check_reach(self)
  local reached, names, any = reached_by_all(self), {}, false
  local silent = silent_ones(self)
  for i, param in ipairs(self.model.params.list or {}) do
    any = any or reached[i]
    if not reached[i] and not silent[i] then names[#names + 1] = param.name end
  end
  if any and #names > 0 then
    self.warn("no gradient reaches %s in the first update: call backward() on losses.total, without detach(), item() "
      .. "or params:value_of on the way; groups = { { match = \"^%s$\", frozen = true } } of the optimizer says that "
      .. "it is meant", listed(names), (names[1]:gsub("%p", "%%%0")))
  end
  local strangers = strange_ones(self)
  if #strangers > 0 then
    self.warn("gradients reach %s outside of the model's parameters, which no step trains and no checkpoint has: %s; "
      .. "declare weights in the specs of a head or of sr.nn.model, and read them with params:get; detach() says that "
      .. "one is a constant", counted(#strangers, "tensor"), listed(strangers))
  end
end

---The update has been applied.
function First:ended()
  if not self.update then return end
  check_losses(self)
  check_roots(self)
  check_rate(self)
  check_reach(self)
  self:close()
end

---Looks on no longer.
function First:close()
  if self.update then
    training.look(nil)
    ops.refuse_pairs(false)
  end
  self.done, self.update, self.versions = true, nil, nil
end

return { new = new }
