-- recommend_claims.lua - the recommendations of arXiv 2311.05610 as hypotheses about pairs of layouts.
--
-- A row is a layout with its `seconds`: a prediction of sr.advise, or a measured trial.  A claim names what differs
-- between the two rows of a pair; all else is equal.  It holds in a pair if the row that it recommends is faster.

local claims = {}

local FIELDS = { "micro_batch", "tensor", "pipeline", "interleave", "sequence_parallel", "recompute", "selective",
  "kernel", "study" }

---What a row is; fields that a claim ignores are left out.
local function key_of(row, ignored)
  local parts = {}
  for i, field in ipairs(FIELDS) do parts[i] = ignored[field] and "" or tostring(row[field]) end
  return table.concat(parts, " ")
end

---Pairs of rows that are equal but for some fields, of which `matches` says which go together.
---@param rows table[]
---@param fields string[]
---@param matches fun(better: table, other: table): boolean
---@return table[][]
function claims.pairs(rows, fields, matches)
  local ignored, groups, order, list = {}, {}, {}, {}
  for _, field in ipairs(fields) do ignored[field] = true end
  for _, row in ipairs(rows) do
    local key = key_of(row, ignored)
    if not groups[key] then
      groups[key] = {}
      order[#order + 1] = key
    end
    table.insert(groups[key], row)
  end
  for _, key in ipairs(order) do
    for _, better in ipairs(groups[key]) do
      for _, other in ipairs(groups[key]) do
        if matches(better, other) then list[#list + 1] = { better, other } end
      end
    end
  end
  return list
end

local function degree(row) return row.tensor * row.pipeline end

---Whether two layouts have the same sequence parallelism, which one without tensor ranks cannot have.
local function same_sequences(a, b)
  return a.tensor == 1 or b.tensor == 1 or a.sequence_parallel == b.sequence_parallel
end

local function stages_for_ranks(a, b) return a.pipeline == 2 * b.pipeline and b.tensor == 2 * a.tensor end

---The claims: `better` is the row that is recommended, `other` what it is recommended over.
---@class seqrun.bench.Claim
---@field title string
---@field fields string[] in which the rows of a pair may differ
---@field matches fun(better: table, other: table): boolean
claims.LIST = {
  {
    title = "micro-batch 1, not 2, in the same layout", fields = { "micro_batch" },
    matches = function(a, b) return a.micro_batch == 1 and b.micro_batch == 2 end,
  },
  {
    title = "less model parallelism with micro-batch 1, not more with 2", fields = { "micro_batch", "tensor",
      "pipeline", "sequence_parallel" },
    matches = function(a, b)
      return a.micro_batch == 1 and b.micro_batch == 2 and 2 * degree(a) == degree(b) and a.tensor <= b.tensor
        and a.pipeline <= b.pipeline and same_sequences(a, b)
    end,
  },
  {
    title = "no recomputation, not every layer, in the same layout", fields = { "recompute" },
    matches = function(a, b) return not a.recompute and b.recompute end,
  },
  {
    title = "twice the model parallelism, not recomputation", fields = { "recompute", "tensor", "pipeline",
      "sequence_parallel" },
    matches = function(a, b)
      return not a.recompute and b.recompute and degree(a) == 2 * degree(b) and a.tensor >= b.tensor
        and a.pipeline >= b.pipeline and same_sequences(a, b)
    end,
  },
  {
    title = "2 pipeline stages, not 2 tensor ranks without sequence parallelism", fields = { "tensor", "pipeline",
      "sequence_parallel" },
    matches = function(a, b) return stages_for_ranks(a, b) and not a.sequence_parallel and not b.sequence_parallel end,
  },
  {
    title = "2 pipeline stages, not 2 tensor ranks with it", fields = { "tensor", "pipeline", "sequence_parallel" },
    matches = function(a, b)
      return stages_for_ranks(a, b) and b.sequence_parallel and (a.sequence_parallel or a.tensor == 1)
    end,
  },
  {
    title = "sequence parallelism, where there are tensor ranks", fields = { "sequence_parallel" },
    matches = function(a, b) return a.tensor > 1 and a.sequence_parallel and not b.sequence_parallel end,
  },
  {
    title = "FlashAttention-2, not 1", fields = { "kernel" },
    matches = function(a, b) return a.kernel == "flash2" and b.kernel == "flash1" end,
  },
  {
    title = "a fused norm beside FlashAttention-2", fields = { "kernel" },
    matches = function(a, b) return a.kernel == "flash2_rms" and b.kernel == "flash2" end,
  },
  {
    title = "interleaved stages (not in the study)", fields = { "interleave" },
    matches = function(a, b) return a.pipeline > 1 and (a.interleave or 1) == 2 and (b.interleave or 1) == 1 end,
  },
  {
    title = "selective recomputation, not every layer (not in the study)", fields = { "recompute", "selective" },
    matches = function(a, b) return a.selective and b.recompute end,
  },
}

---The factors by which the recommended rows are faster; above 1 a claim holds.
---@param rows table[]
---@param claim seqrun.bench.Claim
---@return number[]
function claims.factors(rows, claim)
  local list = {}
  for i, pair in ipairs(claims.pairs(rows, claim.fields, claim.matches)) do
    list[i] = pair[2].seconds / pair[1].seconds
  end
  return list
end

---The row with the fewest seconds of those that `wanted` accepts; nil without any.
---@param rows table[]
---@param wanted? fun(row: table): boolean
---@return table?
function claims.fastest(rows, wanted)
  local best
  for _, row in ipairs(rows) do
    if (not wanted or wanted(row)) and (not best or row.seconds < best.seconds) then best = row end
  end
  return best
end

return claims
