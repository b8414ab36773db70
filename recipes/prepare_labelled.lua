-- prepare_labelled.lua - turns labelled files into a data set (.sqr).  Settings: prepare_labelled.yaml.
--
-- Runs read labelled files themselves; this is for files that many runs share, and to see what is in a file.
--
--     seqrun recipes/prepare_labelled.lua inputs=reviews.csv columns.label=stars model=runs/bert out=reviews.sqr
--     seqrun recipes/prepare_labelled.lua task=tokens inputs=[train.conll] vocab=vocab.txt out=tags.sqr

local sr = require "seqrun"
local c = sr.config
local keys = require "seqrun.data.readers.keys"

local tasks = sr.tasks.finetuning()
tasks[#tasks + 1] = "none"

local fields = {
  { "task", c.enum(tasks, { default = "classify",
    doc = "kind of labels: a class, several classes, numbers, the right choice, tags of words, answers" }) },
  { "inputs", c.list(c.path {}, { required = true, min = 1, one = true, doc = "labelled files; .gz and .zst too" }) },
  { "out", c.path { required = true, doc = "data set to write" } },
  { "overwrite", c.boolean { default = false, doc = "replace an existing file" } },
  { "model", c.path { optional = true, doc = "run, checkpoint or Hugging Face model with the tokenizer to use" } },
  { "vocab", c.path { optional = true, doc = "without a model: directory, tokenizer.json or vocab.txt" } },
  { "lowercase", c.boolean { default = true, doc = "lowercase the text, with a vocab.txt" } },
  { "max_len", c.integer { default = 384, min = 8, max = 65535,
    doc = "tokens of a window (question answering, sentences)" } },
  { "too_long", c.enum({ "truncate", "windows" }, { default = "truncate",
    doc = "windows: sentences of words with tags (tokens) longer than max_len in windows; truncate: as they are" }) },
  { "columns", keys.columns },
}
for _, field in ipairs(keys.reading()) do fields[#fields + 1] = field end

local cfg, request = require("seqrun.run.settings") { recipe = arg, schema = c.map(fields) }
local out = cfg.out
if request.dry_run then return print(("would write %s from %s"):format(out, table.concat(cfg.inputs, ", "))) end
if not cfg.model == not cfg.vocab then sr.must(nil, "give model=DIR or vocab=FILE, and not both", "config") end
if require("seqrun.core.sys").exists(out) and not cfg.overwrite then
  sr.must(nil, ("%s exists; choose another file with out=, or set overwrite=true"):format(out), "config")
end

local options = { out = out, files = cfg.inputs, vocab = cfg.vocab, progress = not request.quiet and print or nil }
for _, key in ipairs { "task", "lowercase", "max_len", "too_long", "columns" } do options[key] = cfg[key] end
for _, field in ipairs(keys.reading()) do options[field[1]] = cfg[field[1]] end
if cfg.model then
  local facts = sr.must(sr.checkpoint.pretrained(cfg.model))
  if not facts.tokenizer then sr.must(nil, cfg.model .. " has no tokenizer; give vocab=FILE", "data") end
  options.vocab = sr.must(facts.tokenizer:open { literal = true })
end

local report = sr.must(sr.data.read(options))
if request.quiet then return end
for _, line in ipairs(report.notes) do print(line) end
if report.labels then print("labels: " .. table.concat(report.labels, ", ")) end
print((sr.must(sr.data.open(out))))
