-- keys.lua - the config keys of packing.

local c = require("seqrun.config")

local pack = c.map {
  { "arrange", c.enum({ "packed", "padded", "single" }, { default = "packed",
    doc = "packed: several sequences per row; padded: one per row; single: one per micro-batch" }) },
  { "solver", c.string { default = "optimal",
    doc = "packing algorithm, built in or added by sr.pack.register(); see seqrun pack --compare" } },
  { "max_seqs", c.integer { optional = true, min = 1, max = 65535, word = "auto",
    doc = "maximum sequences per pack; none: no limit; auto: the lowest limit that packs almost as well as none" } },
}

local rules = {
  {
    keys = { "pack.solver" },
    check = function(name) return select(2, require("seqrun.pack").check_solver(name)) end,
  },
}

return { keys = { { "pack", pack } }, rules = rules }
