-- exporting.lua - a checkpoint as a directory for Hugging Face's libraries, without what only a resume needs.

local card = require("seqrun.checkpoint.card")
local draft_of = require("seqrun.base.draft")
local failure = require("seqrun.base.failure")
local foreign = require("seqrun.checkpoint.foreign")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local pretrained = require("seqrun.checkpoint.pretrained")
local pretty = require("seqrun.base.pretty_json")
local sorted = require("seqrun.base.sorted")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")
local tensor_file = require("seqrun.checkpoint.tensor_file")
local tokenizer = require("seqrun.checkpoint.tokenizer")

---Keys of config.json that belong to heads.
local OF_HEADS = {
  "id2label", "label2id", "problem_type", "num_labels", "seqrun_head", "seqrun_heads", "seqrun_decide",
  "classifier_dropout",
}

---Leaves the encoder: names without `bert.`, and the config of BertModel, or as the family has them.
local function strip(tensors, config, family)
  local own, length = {}, #family.prefix
  local left = family.bare_pooler == false and family.names.pooler
  for name, tensor in pairs(tensors) do
    local rest = name:sub(length + 1)
    local wanted = name:sub(1, length) == family.prefix and not (left and rest:sub(1, #left + 1) == left .. ".")
    if wanted then own[rest] = tensor end
  end
  for _, key in ipairs(OF_HEADS) do config[key] = nil end
  config.architectures = json.array { family.class .. "Model" }
  return own
end

---Leaves one of several networks: its tensors under the names of its class, and its config.
local function choose_network(tensors, config, wanted)
  local networks = config.seqrun_networks
  config.seqrun_networks = nil
  if not networks and not wanted then return tensors, config end
  local names = {}
  for name, one in pairs(networks or {}) do
    if type(one) == "table" then names[#names + 1] = name end
  end
  table.sort(names)
  local one = networks and networks[wanted or networks.main]
  if type(one) ~= "table" then
    failure.raise("config", "%s", #names == 0 and "export: it has one network; leave out --network"
      or ("export: unknown network '%s'; choose %s"):format(wanted, table.concat(names, " or ")))
  end
  local own = {}
  for name, tensor in pairs(tensors) do
    for start, becomes in pairs(one.takes) do
      if name:sub(1, #start) == start then own[becomes .. name:sub(#start + 1)] = tensor end
    end
  end
  return own, one.config or config
end

local DTYPES = { f32 = "float32", bf16 = "bfloat16" }

local function convert(tensors, dtype)
  if dtype == "f32" then return tensors end
  local own = {}
  for name, tensor in pairs(tensors) do own[name] = tensor:to(dtype):contiguous() end
  return own
end

---The roles of special tokens whose ids a config.json may have.
local ROLE_OF = { cls = "cls", sep = "sep", bos = "cls", eos = "sep", mask = "mask" }

---The texts of the files beside the weights.
local function texts_of(facts, config)
  local files = foreign.sentence_files(facts.path)
  if facts.tokenizer then
    local opened = failure.must(tokenizer.open(facts))
    for _, name in ipairs(facts.family.token_ids or {}) do
      config[name .. "_token_id"] = opened:special(ROLE_OF[name]) or json.null
    end
    local own = tokenizer.files(stored.of(opened), { config = config, complete = true })
    for name, text in pairs(own) do files[name] = text end
  end
  files["config.json"] = pretty.encode(config)
  return files
end

---Fails where a directory may not be written.
local function check_free(out, replace)
  local function refuse(text) failure.raise("config", text, out) end
  if out == "" then refuse("export: the name of the directory is empty") end
  if not sys.exists(out) then return end
  if not sys.is_dir(out) then refuse("%s is not a directory; choose another name") end
  if #failure.must(sys.list(out)) == 0 then return end
  if not replace then refuse("%s is not empty; choose another directory, or replace it with --force") end
  if not sys.exists(out .. "/config.json") or sys.exists(out .. "/MANIFEST") then
    refuse("%s is not an exported model; --force replaces only these")
  end
end

local NO_EXPERTS = "export: %s has experts, which Transformers does not support in its family; use it with `seqrun "
  .. "fill`, `encode`, `predict` and `eval`"

---Why Transformers could not load a model with its head; nil if it can.
local function no_class(facts)
  local head = facts.kind and not (facts.task_heads and #facts.task_heads > 1) and kinds.get(facts.kind)
  local fields = head and head.head_fields
  if not fields or not fields.architecture or not fields.place or facts.family_heads[fields.place] then return nil end
  return ("export: Transformers has no %sFor%s; `seqrun predict` and `seqrun eval` use %s as it is, and --encoder "
    .. "exports it without its head"):format(facts.family.class, fields.architecture, facts.path)
end

---The heads of tasks that the class of Transformers does not load; nil without such heads.
local function names_beside(facts, encoder)
  local heads = not encoder and facts.task_heads or {}
  if #heads < 2 then return nil end
  local names = json.array()
  for i, head in ipairs(heads) do names[i] = head.name end
  return names
end

---Takes those whose names match from the tensors, by what the pattern captures of their names.
local function take(tensors, pattern)
  local own = {}
  for name, tensor in pairs(tensors) do
    local short = name:match(pattern)
    if short then own[short], tensors[name] = tensor, nil end
  end
  return own
end

local function write_draft(draft, files, weights)
  failure.must(sys.make_dirs(draft))
  for name, text in pairs(files) do
    local folder = name:match("^(.+)/")
    if folder then failure.must(sys.make_dirs(draft .. "/" .. folder)) end
    failure.must(sys.write_file(draft .. "/" .. name, text))
  end
  for name, tensors in pairs(weights) do failure.must(tensor_file.write(draft .. "/" .. name, tensors)) end
  failure.must(sys.sync_dir(draft))
end

---Writes all into a new directory beside the final one, and moves it there.
local function write(out, files, weights)
  local draft = draft_of(out)
  if sys.exists(draft) then sys.remove(draft) end
  local ok, problem = pcall(write_draft, draft, files, weights)
  if ok then
    if sys.exists(out) then sys.remove(out) end
    ok, problem = os.rename(draft, out)
    problem = problem and failure.new("storage", problem .. "; another program may have written it meanwhile")
  end
  if not ok then
    sys.remove(draft)
    error(problem, 0)
  end
  sys.sync_dir(out:match("^(.+)/[^/]+$") or ".")
end

---@class seqrun.Exported
---@field from string the checkpoint
---@field path string
---@field architecture string class of Transformers
---@field dtype string
---@field parameters integer
---@field bytes integer of the weights
---@field tensors { name: string, dtype: string, shape: integer[] }[]
---@field files string[]
---@field left_out { name: string, reason: string }[] tensors that repeat others
---@field heads? string[] several heads of tasks: they are in the files, but Transformers has no class for them

local function export(path, out, options)
  check_free(out, options.replace)
  local facts = failure.must(pretrained.read(path))
  local why = facts.design.experts and NO_EXPERTS:format(facts.path) or not options.encoder and no_class(facts)
  if why then failure.raise("config", "%s", why) end
  local tensors, left_out = foreign.tensors(facts, options.average)
  local config
  tensors, config = choose_network(tensors, foreign.config(facts), options.network)
  if next(facts.decide) then config.seqrun_decide = not options.average and facts.decide or nil end
  local dtype = options.dtype or "f32"
  local dense = take(tensors, "^2_Dense%.(.+)$") -- sentence-transformers has this layer in a file of its own
  if options.encoder or facts.kind == "embed" then tensors = strip(tensors, config, facts.family) end
  config.dtype, config.torch_dtype = DTYPES[dtype], DTYPES[dtype]
  local crf = take(tensors, "^(.*crf%.[%l_]*transitions)$") -- no class of Transformers has them
  local files, weights = texts_of(facts, config), { ["model.safetensors"] = convert(tensors, dtype) }
  if next(dense) then
    weights[(facts.sentences.dense or { path = "2_Dense" }).path .. "/model.safetensors"] = convert(dense, dtype)
  end
  if next(crf) then weights["crf.safetensors"] = crf end
  local list, parameters = foreign.list(weights["model.safetensors"])
  local classes = type(config.architectures) == "table" and config.architectures or {}
  local architecture = classes[1] or facts.family.class .. "Model"
  files["README.md"] = card.text(facts, {
    out = out, architecture = architecture, parameters = parameters, dtype = dtype, sentences = files["modules.json"],
    part = options.encoder or options.network, average = options.average, language = options.language,
    license = options.license, crf = next(crf) ~= nil,
  })
  write(out, files, weights)
  for name in pairs(weights) do files[name] = true end
  return {
    from = facts.path, path = out, dtype = dtype, parameters = parameters, tensors = list,
    files = json.array(sorted(files)),
    architecture = architecture, left_out = json.array(left_out),
    bytes = failure.must(sys.stat(out .. "/model.safetensors")).size, heads = names_beside(facts, options.encoder),
  }
end

---Writes a run, a checkpoint or a Hugging Face directory as a Hugging Face directory.
---@param path string
---@param out string
---@param options? { encoder?: boolean, dtype?: "f32"|"bf16", replace?: boolean, average?: boolean, network?: string,
---  language?: string, license?: string } encoder: without heads; replace: what is there already, if it is such a
---  directory; average: the moving average of the weights; network: one of several, such as "generator"; language,
---  license: for the model card, such as "en" and "mit"
---@return seqrun.Exported|nil
---@return string? message
---@return string? code
return function(path, out, options)
  options = require("seqrun.base.check").options("checkpoint.export", options, {
    encoder = 1, dtype = 1, replace = 1, average = 1, network = 1, language = 1, license = 1,
  })
  return failure.returned(export, path, (out:gsub("(.)/+$", "%1")), options)
end
