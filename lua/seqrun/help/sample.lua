-- sample.lua - tiny things to try functions on, each made on first use: sample.batch, sample.model, sample.run.
--
-- Files are in a temporary directory that goes when the program ends.

local check = require("seqrun.base.check")
local scratch = require("seqrun.base.scratch")
local sorted = require("seqrun.base.sorted")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local SENTENCES = {
  "The cat sees the dog at night.", "A teacher finds the letter by the sea.", "The river follows the garden.",
  "Every song likes a window in the morning.", "The horse leaves the house with great care.",
}
local DOCUMENTS, LINES = 60, 7

local make = {}

function make.folder(sample)
  local place = scratch()
  rawset(sample, "guard", place) -- removed with `sample`
  return place.path
end

function make.text(sample)
  local lines = {}
  for document = 1, DOCUMENTS do
    for line = 1, LINES do lines[#lines + 1] = SENTENCES[(document * document + line * line) % #SENTENCES + 1] end
    lines[#lines + 1] = ""
  end
  local path = sample.folder .. "/text.txt"
  sr.must(sys.write_file(path, table.concat(lines, "\n")))
  return path
end

function make.data(sample)
  local path = sample.folder .. "/data.sqr"
  sr.must(sr.data.prepare { inputs = sample.text, out = path, vocab = { size = 90 } })
  return path
end

function make.corpus(sample) return sr.must(sr.data.open(sample.data, { held = 0.1 })) end

function make.vocab(sample) return sample.corpus:tokenizer():vocab() end

function make.tokenizer(sample) return sr.text.tokenizer { vocab = sample.vocab } end

function make.table(sample)
  local path = sample.folder .. "/table.csv"
  sr.must(sys.write_file(path, "text,label\nThe cat sees the dog.,0\nA song.,1\n"))
  return path
end

function make.loader(sample)
  return sr.must(sr.data.loader { data = sample.corpus, max_len = 48, packs = 4, targets = { "mlm", "nsp" },
    prefetch = 0 })
end

function make.update(sample) return sample.loader:next() end

function make.batch(sample)
  local next_batch, update, first = sample.update:batches()
  return (next_batch(update, first))
end

function make.model(sample)
  return sr.nn.bert { hidden_size = 16, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 32,
    vocab_size = sample.corpus:vocab_size(), max_position_embeddings = 48 }:initialise(1)
end

function make.params(sample) return sample.model.params end

function make.optimizer(sample) return sr.optim.adamw(sample.params) end

function make.layout() return sr.layout { lens = { 3, 2 }, rows = 8 } end

function make.plan() return sr.must(sr.pack.pack({ 100, 60, 60, 20, 20 }, { max_len = 128 })) end

---A directory with one checkpoint, like that of a run.
function make.run(sample)
  local path = sample.folder .. "/run"
  sr.must(sys.make_dirs(path))
  sr.must(sr.checkpoint.save(path, { step = 1, model = sample.params, config = sample.model:hf_config(),
    tokenizer = sample.corpus:tokenizer() }))
  return path
end

---The same of a causal model.
function make.causal(sample)
  local path, tokenizer = sample.folder .. "/causal", sample.corpus:tokenizer()
  local model = sr.nn.bert { family = "gpt2", n_embd = 16, n_layer = 1, n_head = 2, n_positions = 48,
    vocab_size = sample.corpus:vocab_size(), eos_token_id = tokenizer:special("sep") }:initialise(1)
  sr.must(sys.make_dirs(path))
  sr.must(sr.checkpoint.save(path, { step = 1, model = model.params, config = model:hf_config(),
    tokenizer = tokenizer }))
  return path
end

local NAMES = sorted(make)

---@class seqrun.Sample
---@field folder string a temporary directory
---@field text string path of a text
---@field table string path of a labelled table (CSV)
---@field data string path of a data set
---@field corpus seqrun.Corpus
---@field vocab seqrun.core.text.vocab
---@field tokenizer seqrun.text.Tokenizer
---@field loader seqrun.Loader
---@field update seqrun.Update
---@field batch seqrun.Batch
---@field model seqrun.Bert
---@field params seqrun.Params
---@field optimizer seqrun.Optimizer
---@field layout seqrun.Layout
---@field plan seqrun.Plan
---@field run string a directory with a checkpoint
---@field causal string a directory with a checkpoint of a causal model

---@return seqrun.Sample
return function()
  return setmetatable({}, {
    __names = function() return NAMES end,
    __tostring = function() return "sample." .. table.concat(NAMES, "  sample.") end,
    __index = function(sample, name)
      if not make[name] then
        local hint = require("seqrun.base.guess").hint(tostring(name), NAMES)
        check.fail("sample has no '%s'%s", tostring(name), hint)
      end
      local value = make[name](sample)
      rawset(sample, name, value)
      return value
    end,
  })
end
