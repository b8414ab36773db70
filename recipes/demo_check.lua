-- demo_check.lua - checks the results of the demo:  seqrun recipes/demo_check.lua runs/demo
--
-- The loss must have fallen, the model of phase 2 must beat the unigram model (training counts plus one,
-- scored on the same masked labels of held-out text) by at least 1.4 nats, and its packs must hold at
-- least three sequences on average.
--
-- Where WordNet is installed, the pretrained model must find the domain of at least 50 % of the nouns from twenty
-- labelled definitions of each, and of at least 5 % more than the same model from random weights after as many steps;
-- chance is 11 %.

local sr = require "seqrun"

local LEAST_NATS, LEAST_FACTOR, LEAST_ACCURACY, LEAST_GAIN = 1.4, 3, 0.5, 0.05

local folder = assert(arg[1], "usage: seqrun recipes/demo_check.lua DIRECTORY")

---The training lines of a run, and its last evaluation.
local function lines_of(run)
  local train, eval = {}, nil
  for _, line in ipairs((sr.must(sr.metrics.read(run)))) do
    if line.type == "train" then train[#train + 1] = line else eval = line end
  end
  return train, eval
end

---Sequences per pack, from the totals of the last line.
local function factor_of(line, max_len)
  return line.sequences / (line.slot_tokens / max_len)
end

local phase1 = lines_of(folder .. "/phase1")
local phase2, eval = lines_of(folder .. "/phase2")
local nats, factor = eval.unigram_loss - eval.mlm_loss, factor_of(phase2[#phase2], 512)
print(("loss      %.3f at start, %.3f after phase 1, %.3f after phase 2"):format(phase1[1].mlm_loss,
  phase1[#phase1].mlm_loss, phase2[#phase2].mlm_loss))
print(("held-out  %.3f, unigram model %.3f: %.3f nats lower (expected at least %.1f)"):format(eval.mlm_loss,
  eval.unigram_loss, nats, LEAST_NATS))
print(("packing   %.2f sequences per pack of 512 (expected at least %d)"):format(factor, LEAST_FACTOR))

---The accuracy of a fine-tuning; nil if there was none.
local function accuracy_of(name)
  if not require("seqrun.core.sys").exists(folder .. "/" .. name) then return nil end
  local _, last = lines_of(folder .. "/" .. name)
  return last.accuracy
end

local tuned, untrained = accuracy_of("domains"), accuracy_of("domains_untrained")
if tuned then
  print(("domains   accuracy %.3f pretrained, %.3f from random weights (expected at least %.2f, and %.2f more)"):format(
    tuned, untrained, LEAST_ACCURACY, LEAST_GAIN))
end
local learned = not tuned or tuned >= LEAST_ACCURACY and tuned - untrained >= LEAST_GAIN
local fallen = phase1[#phase1].mlm_loss < phase1[1].mlm_loss - 1
if not (fallen and nats >= LEAST_NATS and factor >= LEAST_FACTOR and learned) then
  sr.must(nil, "the demo missed its expected results", "numeric")
end
