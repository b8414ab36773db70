-- finetuning.lua - fine-tuning an encoder for a task: what the tasks share.
--
--     local task = sr.tasks.classify
--     local data = task:data(cfg)                       -- files or data sets, as the config names them
--     local loader, updates = task:loader(cfg, data, "train")
--     local model = sr.nn.bert(task:model_options(cfg, data))
--
-- An update is batch.sequences sequences of the epoch's keyed order, packed inside the update (questions, where
-- examples are the choices of questions).

local checkpoint = require("seqrun.checkpoint")
local class_costs = require("seqrun.tasks.shared.class_costs")
local new_schedules = require("seqrun.tasks.shared.schedules")
local deciding = require("seqrun.tasks.shared.deciding")
local efficiency = require("seqrun.curriculum.keys")
local failure = require("seqrun.base.failure")
local freezing = require("seqrun.tasks.shared.freezing")
local nn = require("seqrun.nn")
local parts = require("seqrun.tasks.shared.parts")
local ranks = require("seqrun.tensor.ranks")
local sr_data = require("seqrun.data")
local tokenizer = require("seqrun.checkpoint.tokenizer")
local training = require("seqrun.tensor.training")
local vocabulary = require("seqrun.checkpoint.vocabulary")

---@class seqrun.FinetuningTask: seqrun.Keys
---@field kind string of its head
---@field column string of the data set that decides the number of outputs
---@field target table|string of the loader
---@field head? seqrun.Head|fun(encoder: seqrun.Encoder): seqrun.Head instead of that of the kind
---@field read_options? fun(self: table, cfg: table, pretrained: seqrun.Pretrained): table further options of the reader
---@field classes? boolean outputs are classes, numbered from 0
---@field whole? boolean examples belong together, so none are held out of the training data
---@field refuses table<string, string> why a curriculum cannot have `length`, `pieces` or `metrics`
local Task = {}

Task.refuses = { pieces = "pieces of an example would all have its label; use truncate" }

---@class seqrun.FinetuningData
---@field train seqrun.Corpus
---@field dev? seqrun.Corpus
---@field dev_part? "train"|"held"
---@field labels? string[]
---@field notes string[] lines about the data
---@field pretrained seqrun.Pretrained

-- ---- data ------------------------------------------------------------------------------------

---Lowers data.max_len to the model's positions, and windows with it; returns a line that says so.
local function fit_length(cfg, pretrained)
  local data, positions = cfg.data, pretrained.design.longest
  if data.max_len <= positions then return nil end
  local note = ("data.max_len: %d instead of %d, since %s has no more position embeddings"):format(positions,
    data.max_len, pretrained.path)
  data.max_len = positions
  if data.query then
    data.query, data.stride = math.min(data.query, positions // 2), math.min(data.stride, positions // 3)
  end
  return note
end

---Labels that the head of init.from brings along.
local function inherited_labels(self, cfg, pretrained)
  local same = pretrained.kind == self.kind and cfg.init.heads == "load"
  return same and not cfg.data.labels and pretrained.labels or nil
end

---Options for sr.data.files.
local function file_options(self, cfg, pretrained)
  local options = {
    task = self.kind, columns = cfg.columns, seed = cfg.seed, labels = inherited_labels(self, cfg, pretrained),
  }
  for key, value in pairs(cfg.data) do
    if key ~= "prefetch" and key ~= "workers" then options[key] = value end
  end
  options.specials = options.specials or nil -- the name of a data set depends on what is not nil
  local run = training.current()
  if self.whole and run and run.without_id then options.held = 0 end -- as the run began
  for key, value in pairs(self.read_options and self:read_options(cfg, pretrained) or {}) do options[key] = value end
  return options
end

---Fails if data.labels has the labels of the head that is loaded, in another order: each class would be another.
local function check_labels(self, cfg, pretrained)
  local given, theirs = cfg.data.labels, pretrained.labels
  if pretrained.kind ~= self.kind or cfg.init.heads ~= "load" or not given or not theirs then return end
  local at, other = {}, nil
  for i, name in ipairs(theirs) do at[name] = i end
  if #given ~= #theirs then return end
  for i, name in ipairs(given) do
    if not at[name] then return end
    other = other or at[name] ~= i and name
  end
  if not other then return end
  failure.raise("config", "data.labels=[%s]: the labels of the model are in another order, [%s]; leave out "
    .. "data.labels, or to train a new head set init.heads=new", table.concat(given, ","), table.concat(theirs, ","))
end

---What is at init.from.
local function pretrained_of(cfg)
  local pretrained, message, code = checkpoint.pretrained(cfg.init.from)
  if not pretrained then
    local way = "; give a run, a checkpoint or a Hugging Face directory (`make demo` trains a small encoder)"
    failure.raise(code, "init.from: %s%s", message, code == "missing" and way or "")
  end
  if pretrained.family.causal then
    failure.raise("config", "init.from: %s is a %s, a causal model, but task heads need tokens that attend to both "
      .. "sides; use a bidirectional one, such as bert or modernbert",
      pretrained.path, pretrained.family.name)
  end
  if pretrained.oversized then failure.raise("data", "init.from: %s", pretrained.oversized) end
  return pretrained
end

---The tokenizer of init.from, which must fit the model.
local function tokenizer_of(pretrained, specials)
  local opened, message, code = tokenizer.open(pretrained, specials)
  if not opened then failure.raise(code, "init.from: %s", message) end
  local problem = vocabulary.too_large(#opened, pretrained.design.vocabulary)
  if problem then failure.raise("data", "init.from: %s: %s", pretrained.path, problem) end
  return opened
end

---Opens the data of a config, reading its files with the tokenizer of init.from.
---@param cfg table
---@return seqrun.FinetuningData
function Task:data(cfg)
  cfg.pack.arrange = cfg.arrange or cfg.pack.arrange
  local pretrained = pretrained_of(cfg)
  check_labels(self, cfg, pretrained)
  local shorter = fit_length(cfg, pretrained)
  local options = file_options(self, cfg, pretrained)
  options.vocab = tokenizer_of(pretrained, cfg.data.specials)
  local data, message, code = ranks.in_turn(function() return sr_data.files(options) end)
  if not data then
    local own = inherited_labels(self, cfg, pretrained) and message:find("label", 1, true)
    local way = own and "; these are the labels of the model: to train a new head, set init.heads=new" or ""
    failure.raise(code, "%s%s", message, way)
  end
  data.pretrained = pretrained
  if shorter then table.insert(data.notes, 1, shorter) end
  local problem = vocabulary.too_small(#options.vocab, pretrained.design.vocabulary)
  if problem then table.insert(data.notes, ("warning: init.from: %s: %s"):format(pretrained.path, problem)) end
  if self.whole and not data.dev and not options.scoring then
    table.insert(data.notes, "dev: none, so nothing is evaluated; data.dev names files, data.held=0.1 holds out a part")
  end
  return data
end

---The targets of a loader, by default with one item per sequence.
---@return table
function Task:targets() return { self.target } end

---Options for sr.data.loader.
---@param cfg table
---@param data seqrun.FinetuningData
---@param part "train"|"dev"
---@return table
function Task:loader_options(cfg, data, part)
  local dev = part == "dev"
  local options = parts.loader_options(cfg, data[part], dev and data.dev_part or "train")
  options.targets = self:targets()
  if data[part]:known("window_share") then table.insert(options.targets, "window_share") end
  options.per_square = 1 / (6 * data.pretrained.design.hidden)
  options.by = dev and "packs" or cfg.batch.by
  if dev then
    options.sequences, options.epochs, options.prefetch = cfg.batch.evaluation, 1, 0
    options.rank, options.ranks, options.weights, options.temperature = nil, nil, nil, nil
  end
  return options
end

---@param cfg table
---@param data seqrun.FinetuningData
---@param part "train"|"dev"
---@param schedules? seqrun.Schedules what decides the updates
---@param counters? fun(): table of the run, for schedules that depend on them
---@return seqrun.Loader
---@return number updates of an epoch, of batch.sequences examples
function Task:loader(cfg, data, part, schedules, counters)
  local options = self:loader_options(cfg, data, part)
  if schedules then schedules:draw(options, counters) end
  local loader = failure.must(sr_data.loader(options))
  return loader, loader:examples() / cfg.batch.sequences
end

-- ---- what changes during a run -----------------------------------------------------------------

---Steps of all epochs; nil where a counter ends the run.
local function steps_of(cfg, updates)
  return cfg.rate.by == "step" and math.max(1, math.ceil(cfg.epochs * updates - 1e-9)) or nil
end

---Refuses a curriculum that the examples of a task cannot follow.
local function check_curriculum(self, group)
  local metric = efficiency.metrics(group)[1]
  local function refuse(key, path)
    if self.refuses[key] then failure.raise("config", "curriculum.%s: %s", path, self.refuses[key]) end
  end
  if group.length then refuse("length", "length") end
  if group.length and group.cut == "pieces" then refuse("pieces", "cut") end
  if metric then refuse("metrics", metric) end
end

---What changes during the run of a config: lengths, examples, kept tokens.
---@param cfg table
---@param data seqrun.FinetuningData
---@return seqrun.Schedules
function Task:schedules(cfg, data)
  check_curriculum(self, cfg.curriculum)
  return new_schedules(cfg, steps_of(cfg, data.train:info().train.units / cfg.batch.sequences))
end

-- ---- model -----------------------------------------------------------------------------------

---Values of an example in a column.
local function size_of(corpus, column)
  local known = corpus:known(column)
  if known then return known.size end
  failure.raise("data", "%s has no column '%s', which the task needs", corpus:info().path, column)
end

---Classes of a column without names: the largest label and those below it.
local function classes_of(corpus, column)
  local most, per_token = 1, (corpus:known(column) or {}).per == "token"
  for i = 1, corpus:info().examples do
    local value = failure.must(corpus:column(column, i))
    for _, label in ipairs(per_token and value or { value }) do most = math.max(most, label) end
  end
  return math.tointeger(most) + 1
end

---The options of the head: its labels, or the number of outputs.
---@param data seqrun.FinetuningData
---@return seqrun.HeadOptions
function Task:head_options(data)
  if not self.column then return {} end
  if self.classes then
    if data.labels then return { labels = data.labels } end
    return { outputs = classes_of(data.train, self.column) }
  end
  local size = size_of(data.train, self.column)
  return data.labels and #data.labels == size and { labels = data.labels } or { outputs = size }
end

---Refuses keys of other families, and values that the family does not have.
local function check_model_keys(model, family)
  local names = {}
  for key in pairs(model) do
    local rule = family.keys[key]
    if key ~= "recompute" and key ~= "classifier_dropout" and not rule then names[#names + 1] = "model." .. key end
    if rule and rule.names and rule:fault(model[key]) then
      failure.raise("config", "model.%s is '%s'; with %s choose %s", key, model[key], family.name,
        table.concat(rule.names, ", "))
    end
  end
  table.sort(names)
  if #names == 0 then return end
  failure.raise("config", "%s: not a key of the model of init.from, a %s model; its config.json lists the keys",
    table.concat(names, ", "), family.name)
end

---The config for sr.nn.bert: the encoder of init.from with the head of this task.
---@param cfg table
---@param data seqrun.FinetuningData
---@return table
function Task:model_options(cfg, data)
  local options = {}
  for key, value in pairs(data.pretrained.config) do options[key] = value end
  for key, value in pairs(cfg.model) do
    if key ~= "recompute" then options[key] = value end
  end
  check_model_keys(cfg.model, data.pretrained.family)
  options.heads = { self.head or self.head_class.new(self:head_options(data, cfg)) }
  options.precision = cfg.precision
  return options
end

---The mean part of a text that a window to train on is, so that losses are on the scale of those without windows.
local function mean_share(corpus)
  if not corpus:known("window_share") then return nil end
  local sum, units = 0, corpus:units("train")
  for _, example in ipairs(units) do sum = sum + failure.must(corpus:column("window_share", example)) end
  return sum / #units
end

---The model, initialized from the seed; run:start loads the weights of init.from.
---@param cfg table
---@param data seqrun.FinetuningData
---@return seqrun.Bert
function Task:model(cfg, data)
  local model = nn.bert(self:model_options(cfg, data)):initialise(cfg.seed)
  local tune, layers = cfg.tune, model.design.layers
  model.recompute = cfg.model.recompute
  model.encoder.frozen = (tune.freeze_layers > 0 or tune.freeze_embeddings) and tune.freeze_layers or nil
  for _, key in ipairs { "freeze_layers", "reinit_layers" } do
    if tune[key] > layers then
      failure.raise("config", "tune.%s is %d, but the model has %d layers", key, tune[key], layers)
    end
  end
  freezing.apply(cfg, model, data.notes)
  class_costs(self, cfg, data, model)
  model.heads[1].windows, model.mean_share = cfg.data.windows, mean_share(data.train)
  deciding.set(cfg.decide, model.heads[1], self)
  if model.heads[1].deciding and not data.dev then
    failure.raise("config", "decide.* is fitted on held-out data, but nothing is held out; set data.dev or data.held")
  end
  return model
end

---Names of the parameters that are not taken from the checkpoint: the pooler and the top layers of tune.reinit_layers.
---@param cfg table
---@param model seqrun.Bert
---@return string[]
function Task:fresh(cfg, model)
  local names, count, encoder = {}, cfg.tune.reinit_layers, model.encoder
  for _, spec in ipairs(count > 0 and encoder.specs or {}) do
    local depth = encoder:depth(spec.name) or encoder.design.layers
    if depth > encoder.design.layers - count then names[#names + 1] = spec.name end
  end
  return names
end

-- ---- optimizer -------------------------------------------------------------------------------

---Groups of the parameters below the head: { pattern, depth from 0 in the embeddings }.
local function depths_of(model)
  local groups, encoder = {}, model.encoder
  local function add(name, ending, depth)
    groups[#groups + 1] = { "^" .. (encoder.prefix .. name):gsub("%p", "%%%0") .. ending, depth }
  end
  for _, spec in ipairs(encoder.specs) do
    if encoder:depth(spec.name) == 0 then add(spec.name:sub(#encoder.prefix + 1), "$", 0) end
  end
  for i = 0, encoder.design.layers - 1 do add(encoder.names.layer:format(i), "", i + 1) end
  return groups
end

---Options for the optimizer of the config: rates by layer, frozen layers.
---@param cfg table
---@param model seqrun.Bert
---@return table
function Task:optimizer_options(cfg, model)
  local tune, groups, layers, named = cfg.tune, {}, model.design.layers, freezing.groups(cfg, model)
  for _, group in ipairs(depths_of(model)) do
    local depth = group[2]
    local frozen = depth <= tune.freeze_layers and tune.freeze_layers > 0 or depth == 0 and tune.freeze_embeddings
    if frozen or tune.layer_decay < 1 then
      groups[#groups + 1] = { match = group[1], rate = tune.layer_decay ^ (layers + 1 - depth), frozen = frozen }
    end
  end
  local options = parts.plain_optimizer_options(cfg)
  options.groups = table.move(named, 1, #named, #groups + 1, groups)
  return options
end

---A rate by another counter than steps.
local function by_counter(r)
  local fields = setmetatable({}, { __index = r })
  if r.warmup < 1 then fields.warmup = r.warmup * r.total end
  return parts.schedule { rate = fields }
end

---Linear warmup, then the decay of the config to rate.floor at the end of the last epoch, or as rate.by says.
---@param cfg table
---@param updates number of an epoch
---@return fun(step: number|seqrun.Counters): number
---@return integer? total steps of the schedule; nil where a counter ends it
function Task:schedule(cfg, updates)
  local r, total = cfg.rate, steps_of(cfg, updates)
  if not total then return by_counter(r) end
  local warmup = math.tointeger(r.warmup) or r.warmup < 1 and math.floor(r.warmup * total + 0.5) or -1
  if warmup < 0 then
    failure.raise("config", "rate.warmup is %g; expected a fraction below 1 or a whole number of steps", r.warmup)
  end
  if warmup >= total and total > 1 then
    failure.raise("config", "rate.warmup is %d of %d steps; lower it, or raise epochs", warmup, total)
  end
  if r.last and r.last + warmup > total + 1 then
    failure.raise("config", "rate.last is %g of %d steps, of which %d are warmup; lower it, or raise epochs", r.last,
      total, warmup)
  end
  local fields = setmetatable({ warmup = math.min(warmup, total - 1), total = total + 1 }, { __index = r })
  return parts.by_steps(fields), total
end

return Task
