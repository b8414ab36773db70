-- prepare.lua - turns raw text into a data set (.sqr).  Settings: prepare.yaml.
--
--     seqrun recipes/prepare.lua
--     seqrun recipes/prepare.lua inputs=[my/texts] out=runs/data/mine.sqr vocab.size=30000
--     seqrun recipes/prepare.lua 'inputs=[corpus/*.jsonl.zst]' columns.text=body where="lang == 'en' and score > 0.5"
--     zcat dump.gz | seqrun recipes/prepare.lua inputs=[-] vocab.file=vocab.txt text.format=lines

local sr = require "seqrun"
local sys = require "seqrun.core.sys"
local c = sr.config

local schema = c.map {
  { "inputs", c.list(c.string(), { required = true, one = true,
    doc = "text files or .jsonl, .gz and .zst too, directories, patterns, or - (stdin)" }) },
  { "overwrite", c.boolean { default = false, doc = "replace an existing data set made from another text" } },
  { "out", c.string { required = true, doc = "data set to write" } },
  { "vocab", c.map {
    { "file", c.string { optional = true, doc = "directory, tokenizer.json or vocab.txt; none: train a vocabulary" } },
    { "size", c.integer { default = 30000, min = 6, max = 1 << 20, doc = "size of the trained vocabulary" } },
    { "min_frequency", c.integer { default = 2, min = 1, doc = "minimum count of a pair to be merged" } },
    { "tokens", c.list(c.string(), { default = {},
      doc = "further tokens of the trained vocabulary, such as [<fim_prefix>,<fim_suffix>,<fim_middle>]" }) },
  } },
  { "text", c.map {
    { "format", c.enum({ "prose", "lines", "documents", "jsonl" }, { default = "prose",
      doc = "prose; lines: one sentence per line; documents: one document per line; jsonl: records of prose, as "
        .. ".jsonl files have" }) },
    { "document_start", c.string { optional = true, doc = "prefix of paragraphs that start a new document" } },
    { "lowercase", c.boolean { default = true, doc = "with a vocabulary: lowercase the text (uncased model)" } },
    { "keep_accents", c.boolean { default = false, doc = "with a vocabulary: keep accents when lowercasing" } },
  } },
  { "columns", c.map {
    { "text", c.string { default = "text", doc = "for JSONL: the member with the text; a.b is b inside a" } },
  } },
  { "where", c.string { optional = true,
    doc = "for JSONL: condition on records, such as lang == 'en' and score > 0.5" } },
}

local cfg, request = require("seqrun.run.settings") { recipe = arg, schema = schema }
local vocab, text = cfg.vocab, cfg.text
for i, path in ipairs(cfg.inputs) do
  local beside = request.file:gsub("[^/]*$", "") .. path
  if not sys.exists(path) and sys.exists(beside) then cfg.inputs[i] = beside end
end
if request.dry_run then sr.must(require("seqrun.text.inputs").find(cfg.inputs)) end
local out = cfg.out
if request.dry_run then return print(("would write %s from %s"):format(out, table.concat(cfg.inputs, ", "))) end

sr.must(sr.data.prepare {
  inputs = cfg.inputs, out = out, overwrite = cfg.overwrite, threads = request.threads,
  vocab = vocab.file or { size = vocab.size, min_frequency = vocab.min_frequency, tokens = vocab.tokens },
  format = text.format, columns = cfg.columns, where = cfg.where, document_start = text.document_start,
  lowercase = text.lowercase, keep_accents = text.keep_accents,
  progress = not request.quiet and print or nil,
})
if not request.quiet then print((sr.must(sr.data.open(out)))) end
