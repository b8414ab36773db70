-- exported.lua - small random models of every family with every kind of tokenizer and every task, exported.

local configs = require("seqrun.nn.config")
local core = require("seqrun.core.text")
local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local exported = { FAMILIES = "tests/data/families/" }

local FAMILIES = { "bert", "distilbert", "electra", "eurobert", "modernbert", "nomic_bert", "roberta" }
local TOKENIZERS = { "bert", "eurobert", "modernbert", "xlm_roberta" } -- words, bytes after a split, bytes, pieces

---What the models of a task predict.
---@return table<string, table[]>
function exported.items()
  return {
    classify = { { text = "the cat was in it" }, { text = "he had not the time", pair = "it was not" } },
    tokens = { { words = { "the", "cat", "was", "not", "in", "it" } } },
    squad = { { id = "1", question = "was the cat", context = "it was not the cat that she had" } },
    choice = { { text = "the cat", choices = { "was in it", "had not the time" } } },
  }
end

---@return { name: string, family: string, tokenizer: string, task: string }[]
function exported.all()
  local list = {}
  for _, family in ipairs(FAMILIES) do
    for _, tokenizer in ipairs(TOKENIZERS) do
      for task in pairs(exported.items()) do
        local name = ("%s with the tokenizer of %s, %s"):format(family, tokenizer, task)
        if tokenizer == "modernbert" or task == "classify" or task == "tokens" then
          list[#list + 1] = { name = name, family = family, tokenizer = tokenizer, task = task }
        end
      end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function model_of(case, tokenizer)
  local given = json.decode(sr.must(sys.read_file(exported.FAMILIES .. case.family .. "/config.json")))
  for key, value in pairs(given) do
    if value == json.null then given[key] = nil end
  end
  local pad = tokenizer:special("pad")
  given.pad_token_id, given.tie_word_embeddings = given.pad_token_id and pad, nil
  given.max_position_embeddings = case.family:find("roberta") and pad + 65 or 64
  local config = assert(configs.encoder(given))
  local head = sr.nn.heads[case.task]
  config.heads = { case.task == "classify" and head { labels = { "a", "b", "c" } }
    or case.task == "tokens" and head { labels = { "O", "B-X", "I-X" } } or head() }
  local model = sr.nn.bert(config):initialise(7)
  for _, name in ipairs(model.params:names()) do -- large enough to expose errors
    local value = model.params:value_of(name)
    if #value:shape() == 2 then model.params:set(name, value * 8) end
  end
  model.training = false
  return model
end

---Makes a model, and exports it unless Transformers has no class for it.
---@param case table of all()
---@param folder string
---@return string checkpoint
---@return string|nil out
function exported.make(case, folder)
  local text = sr.must(sys.read_file(exported.FAMILIES .. case.tokenizer .. "/tokenizer.json"))
  if case.tokenizer == "modernbert" then -- as the BPE that is trained here has it: the second text is of another type
    local tree = json.decode(text)
    for i = 4, 5 do select(2, next(tree.post_processor.pair[i])).type_id = 1 end
    text = json.encode(tree)
  end
  local tokenizer = assert(core.parse_tokenizer(text, case.tokenizer, {}))
  local model = model_of(case, tokenizer)
  local lock = sr.must(sr.checkpoint.lock(folder .. "/run"))
  local path = sr.must(sr.checkpoint.save(folder .. "/run", {
    step = 0, model = model.params, config = model:hf_config(), tokenizer = tokenizer,
  }))
  lock:close()
  local done, message = sr.checkpoint.export(path, folder .. "/out")
  assert(done or message:find("Transformers has no", 1, true), message)
  return path, done and folder .. "/out" or nil
end

---What a directory predicts, as lists of numbers.
---@param path string
---@param task string
---@return number[][]
function exported.predict(path, task)
  local predictor, values = sr.must(sr.predict.open(path, { null_threshold = 1e9 })), {}
  for result in predictor:each(exported.items()[task]) do
    local list = result.probabilities
    if result.score then list = { result.score, result.null_score } end
    if list.a then list = { list.a, list.b, list.c } end
    values[#values + 1] = list
  end
  return values
end

return exported
