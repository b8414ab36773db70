-- checkpoint - a Hugging Face directory plus `trainer/`, saved durably and verified on load.
--
--   runs/pretrain/step-000000200/
--     config.json model.safetensors vocab.txt tokenizer_config.json    what Transformers reads
--     trainer/optim.safetensors state.json plan.txt config.yaml        what a resume needs
--     MANIFEST                                                         sizes and checksums of all
--
-- How it is written: core/store/saving.h.  A run's directory means its newest verified checkpoint.

local directory = require("seqrun.checkpoint.directory")
local loading = require("seqrun.checkpoint.loading")
local pretrained = require("seqrun.checkpoint.pretrained")
local saver = require("seqrun.checkpoint.saver")
local tensor_file = require("seqrun.checkpoint.tensor_file")
local vocabulary = require("seqrun.checkpoint.vocabulary")
local writing = require("seqrun.checkpoint.writing")

local checkpoint = {
  lock = directory.lock,
  list = directory.list,
  latest = directory.latest,
  verify = directory.verify,
  set_aside = directory.set_aside,
  resolve = directory.resolve,

  save = writing.save,
  saver = saver.new,

  state = loading.state,
  config = loading.config,
  load = loading.load,
  tile = require("seqrun.checkpoint.tiling"),
  pretrained = pretrained.read,

  export = require("seqrun.checkpoint.exporting"),
  import = require("seqrun.checkpoint.importing"),

  read_tensors = tensor_file.read,
  write_tensors = tensor_file.write,

  vocabulary = vocabulary,
}

return checkpoint
