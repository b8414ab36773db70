-- bert_phase1.lua - phase 1 of BERT pretraining: short sequences, from scratch.
-- Runs pretrain.lua with bert_phase1.yaml.
--
--     seqrun recipes/bert_phase1.lua preset=demo

dofile((arg[0]:gsub("[^/]*$", "pretrain.lua")))
