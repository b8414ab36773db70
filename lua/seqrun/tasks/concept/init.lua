-- concept - pretraining in which whole concepts are masked: common ones first, then those that are related to them.
--
-- recipes/concept.lua has its loop.
--
-- Source: CCM, Lee et al. 2022, "Efficient Pre-training of Masked Language Model via Concept-based Curriculum
-- Masking", EMNLP.

local c = require("seqrun.config")
local failure = require("seqrun.base.failure")
local new_schedule = require("seqrun.schedule.value")
local nn = require("seqrun.nn")
local pretraining = require("seqrun.tasks.pretraining")
local Concepts = require("seqrun.tasks.concept.concepts")

local concept = setmetatable({ recipe = "recipes/concept.lua" }, { __index = pretraining })

local objective = c.map {
  { "share", c.number { default = 0.667, min = 0, max = 1,
    doc = "maximum fraction of the masked tokens in concepts; 0: random masks; with 1 the model hardly learns the "
      .. "words between concepts" } },
  { "stages", c.list(c.number { min = 0 }, { default = { 0.1, 0.3, 0.5, 0.7 }, min = 1, max = 1000,
    doc = "updates at which the stages begin, or below 1 fractions of the run; before the first, masks are "
      .. "random" }) },
  { "file", c.path { optional = true,
    doc = "file of concepts, one per line: words, a tab, and the stage that first masks them; none: the nouns of "
      .. "WordNet" } },
  { "wordnet", c.path { default = "/usr/share/wordnet", doc = "directory of WordNet's data.noun" } },
  { "seeds", c.integer { default = 200, min = 1,
    doc = "number of concepts of the first stage: the nouns of WordNet with the most relations" } },
  { "least", c.integer { default = 20, min = 1, doc = "minimum number of occurrences of a seed noun in the text" } },
  { "named", c.list(c.string(), { optional = true, min = 1, one = true,
    doc = "nouns of the first stage, instead of concept.seeds" }) },
  { "hops", c.integer { default = 1, min = 1,
    doc = "number of relations by which each stage extends the previous one; the last stage has all remaining "
      .. "nouns" } },
}

concept.keys = c.merge(c.map(pretraining.keys), c.map { { "concept", objective } }).fields

concept.rules = table.move(pretraining.rules, 1, #pretraining.rules, 2, { {
  keys = { "concept.stages" },
  check = function(stages)
    for i = 2, #stages do
      if stages[i] <= stages[i - 1] then
        return ("concept.stages must ascend, but %g follows %g: stage %d would never be alone"):format(stages[i],
          stages[i - 1], i - 1)
      end
    end
  end,
} })

---The updates with which the stages begin.
local function begins(cfg)
  local total, list = cfg.steps or cfg.rate.by == "step" and cfg.rate.total, {}
  for i, at in ipairs(cfg.concept.stages) do
    if at < 1 and not total then
      failure.raise("config", "concept.stages: %g is a fraction of the run, whose steps are not known with rate.by=%s; "
        .. "give updates", at, cfg.rate.by)
    end
    list[i] = math.floor(at < 1 and at * total or at) + (at < 1 and 1 or 0)
    if i > 1 and list[i] <= list[i - 1] then
      failure.raise("config", "concept.stages: stages %d and %d both begin with update %d of the run; set them further "
        .. "apart", i - 1, i, list[i])
    end
  end
  return list
end

---The concepts of a config, or of a checkpoint; nil where masks are random.
---@param cfg table
---@param corpus seqrun.Corpus
---@param saved? string the file of a checkpoint
---@return seqrun.Concepts?
function concept.concepts(cfg, corpus, saved)
  local own = cfg.concept
  if own.share == 0 then return nil end
  if saved then return Concepts.of_checkpoint(corpus, saved, #own.stages) end
  if own.file then return Concepts.of_file(corpus, own.file, #own.stages) end
  return Concepts.of_wordnet(corpus, {
    folder = own.wordnet, count = #own.stages, seeds = own.seeds, named = own.named, least = own.least,
    hops = own.hops,
  })
end

---Options for sr.data.loader of the training part; held-out text has random masks.
---@param cfg table
---@param corpus seqrun.Corpus
---@param concepts? seqrun.Concepts
---@param plan? string a saved plan
---@return table
function concept.train_options(cfg, corpus, concepts, plan)
  local options = pretraining.loader_options(cfg, corpus, "train", plan)
  if not concepts then return options end
  options.mask = {
    prob = cfg.mask.prob, max = cfg.mask.max, whole_word = cfg.mask.whole_word,
    concepts = { table = concepts.table, share = cfg.concept.share, from = begins(cfg) },
  }
  return options
end

---The model, its weights drawn from the seed; its checkpoints keep the concepts.
---@param cfg table
---@param corpus seqrun.Corpus
---@param concepts? seqrun.Concepts
---@return seqrun.Bert
function concept.model(cfg, corpus, concepts)
  local model = nn.bert(pretraining.model_options(cfg, corpus)):initialise(cfg.seed)
  model.recompute = cfg.model.recompute
  if concepts then
    model:head("mlm").files = function() return { [Concepts.FILE] = concepts:pack() } end
  end
  return model
end

---The stage as a schedule of steps, which metrics report; 0: random masks.
---@param cfg table
---@param concepts? seqrun.Concepts
---@return seqrun.ValueSchedule
function concept.stage(cfg, concepts)
  if not concepts then return new_schedule { name = "concept.stage", type = "constant", value = 0 } end
  local values, upto = { 0 }, {}
  for i, update in ipairs(begins(cfg)) do values[i + 1], upto[i] = i, update - 1 end
  return new_schedule { name = "concept.stage", type = "discrete", values = values, upto = upto }
end

return concept
