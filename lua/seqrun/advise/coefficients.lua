-- coefficients.lua - the constants of the advisor's model.
--
-- `time` and `memory`: fitted by recipes/papers/advise.lua to 289 measured steps and 688 verdicts of Llama 13B, 30B and
-- 65B on 64 to 256 A100 (arXiv 2311.05610), each from a physical guess as prior.  docs/theory/advisor.md explains them.
--
-- `packed`: what differs for this program's own kernels, as their design expects (recipes/bench/roofline.lua has their
-- ops one by one); what layers keep is the encoder's own count.  The share of the network is an assumption: the fitted
-- one is that of one cluster.  Products keep the constants of a fit without `congestion`: BERT on 8 A100 comes within
-- 2 % of the best published rate.

return {
  time = {
    product = 0.8072, -- share of the peak that large products reach
    edge = 275.8, -- a product's slowdown: 1 + edge (1/m + 1/n + 1/k)
    flash1 = 0.2732, flash2 = 0.6068, -- share of the peak that attention reaches, forward
    fused = 18.9, torch = 39.12, -- passes over the score matrix, forward and backward
    norm_plain = 181, norm_fused = 27.88, -- passes of H elements per token, forward and backward
    pointwise = 13.78, -- passes of H and F elements that the tensor degree cuts
    logits = 11.24, -- passes over the logits
    link = 0.5322, -- share of the link inside a node
    hop = 3.532e-05, -- seconds per device that an all-reduce passes
    launch = 0.0001652, -- seconds of a layer's launches in forward
    send = 0.5562, network = 0.13, -- shares of a device's network: between stages, in a ring
    congestion = 0.6066, -- power with which the latter falls beyond 8 nodes
  },
  memory = {
    reserved = 2.878, -- GiB of context, workspaces and communication
    gradient = 1.702, -- bytes per parameter
    norm_plain = 12.32, norm_fused = 4.39, -- kept elements per token and H
    split = 1.756, -- of the inputs of products that the tensor degree cuts
    fused = 2.084, torch = 3.163, -- kept score matrices
    logits = 10.96, -- kept elements per logit, not cut by the tensor degree
  },
  packed = {
    time = {
      packed = 0.5, norm_packed = 27, pointwise = 5, logits = 6, launch = 20e-6, network = 0.7, congestion = 0,
      product = 0.8123, edge = 246.7, link = 0.5772, hop = 4.443e-05,
    },
    memory = { gradient = 4, logits = 1, reserved = 1.5 },
  },
}
