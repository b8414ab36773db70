-- pretraining.lua - the heads that encoders are pretrained with, by the names of their targets.

local mlm = require("seqrun.nn.heads.mlm")

return {
  mlm = mlm.new, causal = mlm.causal, nsp = require("seqrun.nn.heads.nsp").new,
  replaced = require("seqrun.nn.heads.replaced").new,
}
