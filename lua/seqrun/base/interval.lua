-- interval.lua - a mean over few values, such as those of some seeds, and its 95 % interval.

---Two-sided 95 % points of Student's t by degrees of freedom; beyond them that of the normal distribution.
local T95 = {
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
  2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

---Mean, standard deviation (n - 1), and half of the 95 % interval of the mean; of one value no interval.
---@param values number[] at least one
---@return { mean: number, deviation?: number, half?: number }
return function(values)
  local n, sum, squares = #values, 0.0, 0.0
  for _, value in ipairs(values) do sum = sum + value end
  local mean = sum / n
  for _, value in ipairs(values) do squares = squares + (value - mean) ^ 2 end
  if n < 2 then return { mean = mean } end
  local deviation = math.sqrt(squares / (n - 1))
  return { mean = mean, deviation = deviation, half = (T95[n - 1] or 1.96) * deviation / math.sqrt(n) }
end
