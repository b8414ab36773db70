-- tiny.lua - one small model on packed sequences, every part spelled out: the recipe to copy and change.
--
--     seqrun recipes/tiny.lua --dry-run
--     seqrun recipes/tiny.lua optimizer.betas=[0.9,0.95] --max-steps 100

local sr = require "seqrun"

local run <close> = sr.run.open { recipe = arg, schema = sr.run.schema, rules = sr.run.rules }
local cfg = run.config

-- data: sentences of two novels, as pairs, in packs of max_len tokens
local corpus = sr.must(sr.data.open(cfg.data.file, { held = cfg.data.held }))
local function loader(part, epochs)
  return sr.must(sr.data.loader {
    data = corpus, part = part, epochs = epochs, seed = cfg.seed, max_len = cfg.data.max_len, nsp = cfg.data.nsp,
    arrange = cfg.pack.arrange, solver = cfg.pack.solver, max_seqs = cfg.pack.max_seqs, mask = cfg.mask,
    sequences = cfg.batch.sequences, micro_packs = cfg.batch.micro_packs, loss = cfg.batch.loss,
  })
end
local train, held = loader("train"), loader("held", 1)

-- model: post-LN encoder, masked-LM head tied to the embeddings, next-sentence head
local bert = sr.nn.bert {
  vocab_size = corpus:vocab_size(), hidden_size = cfg.model.hidden_size,
  intermediate_size = cfg.model.intermediate_size,
  num_hidden_layers = cfg.model.num_hidden_layers, num_attention_heads = cfg.model.num_attention_heads,
  max_position_embeddings = cfg.model.max_position_embeddings,
}
bert:initialise(cfg.seed)

-- optimizer: no decay of biases and norms; linear warm-up, then down to zero
local optimizer = sr.optim.adamw(bert.params, {
  betas = cfg.optimizer.betas, eps = cfg.optimizer.eps, decay = cfg.optimizer.decay,
})
local rate = sr.schedule.poly { peak = cfg.rate.peak, warmup = cfg.rate.warmup, total = cfg.rate.total }

run:start { corpus = corpus, loader = train, held = held, model = bert, optimizer = optimizer, rate = rate }

-- loop
for step, update in run:steps(train) do
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    losses.total:backward()
    run:tally(batch, losses)
  end
  optimizer:step { rate = rate(step), clip = cfg.optimizer.clip }
  run:log(step, optimizer)
end
