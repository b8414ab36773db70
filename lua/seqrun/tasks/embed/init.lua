-- embed - vectors of texts: contrastive training on pairs and triplets, scored pairs, a teacher's vectors.
--
-- recipes/embed.lua has its loop: the loss is over all texts of an update (contrast.lua), not a sum over micro-batches.

local failure = require("seqrun.base.failure")
local ranking_files = require("seqrun.tasks.embed.ranking_files")
local text_order = require("seqrun.data.text_order")
local texts = require("seqrun.tasks.embed.texts")
local together = require("seqrun.tasks.shared.together")

local TOGETHER = "the texts of a row belong in one update, but a curriculum draws single texts"

local task = {
  doc = "vectors of texts, from pairs, triplets, scored pairs or a teacher's vectors: recipes/embed.lua",
  example = "data.train=pairs.csv",
  head = { name = "embed", class = "seqrun.tasks.embed.head" },
  reader = require("seqrun.tasks.embed.reader"),
  scores = require("seqrun.tasks.embed.scores"),
  prediction = require("seqrun.tasks.embed.prediction"),
  whole = true, target = "embed", recipe = "recipes/embed.lua", keys = "seqrun.tasks.embed.keys",
  refuses = { length = TOGETHER, metrics = TOGETHER, pieces = TOGETHER },
  settings = {
    batch = { sequences = 64 }, rate = { peak = 2e-5 }, epochs = 1, optimizer = { decay = 0.01 }, data = { held = 0 },
  },
}

-- ---- data ----------------------------------------------------------------------------------------

---What the rows of a data set have.
---@return { rows: integer, parts: integer, scored: boolean, singles: integer }
local function survey(corpus)
  local rows, parts, scored, first = 0, 0, false, nil
  for i = 1, corpus:info().examples do
    local about = texts.unpack(failure.must(corpus:column(texts.COLUMN, i)))
    parts = math.max(parts, about.part)
    if about.group ~= first then rows, first = rows + 1, about.group end
    scored = scored or about.score ~= nil
  end
  return { rows = rows, parts = parts, scored = scored }
end

local NEEDS = {
  mnrl = "pairs: columns anchor and positive (columns.text, columns.pair)",
  cosent = "scored pairs: columns sentence1, sentence2 and score (columns.text, columns.pair, columns.label)",
  mse = "single texts: the column text (columns.text)",
}

---Which loss the rows allow, and whether it is the one that is asked for.
local function loss_of(cfg, found, path)
  local fits = found.parts == 0 and "mse" or found.scored and "cosent" or "mnrl"
  local wanted = cfg.embed.loss == "auto" and (cfg.embed.teacher and "mse" or fits) or cfg.embed.loss
  if wanted == "mse" and not cfg.embed.teacher then
    failure.raise("config", "%s has single texts, which need embed.teacher; for other losses give %s",
      path, NEEDS.mnrl)
  end
  if wanted ~= fits then
    failure.raise("config", "embed.loss=%s needs %s; %s has %s", wanted, NEEDS[wanted], path, NEEDS[fits])
  end
  return wanted
end

---Refuses vectors of the same texts in another order, where their file and the data set know it.
local function check_order(path, known, corpus)
  local order = text_order()
  for i = 1, known.order and corpus:known("text") and corpus:info().examples or 0 do
    order:add(failure.must(corpus:column("text", i)))
  end
  local own = order:digests()
  if own.texts == known.texts and own.order ~= known.order then
    failure.raise("data", "embed.teacher: %s has the vectors of these texts in another order; encode the texts of "
      .. "data.train, in their order", path)
  end
end

---The vectors of a teacher, one for each row.
local function teacher_of(path, corpus, rows)
  local file = failure.must(require("seqrun.core.train").safetensors(path))
  local guard <close> = file
  local vectors, message = file:read("embeddings", "f32")
  if not vectors then
    failure.raise("data", "embed.teacher: %s: %s; `seqrun encode TEACHER FILE --out` writes such a file", path, message)
  end
  if vectors:size(1) ~= rows then
    failure.raise("data", "embed.teacher: %s has %d vectors, but data.train has %d rows; encode the texts of "
      .. "data.train, in their order", path, vectors:size(1), rows)
  end
  check_order(path, file:metadata(), corpus)
  return vectors:keep()
end

---The objective of a config.
local function objective_of(cfg, data)
  local found, path = survey(data.train), cfg.data.train[1]
  if ranking_files.of(cfg.data.train) then
    failure.raise("config", "%s is a set for evaluation; give it as data.dev, and pairs as data.train", path)
  end
  local e = cfg.embed
  local loss = loss_of(cfg, found, path)
  if e.learn_temperature and loss ~= "mnrl" then
    failure.raise("config", "embed.learn_temperature requires embed.loss=mnrl, not %s; leave it out", loss)
  end
  if e.directions == "both" and loss ~= "mnrl" then
    failure.raise("config", "embed.directions=both requires embed.loss=mnrl, not %s; leave it out", loss)
  end
  if loss == "mnrl" and found.rows < 2 then
    failure.raise("data", "%s has only one pair, so there are no negatives; give more pairs", path)
  end
  return {
    loss = loss, temperature = e.temperature, learn = e.learn_temperature, both = e.directions == "both",
    dims = e.matryoshka, teacher = loss == "mse" and teacher_of(e.teacher, data.train, found.rows) or nil,
  }, found
end

---Whether a set of prompts says anything.
local function has_prompts(theirs)
  for _, text in pairs(theirs.prompts) do
    if text ~= "" then return true end
  end
  return false
end

---@param cfg table
---@param pretrained seqrun.Pretrained
---@return table options of the reader
function task:read_options(cfg, pretrained)
  local theirs = pretrained.sentences
  if not cfg.embed.prompts or not has_prompts(theirs) then return {} end
  if theirs.skips_prompt then
    failure.raise("config", "embed.prompts=true: the pooling of %s leaves out the prompt (include_prompt: false), "
      .. "which only `seqrun encode` and the recipes sts and search do; set embed.prompts=false", pretrained.path)
  end
  return { prompts = { default = theirs.prompt, query = theirs.prompts.query, document = theirs.prompts.document } }
end

---What the head is made of: as the config says, else as the directory of init.from.
local function head_options(cfg, data, objective)
  local theirs, e = data.pretrained.sentences, cfg.embed
  if theirs.problem then failure.raise("data", "init.from: %s: %s", data.pretrained.path, theirs.problem) end
  local dense = theirs.dense
  if e.dense then dense = { outputs = e.dense, activation = e.dense_activation } end
  local normalise = e.normalise
  if normalise == nil then normalise = theirs.normalise ~= false end
  return {
    pool = e.pool or theirs.pool or "mean", normalise = normalise, dense = dense, objective = objective,
    max_len = data.pretrained.max_len or data.pretrained.design.longest,
    prompts = (e.prompts or not has_prompts(theirs)) and theirs.files or nil,
    skips_prompt = theirs.skips_prompt, prompt = e.prompts and theirs.prompt or nil,
  }
end

---Refuses lengths of vectors that there are not.
local function check_sizes(cfg, data, head)
  local size = head.dense and head.dense.outputs or data.pretrained.design.hidden
  for _, dim in ipairs(cfg.embed.matryoshka or {}) do
    if dim > size then
      failure.raise("config", "embed.matryoshka has %d, but vectors have %d numbers; give at most that", dim, size)
    end
  end
  local teacher = head.objective.teacher
  if teacher and teacher:size(2) ~= size then
    failure.raise("config", "the vectors of embed.teacher have %d numbers, those of the model %d; set embed.dense=%d",
      teacher:size(2), size, teacher:size(2))
  end
end

---@param cfg table
---@return seqrun.FinetuningData
function task:data(cfg)
  cfg.data.train, cfg.data.dev = ranking_files.expand(cfg.data.train), ranking_files.expand(cfg.data.dev)
  if not cfg.data.dev and cfg.data.held > 0 and ranking_files.of(cfg.data.train) then
    failure.raise("config", "data.held=%g: a set for retrieval has no rows to hold out; give data.dev", cfg.data.held)
  end
  return require("seqrun.tasks.shared.finetuning").data(self, cfg)
end

---Decides the objective and the head by the training data.
local function decide(cfg, data)
  local objective, found = objective_of(cfg, data)
  data.head = head_options(cfg, data, objective)
  check_sizes(cfg, data, data.head)
  local theirs = data.pretrained.sentences.pool
  if cfg.embed.pool and theirs and cfg.embed.pool ~= theirs then
    table.insert(data.notes, ("warning: embed.pool=%s, but %s was trained with %s"):format(cfg.embed.pool,
      data.pretrained.path, theirs))
  end
  if not cfg.embed.prompts and has_prompts(data.pretrained.sentences) then
    table.insert(data.notes, ("warning: %s has prompts, and the texts of data.train are used without, as the trained "
      .. "model will be; embed.prompts=true puts them before texts"):format(data.pretrained.path))
  end
  if cfg.batch.sequences < 2 and objective.loss ~= "mse" then
    failure.raise("config", "batch.sequences=%d: embed.loss=%s compares the rows of an update with each other; give at "
      .. "least 2, usual is 32 to 1,024", cfg.batch.sequences, objective.loss)
  end
  if cfg.batch.sequences <= found.rows then return end
  table.insert(data.notes, ("batch.sequences: %d instead of %d, the number of rows"):format(found.rows,
    cfg.batch.sequences))
  cfg.batch.sequences = found.rows
end

function task:targets() return { { name = "embed", column = texts.COLUMN } } end

---The texts of rows, side by side.
local function flat(order)
  return function(update, state)
    local groups = order(update, state)
    if not groups then return nil end
    local list = {}
    for _, group in ipairs(groups) do table.move(group, 1, #group, #list + 1, list) end
    return list
  end
end

function task:loader(cfg, data, part)
  if part ~= "dev" then decide(cfg, data) end
  return together.loader(self, cfg, data, part, { says = "has %d texts", size = 2, apart = flat })
end

-- ---- model ---------------------------------------------------------------------------------------

---The options of a head that a directory describes.
---@param facts seqrun.Pretrained
---@return table
function task.options_of(facts)
  local s = facts.sentences
  return {
    pool = s.pool, normalise = s.normalise, dense = s.dense, max_len = facts.max_len, prompts = s.files,
    skips_prompt = s.skips_prompt, prompt = s.prompt,
  }
end

function task:model_options(cfg, data)
  local options = require("seqrun.tasks.shared.finetuning").model_options(self, cfg, data)
  options.heads = { require("seqrun.tasks.embed.head").new(data.head) }
  return options
end

function task:head_options() return {} end

---The parameters that are initialized: a dense layer of another size.
function task:fresh(cfg, model)
  local names = require("seqrun.tasks.shared.finetuning").fresh(self, cfg, model)
  if cfg.embed.dense then
    for _, spec in ipairs(model.heads[1].specs) do names[#names + 1] = spec.name end
  end
  return names
end

---What computes the losses of updates.
---@param model seqrun.Bert
---@return seqrun.Contrast
function task:contrast(model) return require("seqrun.tasks.embed.contrast")(model) end

return task
