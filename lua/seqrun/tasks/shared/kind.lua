-- kind.lua - a fine-tuning task from the table that describes it: a file of lua/seqrun/tasks, or a recipe's.
--
--   name, doc     of the task; checkpoints and data sets keep the name
--   example       the words of a command line that trains it, for the list of tasks
--   like          name of a task: what this one does not have is taken from there
--   head          fields and methods of its head: nn/heads/task.lua; or class, the module of one of its own, and
--                 options_of(facts), its options from what a directory says
--   reader        how its files are read: data/readers/init.lua
--   scores        shown: the metrics in their order, take(found, head, hidden, target, batch, loader) what the head
--                 predicts for a micro-batch, score(found, head, loader) their metrics, and details for reports
--   prediction    input: the keys of an item; reads: rows of the target; result(item, predictor); sequences, outputs
--                 where an item is not one text or pair; chain(head, decode): what decodes tags; submission: what
--                 --submission writes
--   column        of the data set that decides the number of outputs; classes: they are classes, numbered from 0
--   target        of the loader; whole: examples belong together, so none are held out of the training data
--   refuses       why its examples cannot follow a curriculum: { length =, pieces =, metrics = } of reasons
--   settings      defaults of config keys; keys, rules: config keys of its own, or keys, the module that has both
--
-- Any method of tasks/shared/finetuning.lua may be a field, too.  What only models need (these methods, the class of
-- the head, the config keys) is loaded on first use: reading files does without.

local check = require("seqrun.base.check")
local kinds = require("seqrun.base.kinds")
local names = require("seqrun.base.names")
local strict = require("seqrun.base.strict")

local PARTS = { "head", "reader", "scores", "prediction" }

---The fields of a part, with those of the task that it is like for what it lacks.
local function merged(own, like)
  local fields = {}
  for key, value in pairs(like or {}) do fields[key] = value end
  for key, value in pairs(own or {}) do fields[key] = value end
  return fields
end

---Whether a head computes something else than the class of Transformers would.
local function differs(head)
  return head.layer or head.place or head.outputs or head.pooler ~= nil or head.logits or head.architecture
end

---The fields of a head.  Where its outputs are others, it is no longer that class of Transformers.
local function head_fields(spec, like)
  local fields = merged(spec.head, like and like.head_fields)
  if like and spec.head and differs(spec.head) then
    fields.architecture, fields.problem_type = spec.head.architecture, spec.head.problem_type
  end
  if like then fields.is_default = nil end
  if spec.head and spec.head.pooler ~= nil and not spec.head.place then fields.place = nil end
  fields.kind = spec.name
  return fields
end

---Keys of the config: those of fine-tuning, which task it is, and its own.
local function keys_of(spec)
  local finetuning_keys, config = require("seqrun.tasks.shared.finetuning_keys"), require("seqrun.config")
  local keys = table.move(finetuning_keys.keys, 1, #finetuning_keys.keys, 1, {})
  local example = spec.example and ("; for example: task=%s %s"):format(spec.name, spec.example) or ""
  keys[#keys + 1] = { "task", config.string { default = spec.name, doc = "kind of task; " .. spec.doc .. example } }
  local own = type(spec.keys) == "string" and require(spec.keys) or spec
  keys = config.merge(config.map(keys), config.map(own.keys or {})).fields
  local rules = table.move(finetuning_keys.rules, 1, #finetuning_keys.rules, 1, {})
  table.move(own.rules or {}, 1, #(own.rules or {}), #rules + 1, rules)
  return { keys = keys, rules = rules, without = finetuning_keys.without }
end

local KEYS = { keys = true, rules = true, without = true }

---The class of the head, config keys, and the methods that all tasks share.
---@param like? seqrun.FinetuningTask the task whose head this one has
local function fields_of_training(spec, like)
  local keys
  return {
    __index = function(task, name)
      if name == "head_class" then
        local own = task.head_fields.class -- the module of a head that is not a linear layer
        task.head_class = own and require(own) or like and like.head_class
          or require("seqrun.nn.heads.task").class(task.head_fields)
        return task.head_class
      end
      if not KEYS[name] then return require("seqrun.tasks.shared.finetuning")[name] end
      keys = keys or keys_of(spec)
      return keys[name]
    end,
  }
end

---Fields of a task, beside the methods that it may replace.
local FIELDS = "name doc example like column classes target whole refuses settings keys rules head reader scores "
  .. "prediction"

---Fails at names that are similar to those of fields: they would replace nothing.
local function check_names(spec, like)
  local fields = names.of(require("seqrun.tasks.shared.finetuning"))
  for name in FIELDS:gmatch("%S+") do fields[#fields + 1] = name end
  strict.check_names("tasks.register: a task", spec, fields)
  for _, part in ipairs(PARTS) do
    strict.check_names("tasks.register: " .. part, spec[part] or {}, names.of(like[part] or like.head_class))
  end
end

local function check_spec(spec, like)
  check.value("tasks.register: a task", spec, "table")
  for _, key in ipairs { "name", "doc" } do
    if type(spec[key]) ~= "string" then check.fail("tasks.register: a task needs %s, a text", key) end
  end
  if not spec.name:find("^%l[%w_]*$") then
    check.fail("tasks.register: the name '%s' must be letters, digits and '_'", spec.name)
  end
  for _, key in ipairs(PARTS) do
    if spec[key] ~= nil and type(spec[key]) ~= "table" or not spec[key] and not like then
      check.fail("tasks.register: task '%s' needs %s, a table, or like = the name of a task that has it", spec.name,
        key)
    end
  end
end

---@param spec table
---@param ships? boolean
---@return seqrun.FinetuningTask
return function(spec, ships)
  local like, problem
  if type(spec) == "table" and spec.like then
    like, problem = kinds.find(spec.like)
    if not like then check.fail("tasks.register: %s", problem) end
  end
  check_spec(spec, like)
  if like and not ships then check_names(spec, like) end
  local task, own = merged(spec, like), false
  task.head, task.head_class, task.keys, task.rules = nil, nil, nil, nil
  for _, part in ipairs(PARTS) do own = own or spec[part] ~= nil end
  task.kind = own and spec.name or like.kind
  for _, part in ipairs { "reader", "scores", "prediction" } do task[part] = merged(spec[part], like and like[part]) end
  task.head_fields = head_fields(spec, like)
  task.reader.whole = task.whole
  task.settings = merged(spec.settings, like and like.settings)
  setmetatable(task, fields_of_training(spec, not own and like or nil))
  kinds.add(task)
  return task
end
