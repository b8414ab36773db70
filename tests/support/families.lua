-- families.lua - the models of tests/data/families, their golden values, and models with other heads or keys.

local bert = require("tests.support.bert")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local tensor_file = require("seqrun.checkpoint.tensor_file")

local families = { ROOT = "tests/data/families/" }

local function read_json(path) return json.decode(sr.must(sys.read_file(path))) end

---The names of the directories, sorted.
---@return string[]
function families.names()
  local names = {}
  for _, name in ipairs(sr.must(sys.list(families.ROOT))) do
    if name ~= "README.md" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

---@class tests.FamilyGolden
---@field name string
---@field folder string
---@field family string model_type
---@field sequences table[]
---@field loss number
---@field adamw number[][]
---@field bf16 table<string, number>
---@field tasks table<string, { config: table }>
---@field pads? table
---@field tensors table<string, seqrun.Tensor> on the current device

---@param name string
---@return tests.FamilyGolden
function families.golden(name)
  local folder = families.ROOT .. name
  local golden = read_json(folder .. "/golden.json")
  golden.name, golden.folder = name, folder
  golden.tensors = sr.must(tensor_file.read(folder .. "/golden.safetensors"))
  return golden
end

---ELECTRA's second network: which tokens were replaced.  A head as a user would write it.
function families.discriminator(encoder)
  local size = encoder.config.hidden_size
  local specs, add = sr.nn.specs(0.02)
  add.linear("discriminator_predictions.dense", size, size)
  add.linear("discriminator_predictions.dense_prediction", 1, size)
  local head = { name = "replaced", specs = specs }
  local function linear(self, x, name, options)
    local p = self.params
    return sr.ops.linear(x, p:get(name .. ".weight"), p:get(name .. ".bias"), options)
  end
  function head:logits(x)
    local inner = linear(self, x, "discriminator_predictions.dense", { act = "gelu" })
    return linear(self, inner, "discriminator_predictions.dense_prediction")
  end
  function head:loss(hidden, target)
    local logits = self:logits(hidden:rows(target))
    local items = sr.ops.binary_cross_entropy(logits, target.labels:reshape(-1, 1)):reshape(-1)
    return { total = (items * target.weights):sum(), items = items }
  end
  return head
end

---@param golden tests.FamilyGolden
function families.is_discriminator(golden) return golden.sequences[1].replaced ~= nil end

---The model of a directory with the head that its golden values are of; keys of its config may be changed.
---@param golden tests.FamilyGolden
---@param changes? table<string, any>
---@return seqrun.Bert
---@return seqrun.LoadReport
function families.model(golden, changes)
  local head = families.is_discriminator(golden) and families.discriminator or "mlm"
  if not changes then
    local model, _, report = sr.must(sr.nn.pretrained(golden.folder, { heads = { head } }))
    return model, report
  end
  local config = { heads = { head } }
  for key, value in pairs(sr.must(sr.checkpoint.pretrained(golden.folder)).config) do config[key] = value end
  for key, value in pairs(changes) do config[key] = value end
  local model = sr.nn.bert(config)
  return model, sr.must(sr.checkpoint.load(golden.folder, { model = model.params, seed = 1 })).report
end

---Keys that set dropout wherever the family of a config has it.
---@param config table
---@param p number
---@return table<string, number>
function families.dropout(config, p)
  local changes = {}
  for _, key in ipairs { "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout",
    "embedding_dropout", "mlp_dropout" } do
    if config[key] then changes[key] = p end
  end
  return changes
end

local tensor = bert.tensor

---Labels of every token of a discriminator.
local function add_replaced(batch, sequences, count)
  local rows, labels, weights = {}, {}, {}
  local starts = batch.layout:starts()
  for i, s in ipairs(sequences) do
    for t, label in ipairs(s.replaced) do
      local m = #rows + 1
      rows[m], labels[m], weights[m] = starts[i] + t - 1, label, 1 / count
    end
  end
  batch.targets.replaced = { rows = tensor(rows, "i32"), labels = tensor(labels), weights = tensor(weights) }
end

local function total(sequences, key)
  local sum = 0
  for _, s in ipairs(sequences) do sum = sum + #s[key] end
  return sum
end

---Some of the sequences as a batch of the update that has all of them.
---@param golden tests.FamilyGolden
---@param options? { from?: integer, to?: integer, slots?: integer, rows?: integer, last?: boolean, epoch?: integer }
---@return table
function families.batch(golden, options)
  options = options or {}
  local all, some, uids = golden.sequences, {}, {}
  for i = options.from or 1, options.to or #all do some[#some + 1], uids[#uids + 1] = all[i], i - 1 end
  local batch = bert.batch(some, {
    slots = options.slots, rows = options.rows, uids = uids, epoch = options.epoch,
    masked = math.max(1, total(all, "masked_positions")),
  })
  batch.targets.nsp = nil
  if families.is_discriminator(golden) then
    batch.targets.mlm = nil
    add_replaced(batch, some, total(all, "ids"))
  end
  if options.last then bert.add_last(batch) end
  return batch
end

---The rows of the sequences, one after the other, without slack.
---@param x seqrun.Tensor (T, ...)
---@param layout seqrun.Layout
---@return seqrun.Tensor
function families.own_rows(x, layout)
  local rows, lengths = {}, layout:lengths()
  for i, start in ipairs(layout:starts()) do
    for row = start, start + lengths[i] - 1 do rows[#rows + 1] = row end
  end
  return sr.ops.gather_rows(x, sr.tensor(rows, { dtype = "i32" }))
end

---A directory as Transformers writes it, with the head of a task instead of that for pretraining.
---@param golden tests.FamilyGolden
---@param task "class"|"tokens"|"squad"|"choice"
---@param changes? table keys of config.json
---@return string folder
function families.task_folder(golden, task, changes)
  local folder, config = program.folder(), golden.tasks[task].config
  for key, value in pairs(changes or {}) do config[key] = value end
  local head = "task." .. task .. "."
  local tensors, prefix = sr.must(tensor_file.read(golden.folder .. "/model.safetensors")), nil
  for name in pairs(tensors) do prefix = prefix or name:match("^(.-%.)embeddings%.") or name:match("^(model%.)") end
  for name in pairs(tensors) do
    local shared = config.model_type == "modernbert" and name:find("^head%.")
    if name:sub(1, #prefix) ~= prefix and not shared then tensors[name] = nil end
  end
  for name, value in pairs(golden.tensors) do
    if name:sub(1, #head) == head and name ~= head .. "logits" then tensors[name:sub(#head + 1)] = value end
  end
  sr.must(tensor_file.write(folder .. "/model.safetensors", tensors))
  program.write(folder, "config.json", json.encode(config))
  for _, name in ipairs { "tokenizer.json", "tokenizer_config.json", "vocab.txt" } do
    local text = sys.read_file(golden.folder .. "/" .. name)
    if text then program.write(folder, name, text) end
  end
  return folder
end

---The largest error over the largest magnitude of two tensors of equal size.
---@return number
function families.error(got, wanted)
  got = got:detach():to(wanted:dtype()):reshape(wanted:size())
  return (got - wanted):abs():max():item() / wanted:abs():max():item()
end

---Fails if that error is above a tolerance.
---@param what string
---@param tolerance number
function families.close(what, got, wanted, tolerance)
  local ratio = families.error(got, wanted)
  if not (ratio <= tolerance) then error(("%s: %.3e"):format(what, ratio), 2) end
end

return families
