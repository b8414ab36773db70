-- sts.lua - scores encoders on files of scored pairs (STS) and on directories for retrieval in BEIR's form: the
-- Spearman correlation of cosines and scores of each file, nDCG@10 of each directory, and their means.
--
--     seqrun recipes/sts.lua model=DIR data=[STS.input.images.txt,sts-dev.csv,sick.tsv]
--     seqrun recipes/sts.lua model=[runs/embed,some/minilm] data=[sts-dev.csv,beir/scifact] format=markdown
--
-- Pairs are rows with the columns sentence1, sentence2 and score, or files as STS, the STS benchmark, GLUE and SICK
-- publish them.

local sr = require "seqrun"
local c = sr.config
local formats = require "seqrun.draw.formats"
local grid = require "seqrun.draw.grid"
local json = require "seqrun.core.json"
local sts = require "seqrun.run.suite.sts"
local text = require "seqrun.base.format"

local schema = c.map {
  { "model", c.list(c.path {}, { required = true, min = 1, one = true,
    doc = "runs, checkpoints, directories of Hugging Face or sentence-transformers" }) },
  { "data", c.list(c.path {}, { required = true, min = 1, one = true,
    doc = "files of scored pairs, and directories for retrieval" }) },
  { "columns", c.map {
    { "text", c.string { default = "sentence1", doc = "column of the first text" } },
    { "pair", c.string { default = "sentence2", doc = "column of the second" } },
    { "label", c.string { default = "score", doc = "column of the score" } },
  } },
  { "pool", c.enum({ "mean", "cls", "last" }, { optional = true, doc = "none: as in the model, or mean" }) },
  { "max_len", c.integer { optional = true, min = 4, max = 65535, doc = "tokens of a text; none: the model's" } },
  { "device", c.string { default = "cpu", doc = "cpu, cuda, cuda:N, ref" } },
  { "precision", c.enum({ "f32", "bf16" }, { default = "f32", doc = "of weights and activations" }) },
  { "format", c.enum({ "table", "csv", "markdown", "json" }, { default = "table", doc = "of the result" }) },
}
local cfg, request = require("seqrun.run.settings") { recipe = arg, schema = schema }
if request.dry_run then
  return print(("would score %s on %s"):format(text.counted(#cfg.model, "model"), text.counted(#cfg.data, "data set")))
end
sr.use(cfg.device, { threads = request.threads })

for _, path in ipairs(cfg.model) do sr.must(sr.checkpoint.pretrained(path)) end -- before the work for the others
local names = { cfg.columns.text, cfg.columns.pair, cfg.columns.label }
if table.concat(names, " ") == "sentence1 sentence2 score" then names = nil end -- those of published files, too
local scores = {} -- by model
for k, path in ipairs(cfg.model) do
  local encoder = sr.must(sr.encode.open(path, { pool = cfg.pool, max_len = cfg.max_len, precision = cfg.precision }))
  scores[k] = {}
  for i, data in ipairs(cfg.data) do
    scores[k][i] = sts.score(encoder, data, names)
    if not request.quiet then io.stderr:write(("%s on %s\n"):format(path, data)) end
  end
end

if cfg.format == "json" then
  local list = json.array {}
  for k, path in ipairs(cfg.model) do
    list[k] = { model = path, data = json.array(scores[k]), spearman = sts.mean(scores[k], "pairs"),
      ndcg_at_10 = sts.mean(scores[k], "retrieval") }
  end
  return print(json.encode { models = list })
end

local function percent(x) return x and ("%.2f"):format(100 * x) or "-" end
local cells = { { "data", "metric", "count", table.unpack(cfg.model) } }
for i, path in ipairs(cfg.data) do
  local one = scores[1][i]
  local row = { path, sts.HEADLINE[one.kind], tostring(one.count) }
  for k in ipairs(cfg.model) do row[3 + k] = percent(scores[k][i].metrics[sts.HEADLINE[one.kind]]) end
  cells[#cells + 1] = row
end
for _, kind in ipairs { "pairs", "retrieval" } do
  local _, count, all = sts.mean(scores[1], kind)
  if all > 1 then
    local row = { count == all and "mean" or ("mean of %d of %d"):format(count, all), sts.HEADLINE[kind], "" }
    for k in ipairs(cfg.model) do row[3 + k] = percent((sts.mean(scores[k], kind))) end
    cells[#cells + 1] = row
  end
end
local lines = cfg.format == "table" and grid.lines(cells, { left = { true, true }, cut = { true }, tail = { true } })
  or formats.lines(cells, cfg.format)
print(table.concat(lines, "\n"))
local failed = 0
for i, path in ipairs(cfg.data) do
  local reason = scores[1][i].reason
  if reason and reason:sub(1, #path) ~= path then reason = ("%s: %s"):format(path, reason) end
  if reason then (cfg.format == "table" and io.stdout or io.stderr):write("failed: ", reason, "\n") end
  failed = failed + (reason and 1 or 0)
end
if failed == #cfg.data then sr.must(nil, "no file could be scored", "data") end
