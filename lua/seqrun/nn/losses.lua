-- losses.lua - the named losses of a micro-batch, in the order in which they are printed.
--
--     local losses = sr.nn.losses()
--     losses:add("score", { total = total, items = errors, count = target.count })
--     losses.total:backward()
--
-- A total is already divided by the denominator of the whole update, so that the loss of an update is the sum
-- over its micro-batches.

local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted

---@class seqrun.Loss
---@field name string its metrics are NAME_loss and, with `correct`, NAME_accuracy
---@field total seqrun.Tensor scalar
---@field count integer number of items
---@field items? seqrun.Tensor the value of each item, before weights
---@field correct? seqrun.Tensor 1 for each item that is predicted correctly, else 0
---@field sums? table<string, table> further metrics: { NAME = { tensor or number, count } } is reported as their ratio
---@field perplexity? boolean its metrics have the exponential of the loss as well, NAME_perplexity
---@field factor? number its factor in losses.total; default 1
---@field reduced? boolean `total` is meant as it is, though not the sum of the target's weights times `items`

---@class seqrun.Losses
---@field total seqrun.Tensor the sum that backward() starts from
local Losses = {}
Losses.__index = Losses

local FIELDS = {
  name = 1, total = 1, count = 1, items = 1, correct = 1, sums = 1, factor = 1, perplexity = 1, reduced = 1,
}

local function fail(name, format, ...) check.fail("losses: '%s' %s", name, format:format(...)) end

local function is_tensor(x) return type(x) == "userdata" end

---Whether sums.METRIC would replace what a line has already.
local function is_taken(self, name, metric)
  local owner, kind = metric:match("^(.*)_(%l+)$")
  local derived = kind == "loss" or kind == "accuracy" or kind == "perplexity"
  return metric == "loss" or metric == "lr" or metric == "step" or derived and (owner == name or self[owner] ~= nil)
end

local function check_loss(self, name, loss)
  if type(name) ~= "string" or not name:find("^%a[%w_]*$") then
    check.fail("losses: '%s' is not a valid name; use letters, digits and _, starting with a letter", tostring(name))
  end
  if name == "total" or Losses[name] then fail(name, "is reserved; choose another name") end
  if self[name] then fail(name, "was already added; give each loss its own name") end
  if type(loss) ~= "table" then fail(name, "is a %s; expected { total =, count = }", type(loss)) end
  check.options("losses: '" .. name .. "'", loss, FIELDS)
  if not is_tensor(loss.total) or loss.total:numel() ~= 1 then fail(name, "needs `total`, a scalar tensor") end
  if math.type(loss.count) ~= "integer" or loss.count < 0 then
    fail(name, "needs `count`, the number of items as a non-negative integer; it is %s", tostring(loss.count))
  end
  for _, key in ipairs { "items", "correct" } do
    if loss[key] ~= nil and not is_tensor(loss[key]) then fail(name, "has `%s` that is not a tensor", key) end
  end
  for metric, pair in pairs(loss.sums or {}) do
    local good = type(pair) == "table" and (is_tensor(pair[1]) or type(pair[1]) == "number")
    if not good or type(pair[2]) ~= "number" or not (pair[2] >= 0) then
      fail(name, "has sums.%s that is not { tensor or number, count }", tostring(metric))
    end
    if is_taken(self, name, tostring(metric)) then
      fail(name, "has sums.%s, but the run reports another value by this name; choose another", tostring(metric))
    end
  end
end

---What an added loss is made of: a later write to it would not reach the sum.
local function seal(name, loss)
  local made = { total = loss.total, factor = loss.factor }
  local added = { name = name }
  for key, value in pairs(loss) do
    if key ~= "total" and key ~= "factor" then added[key] = value end
  end
  return setmetatable(added, { __index = made, __newindex = function(self, key, value)
    if key ~= "total" and key ~= "factor" then return rawset(self, key, value) end
    check.fail("losses: %s.%s is set after the loss was added, so losses.total does not contain it; "
      .. "return it from the head, pass it to losses:add, or call backward() on a weighted sum of your own", name, key)
  end })
end

---Adds a loss, also to the total.
---@param name string
---@param loss table see seqrun.Loss
---@return seqrun.Losses
function Losses:add(name, loss)
  check_loss(self, name, loss)
  loss = seal(name, loss)
  self[#self + 1], self[name] = loss, loss
  local share = loss.factor and loss.total * loss.factor or loss.total
  self.total = self.total and self.total + share or share
  return self
end

---The total and each loss, as the prompt prints them; waits for the device.
function Losses:__tostring()
  local parts = {}
  for i, loss in ipairs(self) do
    local live = loss.total:is_live() and ("%.4f"):format(loss.total:item()) or "expired"
    parts[i] = ("%s %s of %s"):format(loss.name, live, counted(loss.count, "item"))
  end
  local total = self.total and self.total:is_live() and (" %.4f"):format(self.total:item()) or ""
  return ("losses%s: %s"):format(total, #parts > 0 and table.concat(parts, ", ") or "none")
end

---@param batch? seqrun.Batch that they are of, which run:tally compares
---@return seqrun.Losses
local function new(batch) return setmetatable({ [0] = batch }, Losses) end

return { new = new }
