-- amx.lua - products, ops and steps in bf16 in one table, for a machine with AMX: `make bench-amx`.
--
--   build/seqrun recipes/bench/amx.lua [repeats=15] [seconds=120] [peer=true] [rehearse=true]
--
-- Runs ops.lua on one thread, in processor time, with the sizes of BERT-base and MiniLM, and step.lua on all threads
-- with the small model, BERT-base and MiniLM on 8 to 64 tokens; prints their figures as one table in Markdown, to be
-- committed to docs/evidence/measured.md.  It takes ten minutes or less, and half of that without PyTorch, which is
-- measured where $PYTHON (python3 by default) has torch: peer=false leaves it out.
-- A program that takes longer than `seconds` is stopped, and the table says so; a ratio to those arrangements of
-- PyTorch that ended before is given as a bound.  Without AMX it refuses;
-- rehearse=true measures the instructions that there are, and build/seqrun-tiles those of AMX in C, which is slow.

local sr = require("seqrun")
local common = require("common")
local core = require("seqrun.core.tensor")

local options = common.options({ repeats = 15, seconds = 120, peer = true, rehearse = false }, arg)
local set, lack = core.instructions()
if set ~= "amx" and not options.rehearse then
  common.refuse("this needs a processor with AMX, but the cpu device computes with %s (%s); rehearse=true measures "
    .. "those instructions", set, lack)
end
local python = os.getenv("PYTHON") or "python3"
local has_peer = options.peer and os.execute(("'%s' -c 'import torch' >/dev/null 2>&1"):format(python))

local function row(...) print("| " .. table.concat({ ... }, " | ") .. " |") end

local SIZES = {
  { "base, T 2,048", { "T=2048", "hidden=768", "inner=3072", "heads=12", "layers=12", "len=512" } },
  { "base, T 8,192", { "T=8192", "hidden=768", "inner=3072", "heads=12", "layers=12", "op=linear" } },
  { "MiniLM, T 2,048", { "T=2048", "hidden=384", "inner=1536", "heads=12", "layers=12", "len=64" } },
}

---Rows of ops.lua: name, ms, share of a step, GFLOP/s, share of the peak, GB/s, floor, roof.
local function ops(name, words)
  local all = { "precision=bf16", "threads=1", "clock=cpu", ("repeats=%d"):format(options.repeats) }
  local text, ended = common.run("ops.lua", table.move(words, 1, #words, #all + 1, all), options)
  local peak = text:match("peak: (%d+) GFLOP/s")
  if peak then row(name, "peak in registers", "", peak, "100", "") end
  for line in text:gmatch("[^\n]+") do
    local op, ms, _, rate, share, _, _, roof = line:match("^(%a.-)%s+([%d.]+)%s+([%d.-]+)%s+([%d-]+)%s+([%d-]+)%s+"
      .. "([%d.-]+)%s+([%d.-]+)%s+([%d-]+)$")
    if op then row(name, op, ms, rate, share, roof) end
  end
  if not ended then row(name, text:match("[^\n]*seqrun: [^\n]*") or "did not end in time", "", "", "", "") end
end

local STEPS = {
  { "small, 4 packs of 512", { "model=small" } },
  { "base, 4 packs of 512", { "model=base", "updates=1" } },
  { "base, 16 packs of 512", { "model=base", "updates=1", "packs=16", "repeats=1" } },
  { "MiniLM, 8 to 64 tokens", { "model=minilm", "hist=8-64" } },
}

local ARRANGEMENTS = { "sequence", "mask", "sorted" } -- of PyTorch, in its order; padded is never the best

---Real tokens per second of packed, and of PyTorch's best arrangement.
local function step(name, words)
  local all = { "precision=bf16", "only=packed", has_peer and "peer=" .. table.concat(ARRANGEMENTS, ",") or nil }
  local text, ended = common.run("step.lua", table.move(words, 1, #words, #all + 1, all), options)
  local best, how, missing = nil, nil, {}
  for _, arrangement in ipairs(ARRANGEMENTS) do
    local rate = tonumber(text:match("\n" .. arrangement .. " +(%d+) tokens/s"))
    if not rate then missing[#missing + 1] = arrangement end
    if rate and (not best or rate > best) then best, how = rate, arrangement end
  end
  local own, late = tonumber(text:match("\npacked +(%d+)")), table.concat(missing, ", ")
  local bound, why = late ~= "" and "at most " or "", ended and "failed" or "not in time"
  if late ~= "" then late = ("; %s: %s"):format(why, late) end
  row(name, own and ("%d"):format(own) or why,
    best and ("%d (%s%s)"):format(best, how, late) or has_peer and why or "-",
    own and best and ("%s%.2f times"):format(bound, own / best) or "-")
end

print(common.machine() .. ", `make bench-amx`" .. (has_peer and "" or "; PyTorch was not measured") .. "\n")
row("sizes", "op (bf16, one thread, processor time)", "ms", "GFLOP/s", "% of peak", "% of roof")
row("---", "---", "---", "---", "---", "---")
for _, size in ipairs(SIZES) do ops(size[1], size[2]) end
print()
row("step in bf16, " .. sr.threads() .. " threads", "real tokens/s", "PyTorch's best", "ratio")
row("---", "---", "---", "---")
for _, case in ipairs(STEPS) do step(case[1], case[2]) end
