-- show.lua - how plans and packs print.

local show = {}

local commas = require("seqrun.base.format").commas
local counted = require("seqrun.base.format").counted

local function gap(plan)
  if plan.gap_packs == 0 then return "optimal" end
  local percent = 100 * plan.gap_packs / math.max(1, plan.lower_bound)
  return ("%s above it, %.4f%%"):format(counted(plan.gap_packs, "pack"), percent)
end

---@param histogram seqrun.core.pack.pack_histogram
---@return string
function show.histogram(histogram)
  local info = histogram:info()
  return ("histogram: %s of %s tokens, at most %d"):format(counted(info.sequences, "sequence"), commas(info.tokens),
    info.max_len)
end

---@param certificate seqrun.core.pack.Certificate
---@return string
function show.certificate(certificate)
  local info = certificate:info()
  return ("certificate: no packing in packs of %d needs fewer than %s"):format(info.max_len,
    counted(info.bound, "pack"))
end

---@param plan seqrun.Plan
---@return string
function show.plan(plan)
  local lines = {
    ("plan %s: %s of %s tokens in %s of %d"):format(plan.solver, counted(plan.sequences, "sequence"),
      commas(plan.tokens), counted(plan.packs, "pack"), plan.max_len),
    ("  efficiency %.4f%%, factor %.4f, %s of padding"):format(100 * plan.efficiency, plan.factor,
      counted(plan.padding_tokens, "token")),
    ("  lower bound %s (%s): %s"):format(commas(plan.lower_bound), plan.bound_kind, gap(plan)),
    ("  %s, at most %d sequences in a pack (limit: %s), %.3f ms"):format(counted(plan.strategies, "pattern"),
      plan.deepest, plan.max_seqs and plan.max_seqs or "none", plan.milliseconds),
  }
  if plan.reason then lines[#lines + 1] = "  depth chosen: " .. plan.reason end
  if plan.unfilled > 0 then lines[#lines + 1] = ("  %s left empty"):format(counted(plan.unfilled, "slot")) end
  if plan.longer > 0 then
    local what = plan.lost > 0 and ("truncated, %s tokens lost"):format(commas(plan.lost)) or "split"
    lines[#lines + 1] = ("  %s longer than a pack: %s"):format(counted(plan.longer, "sequence"), what)
  end
  return table.concat(lines, "\n")
end

local WIDTH = 72

---Whole columns for each part so that they add up to WIDTH.
local function columns(lengths, max_len)
  local edges, at, before = {}, 0, 0
  for i, length in ipairs(lengths) do
    at = at + length
    local edge = math.floor(at * WIDTH / max_len + 0.5)
    edges[i], before = edge - before, edge
  end
  return edges, WIDTH - before
end

local function centred(text, width, fill)
  if #text > width then text = "" end
  local left = (width - #text) // 2
  return fill:rep(left) .. text .. fill:rep(width - #text - left)
end

---A pack as a row of boxes, one per sequence; dots are padding.
---@param plan seqrun.Plan
---@param i integer
---@param pattern table
---@param uids? integer[]
---@return string
function show.pack(plan, i, pattern, uids)
  local tokens = 0
  for _, length in ipairs(pattern) do tokens = tokens + length end
  local widths, rest = columns(pattern, plan.max_len)
  local row = {}
  for k, length in ipairs(pattern) do
    if widths[k] > 0 then row[#row + 1] = centred(tostring(length), widths[k] - 1, k % 2 == 1 and "=" or "-") .. "|" end
  end
  local what = ("pack %s: %s, %d of %d tokens"):format(commas(i), counted(#pattern, "sequence"), tokens, plan.max_len)
  local lines = { what, "|" .. table.concat(row) .. ("."):rep(rest) }
  lines[3] = uids and "uids " .. table.concat(uids, " ") or ("one of %s like it"):format(commas(pattern.count))
  return table.concat(lines, "\n")
end

return show
