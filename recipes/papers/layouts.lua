-- layouts.lua - the steps of all layouts of micro-batch, recomputation, ranks and ZeRO on this machine, measured beside
-- what the advisor predicts.
--
--     build/seqrun recipes/bench/layouts.lua                       a small model on two novels, some minutes
--     build/seqrun recipes/bench/layouts.lua packs=8 micro=1,4 ranks=1,2 steps=2 turns=1
--
-- Ranks share the processors: R ranks have threads / R threads each.  All layouts compute the same updates.  The time
-- of a layout is the least of its steps over all turns, since other work on the machine only adds to it.  `regret` is
-- how much longer the layout takes that the advisor would choose than the fastest one measured.

local directory = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = directory .. "/?.lua;" .. package.path

local common = require("common")
local here = require("seqrun.advise.here")
local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local options = common.options({
  data = "runs/data/novels.sqr", packs = 16, max_len = 128, micro = "1,2,4,8", ranks = "1,2", recompute = "false,true",
  zero = "false,true", threads = 0, hidden = 256, layers = 4, steps = 4, turns = 2, dropout = 0.1,
}, arg)

local PROGRAM = assert(sys.real_path("/proc/self/exe"))
local THREADS = options.threads > 0 and math.tointeger(options.threads) or sr.threads()

-- More ranks than processors, and as any user.
local SETTINGS = "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "

---@class seqrun.bench.Layout
---@field ranks integer
---@field threads integer of each rank
---@field micro integer packs of a micro-batch
---@field recompute boolean
---@field zero boolean
---@field times number[] seconds of a step, by turn
---@field memory? integer peak of the largest rank
---@field predicted? table

local function values_of(list)
  local values = {}
  for word in list:gmatch("[^,]+") do
    local value = tonumber(word)
    if word == "true" or word == "false" then value = word == "true" end
    if value == nil then error(("layouts: '%s' is not a number, true or false"):format(word), 0) end
    values[#values + 1] = math.tointeger(value) or value
  end
  return values
end

---Why ranks cannot be started; nil if they can.
local function no_ranks()
  if not sys.build().plugins:find(" mpi ", 1, true) then return "seqrun was built without MPI (seqrun doctor)" end
  if not os.execute("command -v mpirun >/dev/null") then return "mpirun was not found" end
end

---Whether this version has a key of the optimizer.
local function has_key(name)
  for _, group in ipairs(sr.run.schema(sr.tasks.pretraining).fields) do
    for _, key in ipairs(group[1] == "optimizer" and group[2].fields or {}) do
      if key[1] == name then return true end
    end
  end
  return false
end

---Ways to keep the state of the optimizer.
local function zeros()
  if has_key("shard") then return values_of(options.zero) end
  print("left out: ZeRO-1: this version has no key optimizer.shard")
  return { false }
end

---All layouts that can run; the others are told.
local function layouts_of()
  local list, why, ways = {}, no_ranks(), zeros()
  for _, ranks in ipairs(values_of(options.ranks)) do
    if ranks > 1 and why then
      print(("left out: %d ranks: %s"):format(ranks, why))
    elseif ranks > THREADS then
      print(("left out: %d ranks: only %d threads"):format(ranks, THREADS))
    else
      for _, zero in ipairs(ways) do
        for _, recompute in ipairs(values_of(options.recompute)) do
          for _, micro in ipairs(values_of(options.micro)) do
            if (not zero or ranks > 1) and options.packs % (micro * ranks) == 0 then
              list[#list + 1] = {
                ranks = ranks, threads = THREADS // ranks, micro = micro, recompute = recompute, zero = zero,
                times = {},
              }
            end
          end
        end
      end
    end
  end
  return list
end

local function quote(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end

---Shares of an update: the same for all layouts, so that all compute the same.
local function shares()
  local most = 1
  for _, ranks in ipairs(values_of(options.ranks)) do most = math.max(most, ranks) end
  return most
end

local function command_of(layout, out)
  local words = {
    PROGRAM, directory .. "/layouts_step.lua", "data.file=" .. options.data, "data.held=0",
    "data.max_len=" .. options.max_len, "batch.sequences=" .. options.packs, "batch.adjust=betas",
    "batch.micro_packs=" .. layout.micro, "batch.shares=" .. shares(), "model.hidden_size=" .. options.hidden,
    "model.num_hidden_layers=" .. options.layers, "model.num_attention_heads=" .. math.max(1, options.hidden // 64),
    "model.intermediate_size=" .. 4 * options.hidden, "model.max_position_embeddings=" .. options.max_len,
    "model.hidden_dropout_prob=" .. options.dropout, "model.attention_probs_dropout_prob=" .. options.dropout,
    "model.recompute=" .. tostring(layout.recompute), "rate.peak=1e-4", "rate.total=1000", "save.minutes=0",
    "timed=" .. options.steps, "--threads", layout.threads, "--out", out, "--quiet",
  }
  if layout.ranks > 1 and has_key("shard") then
    words[#words + 1] = "optimizer.shard=" .. tostring(layout.zero)
  end
  for i, word in ipairs(words) do words[i] = quote(type(word) == "number" and math.tointeger(word) or word) end
  local launch = layout.ranks > 1 and ("%smpirun -n %d --bind-to none "):format(SETTINGS, layout.ranks) or ""
  return launch .. table.concat(words, " ")
end

---Runs a layout once; nil with the last line of its output if it fails.
local function measure(layout)
  local out = os.tmpname()
  os.remove(out)
  local pipe = assert(io.popen(command_of(layout, out) .. " 2>&1"))
  local text = pipe:read("a")
  pipe:close()
  sys.remove(out)
  local found = text:match("LAYOUT (%[[^\n]*)")
  if not found then return nil, text:match("seqrun: [^\n]*") or text end
  local ranks = assert(json.decode(found))
  layout.times[#layout.times + 1] = math.min(table.unpack(ranks[1].seconds))
  layout.tokens, layout.parameters = common.sum(ranks[1].tokens) / #ranks[1].tokens, ranks[1].parameters
  layout.memory = 0
  for _, rank in ipairs(ranks) do layout.memory = math.max(layout.memory, rank.memory) end
  return true
end

---Measures all in turns; what fails is told and left out.
local function measure_all(list)
  for _ = 1, options.turns do
    for _, layout in ipairs(list) do
      local done, message = true, nil
      if not layout.failed then done, message = measure(layout) end
      if not done then
        layout.failed = true
        print(("left out: %s: %s"):format(tostring(layout.name), message))
      end
    end
  end
  local good = {}
  for _, layout in ipairs(list) do
    if not layout.failed then
      layout.seconds = math.min(table.unpack(layout.times))
      good[#good + 1] = layout
    end
  end
  return good
end

---The model that is trained, as the advisor describes it.
local function model_of()
  local corpus = sr.must(sr.data.open(options.data, { held = 0 }))
  return {
    name = "this model", hidden = math.tointeger(options.hidden), layers = math.tointeger(options.layers),
    heads = math.max(1, options.hidden // 64) | 0, inner = 4 * options.hidden | 0, vocabulary = corpus:vocab_size(),
    gated = false, causal = false, masked = 0.15,
  }
end

---Adds what the advisor, calibrated by its probe of this machine, predicts.
local function predict_all(list)
  local machine = sr.must(here.probe { model = model_of(), seq = math.tointeger(options.max_len), threads = THREADS })
  for _, layout in ipairs(list) do
    layout.predicted = here.predict(machine, {
      batch = math.tointeger(options.packs), ranks = layout.ranks, threads = layout.threads,
      micro_batch = layout.micro, recompute = layout.recompute, zero = layout.zero and 1 or 0,
    })
  end
  return machine.seconds
end

---Spearman's rank correlation.
local function rank_correlation(a, b)
  local function ranks(list)
    local order, rank = {}, {}
    for i in ipairs(list) do order[i] = i end
    table.sort(order, function(x, y) return list[x] < list[y] or list[x] == list[y] and x < y end)
    for place, i in ipairs(order) do rank[i] = place end
    return rank
  end
  local x, y, sum, n = ranks(a), ranks(b), 0, #a
  for i = 1, n do sum = sum + (x[i] - y[i]) ^ 2 end
  return n > 1 and 1 - 6 * sum / (n * (n * n - 1)) or 1
end

local function megabytes(bytes) return ("%.0f"):format(bytes / 1e6) end

local function show(list)
  local rows = {
    { "layout", "step ms", "real tokens/s", "peak MB", "advised ms", "error", "advised MB" },
  }
  for _, layout in ipairs(list) do
    local p = layout.predicted
    rows[#rows + 1] = {
      layout.name, ("%.1f"):format(1000 * layout.seconds), ("%.0f"):format(layout.tokens / layout.seconds),
      megabytes(layout.memory), ("%.1f"):format(1000 * p.step_seconds),
      ("%+.0f %%"):format(100 * (p.step_seconds / layout.seconds - 1)), megabytes(p.memory_bytes),
    }
  end
  common.print_table(rows)
  local measured, guessed, best, chosen, off = {}, {}, nil, nil, 0
  for i, layout in ipairs(list) do
    measured[i], guessed[i] = layout.seconds, layout.predicted.step_seconds
    off = off + math.abs(guessed[i] / measured[i] - 1) / #list
    if not best or measured[i] < best.seconds then best = layout end
    if not chosen or guessed[i] < chosen.predicted.step_seconds then chosen = layout end
  end
  print(("\nfastest: %s; advised: %s; regret %.1f %%; mean error %.1f %%; rank correlation %.2f"):format(best.name,
    chosen.name, 100 * (chosen.seconds / best.seconds - 1), 100 * off, rank_correlation(measured, guessed)))
end

local function name_of(layout)
  return ("%d x %d, micro %d%s%s"):format(layout.ranks, layout.threads, layout.micro,
    layout.recompute and ", recompute" or "", layout.zero and ", ZeRO-1" or "")
end

if not sys.exists(options.data) then
  error(("layouts: %s is missing; make it with seqrun recipes/prepare.lua"):format(options.data), 0)
end
local list = layouts_of()
for _, layout in ipairs(list) do layout.name = name_of(layout) end
list = measure_all(list)
if #list == 0 then error("layouts: no layout could be measured", 0) end
print(common.machine())
print(("H = %d, L = %d, %d parameters; updates of %d packs of %d, %d steps a turn, %d turns"):format(options.hidden,
  options.layers, list[1].parameters, options.packs, options.max_len, options.steps, options.turns))
print(("the advisor's probe took %.0f s"):format(predict_all(list)))
show(list)
