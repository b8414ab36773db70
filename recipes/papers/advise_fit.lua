-- advise_fit.lua - fits the advisor's coefficients to measured layouts: damped Gauss-Newton with priors.
--
-- A coefficient is the exponential of its parameter, so it stays positive; its prior is log-normal around a physical
-- guess, so what the rows do not determine stays at the guess; efficiencies are cut at 1.

local common = require("common")
local memory = require("seqrun.advise.memory")
local time = require("seqrun.advise.time")

local fit = {}

---Guess, spread of the prior in factors, upper bound.
fit.time = {
  { "product", 0.80, 1.15, 1 }, { "edge", 150, 2 }, { "flash1", 0.40, 1.4, 1 }, { "flash2", 0.50, 1.4, 1 },
  { "fused", 12, 1.5 }, { "torch", 24, 1.5 }, { "norm_plain", 40, 1.5 }, { "norm_fused", 14, 1.5 },
  { "pointwise", 10, 1.5 }, { "logits", 12, 1.5 }, { "link", 0.7, 1.3, 1 }, { "hop", 10e-6, 2 },
  { "launch", 150e-6, 2 }, { "send", 0.5, 1.5, 1 }, { "network", 0.5, 1.5, 1 }, { "congestion", 1, 2 },
}
fit.memory = {
  { "reserved", 3, 1.5 }, { "gradient", 2, 1.3 }, { "norm_plain", 12, 1.5 }, { "norm_fused", 5, 1.5 },
  { "split", 1, 1.3 }, { "fused", 1, 1.5 }, { "torch", 2.5, 1.5 }, { "logits", 4, 1.5 },
}

local SPREAD, ERROR = 0.06, 0.05

local function values(specs, x)
  local c = {}
  for i, spec in ipairs(specs) do c[spec[1]] = math.exp(x[i]) end
  return c
end

---The total loss at x, and the rows' scores: loss, its first and second derivative in the prediction, prediction.
local function cost(specs, x, rows, score)
  local c, total = values(specs, x), 0
  local scores = {}
  for i, row in ipairs(rows) do
    scores[i] = score(row, c)
    total = total + scores[i].loss
  end
  for i, spec in ipairs(specs) do
    local z = (x[i] - math.log(spec[2])) / math.log(spec[3])
    total = total + z * z / 2
  end
  return total, scores
end

---Gradient and curvature of the loss in the parameters, by differences of the predictions.
local function derivatives(specs, x, rows, score, scores)
  local n, A, b = #specs, {}, {}
  local shifted = {}
  for j = 1, n do
    local y = table.move(x, 1, n, 1, {})
    y[j] = y[j] + 1e-4
    local c = values(specs, y)
    shifted[j] = {}
    for i, row in ipairs(rows) do shifted[j][i] = (score(row, c).prediction - scores[i].prediction) / 1e-4 end
  end
  for j = 1, n do
    A[j] = {}
    local width = math.log(specs[j][3]) ^ 2
    b[j] = -(x[j] - math.log(specs[j][2])) / width
    for i = 1, #rows do b[j] = b[j] - scores[i].first * shifted[j][i] end
    for k = 1, n do
      local sum = j == k and 1 / width or 0
      for i = 1, #rows do sum = sum + scores[i].second * shifted[j][i] * shifted[k][i] end
      A[j][k] = sum
    end
  end
  return A, b
end

local function minimise(specs, rows, score)
  local x, damping = {}, 0.01
  for i, spec in ipairs(specs) do x[i] = math.log(spec[2]) end
  local least, scores = cost(specs, x, rows, score)
  for _ = 1, 40 do
    local A, b = derivatives(specs, x, rows, score, scores)
    for i = 1, #b do A[i][i] = A[i][i] * (1 + damping) end
    local step, y = common.solve(A, b), {}
    for i, spec in ipairs(specs) do
      y[i] = math.min(x[i] + math.max(-0.5, math.min(0.5, step[i])), spec[4] and math.log(spec[4]) or math.huge)
    end
    local total, new = cost(specs, y, rows, score)
    if total < least then
      local gain = least - total
      x, least, scores, damping = y, total, new, damping / 3
      if gain < 1e-4 then break end
    else
      damping = damping * 5
      if damping > 1e6 then break end
    end
  end
  return values(specs, x), least
end

---Huber's loss of the logarithm of predicted over measured seconds, in units of ERROR.
local function time_score(row, c)
  local prediction = math.log((time.step(row.job, row.layout, c)))
  local z = (prediction - math.log(row.seconds)) / ERROR
  local size = math.abs(z)
  if size <= 1.5 then
    return { loss = z * z / 2, first = z / ERROR, second = 1 / ERROR ^ 2, prediction = prediction }
  end
  local derivative = z > 0 and 1.5 or -1.5
  return {
    loss = 1.5 * (size - 0.75), first = derivative / ERROR, second = 1.5 / size / ERROR ^ 2, prediction = prediction,
  }
end

---Logistic loss of the verdict, in the logarithm of need over capacity.
local function memory_score(row, c)
  local prediction = math.log((memory.need(row.job, row.layout, c)) / row.job.device.memory)
  local p = 1 / (1 + math.exp(-prediction / SPREAD)) -- that it does not fit
  local y = row.fits and 0 or 1
  local likely = math.max(1e-12, y == 1 and p or 1 - p)
  return {
    loss = -math.log(likely), first = (p - y) / SPREAD, second = math.max(1e-3, p * (1 - p)) / SPREAD ^ 2,
    prediction = prediction,
  }
end

---The guesses themselves.
function fit.guesses()
  local found = { time = {}, memory = {} }
  for kind, constants in pairs(found) do
    for _, spec in ipairs(fit[kind]) do constants[spec[1]] = spec[2] end
  end
  return found
end

local function where(rows, holds)
  local list = {}
  for _, row in ipairs(rows) do
    if holds(row) then list[#list + 1] = row end
  end
  return list
end

---Coefficients from rows: { job, layout, fits: boolean, seconds: number|nil }.
---@param rows table[]
---@return { time: table<string, number>, memory: table<string, number> }
function fit.fit(rows)
  local timed = where(rows, function(row) return row.seconds end)
  return {
    time = minimise(fit.time, timed, time_score),
    memory = minimise(fit.memory, rows, memory_score),
  }
end

return fit
