-- scaling_fit.lua - fits loss = E + A / N^a + B / D^b to runs of several sizes N and amounts of data D.
--
-- For given exponents the rest is linear: E, A and B by least squares, none of them negative.  The exponents are those
-- of a grid with the least squares.  Source of the form: Hoffmann et al. 2022, arXiv:2203.15556.

local common = require("common")

local fit = {}

local STEP, LAST = 0.05, 30 -- exponents 0.05, 0.1 ... 1.5
local FINE = 10 -- parts of a step in the second look, around the best

---The terms that may be there at a time; the others are 0.
local SUBSETS = { { 1, 2, 3 }, { 1, 2 }, { 1, 3 }, { 2, 3 }, { 1 }, { 2 }, { 3 } }

---Least squares with these terms alone; nil if one of them would be negative.
local function with_terms(M, r, terms)
  local A, b = {}, {}
  for i, row in ipairs(terms) do
    A[i], b[i] = {}, r[row]
    for k, column in ipairs(terms) do A[i][k] = M[row][column] end
  end
  local found, x = common.solve(A, b), { 0, 0, 0 }
  for i, term in ipairs(found and terms or {}) do
    if found[i] < 0 then return nil end
    x[term] = found[i]
  end
  return found and x
end

local function squares_of(rows, points, x)
  local sum = 0
  for i, row in ipairs(rows) do sum = sum + (x[1] + x[2] * row[2] + x[3] * row[3] - points[i].loss) ^ 2 end
  return sum
end

---E, A, B for these exponents and the sum of squares: the least one with no term negative.  The problem is convex, and
---where some terms are 0 the others are at their own least squares, so that the best of all subsets is the solution.
---Columns are scaled to be about 1.
local function linear(points, a, b, scale)
  local M, r, rows = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } }, { 0, 0, 0 }, {}
  for i, point in ipairs(points) do
    local row = { 1, (point.N / scale.N) ^ -a, (point.D / scale.D) ^ -b }
    rows[i] = row
    for j = 1, 3 do
      for k = 1, 3 do M[j][k] = M[j][k] + row[j] * row[k] end
      r[j] = r[j] + row[j] * point.loss
    end
  end
  local best, least
  for _, terms in ipairs(SUBSETS) do
    local x = with_terms(M, r, terms)
    local squares = x and squares_of(rows, points, x)
    if squares and (not least or squares < least) then best, least = x, squares end
    if x and #terms == 3 then break end -- without a bound no other is better
  end
  return best, least
end

local function mean_log(points, key)
  local sum = 0
  for _, point in ipairs(points) do sum = sum + math.log(point[key]) end
  return math.exp(sum / #points)
end

---@class seqrun.bench.Scaling
---@field a number exponent of N
---@field b number exponent of D
---@field x number[] E, and the other two terms at the middle of the points; none is negative
---@field scale { N: number, D: number } that middle
---@field squares number

---The fit with the least squares whose terms are not negative.
---@param points { N: number, D: number, loss: number }[] at least four
---@return seqrun.bench.Scaling
function fit.fit(points)
  local scale = { N = mean_log(points, "N"), D = mean_log(points, "D") }
  local best
  local function try(a, b)
    local x, squares = linear(points, a, b, scale)
    if x and (not best or squares < best.squares) then
      best = { a = a, b = b, x = x, scale = scale, squares = squares }
    end
  end
  for i = 1, LAST do
    for j = 1, LAST do try(i * STEP, j * STEP) end
  end
  local a, b = best.a, best.b
  for i = 1 - FINE, FINE - 1 do
    for j = 1 - FINE, FINE - 1 do try(a + i * STEP / FINE, b + j * STEP / FINE) end
  end
  return best
end

---Why the exponents of a fit mean nothing; nil if they do.
---@param f seqrun.bench.Scaling
---@return string?
function fit.problem(f)
  local size, data = f.x[2] > 0, f.x[3] > 0
  if size and data then return nil end
  return ("the loss does not fall with %s in these runs"):format(size and "data" or data and "size" or "size or data")
end

---The fits of the seeds, each to its own losses.
---@param points { N: number, D: number, losses: number[] }[] losses: by seed, in one order
---@return seqrun.bench.Scaling[]
function fit.by_seed(points)
  local list = {}
  for s = 1, #points[1].losses do
    local own = {}
    for i, point in ipairs(points) do own[i] = { N = point.N, D = point.D, loss = point.losses[s] } end
    list[s] = fit.fit(own)
  end
  return list
end

---The loss that a fit predicts.
---@param f seqrun.bench.Scaling
---@param N number
---@param D number
---@return number
function fit.loss(f, N, D)
  return f.x[1] + f.x[2] * (N / f.scale.N) ^ -f.a + f.x[3] * (D / f.scale.D) ^ -f.b
end

---The size with the least loss at a budget of 6 N D FLOP, and that loss; within 1,000 times the middle of the sizes.
---@param f seqrun.bench.Scaling
---@param flop number
---@return number N, number loss
function fit.best(f, flop)
  local low, high = math.log(f.scale.N / 1000), math.log(f.scale.N * 1000)
  local function at(u) return fit.loss(f, math.exp(u), flop / 6 / math.exp(u)) end
  for _ = 1, 100 do -- the loss is convex in log N
    local third = (high - low) / 3
    if at(low + third) < at(high - third) then high = high - third else low = low + third end
  end
  return math.exp(low), at(low)
end

---The exponent with which the least loss falls with compute.
---@param f seqrun.bench.Scaling
---@return number
function fit.exponent(f) return f.a * f.b / (f.a + f.b) end

return fit
