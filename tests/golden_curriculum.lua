-- golden_curriculum.lua - checks golden tables of curricula: schedules, selection, clusters, rarity, token-based rates.
--
--     seqrun tests/golden_curriculum.lua [DIR]
--
-- DIR has the tables of tests/data/curriculum (the default), with any rows; a table that is missing is left out, one
-- without its configs counts as a mismatch.
-- Prints rows and mismatches, and exits with 1 if there are any.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path

local folder = arg[1] or here .. "/data/curriculum"
local report = require("tests.support.golden.check").check(folder)
for _, entry in ipairs(report.tables) do
  print(("%-12s %5d rows, %d mismatches"):format(entry.name, entry.rows, entry.mismatches))
end
for _, line in ipairs(report.mismatches) do print(line) end
print(("%-12s %5d rows, %d mismatches"):format("total", report.rows, #report.mismatches))
if report.rows == 0 then
  io.stderr:write(("%s has none of the tables\n"):format(folder))
  os.exit(1)
end
os.exit(#report.mismatches == 0 and 0 or 1)
