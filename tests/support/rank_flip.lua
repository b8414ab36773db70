-- rank_flip.lua - a checked run on several ranks, one of which has a flipped bit in step 2; run by mpirun
-- (verify_ranks_spec.lua).
--
--     seqrun rank_flip.lua FOLDER KIND RANK SHARD      KIND: gradient, weight or m; FOLDER has corpus.sqr
--
-- Prints what is said, and ends as the run does.

package.path = "./?.lua;" .. package.path
local folder, kind, culprit, shard = arg[1], arg[2], tonumber(arg[3]), arg[4]
local checked = require("tests.support.checked_run")
local failure = require("seqrun.base.failure")
local fault = require("tests.support.fault")
local ranks = require("seqrun.tensor.ranks")

local rank = ranks.launcher().rank

---A tensor of this kind that this rank has.
local function victim(c)
  for _, name in ipairs(c.model.params:names()) do
    if kind == "gradient" then
      local grad = c.model.params:get(name):grad()
      grad:sum() -- what counts as zeros is in memory from here on
      return grad
    end
    if kind == "weight" then return c.model.params:master(name) end
    local m = c.optimizer:moments(name)
    if m then return m end
  end
end

local function flip(c)
  if c.step == 2 and c.number == 2 and rank == culprit then fault.flip(victim(c), 27) end
end

local good, problem = checked.train(folder, {
  "--max-steps=3", "verify.every=1", "batch.shares=4", "threads=1", "optimizer.shard=" .. shard,
}, { [kind == "gradient" and "gradient" or "start"] = flip, warn = function(text) print(text) end })
if not good then
  print(tostring(problem))
  os.exit(failure.of(problem) and failure.of(problem):exit_code() or 70)
end
