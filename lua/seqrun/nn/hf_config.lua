-- hf_config.lua - config.json of a BERT with heads, such that Transformers loads the model that it equals.

local json = require("seqrun.core.json")
local kind_of = require("seqrun.nn.kind_of")

---The classes of Transformers with these pretraining heads.
local PRETRAINING = {
  ["mlm nsp"] = "PreTraining", mlm = "MaskedLM", nsp = "NextSentencePrediction", causal = "CausalLM",
  ["causal mlm"] = "CausalLM", replaced = "PreTraining", ["mlm replaced"] = "PreTraining",
}

local function names_of(heads)
  local names = {}
  for i, head in ipairs(heads) do names[i] = head.name end
  table.sort(names)
  return table.concat(names, " ")
end

---Adds the labels of a head, which also give Transformers the number of its outputs.
local function add_labels(whole, head)
  whole.id2label, whole.label2id = {}, {}
  for i = 1, head.outputs do
    local label = head.labels and head.labels[i] or ("LABEL_%d"):format(i - 1)
    whole.id2label[tostring(i - 1)], whole.label2id[label] = label, i - 1
  end
end

---The options of a head that only its kind has, added to a table.
local function own_options(head, list)
  for name in pairs(head.kept or {}) do list[name] = head[name] end
  return list
end

---What it takes to make the heads again, in a key of our own; nil if one of them is not of sr.nn.heads.
local function describe(heads)
  local list = json.array()
  for i, head in ipairs(heads) do
    if not head.kind then return nil end
    list[i] = own_options(head, {
      kind = head.kind, name = head.name, prefix = head.prefix or "", outputs = head.outputs,
      labels = head.labels and json.array(table.move(head.labels, 1, #head.labels, 1, {})) or nil,
    })
  end
  return #list > 0 and list or nil
end

---Temperature and thresholds of the heads, in a key of our own; nil without any.
local function decided(heads)
  local list = {}
  for _, head in ipairs(heads) do list[head.name] = head.decide end
  return next(list) and list or nil
end

---One head of a task makes a task model; several, or other heads, make an encoder with further tensors.
---@param bert seqrun.Bert
---@return table
return function(bert)
  local head = bert.heads[1]
  local task = #bert.heads == 1 and head.architecture and (head.prefix or "") == ""
  local pretraining = PRETRAINING[names_of(bert.heads)]
  local family = bert.encoder.family
  local class = pretraining and (family.classes and family.classes[pretraining] or family.class .. "For" .. pretraining)
  local whole = bert.encoder:hf_config(task and head.architecture or class)
  whole.seqrun_decide = decided(bert.heads)
  for _, key in ipairs { "id2label", "label2id", "problem_type", "num_labels" } do whole[key] = nil end
  if not task then
    whole.seqrun_heads = describe(bert.heads)
    return whole
  end
  local own = own_options(head, {})
  whole.problem_type, whole.seqrun_head = head.problem_type or json.null, next(own) and own or nil
  if head.counts then add_labels(whole, head) end
  if kind_of(head.architecture, head.problem_type, head.outputs) ~= head.kind then
    whole.seqrun_heads = describe(bert.heads) -- a task of the user's, which Transformers knows as another
  end
  return whole
end
