-- keys.lua - the config keys of the device, and of how it computes.

local c = require("seqrun.config")

local later = true

local keys = {
  { "device", c.string { default = "auto",
    doc = "device to train on: auto (cuda if it can be used, else cpu), cpu, cuda, cuda:N, ref, simt" } },
  { "precision", c.enum({ "f32", "bf16", "auto" }, { default = "f32",
    doc = "dtype of activations and weights in ops; master weights, gradients and moments stay f32; auto: the faster "
      .. "of the two on this machine, stored by the run" }) },
  { "instructions", c.enum({ "auto", "plain", "avx2", "avx512", "avx512_bf16", "amx", "ref", "simt" }, {
    default = "auto", changeable = later, like = "^%l[%w_]* [%w_.]*$", example = "cuda sm_90",
    doc = "instruction set of the device; auto: the best, stored by the run. Results are bit-identical within one "
      .. "only, so a run that cannot use the one of the config warns, with the reason" }) },
  { "tf32", c.boolean { default = false,
    doc = "cuda: products of f32 round their operands to TF32, which is faster; false: f32 throughout" } },
  { "threads", c.integer { optional = true, min = 1, max = 1024, changeable = later, same_bits = true,
    doc = "CPU threads; none: all that are available" } },
}

local rules = {
  {
    keys = { "device" },
    check = function(name) return require("seqrun.tensor.devices").problem(name) end,
  },
}

return { keys = keys, rules = rules, idle = { cuda_graph = "false", deterministic = "true" } }
