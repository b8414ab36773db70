-- finetune.lua - fine-tunes without dropout and writes down each update, for transformers_finetune.py to repeat.
--
--     seqrun tests/peers/finetune.lua KIND DATA.sqr INIT OUT UPDATES RATE
--
-- OUT gets start/ and end/, checkpoints before the first and after the last update, and updates.jsonl: loss, sequences,
-- and the labels of each.

package.path = "./?.lua;" .. package.path

local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local kind, path, init, out = table.unpack(arg, 1, 4)
local updates, rate = math.tointeger(tonumber(arg[5] or 50)), tonumber(arg[6] or 1e-4)
local task = sr.tasks[kind]

local corpus = sr.must(sr.data.open(path))
local facts = sr.must(sr.checkpoint.pretrained(init))
local cfg = {
  seed = 1, precision = "f32", tune = { freeze_layers = 0, reinit_layers = 0 },
  model = { hidden_dropout_prob = 0, attention_probs_dropout_prob = 0, classifier_dropout = 0 },
}
local data = { train = corpus, pretrained = facts }
local model = task:model(cfg, data)
local heads = {}
for i, spec in ipairs(model.heads[1].specs) do heads[i] = spec.name end
sr.must(sr.checkpoint.load(facts.path, { model = model.params, seed = 1, fresh = heads }))

local options = { data = corpus, max_len = 128, seed = 1, targets = task:targets() }
options.prefetch, options.too_long = 0, "truncate"
if kind == "choice" then
  options.order = sr.data.groups(corpus, { groups = 8, seed = 1 })
else
  options.by, options.sequences, options.micro_packs = "sequences", 32, 2
end
local loader = sr.must(sr.data.loader(options))

local function save(name)
  local guard <close> = sr.must(sr.checkpoint.lock(out .. "/" .. name))
  sr.must(sr.checkpoint.save(out .. "/" .. name, { step = 0, model = model.params, config = model:hf_config() }))
end

---The labels of a target's items by sequence of the batch.
local function labels_by_sequence(batch, name)
  local target, owners, starts, list = batch.targets[name], batch.layout:owners(), batch.layout:starts(), {}
  local rows, labels = target.rows:reshape(target.count, -1):select(2, 1):totable(), target.labels:totable()
  for i, row in ipairs(rows) do
    local owner = owners[row + 1] + 1
    list[owner] = list[owner] or json.array {}
    table.insert(list[owner], { position = row - starts[owner], label = labels[i] })
  end
  return list
end

---The sequences of a batch, with their labels.
local function sequences_of(batch)
  local ids, types, lengths, all = batch:host "ids", batch:host "types", batch.layout:lengths(), {}
  local labels = labels_by_sequence(batch, model.heads[1].name)
  local groups = batch.targets.group and labels_by_sequence(batch, "group")
  for i, start in ipairs(batch.layout:starts()) do
    all[i] = {
      ids = table.move(ids, start + 1, start + lengths[i], 1, {}), labels = labels[i] or json.array {},
      types = table.move(types, start + 1, start + lengths[i], 1, {}), group = groups and groups[i][1].label or 0,
    }
  end
  return all
end

sys.make_dirs(out)
save("start")
local optimizer = sr.optim.adamw(model.params, { decay = 0.01 })
local file = assert(io.open(out .. "/updates.jsonl", "w"))
local began = sys.now()
for _ = 1, updates do
  local sequences, sum = {}, 0
  for batch in loader:next():batches(model.params) do
    local scope <close> = sr.scope()
    local loss = model:losses(batch).total
    loss:backward()
    sum = sum + loss:item()
    local more = sequences_of(batch)
    table.move(more, 1, #more, #sequences + 1, sequences)
  end
  optimizer:step { rate = rate, clip = 1 }
  file:write(json.encode { loss = sum, rate = rate, sequences = json.array(sequences) }, "\n")
end
file:close()
save("end")
print(("%s: %d updates in %.1f s"):format(kind, updates, sys.now() - began))
