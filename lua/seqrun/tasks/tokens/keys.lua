-- keys.lua - config keys of classes of words.

local c = require("seqrun.config")

local eval = c.map {
  { "decode", c.enum({ "valid", "greedy", table.unpack(require("seqrun.scores.schemes").NAMES) }, {
    default = "valid", before = "greedy",
    doc = "valid: tags are valid sequences of the scheme that the training data follow, if any; greedy: the most "
      .. "probable tag of each word; or the name of the scheme; kept in the checkpoint" }) },
}

return { { "eval", eval } }
