-- small.lua - a corpus and a model small enough to train within a second or two.

local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")
require("seqrun.tensor") -- methods of tensors

local small = {}

local NOUNS = { "cat", "dog", "house", "river", "letter", "garden", "teacher", "window", "horse", "song" }
local VERBS = { "sees", "finds", "likes", "follows", "leaves", "paints", "hears", "keeps" }
local PLACES = { "at night", "in the morning", "by the sea", "every day", "with great care", "", "" }

---Deterministic documents of short sentences.
local function text(documents)
  local draw = require("tests.support.draws")(12345)
  local function pick(list) return list[draw(#list) + 1] end
  local out = {}
  local lengths = { 2, 3, 3, 4, 5, 9 }
  for _ = 1, documents do
    for _ = 1, pick(lengths) do
      out[#out + 1] = ("The %s %s the %s %s."):format(pick(NOUNS), pick(VERBS), pick(NOUNS), pick(PLACES))
    end
    out[#out + 1] = ""
  end
  return table.concat(out, "\n")
end

---Writes FOLDER/corpus.sqr and returns its path.
---@param folder string
---@param documents? integer
---@return string
function small.corpus(folder, documents)
  local input = program.write(folder, "corpus.txt", text(documents or 100))
  local path = folder .. "/corpus.sqr"
  sr.must(sr.data.prepare { inputs = { input }, vocab = { size = 120 }, out = path, overwrite = true })
  return path
end

---A new folder with a corpus; the path of each.
---@param documents? integer
---@return string folder
---@return string corpus
function small.folder(documents)
  local folder = program.folder()
  return folder, small.corpus(folder, documents)
end

---Arguments that run recipes/pretrain.lua with a very small model; three micro-batches per update, about
---five updates per epoch.
---@param corpus string
---@param ... string further arguments
---@return string[]
function small.words(corpus, ...)
  local words = {
    "recipes/pretrain.lua", "data.file=" .. corpus, "data.max_len=48", "mask.max=8", "data.held=0.1",
    "model.hidden_size=16", "model.num_hidden_layers=2", "model.num_attention_heads=2", "model.intermediate_size=32",
    "model.max_position_embeddings=64", "batch.sequences=24", "batch.micro_packs=4", "rate.peak=3e-3",
    "rate.warmup=3", "rate.total=40", "save.every=0", "save.minutes=0", "log.every=1", "eval.updates=1", "--quiet",
  }
  table.move({ ... }, 1, select("#", ...), #words + 1, words)
  return words
end

---Arguments that run another recipe on the corpus, without its sizes and steps.
---@param recipe string such as "electra"
---@param corpus string
---@param ... string further arguments
---@return string[]
function small.recipe(recipe, corpus, ...)
  local config = program.write(corpus:match("^(.*)/"), "empty.yaml", "seed: 3\n")
  local words = {
    ("recipes/%s.lua"):format(recipe), "config=" .. config, "data.file=" .. corpus, "data.max_len=48", "data.held=0.1",
    "batch.sequences=24", "batch.micro_packs=4", "rate.peak=1e-2", "save.minutes=0", "save.every=0", "log.every=1",
    "eval.updates=0", "mask.max=8",
  }
  return table.move({ ... }, 1, select("#", ...), #words + 1, words)
end

---The values of a task's config that these words give.
---@param task seqrun.Task
---@param words string[]
function small.values(task, words)
  local schema, rules = sr.run.schema(task)
  local keys = {}
  for _, word in ipairs(words) do
    if word:find("^[%w_.]+=") and not word:find("^config=") then keys[#keys + 1] = word end
  end
  return sr.must(require("seqrun.config").load { schema = schema, rules = rules, arguments = keys }).values
end

local CLOCK = { "seconds", "data_wait_ms", "cpu_ms", "real_tokens_per_s", "slot_tokens_per_s", "energy_j" }

---The metrics lines of one type, without timings.
---@param folder string
---@param kind? string
---@return table[]
function small.metrics(folder, kind)
  local lines = {}
  for _, line in ipairs(sr.must(sr.metrics.read(folder))) do
    if line.type == (kind or "train") then
      for _, key in ipairs(CLOCK) do line[key] = nil end
      lines[#lines + 1] = line
    end
  end
  return lines
end

local EXACT = { "model.safetensors", "vocab.txt", "config.json" }

---A checksum of all moments of a checkpoint, into however many files they are cut.
local function moments(path)
  local pieces = {}
  for _, name in ipairs(assert(sys.list(path .. "/trainer"))) do
    if name:find("^optim.*%.safetensors$") then
      local file <close> = assert(train.safetensors(path .. "/trainer/" .. name))
      for _, entry in ipairs(file:entries()) do
        local whole, first = entry.name:match("^(.*)%[(%d+):%d+%]$")
        local values = assert(file:read(entry.name)):tostring_bytes()
        pieces[#pieces + 1] = { name = whole or entry.name, first = tonumber(first) or 0, values = values }
      end
    end
  end
  table.sort(pieces, function(a, b) return a.name < b.name or a.name == b.name and a.first < b.first end)
  local parts = {}
  for i, piece in ipairs(pieces) do parts[i] = (piece.first == 0 and piece.name or "") .. piece.values end
  assert(#parts > 0, path .. " has no moments")
  return sys.hash(table.concat(parts))
end

---Makes the manifest of a checkpoint that of its files that changed, of one block each.
---@param step string its directory
function small.sign(step)
  local path = step .. "/MANIFEST"
  local listed = assert(sys.read_file(path)):gsub("file %d+ %x+ (trainer/[cs]%S+)\nblock %x+\n", function(name)
    local hash = sys.hash_file(step .. "/" .. name)
    return ("file %d %s %s\nblock %s\n"):format(#sys.read_file(step .. "/" .. name), hash, name, hash:sub(17))
  end):gsub("end %x+\n$", "")
  assert(sys.write_file(path, listed))
  assert(sys.write_file(path, ("%send %s\n"):format(listed, sys.hash_file(path))))
end

---Checksums of those files of a checkpoint that must not depend on how the run got there.
---@param folder string
---@param step integer
---@return table<string, string>
function small.weights(folder, step)
  local sums = {}
  for _, name in ipairs(EXACT) do
    sums[name] = assert(sys.hash_file(("%s/step-%09d/%s"):format(folder, step, name)))
  end
  sums.moments = moments(("%s/step-%09d"):format(folder, step))
  return sums
end

---Those of the newest checkpoint of a run.
---@param folder string
---@return table<string, string>
---@return integer step
---@return string path
function small.newest(folder)
  local path = sr.must(sr.checkpoint.resolve(folder))
  local step = tonumber(path:match("step%-(%d+)"))
  return small.weights(folder, step), step, path
end

return small
