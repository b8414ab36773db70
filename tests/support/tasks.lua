-- tasks.lua - small data sets for the heads of fine-tuning tasks, and a model with a head for each.
--
-- Labels follow from the words: hot words (ids 10 to 19) among cold ones (30 to 99).

local draws = require("tests.support.draws")
local sr = require("seqrun")

local tasks = {}

tasks.VOCAB = "tests/data/model/tiny/vocab.txt"

---Cold words, of which each is hot with a probability of `hot` in ten.
local function words(pick, count, hot)
  local ids, hits = {}, 0
  for i = 1, count do
    local hit = pick(10) < hot
    ids[i], hits = hit and 10 + pick(10) or 30 + pick(70), hits + (hit and 1 or 0)
  end
  return ids, hits
end

local MAKE = {}

MAKE.classify = {
  columns = { label = { type = "i32" } },
  one = function(pick)
    local label = pick(3)
    local ids = words(pick, 3 + pick(14), 3)
    for _ = 1, 3 do ids[1 + pick(#ids)] = 20 + label end -- the word of its class
    return { a = ids, label = label }
  end,
}

MAKE.pair = {
  columns = { label = { type = "i32" } },
  one = function(pick)
    local a, b, label = words(pick, 3 + pick(8), 0), words(pick, 2 + pick(6), 0), pick(2)
    if label == 1 then b[1 + pick(#b)] = 20 end
    return { a = a, b = b, label = label }
  end,
}

MAKE.regress = {
  columns = { label = { type = "f32", size = 2 } },
  one = function(pick)
    local ids, hits = words(pick, 4 + pick(12), pick(10))
    return { a = ids, label = { 2 * hits / #ids, 1 - hits / #ids } }
  end,
}

MAKE.multilabel = {
  columns = { labels = { type = "f32", size = 3 } },
  one = function(pick)
    local ids, labels = words(pick, 6 + pick(10), 0), {}
    for k = 1, 3 do
      labels[k] = pick(2)
      if labels[k] == 1 then ids[k], ids[k + 3] = 19 + k, 19 + k end
    end
    return { a = ids, labels = labels }
  end,
}

MAKE.tokens = {
  columns = { tags = { type = "i32", per = "token" } },
  one = function(pick)
    local ids, tags = words(pick, 4 + pick(12), 4), {}
    for k, id in ipairs(ids) do tags[k] = k % 5 == 0 and -100 or id < 20 and 1 or 0 end
    return { a = ids, tags = tags }
  end,
}

MAKE.crf = MAKE.tokens

MAKE.squad = {
  columns = { span = { type = "i32", size = 2 } },
  one = function(pick)
    local question, context = words(pick, 2 + pick(3), 0), words(pick, 6 + pick(20), 0)
    local first = pick(#context - 2)
    local span = { #question + first, #question + first + 1 }
    if pick(4) == 0 then span = { -1, -1 } else context[first + 1], context[first + 2] = 10, 11 end
    return { a = question, b = context, span = span }
  end,
}

---Questions of two to four choices; the right one begins with a hot word.
local function choices(pick, count)
  local examples, group = {}, -1
  while #examples < count do
    group = group + 1
    local number = 2 + pick(3)
    local right, question = pick(number), words(pick, 2 + pick(5), 0)
    for k = 0, number - 1 do
      local b = words(pick, 1 + pick(8), 0)
      if k == right then b[1] = 10 end
      examples[#examples + 1] = { a = question, b = b, group = group, answer = k == right and 1 or -100 }
    end
  end
  return examples
end

---Examples of a task: ids without [CLS] and [SEP], and labels.
---@param kind "classify"|"pair"|"regress"|"multilabel"|"choice"|"tokens"|"squad"
---@param count? integer
---@param seed? integer
---@return table[] examples
---@return table<string, seqrun.ColumnOptions> columns
function tasks.examples(kind, count, seed)
  local pick, examples = draws(seed or 7), {}
  if kind == "choice" then
    return choices(pick, count or 60), { group = { type = "i32" }, answer = { type = "i32" } }
  end
  for i = 1, count or 60 do examples[i] = MAKE[kind].one(pick) end
  return examples, MAKE[kind].columns
end

---Writes FOLDER/KIND.sqr and opens it.
---@param kind string
---@param folder string
---@param count? integer of examples
---@return seqrun.Corpus
function tasks.corpus(kind, folder, count)
  local examples, columns = tasks.examples(kind, count)
  local path = ("%s/%s.sqr"):format(folder, kind)
  sr.must(sr.data.write { out = path, vocab = tasks.VOCAB, examples = examples, columns = columns })
  return sr.must(sr.data.open(path))
end

---The head and the targets of each task.
tasks.HEADS = {
  classify = { head = function() return sr.nn.heads.classify { outputs = 3 } end, targets = { "label" } },
  pair = { head = function() return sr.nn.heads.classify { labels = { "no", "yes" } } end, targets = { "label" } },
  regress = { head = function() return sr.nn.heads.regress { outputs = 2 } end, targets = { "label" } },
  multilabel = { head = function() return sr.nn.heads.multilabel { outputs = 3 } end, targets = { "labels" } },
  choice = { head = function() return sr.nn.heads.choice {} end, targets = { "answer", "group" } },
  tokens = { head = function() return sr.nn.heads.tokens { outputs = 2 } end, targets = { "tags" } },
  crf = { head = function() return sr.nn.heads.tokens { outputs = 2, crf = true } end, targets = { "tags" } },
  squad = {
    head = function() return sr.nn.heads.squad {} end,
    targets = { { name = "span", reads = "spans", outside = "cls" } },
  },
}

tasks.NAMES = { "classify", "pair", "regress", "multilabel", "choice", "tokens", "squad" }
tasks.ALL_HEADS = { "crf", table.unpack(tasks.NAMES) }

---A loader of updates of 12 sequences (4 questions), 48 tokens a pack.
---@param kind string
---@param corpus seqrun.Corpus
---@param options? table
function tasks.loader(kind, corpus, options)
  local o = { data = corpus, max_len = 48, seed = 7, prefetch = 0, targets = tasks.HEADS[kind].targets }
  if kind == "choice" then
    o.order = sr.data.groups(corpus, { groups = 4, seed = 7 })
  else
    o.by, o.sequences = "sequences", 12
  end
  for key, value in pairs(options or {}) do o[key] = value end
  return sr.must(sr.data.loader(o))
end

---A small encoder with this task's head.
---@param kind string
---@param changes? table of the config
---@return seqrun.Bert
function tasks.model(kind, changes)
  local config = {
    vocab_size = 120, hidden_size = 16, intermediate_size = 32, num_hidden_layers = 2, num_attention_heads = 2,
    max_position_embeddings = 48, heads = { tasks.HEADS[kind].head() },
  }
  for key, value in pairs(changes or {}) do config[key] = value end
  return sr.nn.bert(config):initialise(3)
end

return tasks
