-- bert_phase2.lua - phase 2 of BERT: long sequences, packed.  The program is tiny.lua, the numbers are in
-- bert_phase2.yaml.
--
-- Starts from the weights (and, with init.carry, the moments) of the run named by init.from.
--
--     seqrun recipes/bert_phase2.lua preset=demo

dofile((arg[0]:gsub("[^/]*$", "tiny.lua")))
