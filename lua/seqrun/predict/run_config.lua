-- run_config.lua - the config of the run that made a checkpoint, for reading other files as it read its own.

local config = require("seqrun.config")
local failure = require("seqrun.base.failure")
local kinds = require("seqrun.base.kinds")
local schema = require("seqrun.keys")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")
local tasks = require("seqrun.tasks")

local run_config = {}

---Splits words into files and KEY=VALUE.
---@param words string[]
---@return string[] files
---@return string[] arguments
function run_config.split(words)
  local files, arguments = {}, {}
  for _, word in ipairs(words) do
    local list = word:find("^%l[%w_.]*=") and not shipped.seen(word) and arguments or files
    list[#list + 1] = word
  end
  return files, arguments
end

---The values of the config with changes; those of another checkpoint are the defaults.  Of a recipe with other keys
---than the task of the head has, such as one of pretraining with two heads of its own, the shared ones are taken.
---@param facts seqrun.Pretrained with a task
---@param arguments string[] KEY=VALUE
---@return table cfg
---@return boolean own whether there is such a config
function run_config.load(facts, arguments)
  local keys, rules = schema(tasks[facts.kind])
  local words = {
    "data.train=files", "data.dev=none", "data.folds=none", "data.fold=none", "init.from=model",
    "curriculum.length=none",
  }
  local file = facts.path .. "/trainer/config.yaml"
  local own = sys.exists(file)
  local foreign = own
    and not failure.valid(config.load { schema = keys, rules = rules, file = file, arguments = words })
  if facts.kind == "embed" and not own then words[#words + 1] = "embed.prompts=true" end
  if not own then -- texts as long as the model and its tokenizer allow, and windows of that
    local longest = math.max(8, math.min(facts.max_len or 65535, facts.design.longest, 65535))
    local sizes = { max_len = longest, query = math.min(64, longest // 2), stride = math.min(128, longest // 3) }
    for key, size in pairs(sizes) do words[#words + 1] = ("data.%s=%d"):format(key, size) end
  end
  table.move(arguments, 1, #arguments, #words + 1, words)
  local cfg = failure.must(config.load {
    schema = keys, rules = not foreign and rules or nil, foreign = foreign, file = own and file or nil,
    arguments = words,
  }).values
  cfg.init.from, cfg.init.heads = facts.path, "load"
  return cfg, own
end

---How the run that trained a model for a task reads its texts: its keys data.*.
---@param facts seqrun.Pretrained
---@param arguments? string[] KEY=VALUE
---@return table
function run_config.reading(facts, arguments)
  local cfg = kinds.get(facts.kind) and failure.attempt(run_config.load, facts, arguments or {})
  return cfg and cfg.data or {}
end

return run_config
