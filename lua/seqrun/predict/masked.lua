-- masked.lua - what a model without a task's head is scored on: a data set, text, or the texts of a table, with the
-- masks and lengths of the run that made it.

local c = require("seqrun.config")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.data.readers.formats")
local history = require("seqrun.history.runs")
local line_file = require("seqrun.base.line_file")
local loading = require("seqrun.checkpoint.loading")
local records = require("seqrun.data.readers.records")
local scratch = require("seqrun.base.scratch")
local schema = require("seqrun.keys")
local sr_data = require("seqrun.data")
local sys = require("seqrun.core.sys")
local task = require("seqrun.tasks").pretraining

local masked = {}

local COLUMNS = { keys = { { "columns", c.map {
  { "text", c.string { default = "text", doc = "column of the text" } },
  { "pair", c.string { optional = true, doc = "column of a second text" } },
} } } }

---Keys that decide on examples and masks: as the run had them.
local KEPT = {
  "seed", "data.held", "data.max_len", "data.short_seq_prob", "data.short_seq_by", "data.too_long", "mask.prob",
  "mask.max", "mask.whole_word",
}

---The values of the config: those of the run, where it has them, and then KEY=VALUE.
local function settings(facts, arguments, t)
  local theirs, words = history.config(facts.path .. "/trainer/config.yaml"), {}
  local positions = facts.design.longest
  local function set(key, value) words[#words + 1] = ("%s=%s"):format(key, tostring(value)) end
  if theirs.data then theirs.data.short_seq_by = theirs.data.short_seq_by or "document" end -- of older versions
  set("data.file", "given")
  set("model.max_position_embeddings", math.max(8, positions))
  set("data.max_len", math.max(8, math.min(128, positions)))
  set("batch.micro_packs", math.max(1, t.batch_tokens // 128))
  for _, key in ipairs(KEPT) do
    local value = history.value(theirs, key)
    if value then set(key, value) end
  end
  if t.max_len then set("data.max_len", t.max_len) end
  local keys, rules = schema({ keys = task.keys, rules = task.rules, without = { "rate" } }, COLUMNS)
  table.move(arguments, 1, #arguments, #words + 1, words)
  return failure.must(c.load { schema = keys, rules = rules, arguments = words }).values
end

-- ---- data ---------------------------------------------------------------------------------------

---Whether a path is a data set, by its content; fails if it is neither that nor text.
local function is_data_set(path)
  if path == "-" then return false end
  if not sys.exists(path) then
    failure.raise("missing", "%s: no such file%s", path, require("seqrun.base.guess").file_hint(path))
  end
  if sys.is_dir(path) and not sys.exists(path .. "/metrics.jsonl") then return false end
  local facts = failure.valid(require("seqrun.history.describe")(path))
  if facts and facts.kind ~= "dataset" then
    failure.raise("data", "%s: a %s, nothing to score on; give a data set (.sqr), text or a table", path, facts.kind)
  end
  local file <close> = failure.must(io.open(path, "rb"))
  return line_file.read(file, path, 4) == "\x89SQR"
end

---The texts of tables as examples.
local function examples_of(files, cfg)
  local opened = failure.must(records.open { files = files, columns = cfg.columns, format = "auto" })
  local number = 0
  local function next_example()
    local record, message, code = opened:next()
    if not record then return nil, message, code end
    if record.wrong then return nil, ("%s:%d: %s"):format(record.file, record.line, record.why), "data" end
    if not tostring(record.text):find("%S") then return next_example() end
    number = number + 1
    return { text = record.text, pair = record.pair }
  end
  return next_example, opened
end

---Makes a data set of text or of tables, which is gone when it is closed: open, it can still be read.
local function made(files, cfg, facts, t)
  local place <close> = scratch()
  local out = place.path .. "/texts.sqr"
  local options = { out = out, vocab = t.vocab }
  local done, message, code
  if formats.of(files[1]) then
    local rows
    options.examples, rows = examples_of(files, cfg)
    done, message, code = sr_data.write(options)
    rows:close()
    cfg.data.too_long = "truncate"
  else
    options.inputs = files
    done, message, code = sr_data.prepare(options)
  end
  if not done then failure.raise(code or "data", "%s", message) end
  return failure.must(sr_data.open(out, { held = 0 })), "train"
end

---Whether the run was trained on these data sets, or on the one among others; nil if the directory does not record it,
---as one that was exported.
local function is_own(facts, files)
  local function digest_of(path)
    local corpus = failure.valid(sr_data.open(path, { held = 0 }))
    return corpus and corpus:info().digest
  end
  local values = failure.valid(loading.state(facts.path))
  local digest = values and values.state.data
  if not digest then return nil end
  local mine, theirs = digest_of(files), history.config(facts.path .. "/trainer/config.yaml")
  local list = theirs.data and theirs.data.file
  for _, path in ipairs(type(list) == "table" and list or {}) do
    if mine and digest_of(path) == mine then return true end
  end
  return mine == digest
end

---A data set, and which part of it: of the run's own the held-out one, of others all.
local function opened(files, cfg, facts, t)
  local own = is_own(facts, files)
  local part = t.part or own and cfg.data.held > 0 and "held" or "train"
  local held = (own or t.part) and cfg.data.held or 0
  if part == "held" and held == 0 then held = 0.05 end
  local corpus = failure.must(sr_data.open(files, { vocab = t.vocab, held = held }))
  local seen = own and part == "train" and "yes" or own == nil and held == 0 and "maybe" or "no"
  return corpus, part, held > 0 and part or "all", seen
end

---The loader of what a model with pretraining heads is scored on.
---@param facts seqrun.Pretrained
---@param model seqrun.Bert
---@param files string[] data sets, or text files, or tables
---@param arguments string[] KEY=VALUE
---@param t { vocab: seqrun.core.text.tokenizer, part?: "train"|"held", max_len?: integer, batch_tokens: integer }
---@return seqrun.Loader
---@return { corpus: seqrun.Corpus, part: "train"|"held"|"all", seen: "no"|"maybe"|"yes", heads: string[] } what seen:
---  whether the model was trained on these texts
function masked.open(facts, model, files, arguments, t)
  local cfg, set = settings(facts, arguments, t), is_data_set(files[1])
  for i = 2, set and #files or 0 do
    if files[i] == files[i - 1] then failure.raise("config", "eval: %s is given twice", files[i]) end
  end
  local open = set and opened or made
  local corpus, part, which, seen = open(files, cfg, facts, t)
  local heads, targets, next_sentence = {}, {}, task.next_sentence(corpus)
  cfg.data.nsp = model:head("nsp") ~= nil and next_sentence ~= nil
  for _, name in ipairs { "mlm", "nsp", "causal" } do
    if model:head(name) and (name ~= "nsp" or cfg.data.nsp) then
      heads[#heads + 1], targets[#targets + 1] = name, name == "nsp" and next_sentence or name
    end
  end
  if #heads == 0 then
    failure.raise("data", "%s has only a next-sentence head, which needs text, or fixed examples with a column "
      .. "next_sentence", facts.path)
  end
  local options = task.loader_options(cfg, corpus, part)
  options.epochs, options.prefetch, options.targets = 1, 0, targets
  if model:head("causal") then options.mask = false end
  return failure.must(sr_data.loader(options)), {
    corpus = corpus, part = which or "all", seen = seen or "no", heads = heads, cfg = cfg,
  }
end

return masked
