-- keys.lua - the config keys `embed` of training vectors of texts.

local c = require("seqrun.config")

local embed = c.map {
  { "loss", c.enum({ "auto", "mnrl", "cosent", "mse" }, { default = "auto",
    doc = "mnrl: each anchor finds its positive among all texts of the update (InfoNCE); cosent: the order of scored "
      .. "pairs; mse: the vectors of embed.teacher; auto: from the data" }) },
  { "temperature", c.number { default = 0.05, min = 0.01, max = 10,
    doc = "divisor of similarities; 0.05 is a scale of 20" } },
  { "learn_temperature", c.boolean { default = false, doc = "mnrl: train the temperature, too, to at least 0.01" } },
  { "directions", c.enum({ "one", "both" }, { default = "one",
    doc = "mnrl: one: anchors find positives; both: positives find anchors as well, half of the loss each" }) },
  { "matryoshka", c.list(c.integer { min = 1 }, { optional = true, min = 1, one = true,
    doc = "lengths of vector prefixes over which the loss is summed, so that vectors can be truncated to them" }) },
  { "prompts", c.boolean { default = false,
    doc = "put the prompts of init.from before texts: those of queries and documents, of scored pairs the default "
      .. "one; false: the texts are used as they are, and the model has no prompts" } },
  { "pool", c.enum({ "cls", "mean", "last" }, { optional = true,
    doc = "pooling: the first token, the mean, the last token; none: as in init.from, or mean" }) },
  { "normalise", c.boolean { optional = true,
    doc = "normalise vectors to length 1; none: as in init.from, or yes" } },
  { "dense", c.integer { optional = true, min = 1, max = 65536,
    doc = "size of a vector after a linear layer on the pooling; none: as in init.from" } },
  { "dense_activation", c.enum({ "identity", "tanh" }, { default = "identity",
    doc = "activation after a new linear layer" }) },
  { "teacher", c.path { optional = true,
    doc = "mse: safetensors file with a vector for each row of data.train, as `seqrun encode TEACHER FILE --out` "
      .. "writes it" } },
}

local rules = {
  {
    keys = { "embed.loss", "embed.teacher" },
    check = function(loss, teacher)
      if loss == "mse" and not teacher then
        return "embed.loss=mse needs embed.teacher, a file that `seqrun encode TEACHER FILE --out` writes"
      end
      if teacher and loss ~= "mse" and loss ~= "auto" then
        return ("embed.teacher requires embed.loss=mse, not %s; leave one of them out"):format(loss)
      end
    end,
  },
  {
    keys = { "columns.pair", "columns.choices" },
    check = function(pair, choices)
      if choices and not pair then return "columns.choices (negatives) needs columns.pair, the positive" end
    end,
  },
  {
    keys = { "batch.by" },
    check = function(by)
      if by == "packs" then return "batch.by=packs would tear rows apart; leave it out: updates have whole rows" end
    end,
  },
}

return { keys = { { "embed", embed } }, rules = rules }
