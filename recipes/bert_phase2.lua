-- bert_phase2.lua - phase 2 of BERT pretraining: long sequences, packed.  Runs tiny.lua with bert_phase2.yaml.
--
-- Starts from the weights (with init.carry=moments also the optimizer moments) of the run init.from.
--
--     seqrun recipes/bert_phase2.lua preset=demo

dofile((arg[0]:gsub("[^/]*$", "tiny.lua")))
