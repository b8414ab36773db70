-- bert_phase2.lua - phase 2 of BERT pretraining: long sequences, packed.
-- Runs pretrain.lua with bert_phase2.yaml, from the weights (with init.carry=moments also the optimizer moments) of
-- the run init.from.
--
--     seqrun recipes/bert_phase2.lua preset=demo            after recipes/bert_phase1.lua preset=demo

dofile((arg[0]:gsub("[^/]*$", "pretrain.lua")))
