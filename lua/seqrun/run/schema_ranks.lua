-- schema_ranks.lua - the config keys of a run on several ranks.

local c = require("seqrun.config")

return c.map {
  { "reduce", c.enum({ "exact", "library" }, { default = "exact", changeable = true,
    doc = "how ranks sum gradients; exact: the same bits with any number of ranks; library: as MPI or NCCL does" }) },
  { "engine", c.enum({ "auto", "mpi", "nccl" }, { default = "auto", changeable = true,
    doc = "what carries data between ranks: auto: nccl on cuda where it is found, else mpi" }) },
  { "timeout", c.duration { default = 1800.0, min = 0, changeable = true,
    doc = "seconds that ranks wait for one that does not answer before the run ends; 0: for ever" } },
  { "bind", c.boolean { default = true, changeable = true,
    doc = "split the processors of a machine among its ranks where the launcher has not" } },
}
