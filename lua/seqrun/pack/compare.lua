-- compare.lua - all solvers on one histogram, and common baselines.

local core = require("seqrun.core.pack")
local grid = require("seqrun.draw.grid")
local live = require("seqrun.draw.live")
local merged = require("seqrun.base.merged")
local commas = require("seqrun.base.format").commas

---@class seqrun.PackComparison
---@field rows table[] name, packs (slots / max_len), efficiency, factor, gap_percent, deepest, milliseconds, note
---@field lower_bound integer the largest of all bounds
local Comparison = {}
Comparison.__index = Comparison
Comparison.__name = "seqrun.PackComparison"

local BATCH = 32 -- sequences in a batch that is sorted by length

local function row_of(name, slots, histogram, more)
  local info = histogram:info()
  local row = more or {}
  row.name = name
  row.packs = math.ceil(slots / info.max_len)
  row.efficiency = slots > 0 and info.tokens / slots or 1
  row.factor = row.packs > 0 and info.sequences / row.packs or 1
  return row
end

---Slots when batches of BATCH neighbours by length are padded to their longest.
local function sorted_slots(counts)
  local slots, waiting = 0, 0
  for length = #counts, 1, -1 do
    local n = counts[length]
    local ride = math.min(n, waiting) -- they join a batch whose longest came before
    n, waiting = n - ride, waiting - ride
    slots = slots + (n // BATCH) * BATCH * length
    if n % BATCH > 0 then
      slots, waiting = slots + BATCH * length, BATCH - n % BATCH
    end
  end
  return slots
end

local function today(histogram, options)
  local info = histogram:info()
  local rows = {
    row_of("padding", info.sequences * info.max_len, histogram, { note = "one sequence per row" }),
    row_of(("sorted batches of %d"):format(BATCH), sorted_slots(histogram:counts()), histogram,
      { note = "padded to the longest of each batch: varying widths, batches not random",
        other_widths = true }),
  }
  local next_fit, message = core.solve(histogram, { solver = "online", open = 1, seed = options.seed })
  local p = next_fit and next_fit:info()
  rows[3] = p and row_of("next fit", p.packs * info.max_len, histogram,
    { deepest = p.deepest, milliseconds = p.milliseconds, note = "concatenated in order" })
    or { name = "next fit", note = message }
  return rows
end

---nnlshp is meant for shallow packs: its patterns grow by a factor of forty with each level, and with the
---square of the length of a pack.
local function depth_for(solver, max_seqs, max_len)
  if solver ~= "nnlshp" then return max_seqs end
  return math.min(max_seqs or 3, max_len <= 1024 and 3 or 2)
end

local function solved(pack, histogram, options, solver)
  local own = merged(options)
  own.solver, own.max_len, own.too_long = solver, nil, nil
  own.max_seqs = depth_for(solver, options.max_seqs, histogram:info().max_len)
  local plan, message = pack.pack(histogram, own)
  if not plan then return { name = solver, note = message } end
  local note = own.max_seqs and ("at most %d per pack"):format(own.max_seqs) or nil
  return {
    name = solver, packs = plan.packs, efficiency = plan.efficiency, factor = plan.factor, deepest = plan.deepest,
    strategies = plan.strategies, milliseconds = plan.milliseconds, note = note, lower_bound = plan.lower_bound,
    max_seqs = own.max_seqs, same_depth = own.max_seqs == options.max_seqs,
  }
end

local function cell(format, value) return value and format:format(value) or "-" end

function Comparison:__tostring()
  local info = self.info
  local head = ("%s sequences of %s tokens, packs of %d, %s; no packing needs fewer than %s packs"):format(
    commas(info.sequences), commas(info.tokens), info.max_len,
    self.max_seqs and ("at most %d sequences per pack"):format(self.max_seqs) or "no limit per pack",
    commas(self.lower_bound))
  local rows = { { "", "packs", "efficiency", "factor", "above bound", "deepest", "ms", "" } }
  for i, row in ipairs(self.rows) do
    rows[i + 1] = { row.name, row.packs and commas(row.packs) or "-",
      row.efficiency and ("%.4f%%"):format(100 * row.efficiency) or "-", cell("%.4f", row.factor),
      row.gap_percent and ("%.4f%%"):format(row.gap_percent) or "-", cell("%d", row.deepest),
      cell("%.3f", row.milliseconds), row.note or "" }
  end
  return live.fit_output(head) .. "\n" .. table.concat(grid.remarks(rows, { left = { true } }), "\n")
end

---@param pack table seqrun.pack
---@param histogram seqrun.core.pack.pack_histogram
---@param options seqrun.PackSourceOptions
---@return seqrun.PackComparison? comparison
---@return string? message
---@return string? code
return function(pack, histogram, options)
  local copy = merged(options)
  if copy.max_seqs == "auto" then
    local message, code
    copy.max_seqs, message, code = core.choose_depth(histogram, { seconds = copy.seconds }, copy.tolerance)
    if not copy.max_seqs then return nil, message, code end
  end
  local rows = today(histogram, copy)
  local bound = 0
  for _, solver in ipairs { "spfhp", "lpfhp", "ffd", "bfd", "bpcc", "nnlshp", "online", "optimal" } do
    rows[#rows + 1] = solved(pack, histogram, copy, solver)
  end
  for _, solver in ipairs(pack.solvers()) do
    if pack.is_registered(solver) then rows[#rows + 1] = solved(pack, histogram, copy, solver) end
  end
  for _, row in ipairs(rows) do
    if row.same_depth and row.lower_bound > bound then bound = row.lower_bound end
  end
  for _, row in ipairs(rows) do
    if row.packs and bound > 0 and not row.other_widths then row.gap_percent = 100 * (row.packs - bound) / bound end
    row.same_depth, row.lower_bound, row.other_widths = nil, nil, nil
  end
  local result = { rows = rows, lower_bound = bound, info = histogram:info(), max_seqs = copy.max_seqs }
  return setmetatable(result, Comparison)
end
