-- bert_phase1.lua - phase 1 of BERT: short sequences, from scratch.  The program is tiny.lua, the numbers are in
-- bert_phase1.yaml.
--
--     seqrun recipes/bert_phase1.lua preset=demo

dofile((arg[0]:gsub("[^/]*$", "tiny.lua")))
