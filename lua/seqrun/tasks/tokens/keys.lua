-- keys.lua - config keys of classes of words.

local c = require("seqrun.config")

local eval = c.map {
  { "decode", c.enum({ "valid", "greedy", table.unpack(require("seqrun.scores.schemes").NAMES) }, {
    default = "valid", before = "greedy",
    doc = "valid: tags are valid sequences of the scheme that the training data follow, if any; greedy: the most "
      .. "probable tag of each word; or the name of the scheme; kept in the checkpoint" }) },
}

local tune = c.map {
  { "crf", c.boolean { default = false,
    doc = "train scores of tags that follow each other, a linear-chain CRF over the words of a sentence" } },
}

local rules = {
  {
    keys = { "tune.crf", "eval.decode", "tune.label_smoothing", "tune.class_weights" },
    check = function(crf, decode, smoothing, weights)
      if not crf then return nil end
      if decode == "greedy" then
        return "eval.decode=greedy would not use the transitions that tune.crf trains; leave one of them out"
      end
      if smoothing == 0 and not weights then return nil end
      return ("tune.%s is for the loss of each word, but with tune.crf the loss is of whole sentences; leave one out")
        :format(weights and "class_weights" or "label_smoothing")
    end,
  },
}

return { keys = { { "eval", eval }, { "tune", tune } }, rules = rules }
