-- task_model.lua - a small random model with a task head, saved as a checkpoint, with the vocabulary of the tiny model.

local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local with = require("tests.support.with")

local task_model = { VOCAB = "tests/data/model/tiny/vocab.txt" }

local TINY = "tests/data/model/tiny/config.json"

---Its words, without special tokens and pieces.
function task_model.words()
  local words = {}
  for word in sr.must(sys.read_file(task_model.VOCAB)):gmatch("[^\n]+") do
    if word:find("^%w+$") then words[#words + 1] = word end
  end
  return words
end

local all

---A deterministic text of n words.
---@param n integer
---@param seed integer
---@return string
function task_model.text(n, seed)
  local words = {}
  all = all or task_model.words()
  for i = 1, n do words[i] = all[(i * 7 + seed * 13 + i * i) % #all + 1] end
  return table.concat(words, " ")
end

---@param ... fun(encoder: seqrun.Encoder): seqrun.Head of sr.nn.heads
---@return seqrun.Bert
function task_model.new(...)
  local config = json.decode(sr.must(sys.read_file(TINY)))
  config.architectures, config.heads = nil, { ... }
  local bert = sr.nn.bert(config):initialise(7)
  for _, name in ipairs(bert.params:names()) do -- large enough to expose errors
    if not name:find("LayerNorm") then bert.params:set(name, bert.params:value_of(name) * 8) end
  end
  bert.training = false
  return bert
end

---Saves a model below a folder and returns the path of the checkpoint.
---@param folder string
---@param bert seqrun.Bert
---@param more? table further parts of the checkpoint
---@return string
function task_model.save(folder, bert, more)
  local lock = sr.must(sr.checkpoint.lock(folder))
  local path = sr.must(sr.checkpoint.save(folder, with({
    step = 0, model = bert.params, config = bert:hf_config(), vocab = task_model.VOCAB,
  }, more)))
  lock:close()
  return path
end

function task_model.tokenizer() return sr.must(sr.text.tokenizer { vocab = task_model.VOCAB, literal = true }) end

return task_model
