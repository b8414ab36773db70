-- modernbert.lua - ModernBERT from scratch in three phases: constant rate, long sequences, decay.
-- Runs curriculum.lua with modernbert.yaml, once for each of its `phases`; each begins with the weights and moments of
-- the one before, in runs/modernbert/NAME.
--
--     seqrun recipes/modernbert.lua preset=tiny

dofile((arg[0]:gsub("[^/]*$", "curriculum.lua")))
