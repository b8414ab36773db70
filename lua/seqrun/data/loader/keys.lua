-- keys.lua - the config keys of a data set, and of the updates that a loader makes of it.

local c = require("seqrun.config")

local MANY = 1 << 30
local later = true

local data = c.map {
  { "file", c.list(c.path {}, { required = true, min = 1, max = 256, one = true, bare = true, distinct = true,
    doc = "data set (.sqr), as written by recipes/prepare.lua; a list of several is trained on as one, each a "
      .. "source" }) },
  { "weights", c.list(c.number { above = 0 }, { optional = true, min = 2, max = 256,
    doc = "relative weight of each source (data.file, data.train) among the sequences drawn, as in [3,1]; sources run "
      .. "out and begin again on their own; none: every sequence once an epoch" }) },
  { "temperature", c.number { optional = true, min = 0, max = 1,
    doc = "draw sources in proportion to their sequences to this power, instead of data.weights; 1: as they are, 0: "
      .. "equally often" } },
  { "held", c.number { default = 0.05, min = 0, max = 0.5,
    doc = "fraction of the tokens held out for evaluation, from the end of the data set" } },
  { "max_len", c.integer { default = 128, min = 8, max = 65535,
    doc = "maximum sequence length, and length of a pack" } },
  { "too_long", c.enum({ "error", "truncate", "split" }, { default = "error",
    doc = "what to do with fixed examples longer than max_len" }) },
  { "prefetch", c.integer { default = 2, min = 0, max = 64, changeable = later, same_bits = true,
    doc = "updates prepared ahead by worker threads" } },
  { "workers", c.integer { default = 1, min = 0, max = 64, changeable = later, same_bits = true,
    doc = "worker threads that prepare updates; 0: none, the loop waits for each" } },
}

local batch = c.map {
  { "sequences", c.integer { default = 32, min = 1, max = MANY,
    doc = "global batch size: sequences per update, on average (by: packs) or exactly (by: sequences)" } },
  { "by", c.enum({ "packs", "sequences" }, { default = "packs",
    doc = "packs: whole packs of the epoch's plan; sequences: exactly batch.sequences, packed inside the update" }) },
  { "micro_packs", c.integer { default = 8, min = 1, max = MANY, word = "auto",
    doc = "packs per micro-batch; gradients accumulate over the micro-batches of an update; auto: as many as fit in "
      .. "memory and make it faster, stored by the run" } },
  { "shares", c.integer { optional = true, min = 1, max = 4096,
    doc = "parts of an update of equal cost, summed in a fixed tree, which ranks share; none: one per micro-batch, "
      .. "at most 8" } },
  { "adjust", c.enum({ "batch", "betas" }, { default = "batch",
    doc = "batch: fewer packs per update; betas: batch.sequences packs, and betas^factor" }) },
  { "loss", c.enum({ "token", "sequence" }, { default = "token",
    doc = "token: mean over the items of a loss (masked tokens); sequence: over sequences" }) },
}

local keys = {
  { "balance", c.enum({ "cost", "random" }, { default = "cost",
    removed = { lpt = "cost", snake = "cost", strided = "cost" },
    doc = "assignment of an update's packs to micro-batches, and so to ranks; cost: longest first by tokens and "
      .. "squared lengths, then swaps; random: as drawn, the baseline" }) },
  { "data", data }, { "batch", batch },
}

---Why weights do not fit the files of a key.
local function weigh(key)
  return function(files, weights, temperature)
    local count = type(files) == "table" and #files or 1
    if weights and temperature then return "data.weights and data.temperature exclude each other; leave out one" end
    local name = weights and "data.weights" or "data.temperature"
    if (weights or temperature) and count == 1 then
      return ("%s is for several sources; list them, as in data.%s=[a,b]"):format(name, key)
    end
    if weights and #weights ~= count then
      return ("data.weights has %d numbers for the %d sources of data.%s; give one for each"):format(#weights, count,
        key)
    end
  end
end

local rules = {
  { keys = { "data.file", "data.weights", "data.temperature" }, check = weigh "file" },
  {
    keys = { "batch.by", "batch.adjust" },
    check = function(by, adjust)
      if by == "packs" or adjust == "batch" then return nil end
      return "batch.adjust=betas requires batch.by=packs; set it, or leave out batch.adjust"
    end,
  },
}

return { keys = keys, rules = rules, weigh = weigh }
