-- check.lua - checks a folder of golden tables of curricula: every row of every table that it has.

local golden = {}

local TABLES = { "schedules", "rates", "selection", "clusters", "rarity" }

---@class seqrun.GoldenReport
---@field rows integer
---@field tables { name: string, rows: integer, mismatches: integer }[]
---@field mismatches string[]
local Report = {}
Report.__index = Report

local function same(wanted, got, tolerance)
  if wanted == nil then return true end -- `-`: not applicable
  if type(got) ~= "number" then return wanted == tostring(got) end
  local number = tonumber(wanted)
  if not number then return false end
  return math.abs(number - got) <= (tolerance or 0) * math.abs(number)
end

---Compares one row.
---@param name string of the table
---@param what string the row
---@param cells { [1]: string, [2]: string?, [3]: any, [4]: number? }[] column, expected text, value, relative tolerance
function Report:row(name, what, cells)
  local entry = self.tables[name]
  if not entry then
    entry = { name = name, rows = 0, mismatches = 0 }
    self.tables[name], self.tables[#self.tables + 1] = entry, entry
  end
  self.rows, entry.rows = self.rows + 1, entry.rows + 1
  local wrong = {}
  for _, cell in ipairs(cells) do
    if not same(cell[2], cell[3], cell[4]) then
      wrong[#wrong + 1] = ("%s is %s, expected %s"):format(cell[1], tostring(cell[3]), cell[2])
    end
  end
  if #wrong == 0 then return end
  entry.mismatches = entry.mismatches + 1
  self.mismatches[#self.mismatches + 1] = ("%s: %s: %s"):format(name, what, table.concat(wrong, "; "))
end

---@param folder string
---@return seqrun.GoldenReport
function golden.check(folder)
  local report = setmetatable({ rows = 0, tables = {}, mismatches = {} }, Report)
  for _, name in ipairs(TABLES) do
    local ok, message = pcall(require("tests.support.golden." .. name).check, folder, report)
    if not ok then report:row(name, "the table cannot be read", { { "error", "none", tostring(message) } }) end
  end
  return report
end

return golden
