-- bert.lua - a BERT from a directory: its config, a head for its task, its weights.
--
--     local bert, facts = sr.must(sr.nn.pretrained("runs/classify"))
--     local encoder = sr.must(sr.nn.pretrained("minilm", { heads = {} }))

local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local counted = require("seqrun.base.format").counted
local kinds = require("seqrun.base.kinds")
local nn = require("seqrun.nn")
local output = require("seqrun.base.output")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local OPTIONS = { heads = true, precision = true, seed = true, average = true }

---Adds the options that only this kind of head has; older checkpoints of ours lack them.
local function add_kept(options, kept, facts, given)
  local own = facts.task_heads and given or given.own
  for name, older in pairs(kept or {}) do
    local value = type(own) == "table" and own[name]
    if value and type(value) ~= type(older) then
      return ("%s/config.json: '%s' of its head is a %s, not a %s"):format(facts.path, name, type(value), type(older))
    end
    options[name] = value or sys.exists(facts.path .. "/MANIFEST") and older or nil
  end
end

---The heads that a directory has; nil and a message if the task of one is not known.
local function heads_of(facts)
  if not facts.kind then return facts.heads end
  local heads = {}
  for i, given in ipairs(facts.task_heads or { facts }) do
    local kind, problem = kinds.find(given.kind)
    if not kind then
      return nil, ("%s: %s; if it is a task of your own, name its file with --task FILE, or register it first"):format(
        facts.path, problem)
    end
    if facts.activation and facts.activation ~= (kind.prediction or {}).activation then
      return nil, ("%s: its activation_fn is %s, which the outputs of task=%s cannot have; remove the key if scores "
        .. "without it will do"):format(facts.path, facts.activation, given.kind)
    end
    local fewest, count = (kind.head_fields or {}).fewest, given.labels and #given.labels or given.outputs
    if fewest and count and count < fewest then
      return nil, ("%s/config.json: the task %s needs at least %d %s, but its head has %d; if it predicts a number, "
        .. "set problem_type to 'regression' there"):format(facts.path, given.kind, fewest, kind.head_fields.counts,
        count)
    end
    local options = kind.options_of and kind.options_of(facts) or {
      labels = given.labels, outputs = not given.labels and given.outputs or nil, name = given.name,
      prefix = given.prefix,
    }
    problem = add_kept(options, kind.head_fields and kind.head_fields.kept, facts, given)
    if problem then return nil, problem end
    heads[i] = kind.head_class.new(options)
  end
  return heads
end

---Gives heads their temperature and thresholds, which are of the weights, not of their average; says what does not fit.
local function add_decide(facts, heads, average)
  if average and next(facts.decide) then
    output.note("temperature and thresholds of %s are those of its weights, not of their average: unused", facts.path)
  end
  for _, head in ipairs(heads) do
    local decide = not average and facts.decide[head.name] or nil
    local count, kind = decide and #(decide.thresholds or {}) or 0, decide and kinds.get(head.kind or "")
    local by = kind and (kind.scores or {}).decides
    if count > 0 and count ~= (by == "labels" and head.outputs or by and head.outputs == 2 and 1) then
      return ("%s: '%s' has %s for %d outputs; remove it (decide.json, or seqrun_decide in config.json), and fit "
        .. "again"):format(facts.path, head.name, counted(count, "threshold"), head.outputs or 0)
    end
    head.decide = decide
  end
end

local function is_finite(x)
  local sum = x:sum():item()
  return sum - sum == 0
end

---The first parameter that contains NaN or infinity; nil if none does.
local function broken(params)
  local scope <close> = tensor.scope()
  if is_finite(params.core:value()) then return nil end
  for _, name in ipairs(params:names()) do
    if not is_finite(params:master(name):detach()) then return name end
  end
end

---A model with the weights of a run, a checkpoint or a Hugging Face directory.  `heads` replaces those of the directory
---({}: none); parameters that it lacks are initialised with `seed` (default 0).  `average`: the weights are the moving
---average that the checkpoint has.
---@param path string
---@param options? { heads?: table, precision?: "f32"|"bf16", seed?: integer, average?: boolean }
---@return seqrun.Bert|nil
---@return seqrun.Pretrained|string facts or the message
---@return seqrun.LoadReport|string|nil report or the code
return function(path, options)
  options = check.options("nn.pretrained", options, OPTIONS)
  if options.precision ~= nil then check.choice("nn.pretrained: precision", options.precision, { "f32", "bf16" }) end
  local facts, message, code = checkpoint.pretrained(path)
  if not facts then return nil, message, code end
  if facts.oversized then return nil, facts.oversized, "data" end
  local heads, problem = options.heads, nil
  if not heads then heads, problem = heads_of(facts) end
  if not heads then return nil, problem, "data" end
  local config = { heads = heads, precision = options.precision }
  for key, value in pairs(facts.config) do config[key] = value end
  local bert = nn.bert(config)
  for _, head in ipairs(bert.heads) do head.activation = facts.activation end
  local unfit = not options.heads and add_decide(facts, bert.heads, options.average)
  if unfit then return nil, unfit, "data" end
  local loaded
  loaded, message, code = checkpoint.load(facts.path, {
    model = bert.params, seed = options.seed or 0, average = options.average,
  })
  if not loaded then return nil, message, code end
  local name = broken(bert.params)
  if name then
    return nil, ("%s: the weights contain NaN or infinity, first in '%s'; use an earlier checkpoint"):format(
      loaded.path, name), "data"
  end
  return bert, facts, loaded.report
end
