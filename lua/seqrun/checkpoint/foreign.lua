-- foreign.lua - what export and import share: the tensors and the small files of a directory, whoever wrote it; raises
-- failures.

local configs = require("seqrun.nn.config")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local model = require("seqrun.checkpoint.model")
local moments = require("seqrun.checkpoint.moments")
local names = require("seqrun.checkpoint.names")
local nn_parameters = require("seqrun.nn.parameters")
local sentences = require("seqrun.checkpoint.sentences")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local foreign = {}

---Adds the keys that Transformers has today to a config.
local function today(config, facts)
  local family = facts.family
  config.model_type, config.auto_map = family.name, nil
  local more = family.write and family.write((configs.whole(facts.config, 0))) or {}
  for key, value in pairs(facts.config) do
    if config[key] == nil then config[key] = value end -- under today's name
  end
  for key, value in pairs(more) do config[key] = value end
  local class = type(config.architectures) == "table" and tostring(config.architectures[1])
  local rest = class and (class:match("For%u%w+$") or class:match("LMHeadModel$") or class:match("Model$"))
  if rest then config.architectures = json.array { family.class .. rest } end
  return config
end

---Leaves out what repeats other tensors; where only the repetition is there, it is the tensor itself.
local function drop_repeated(tensors, left_out, repeated)
  for name, owner in pairs(repeated) do
    if tensors[name] and tensors[owner] then
      left_out[#left_out + 1] = { name = name, reason = "tied to " .. owner }
    elseif tensors[name] then
      tensors[owner] = tensors[name]
    end
    tensors[name] = nil
  end
end

---The tensors that files of a family hold the other way round, by name.
local function transposed(facts)
  local set = {}
  for _, spec in ipairs(nn_parameters.list(facts.design, facts.family.names, facts.family.prefix, false)) do
    set[spec.name] = spec.transposed
  end
  return set
end

---Replaces tensors by their moving average, which has the shapes of the model.
---@param stored table<string, string> names of `tensors` by those in the files
local function load_average(facts, tensors, stored)
  local weights, turned = {}, transposed(facts)
  local function turn(name) return turned[name] and tensors[name]:transpose(1, 2):contiguous() or tensors[name] end
  for from, name in pairs(stored) do
    tensors[name] = turn(name)
    weights[from] = { tensor = tensors[name] }
  end
  local ok, message, code = moments.load_average(facts.path, weights)
  for _, name in pairs(stored) do tensors[name] = turn(name) end
  failure.must(ok, message, code)
end

---The tensors of a directory by the names that our checkpoints have, as f32 on the current device, and those left out:
---buffers, and repetitions of other tensors.
---@param facts seqrun.Pretrained
---@param average? boolean the moving average of the weights
---@return table<string, seqrun.Tensor> tensors
---@return { name: string, reason: string }[] left_out
function foreign.tensors(facts, average)
  local tensors, left_out, stored = {}, {}, {}
  for _, file_path in ipairs(model.files(facts.path)) do
    local file <close> = failure.must(train.safetensors(file_path))
    for _, entry in ipairs(file:entries()) do
      local name = names.canonical(model.whole_name(facts.path, file_path, entry.name), facts.family)
      local why = names.why_ignored(name, {})
      if why or tensors[name] then
        left_out[#left_out + 1] = { name = entry.name, reason = why or "duplicate name" }
      else
        tensors[name], stored[entry.name] = failure.must(file:read(entry.name, "f32")), name
      end
    end
  end
  if average then load_average(facts, tensors, stored) end
  drop_repeated(tensors, left_out, names.repeated(facts.family, facts.family_heads))
  table.sort(left_out, function(a, b) return a.name < b.name end)
  return tensors, left_out
end

---The files of sentence-transformers that a directory has, which say how vectors are made.
---@param folder string
---@return table<string, string> # texts by name
function foreign.sentence_files(folder)
  local files = {}
  for _, name in ipairs(sentences.names(folder)) do
    files[name] = failure.there(sys.read_file(folder .. "/" .. name, 1 << 20))
  end
  return files
end

---config.json with the nulls that it has; keys of other ages, and other names of the family, as Transformers has them
---today.
---@param facts seqrun.Pretrained
---@return table
function foreign.config(facts)
  local config, message = json.decode(failure.must(sys.read_file(facts.path .. "/config.json", 1 << 20)))
  if type(config) == "table" then return today(config, facts) end
  failure.raise("data", "%s/config.json: %s", facts.path, message or "not an object")
end

---Names and shapes, sorted by name.
---@param tensors table<string, seqrun.Tensor>
---@return { name: string, dtype: string, shape: integer[] }[] list
---@return integer parameters
function foreign.list(tensors)
  local list, parameters = json.array(), 0
  for name, tensor in pairs(tensors) do
    list[#list + 1] = { name = name, dtype = tensor:dtype(), shape = json.array(tensor:shape()) }
    parameters = parameters + tensor:numel()
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list, parameters
end

return foreign
