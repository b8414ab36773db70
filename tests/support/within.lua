-- within.lua - errors against their tolerances, which simt has set.  SEQRUN_TEST_TIMES=4 (tests/gpu/run.sh), for chips
-- that no tolerance has met yet, lets 4 times as much pass; all that is more than the tolerance is printed.

local within = { test = "" } -- the name of the one that runs: tests/run.lua

---Raises if an error is not within its tolerance.
---@param miss number
---@param tolerance number
---@param what string
function within.check(miss, tolerance, what)
  if miss <= tolerance then return end
  local text = ("%.2f times its tolerance of %.1e: %s"):format(miss / tolerance, tolerance, what)
  if not (miss <= tolerance * tonumber(os.getenv("SEQRUN_TEST_TIMES") or 1)) then error(text, 2) end
  print(("%s: %s"):format(within.test, text))
end

return within
