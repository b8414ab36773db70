-- step.lua - a full training step over the same examples in eleven arrangements.
--
--   build/seqrun recipes/bench/step.lua [model=small|minilm|base|large|modernbert] [precision=f32|bf16|both]
--       [packs=4] [updates=2] [repeats=3] [device=cpu|cuda] [optimizer=adamw|lamb] [only=packed,sorted]
--       [tsv=FILE label=h100] [hist=FILE|8-64] [peer=true] [compile=true] [keep=0.5] [longest=512] [layers=L] [micro=1]
--       [reduce=exact|library] [shard=true] [overlap=false] [bucket=16] [clock=wall|cpu] [fused=false]
--       [deal=cost|random]
--
-- padded   one sequence per row of S slots; padding goes through every op including attention, as in
--          programs whose batch is a rectangle with a mask
-- rows     the same rows, but attention skips padding: only matrix products and row-wise ops process it
-- sorted   sequences sorted by length, in batches of at most the packs' slots, padded to the longest of each batch
-- dense    packs of S, attention computes all S x S scores and masks them (without attention dropout)
-- joined   packs of S without a mask: sequences attend to their neighbours, as in programs that concatenate texts.
--          It trains another model, and is here for its time
-- single   one sequence at a time, no padding
-- longest  sequences one after the other without padding, but attention computes S x S scores of each
-- bucketed the same with attention at lengths rounded up to multiples of 128, as kernels for some lengths have it
-- exact    the same with attention at each length
-- dealt    exact, in a batch for each rank: sequences are assigned as the key `balance` does (deal)
-- packed   packs of S, packed attention
--
-- A step is forward, backward and AdamW over one update; all arrangements see the same sequences, masks
-- and dropout keys.  Prints real tokens per second, and the speed-up of packed over each arrangement.
-- padded / packed should be at least 0.95 times the packing factor of the examples.  (The masked-LM head
-- and the optimizer cost the same in all arrangements, attention the same in rows and packed.)
--
-- tsv=FILE appends a line for recipes/bench/roofline.lua: label, model, tokens, `step`, microseconds of packed.
-- keep=SHARE measures random layerwise token dropping instead: all layers but the first and the last keep this share
-- of each sequence.  The time that layer tokens predict: what the layers between cost, by comparison with a model that
-- has none of them, shrinks with their tokens; all else, the optimizer too, stays.  Should be at most 1.05 times that.
-- micro=N cuts packed updates into micro-batches of N packs.  Several ranks share these out (recipes/bench/ranks.lua
-- starts them): reduce, overlap and bucket are the keys of `ranks`, shard is optimizer.shard.
-- fused=false computes layers op by op (step_plain.lua).
-- longest=128 cuts sequences to this length.  hist=8-64 draws lengths from 8 to 64, all equally often, instead of
-- those of a file; hist=8192-8192 makes packs of one sequence of 8,192 tokens.
-- clock=cpu counts the CPU time of the process, ours and the peer's: with threads=1, for a machine that others use too.
--
-- model=modernbert is ModernBERT-base with a masked-LM head; its peer is recipes/bench/peers/transformers_step.py.
--
-- dump=FILE writes the packs for recipes/bench/peers/torch_step.py; peer=true runs that as well, in the same precisions
-- (with $PYTHON, python3 by default, which must have torch), peer=mask,sequence these arrangements of it only;
-- compile=true also with its layers compiled, attention apart.  Both print the peak memory of the process: compare
-- it with only=packed and one arrangement.

local sr = require("seqrun")
local arms = require("step_arms")
local common = require("common")
local lengths = require("lengths")
local merged = require("seqrun.base.merged")
local ranks = require("seqrun.tensor.ranks")
local shares = require("seqrun.data.loader.shares")
local sys = require("seqrun.core.sys")

local MODELS = {
  base = {},
  large = { hidden_size = 1024, num_hidden_layers = 24, num_attention_heads = 16, intermediate_size = 4096 },
  tiny = {
    hidden_size = 64, num_hidden_layers = 1, num_attention_heads = 1, intermediate_size = 128, vocab_size = 256,
  },
  modernbert = { model_type = "modernbert", heads = { "mlm" } },
  minilm = { hidden_size = 384, num_hidden_layers = 6, intermediate_size = 1536 },
  small = {
    hidden_size = 256, num_hidden_layers = 4, num_attention_heads = 4, intermediate_size = 1024,
    vocab_size = 8000,
  },
}

local options = common.options({
  model = "small", precision = "f32", packs = 4, updates = 2, repeats = 3, threads = 0, seed = 1, only = "", dump = "",
  device = "", optimizer = "adamw", tsv = "", label = "", peer = "", compile = false,
  keep = 1, longest = 0, layers = 0,
  clock = "wall", micro = 0, reduce = "exact", shard = false, overlap = true, bucket = 16, fused = true, deal = "cost",
  hist = common.lengths,
}, arg)

if options.threads > 0 then sr.use("cpu", { threads = options.threads }) end
if options.device ~= "" then sr.use(options.device) end
local world = ranks.open()

-- ---- one step ----------------------------------------------------------------------------------

local function step(bert, optimizer, batches)
  local update = { count = #batches, rank = world.rank, ranks = world.size }
  function update:batch(i) return batches[i] end
  for batch in shares.each(update, { bert.params }) do
    local scope <close> = sr.scope()
    bert.encoder.attention = batch.attention
    bert:losses(batch).total:backward()
  end
  optimizer:step { rate = 1e-5, clip = 1.0 }
  sr.synchronize()
end

---Forward and backward of some batches.
local function pass(bert, batches)
  for _, batch in ipairs(batches) do
    local scope <close> = sr.scope()
    bert:losses(batch).total:backward()
  end
  sr.synchronize()
end

---The least seconds of each function, called in turns.
local function in_turns(functions, repeats)
  local least = {}
  for turn = 0, repeats do
    for i, fn in ipairs(functions) do
      local begin = sys.now()
      fn()
      if turn > 0 then least[i] = math.min(least[i] or math.huge, sys.now() - begin) end
    end
  end
  return table.unpack(least)
end

---The batches of one update in one arrangement.
local function arrange(update, how, capacity, config)
  return arms.arrange(update, how, {
    capacity = capacity, vocabulary = config.vocab_size, seed = options.seed, micro = math.tointeger(options.micro),
    ranks = world.size, hidden = config.hidden_size, deal = options.deal,
  })
end

---A step with token dropping against what its layer tokens predict; see above.
local function measure_dropping(bert, optimizer, updates, capacity)
  local config = merged(bert.config, { num_hidden_layers = 2, precision = options.precision })
  local ends, token_drop = sr.nn.bert(config):initialise(1), sr.nn.token_drop { keep = options.keep }
  local layers, measured, predicted, dense, kept, all = bert.config.num_hidden_layers, 0, 0, 0, 0, 0
  local function with(drop, batches)
    bert.encoder.token_drop = drop
    pass(bert, batches)
  end
  for _, update in ipairs(updates) do
    local batches = arrange(update, "packed", capacity, bert.config)
    local step_time, full, short, outer = in_turns({
      function() optimizer:step { rate = 1e-5, clip = 1.0 } sr.synchronize() end,
      function() with(nil, batches) end, function() with(token_drop, batches) end, function() pass(ends, batches) end,
    }, options.repeats)
    local tokens, between = 0, 0
    for _, batch in ipairs(batches) do
      tokens, between = tokens + batch.layout:tokens(), between + token_drop:draw(batch, layers).layout:tokens()
    end
    dense, measured = dense + step_time + full, measured + step_time + short
    predicted = predicted + step_time + full - (full - outer) * (1 - between / tokens)
    kept, all = kept + 2 * tokens + (layers - 2) * between, all + layers * tokens
  end
  print(("keep=%g: %.3f of the layer tokens; step %.1f ms, dense %.1f ms"):format(options.keep, kept / all,
    measured * 1e3, dense * 1e3))
  print(("%.3f times the %.1f ms that layer tokens predict"):format(measured / predicted, predicted * 1e3))
end

---Real tokens per second of one arrangement; each update counts with the best of its repeats.
local function measure(bert, optimizer, updates, how, capacity)
  local seconds, tokens = 0, 0
  for _, update in ipairs(updates) do
    local batches = arrange(update, how, capacity, bert.config)
    seconds = seconds + common.best(function() step(bert, optimizer, batches) end, options.repeats,
      options.clock == "cpu" and os.clock or nil)
    for _, batch in ipairs(batches) do tokens = tokens + batch.layout:tokens() end
  end
  return tokens / seconds
end

-- ---- the comparison ------------------------------------------------------------------------------

local packs, factor, capacity = lengths.packs(options.hist, options.packs * options.updates, options.seed,
  options.longest > 0 and options.longest or nil)
local updates, uid, sequences, tokens = {}, 0, 0, 0
for u = 1, options.updates do
  updates[u] = {}
  for p = 1, options.packs do
    local pack = {}
    for i, length in ipairs(packs[(u - 1) * options.packs + p]) do
      pack[i] = { length = length, uid = uid }
      uid, sequences, tokens = uid + 1, sequences + 1, tokens + length
    end
    updates[u][p] = pack
  end
end

local dump = options.dump ~= "" and options.dump or (options.peer ~= "" and os.tmpname())
if dump then
  local file = assert(io.open(dump, "w"))
  for i, pack in ipairs(packs) do
    file:write(table.concat(pack, " ", 1, #pack), i % options.packs == 0 and "\n" or "; ")
  end
  file:close()
end

---Measures our arrangements in a precision.
---@param precision "f32"|"bf16"
local function compare(precision)
  local config = assert(MODELS[options.model], "bench: model must be tiny, small, minilm, base, large or modernbert")
  config.precision = precision
  if options.layers > 0 then config.num_hidden_layers = options.layers end
  local bert = sr.nn.bert(config):initialise(1)
  if not options.fused then require("step_plain")(bert) end
  local make_optimizer = assert(sr.optim[options.optimizer], "bench: optimizer must be adamw or lamb")
  local optimizer = make_optimizer(bert.params, { world = world, shard = options.shard })
  if world.size > 1 then
    bert.params:share_with(world, {
      reduce = options.reduce, sharded = options.shard, overlap = options.overlap, bucket = options.bucket,
    })
  end
  local here = sequences / (options.packs * options.updates)
  print(("model %s in %s, %s"):format(options.model, precision, common.machine()))
  print(("%d updates of %d packs of %d: %d sequences, %d tokens, efficiency %.3f, factor %.3f (sample %.3f)"):format(
    options.updates, options.packs, capacity, sequences, tokens, tokens / (#packs * capacity), here, factor))

  if options.keep < 1 then
    measure_dropping(bert, optimizer, updates, capacity)
    return
  end

  local speed, rows = {}, { { "arrangement", "tokens/s", "packed is" } }
  for _, how in ipairs(arms.ORDER) do
    if options.only == "" or options.only:find(how, 1, true) then
      speed[how] = measure(bert, optimizer, updates, how, capacity)
    end
  end
  for _, how in ipairs(arms.ORDER) do
    local ratio = speed[how] and speed.packed and ("%.2f times"):format(speed.packed / speed[how]) or "-"
    if speed[how] then rows[#rows + 1] = { how, ("%.0f"):format(speed[how]), ratio } end
  end
  common.print_table(rows)
  if options.tsv ~= "" and speed.packed then
    local file = assert(io.open(options.tsv, "a"))
    local us = tokens / speed.packed / options.updates * 1e6
    file:write(("%s\t%s\t%d\tstep\t%.1f\n"):format(options.label, options.model, options.packs * capacity, us))
    assert(file:close())
  end
  for _, how in ipairs { "padded", "rows" } do
    if speed[how] and speed.packed then
      local ratio = speed.packed / speed[how]
      print(("%s / packed time is %.2f, %.3f times the packing factor"):format(how, ratio, ratio / here))
    end
  end
end

for _, precision in ipairs(options.precision == "both" and { "f32", "bf16" } or { options.precision }) do
  compare(precision)
end

local _, peak = sys.memory()
print(("peak memory of the process: %.0f MiB"):format(peak / 2 ^ 20))

---PyTorch's arrangements on the same packs, or Transformers'.
local function run_peer(how)
  io.stdout:flush()
  local command = "'%s' '%s/peers/%s_step.py' '%s' --model %s --repeats %d%s%s"
  local peer = options.model == "modernbert" and "transformers" or "torch"
  if peer == "transformers" then
    how = (" --capacity %d%s%s"):format(capacity, options.layers > 0 and " --layers " .. options.layers or "", how)
  end
  if options.peer ~= "true" then how = (" --only '%s'"):format(options.peer) .. how end
  if options.clock == "cpu" then how = how .. " --cpu-time" end
  local ok = os.execute(command:format(os.getenv("PYTHON") or "python3", common.folder, peer, dump, options.model,
    options.repeats, how, options.threads > 0 and " --threads " .. options.threads or ""))
  if not ok then print("PyTorch was not measured; set PYTHON to a Python that has torch") end
  return ok
end
if options.peer ~= "" then
  for _, how in ipairs { "", " --bf16", " --compile", " --bf16 --compile" } do
    local low, compiled = how:find("bf16") ~= nil, how:find("compile") ~= nil
    local wanted = options.precision == "both" or low == (options.precision == "bf16")
    if wanted and (options.compile or not compiled) and not run_peer(how) then break end
  end
end
