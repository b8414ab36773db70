-- recommend_best.lua - the layout of the study's 70.5 % of MFU: its predicted parts, and what trials beside it allow.
--
-- In a model whose step is a sum, kernel and recomputation act on the seconds of a layer alone: head, sends, exchange
-- and optimizer do not know them.  So twice the stages add no fewer seconds where layers are slower: the bubble grows
-- with a layer's seconds, and the exchange shrinks less where slower layers hide more of it.  Trials that differ in
-- nothing else must agree with that, whatever the constants; `off` is by how much all four must be wrong where they
-- do not.  The step grows in proportion to the micro-batch by the bubble alone, which counts it in micro-batches.

local claims = require("recommend_claims")
local common = require("common")
local sr = require("seqrun")

local best = {}

local MFU = 0.705 -- published
local NOISE = 0.01 -- of a trial: layouts that were measured twice differ by up to 0.8 %

---Pairs with one and with twice the stages as rows: the trial with fewer, the one with more, the seconds they add.
---@param rows table[] trials of a study
---@return table[]
function best.doubled(rows)
  local list = {}
  for i, pair in ipairs(claims.pairs(rows, { "pipeline" }, function(a, b) return a.pipeline == 2 * b.pipeline end)) do
    local more, fewer = table.unpack(pair)
    list[i] = setmetatable({ more = more, added = more.seconds - fewer.seconds, sum = more.seconds + fewer.seconds },
      { __index = fewer })
  end
  return list
end

---Pairs of them of which the second has the slower layers, worst first.
---@param doubled table[]
---@return { fast: table, slow: table, off: number }[]
function best.compared(doubled)
  local list = {}
  local function slower(fast, slow) return fast.seconds < slow.seconds end
  for i, pair in ipairs(claims.pairs(doubled, { "kernel", "recompute" }, slower)) do
    local fast, slow = table.unpack(pair)
    list[i] = { fast = fast, slow = slow, off = (fast.added - slow.added) / (fast.sum + slow.sum) }
  end
  table.sort(list, function(a, b) return a.off > b.off end)
  return list
end

---The most MFU that a comparison allows its layout `fast` with fewer stages, if each other trial is off by `noise`.
---@return number
function best.most(pair, noise)
  local fast, slow = pair.fast, pair.slow
  local least = fast.more.seconds - slow.added - noise * (fast.more.seconds + slow.sum)
  return fast.mfu * fast.seconds / least
end

---Micro-batches, of one of the stages that are twice as many, in the bubble that the doubling adds: the least and the
---most if each trial is off by `noise`.
---@param job seqrun.advise.Job
---@param small table of best.doubled
---@param large table the same with a larger micro-batch
---@return number least, number most
function best.bubble(job, small, large, noise)
  local sequences = job.batch * large.tensor * large.pipeline / job.devices -- of a rank with fewer stages
  local unit = large.seconds / sequences / 2 * (large.micro_batch - small.micro_batch)
  local added, off = large.added - small.added, noise * (large.sum + small.sum)
  return (added - off) / unit, (added + off) / unit
end

---Seconds that FlashAttention-2 saves a step of the job, by two trials of its model: in proportion to attention's FLOP,
---so to tokens and sequence, over the devices.  The least and the most if each trial is off by `noise`.
---@param job seqrun.advise.Job
---@param fast table the trial with FlashAttention-2
---@param slow table the same with FlashAttention-1
---@return number least, number most
function best.saved(job, fast, slow, noise)
  local scale = job.batch * job.seq ^ 2 / job.devices / (fast.batch * fast.seq ^ 2 / fast.devices)
  local saved, off = slow.seconds - fast.seconds, noise * (slow.seconds + fast.seconds)
  return scale * (saved - off), scale * (saved + off)
end

local function name_of(row)
  return ("mb %d, tp %d, %s%s"):format(row.micro_batch, row.tensor, row.kernel, row.recompute and ", recompute" or "")
end

local function print_compared(studies)
  local rows, all, holds = { { "study", "stages", "layers", "s", "slower layers", "s", "off by" } }, 0, 0
  for _, trials in ipairs(studies) do
    for _, pair in ipairs(best.compared(best.doubled(trials))) do
      local fast, slow = pair.fast, pair.slow
      if pair.off > 3 * NOISE then
        rows[#rows + 1] = {
          fast.study, ("%d to %d"):format(fast.pipeline, fast.more.pipeline), name_of(fast),
          ("%.1f to %.1f"):format(fast.seconds, fast.more.seconds), name_of(slow),
          ("%.1f to %.1f"):format(slow.seconds, slow.more.seconds), ("%.1f %%"):format(100 * pair.off),
        }
      end
      all, holds = all + 1, holds + (pair.off <= NOISE and 1 or 0)
    end
  end
  print(("twice the stages add no fewer seconds where layers are slower: %d of %d comparisons within %g %%; worst:"):
    format(holds, all, 100 * NOISE))
  common.print_table(rows)
end

local function print_bubbles(job, doubled)
  print("\nmicro-batches in the bubble of twice the stages, by what larger micro-batches add (1F1B: 1):")
  local function smaller(a, b) return a.micro_batch < b.micro_batch end
  for _, pair in ipairs(claims.pairs(doubled, { "micro_batch" }, smaller)) do
    local small, large = table.unpack(pair)
    print(("  %s to %d: %.1f to %.1f"):format(name_of(small), large.micro_batch,
      best.bubble(job, small, large, NOISE)))
  end
end

local function print_saved(job, studies)
  print("\nseconds that FlashAttention-2 saves the layout over 1, by trials with one stage and recomputation:")
  local function newer(a, b)
    return a.kernel == "flash2" and b.kernel == "flash1" and a.recompute and a.pipeline == 1
  end
  for _, trials in ipairs(studies) do
    for _, pair in ipairs(trials[1].hidden == job.model.hidden and claims.pairs(trials, { "kernel" }, newer) or {}) do
      print(("  %s, %s: %.1f to %.1f"):format(pair[1].study, name_of(pair[1]),
        best.saved(job, pair[1], pair[2], NOISE)))
    end
  end
end

---The layout as a trial of the study that has its job; nil if none has.
local function trial_of(job, studies)
  for _, trials in ipairs(studies) do
    local first = trials[1]
    if first.hidden == job.model.hidden and first.seq == job.seq and first.devices == job.devices then
      local seconds = first.seconds * first.mfu / MFU -- the same FLOP
      return { micro_batch = 1, tensor = 1, pipeline = 1, interleave = 1, sequence_parallel = false, recompute = false,
        selective = false, kernel = "flash2_rms", study = first.study, mfu = MFU, seconds = seconds }, trials
    end
  end
end

---Prints what the studies allow the layout.
local function print_allowed(job, studies)
  local trial, trials = trial_of(job, studies)
  if not trial then return end
  print()
  print_compared(studies)
  local doubled = best.doubled(table.move(trials, 1, #trials, 2, { trial }))
  print_bubbles(job, doubled)
  print_saved(job, studies)
  for _, pair in ipairs(best.compared(doubled)) do
    if pair.fast.seconds == trial.seconds and pair.off > 0 then
      print(("\n%s: at most %.1f %% of MFU, %.1f %% if each trial is %g %% off; %.1f %% takes %.1f %%"):format(
        name_of(pair.slow), 100 * best.most(pair, 0), 100 * best.most(pair, NOISE), 100 * NOISE, 100 * MFU,
        100 * (pair.fast.added - pair.slow.added) / (pair.fast.more.seconds + pair.slow.sum)))
    end
  end
end

---Prints the layout's predicted parts, and what measured trials allow it.
---@param studies? table[][] trials by study
function best.print(studies)
  local job = sr.must(sr.advise.job { model = "llama-13b", seq = 2048, batch = 2048, devices = 64, device = "a100" })
  local layout = { micro_batch = 1, data = 64, tensor = 1, pipeline = 1, sequence_parallel = false, recompute = false,
    zero = 1 }
  local found = sr.advise.predict(job, layout)
  print(("13B, 2,048 tokens, 64 A100, micro-batch 1, no model parallelism, no recomputation: measured %.1f %% of MFU"
    .. " (published), predicted %.1f %%"):format(100 * MFU, 100 * found.mfu))
  local names = {}
  for name in pairs(found.seconds) do names[#names + 1] = name end
  table.sort(names, function(a, b) return found.seconds[a] > found.seconds[b] end)
  for _, name in ipairs(names) do
    local part = found.seconds[name]
    if part > 0 then print(("  %-10s %7.3f s  %4.1f %%"):format(name, part, 100 * part / found.step_seconds)) end
  end
  print(("  memory     %7.1f GiB, %.0f %% of the device"):format(found.memory_bytes / 2 ^ 30,
    100 * found.memory_bytes / job.device.memory))
  if studies then print_allowed(job, studies) end
end

return best
