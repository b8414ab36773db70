-- loss.lua - the mean loss of each sequence under a checkpoint: how hard a model finds it.

local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local items = require("seqrun.data.items")
local kinds = require("seqrun.base.kinds")
local pretrained = require("seqrun.checkpoint.bert")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

---Identifies the weights of a checkpoint.
local function weights_hash(path)
  local hashes = {}
  for _, name in ipairs(failure.must(sys.list(path))) do
    if name:find("%.safetensors$") or name:find("^pytorch_model") then
      hashes[#hashes + 1] = name .. " " .. failure.must(sys.hash_file(path .. "/" .. name))
    end
  end
  return sys.hash(table.concat(hashes, "\n")):sub(1, 16)
end

---Whether the items of a head are sequences or masked tokens of a data set as it is.
local function has_items(task, head)
  local kind = kinds.get(task)
  if not task then return head == "mlm" or head == "nsp" end
  return kind ~= nil and kind.prediction.reads == "sequences" and not kind.whole
end

---A loader of the measured examples, as far as the model can read them.
local function loader_of(self, head, facts)
  local positions = facts.design.longest
  local o, fixed = self.examples, self.corpus:info().kind == "examples"
  if not fixed and (o.max_len or 128) > positions then
    failure.raise("config", "analyze: max_len %d exceeds the %d position embeddings of %s", o.max_len, positions,
      facts.path)
  end
  return failure.must(require("seqrun.data").loader {
    data = self.corpus, part = o.part, nsp = o.nsp, short_seq_prob = o.short_seq_prob,
    short_seq_by = o.short_seq_by, seed = o.seed, epoch = o.epoch, too_long = o.too_long,
    max_len = fixed and math.min(o.max_len, positions) or o.max_len,
    by = "sequences", sequences = 1, prefetch = 0, targets = { head },
  })
end

---The mean of the loss over the items of each of `count` sequences from uid `first` on.
local function losses_of(model, batch, first, count)
  local scope <close> = tensor.scope()
  local no_grad <close> = tensor.no_grad()
  local loss = model:losses(batch)[1]
  local values, sums, counts = loss.items:to("f32"):totable(), {}, {}
  for i, uid in ipairs((items.uids(batch.targets[loss.name], batch))) do
    sums[uid], counts[uid] = (sums[uid] or 0) + values[i], (counts[uid] or 0) + 1
  end
  local means = {}
  for uid = first, first + count - 1 do
    if not counts[uid] then
      failure.raise("data", "analyze: sequence %d has nothing to predict for the loss '%s'", uid, loss.name)
    end
    means[#means + 1] = sums[uid] / counts[uid]
  end
  return means
end

---losses_of(), unless a signal comes.
local function unless_stopped(...)
  if not sys.caught() then
    local means, message, code = failure.returned(losses_of, ...)
    if code ~= "stopped" then return failure.must(means, message, code) end
  end
  failure.raise("stopped", "analyze: stopped; run it again to continue")
end

local function run(self, model, loader, each, first, tell)
  local all = loader:examples()
  while first < all do
    local uids = {}
    for uid = first, math.min(all, first + each) - 1 do uids[#uids + 1] = uid end
    local values = unless_stopped(model, loader:batch_of(uids), first, #uids)
    first = first + #uids
    failure.must(self.analysis:append(values, first))
    tell(first, self.analysis:parts() * first / all)
  end
end

---@param self table the analysis
---@param spec seqrun.MetricOptions
---@return table kind
return function(self, spec)
  if not spec.checkpoint then
    failure.raise("config", "analyze: loss needs the checkpoint of a model (--checkpoint DIR)")
  end
  local facts = failure.must(checkpoint.pretrained(spec.checkpoint))
  local head = spec.loss or facts.kind and "label" or facts.heads[1]
  if not has_items(facts.kind, head) then
    failure.raise("config", "analyze: %s has no loss for each sequence; give a checkpoint of a masked language model "
      .. "or of a classifier", facts.path)
  end
  local loader = loader_of(self, head, facts)
  local model, loaded = failure.must(pretrained(spec.checkpoint, {
    heads = not facts.kind and { head } or nil, precision = spec.precision,
  }))
  model.training = false
  return {
    name = spec.name or "loss",
    options = ("loss %s, weights %s, masks of seed %d%s"):format(head, weights_hash(loaded.path),
      self.examples.seed or 0, spec.precision == "bf16" and ", bf16" or ""),
    run = function(_, first, tell)
      local guard <close> = loader
      return run(self, model, loader, spec.batch or 32, first, tell)
    end,
  }
end
