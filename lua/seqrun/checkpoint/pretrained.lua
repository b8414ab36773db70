-- pretrained.lua - what a Hugging Face directory holds: the encoder's config, the task, the labels, the tokenizer.
--
-- Directories of Transformers 4 and 5, of sentence-transformers, and our own checkpoints and runs.

local counted = require("seqrun.base.format").counted
local configs = require("seqrun.nn.config")
local contents = require("seqrun.checkpoint.contents")
local decided = require("seqrun.checkpoint.decided")
local directory = require("seqrun.checkpoint.directory")
local extent = require("seqrun.checkpoint.extent")
local failure = require("seqrun.base.failure")
local kind_of = require("seqrun.nn.kind_of")
local kinds = require("seqrun.base.kinds")
local loading = require("seqrun.checkpoint.loading")
local model = require("seqrun.checkpoint.model")
local names = require("seqrun.checkpoint.names")
local sentences = require("seqrun.checkpoint.sentences")
local sys = require("seqrun.core.sys")
local stored = require("seqrun.text.stored")
local train = require("seqrun.core.train")

local pretrained = {}

---@class seqrun.Pretrained
---@field path string
---@field config table keys for sr.nn.bert and sr.nn.encoder
---@field family seqrun.Family
---@field design seqrun.Design of its encoder
---@field family_heads seqrun.FamilyHeads
---@field architecture string|nil class of Transformers
---@field heads string[] pretraining heads: "mlm", "nsp", "causal"
---@field task_heads? table[] several heads of tasks: { kind, name, prefix, labels or outputs }
---@field kind? string task of its head, such as "classify"
---@field labels? string[] names of the classes, in the order of their ids, from 0; nil if they have none
---@field outputs? integer of the head
---@field own? table options that only the kind of its head has
---@field max_len? integer of sentence-transformers: longer texts are truncated
---@field sentences seqrun.Sentences how sentence-transformers makes vectors with it
---@field tokenizer? seqrun.text.Stored
---@field decide table<string, seqrun.Decide> temperature and thresholds, by the name of a head
---@field activation? string what a cross-encoder of sentence-transformers makes of its outputs: "Sigmoid"
---@field oversized? string why no model is to be made: its config describes far more than the tensors are

---Pretraining heads by what a class of Transformers is for.
local HEADS = {
  PreTraining = { "mlm", "nsp" }, MaskedLM = { "mlm" }, NextSentencePrediction = { "nsp" }, CausalLM = { "causal" },
  LMHeadModel = { "causal" },
}

---The pretraining heads of a class, as far as the family has them.
local function pretraining_heads(architecture, family_heads)
  local class = architecture or ""
  local wanted, heads = HEADS[class:match("For(%u%w+)$") or class:match("LMHeadModel$")] or {}, {}
  if #wanted == 2 and family_heads.without_mlm then return {} end -- an ELECTRA discriminator
  for _, name in ipairs(wanted) do
    if family_heads[name] then heads[#heads + 1] = name end
  end
  return heads
end

---Whether these are the names that Transformers gives to classes without names.
local function are_defaults(labels)
  for i, name in ipairs(labels) do
    if name ~= ("LABEL_%d"):format(i - 1) then return false end
  end
  return true
end

---The names of id2label in the order of their ids; nil with a message if an id is missing.
local function labels_of(config)
  if type(config.id2label) ~= "table" then return nil end
  local labels, count, seen = {}, 0, {}
  for id, name in pairs(config.id2label) do
    id = math.tointeger(tonumber(id))
    if not id or type(name) ~= "string" and math.type(name) ~= "integer" then
      return nil, "id2label is not a table of names by id"
    end
    if seen[name] then return nil, ("id2label has the name '%s' twice; give each class its own"):format(name) end
    labels[id + 1], count, seen[name] = tostring(name), count + 1, true
  end
  if #labels ~= count then return nil, "id2label does not number its classes from 0 to " .. count - 1 end
  return labels
end

---Several heads, as our own checkpoints describe them.
local function add_heads(facts, config)
  facts.task_heads = config.seqrun_heads
  for i, head in ipairs(facts.task_heads) do
    if type(head) ~= "table" or type(head.kind) ~= "string" or type(head.name) ~= "string" then
      return nil, ("seqrun_heads[%d] is not { kind, name, ... }"):format(i)
    end
  end
  local first = facts.task_heads[1]
  facts.kind, facts.labels, facts.outputs = first.kind, first.labels, first.outputs
  return true
end

---The task of a config, with its labels or the number of its outputs.
local function add_task(facts, config)
  local architecture = type(config.architectures) == "table" and config.architectures[1]
  architecture = type(architecture) == "string" and architecture or nil
  facts.architecture = architecture
  facts.heads = pretraining_heads(architecture, facts.family_heads)
  if type(config.seqrun_heads) == "table" and #config.seqrun_heads > 0 then return add_heads(facts, config) end
  local labels, problem = labels_of(config)
  if problem then labels = nil end
  local count = labels and #labels or math.tointeger(config.num_labels) or 2
  local kind = kind_of(architecture, config.problem_type, count)
  if not kind then return true end
  if problem then return nil, problem end
  local head = kinds.get(kind).head_fields
  facts.kind, facts.outputs, facts.own = kind, head.outputs or count, config.seqrun_head
  if head.counts and head.counts ~= "values" and labels and not are_defaults(labels) then facts.labels = labels end
  return true
end

---The activation of a cross-encoder, where it has one: of today's file, of the key before, of the one before that.
local function activation_of(theirs, config)
  local older = type(config.sentence_transformers) == "table" and config.sentence_transformers.activation_fn
  local given = theirs.activation or older or config.sbert_ce_default_activation_function
  local name = type(given) == "string" and given:match("[^.]*$")
  return name ~= "Identity" and name or nil
end

---The tensors of a directory, of which only the headers are read.
local function entries_of(folder)
  local list = {}
  for _, path in ipairs(model.files(folder)) do
    local file <close> = failure.must(train.safetensors(path))
    local entries = file:entries()
    table.move(entries, 1, #entries, #list + 1, list)
  end
  return list
end

---Why the config describes far more than the tensors are; nil if it does not.
local function oversized(facts, entries)
  local elements = 0
  for _, entry in ipairs(entries) do elements = elements + entry.count end
  return extent.problem(facts, elements)
end

---The pretraining heads whose tensors are there, beside heads that only their recipe knows.
local function heads_of_tensors(facts, entries)
  local has, heads = {}, {}
  for _, entry in ipairs(entries) do has[names.canonical(entry.name, facts.family)] = true end
  local mlm, nsp = facts.family_heads.mlm, facts.family_heads.nsp
  if mlm and has[mlm.dense and mlm.dense .. ".weight" or mlm.weight or mlm.bias] then heads[1] = "mlm" end
  if nsp and has[nsp .. ".weight"] then heads[#heads + 1] = "nsp" end
  local causal = facts.family_heads.causal
  if causal and causal.weight and has[causal.weight] then heads[#heads + 1] = "causal" end
  return heads
end

---Positions that a model has at least: fewer are a mistake in its config.
local SHORTEST = 8

---Adds the family of a config, its encoder's config and design, and its heads.
local function add_family(facts, config)
  local encoder, problem = configs.encoder(config)
  if not encoder then return nil, problem end
  facts.config = encoder
  facts.design, facts.family, facts.family_heads = configs.design(encoder)
  if facts.design.longest < SHORTEST then
    return nil, ("the model would read at most %s; correct its number of positions"):format(counted(
      facts.design.longest, "token"))
  end
  return true
end

---The task of a config.json: { kind, labels, outputs, heads }.
---@param config table
---@return table|nil
---@return string? problem
function pretrained.task(config)
  local facts = {}
  local good, problem = add_family(facts, config)
  if good then good, problem = add_task(facts, config) end
  return good and facts or nil, problem
end

local function read(path)
  local folder = failure.must(directory.resolve(path))
  if not sys.is_dir(folder) then
    failure.raise("data", "%s is a file; expected a directory with config.json", path)
  end
  local config = failure.must(loading.config(folder))
  local facts = { path = folder, sentences = sentences.read(folder) }
  facts.decide = decided.read(folder, config)
  facts.max_len, facts.activation = facts.sentences.max_len, activation_of(facts.sentences, config)
  local good, problem = add_family(facts, config)
  if good then good, problem = add_task(facts, config) end
  if not good then failure.raise("data", "%s/config.json: %s", folder, problem) end
  local entries = entries_of(folder)
  problem = oversized(facts, entries)
  facts.oversized = problem and ("%s/config.json: %s"):format(folder, problem) or nil
  if not facts.kind and #facts.heads == 0 then facts.heads = heads_of_tensors(facts, entries) end
  if not facts.kind and #facts.heads == 0 and facts.sentences.normalise ~= nil and not facts.sentences.problem then
    facts.kind, facts.outputs = "embed", 1 -- modules.json says how its vectors are made
  end
  facts.tokenizer = failure.there(stored.read(folder))
  contents(facts)
  return facts
end

---Reads what is in a run's directory, a checkpoint or a Hugging Face directory; of tensors only the names.
---@param path string
---@return seqrun.Pretrained|nil
---@return string? message
---@return string? code
function pretrained.read(path) return failure.returned(read, path) end

return pretrained
