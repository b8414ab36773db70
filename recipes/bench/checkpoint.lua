-- checkpoint.lua - how long training waits for a checkpoint: written at once, or in the background from a copy.
--
--   build/seqrun recipes/bench/checkpoint.lua [model=base|large] [layers=0] [repeats=3] [out=runs/bench_checkpoint]
--
-- The state is that of a BERT with AdamW: weights and both moments, 12 bytes a parameter.
--
-- waits     until the call returns, with save.background=false: the checkpoint is durable then
-- copies    the same in the background: the stall of a step
-- durable   from the call in the background until the checkpoint is durable; the threads are otherwise idle

local checkpoint = require("seqrun.checkpoint")
local common = require("common")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local options = common.options({ model = "base", layers = 0, repeats = 3, out = "runs/bench_checkpoint" }, arg)
local sizes = { base = { 768, 12, 12 }, large = { 1024, 24, 16 } }
local size = sizes[options.model] or common.refuse("model must be base or large, got '%s'", options.model)

local bert = sr.nn.bert {
  vocab_size = 30522, hidden_size = size[1], num_hidden_layers = options.layers > 0 and options.layers or size[2],
  num_attention_heads = size[3], intermediate_size = 4 * size[1], max_position_embeddings = 512, heads = { "mlm" },
}
bert:initialise(1)
local optimizer = sr.optim.adamw(bert.params)
optimizer:state() -- allocates the moments

sr.must(sys.make_dirs(options.out))
local lock = sr.must(checkpoint.lock(options.out))
local saver = checkpoint.saver(options.out)
local times = { waits = math.huge, copies = math.huge, durable = math.huge }
local function take(name, since) times[name] = math.min(times[name], sys.now() - since) end

for i = 1, options.repeats do
  local parts = { step = 2 * i, model = bert.params, opt = optimizer, config = bert:hf_config() }
  local began = sys.now()
  sr.must(saver:save(parts))
  take("waits", began)
  parts.step = 2 * i + 1
  began = sys.now()
  if not saver:begin(parts) then common.refuse("not enough memory for a copy of the state") end
  take("copies", began)
  sr.must(saver:wait())
  take("durable", began)
end
lock:close()
sys.remove(options.out)

local gib = 12 * bert.params:count() / 2 ^ 30
print(("%s, %.2f GiB of state, the least of %d"):format(options.model, gib, options.repeats))
for _, name in ipairs { "waits", "copies", "durable" } do
  print(("  %-8s %6.2f s  %5.2f GiB/s"):format(name, times[name], gib / times[name]))
end
