-- rank_keys.lua - the config keys of a run on several ranks.

local c = require("seqrun.config")

return c.map {
  { "reduce", c.enum({ "exact", "library" }, { default = "exact", changeable = true,
    doc = "how ranks sum gradients; exact: the same bits with any number of ranks; library: as MPI or NCCL does" }) },
  { "overlap", c.boolean { default = true, changeable = true, same_bits = true,
    doc = "exchange the gradients of finished layers during the backward pass; the bits are the same without" } },
  { "bucket", c.number { default = 16.0, above = 0, changeable = true, same_bits = true,
    doc = "MiB of gradients that ranks send together; parameters are not cut" } },
  { "engine", c.enum({ "auto", "mpi", "nccl" }, { default = "auto", changeable = true, same_bits = true,
    doc = "what carries data between ranks: auto: nccl on cuda where it is found, else mpi" }) },
  { "timeout", c.duration { default = 1800.0, min = 0, changeable = true, same_bits = true,
    doc = "seconds that ranks wait for one that does not answer before the run ends; 0: for ever" } },
  { "bind", c.boolean { default = true, changeable = true, same_bits = true,
    doc = "split the processors of a machine among its ranks where the launcher has not" } },
}
