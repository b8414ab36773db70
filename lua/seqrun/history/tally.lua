-- tally.lua - sums of named losses, and the order in which to print them.
--
-- Tensors stay on the device until `read` fetches all of them in one copy.

local tensor = require("seqrun.tensor")

---@class seqrun.Tally
---@field order seqrun.Shown[]
local Tally = {}
Tally.__index = Tally

---@class seqrun.Shown
---@field name string of a loss
---@field accuracy boolean
---@field perplexity? boolean
---@field metrics string[] further ones
---@field sources? string[] names of the sources of the data, which have losses of their own: SOURCE_NAME_loss

---Maximum number of scalars kept on the device.
local MOST_PENDING = 256

---@return seqrun.Tally
local function new() return setmetatable({ order = {}, pending = {} }, Tally) end

local function add(sums, key, value) sums[key] = (sums[key] or 0) + value end

---The entry of a loss in the order of printing.
local function shown(self, name)
  for _, entry in ipairs(self.order) do
    if entry.name == name then return entry end
  end
  local entry = { name = name, accuracy = false, metrics = {} }
  self.order[#self.order + 1] = entry
  return entry
end

local function show_metric(entry, metric)
  for _, name in ipairs(entry.metrics) do
    if name == metric then return end
  end
  entry.metrics[#entry.metrics + 1] = metric
  table.sort(entry.metrics)
end

---Adds a number now, a scalar tensor later.
local function queue(self, sums, key, value)
  if type(value) == "number" then return add(sums, key, value) end
  self.pending[#self.pending + 1] = { sums, key, value:detach():keep() }
end

---Adds to a mean: a sum, and of how many items it is.
local function take_metric(self, sums, metric, sum, count)
  queue(self, sums, "sum " .. metric, sum)
  add(sums, "items " .. metric, count)
end

---Adds one loss.
local function take_loss(self, sums, loss, by_items)
  local name, entry = loss.name, shown(self, loss.name)
  if by_items and loss.items then
    queue(self, sums, "value " .. name, loss.items:sum())
    add(sums, "of " .. name, loss.count)
  else
    queue(self, sums, "value " .. name, loss.total)
    sums["once " .. name] = 1
  end
  add(sums, "count " .. name, loss.count)
  entry.perplexity = loss.perplexity or entry.perplexity
  if loss.correct then
    entry.accuracy = true
    queue(self, sums, "correct " .. name, loss.correct:sum())
  end
  for metric, pair in pairs(loss.sums or {}) do
    show_metric(entry, metric)
    take_metric(self, sums, metric, pair[1], pair[2])
  end
end

---Adds the sum of a loss over the items of a source, where the loss has a value for each item of its target.
local function take_source(self, sums, loss, batch, i)
  local mask, count = batch.core:of_source(batch.number, i, loss.name)
  local items = loss.items
  if not mask or count == 0 or not items or #mask ~= 4 * items:numel() then return end
  local own = tensor.from_string(mask, { items:numel() }, "f32"):to(items:dtype())
  shown(self, loss.name).sources = batch.sources
  take_metric(self, sums, ("%s_%s_loss"):format(batch.sources[i], loss.name),
    (items:detach():reshape(items:numel()) * own):sum(), count)
end

---Adds what each source of the data has of a micro-batch: sequences, and losses.
local function take_sources(self, sums, losses, batch)
  for i, name in ipairs(batch.sources) do
    local _, count = batch.core:of_source(batch.number, i)
    take_metric(self, sums, "share_" .. name, count, sums.sequences or 0)
    for _, loss in ipairs(losses) do take_source(self, sums, loss, batch, i) end
  end
end

---Adds the losses of a micro-batch.
---@param sums table<string, number> of this micro-batch; added to, also by later reads
---@param losses seqrun.Losses
---@param by_items? boolean mean over items; else over updates, of the values that were minimised
---@param batch? seqrun.Batch whose sources are told apart
function Tally:take(sums, losses, by_items, batch)
  if batch and batch.sources then take_sources(self, sums, losses, batch) end
  for _, loss in ipairs(losses) do take_loss(self, sums, loss, by_items) end
  if losses.total and not by_items then queue(self, sums, "loss", losses.total) end
  if #self.pending > MOST_PENDING then self:read() end
end

---The values of scalars of one dtype, in one copy.
local function values_of(scalars)
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local flat = {}
  for i, scalar in ipairs(scalars) do flat[i] = scalar:reshape(1) end
  return tensor.cat(flat):totable()
end

---Reads all pending scalars.
function Tally:read()
  local by_dtype = {}
  for i, item in ipairs(self.pending) do
    local dtype = item[3]:dtype()
    by_dtype[dtype] = by_dtype[dtype] or {}
    table.insert(by_dtype[dtype], i)
  end
  local values = {}
  for _, places in pairs(by_dtype) do
    local scalars = {}
    for i, place in ipairs(places) do scalars[i] = self.pending[place][3] end
    for i, value in ipairs(values_of(scalars)) do values[places[i]] = value end
  end
  for i, item in ipairs(self.pending) do
    add(item[1], item[2], values[i])
    item[3]:release()
  end
  self.pending = {}
end

local function ratio(a, b) return a and b and b > 0 and a / b or nil end

---Writes the metrics of sums that have been read into a line.
---@param sums table<string, number>
---@param line table
function Tally:metrics(sums, line)
  for _, entry in ipairs(self.order) do
    local name = entry.name
    if (sums["count " .. name] or 0) > 0 then
      local of = (sums["of " .. name] or 0) + (sums["once " .. name] or 0)
      line[name .. "_loss"] = ratio(sums["value " .. name], of)
      line[name .. "_accuracy"] = ratio(sums["correct " .. name], sums["count " .. name])
      line[name .. "_perplexity"] = entry.perplexity and math.exp(line[name .. "_loss"]) or nil
    end
  end
  for key, sum in pairs(sums) do
    local metric = key:match("^sum (.*)")
    if metric then line[metric] = ratio(sum, sums["items " .. metric]) end
  end
end

---Adds the sums of the micro-batches of an update, in their order.
---@param sums table<string, number>
---@param list table<string, number>[] which have been read
---@return table<string, number> sums
local function add_up(sums, list)
  local counted = {}
  for _, batch in ipairs(list) do
    for key, value in pairs(batch) do
      if not counted[key] then add(sums, key, value) end
      counted[key] = key:find("^once ") -- counts updates, not micro-batches
    end
  end
  return sums
end

---Adds the losses that another tally has seen.
---@param order seqrun.Shown[]
function Tally:also(order)
  for _, other in ipairs(order) do
    local entry = shown(self, other.name)
    entry.accuracy = entry.accuracy or other.accuracy
    entry.perplexity = entry.perplexity or other.perplexity
    for _, metric in ipairs(other.metrics) do show_metric(entry, metric) end
    entry.sources = entry.sources or other.sources
  end
end

return { new = new, add_up = add_up, add = add, ratio = ratio }
