-- analysis - computes metrics of a data set: one number for each sequence, one file for each metric.
--
--     local made = sr.must(sr.data.analyze { data = corpus, metrics = { "length", "rarity" }, out = "runs/data" })
--     print(made.rarity:percentile(50))
--
-- A metric is of the examples of one epoch, as a loader with the same options draws them: the fixed examples of a data
-- set, whole, or the pairs that an epoch of a text draws.  Work that was stopped goes on where it was; a metric that is
-- there already is kept.

local check = require("seqrun.base.check")
local core = require("seqrun.core.metric")
local data = require("seqrun.data")
local failure = require("seqrun.base.failure")
local metric = require("seqrun.data.metric")
local live = require("seqrun.draw.live")
local sys = require("seqrun.core.sys")

---@class seqrun.AnalyzeOptions
---@field data seqrun.Corpus|string
---@field metrics (string|seqrun.MetricOptions)[] length, rarity, rarity_integer, length_rarity, token_counts,
---compressibility, tfidf, loss, or functions of your own
---@field out? string directory; by default that of the data set.  Files are called DATA.NAME.metric
---@field part? "train"|"held"
---@field max_len? integer of text, 128; of fixed examples only to split them
---@field nsp? boolean of text: pairs, as loaders have by default
---@field short_seq_prob? number of text, 0.1
---@field short_seq_by? "sequence"|"document" of text, as loaders have it
---@field seed? integer of text
---@field epoch? integer of text
---@field too_long? "truncate"|"split" of fixed examples: "split" if the loader splits them
---@field threads? integer all processors by default
---@field progress? fun(line: string) takes a line now and then

local OPTIONS = {
  data = true, metrics = true, out = true, part = true, max_len = true, nsp = true, short_seq_prob = true,
  short_seq_by = true, seed = true, epoch = true, too_long = true, threads = true, progress = true,
}

---Tokens of a fixed example that is measured whole.
local WHOLE = 65535

---The examples to measure, as a loader has them.
local function examples_of(t, corpus)
  local fixed = corpus:info().kind == "examples"
  local split = t.too_long == "split"
  local o = {
    part = t.part, short_seq_prob = t.short_seq_prob, short_seq_by = t.short_seq_by, seed = t.seed, epoch = t.epoch,
    max_len = t.max_len, nsp = t.nsp, too_long = t.too_long,
  }
  if not fixed then return o end
  o.nsp, o.too_long, o.epoch = false, split and "split" or "truncate", nil
  if not split then o.max_len = WHOLE end
  return o
end

local analysis = {}

---The usual path of a metric's file.
---@param corpus seqrun.Corpus
---@param name string
---@param out? string directory; that of the data set by default
---@return string
function analysis.path_of(corpus, name, out)
  local path = corpus:info().path
  local folder, base = path:match("^(.*/)([^/]*)$")
  folder, base = folder or "", base or path
  if out then folder = out:gsub("/*$", "/") end
  return ("%s%s.%s.metric"):format(folder, (base:gsub("%.sqr$", "")), name)
end

---The file of the same metric, if it is there.
local function found(path, about)
  local opened = sys.exists(path) and failure.valid(metric.open(path))
  if not opened then return nil end
  for key, value in pairs(about) do
    if opened.about[key] ~= value then return nil end
  end
  return opened
end

---Says now and then how far a metric is.
local function new_teller(t, name, parts)
  local progress = live.work(name, { total = parts, unit = "parts", print = t.progress, quiet = not t.progress })
  return function(values, done)
    if done == nil then return progress:finish() end
    if progress:due() then progress:at(done, ("%d sequences"):format(values)) end
  end
end

---Computes a metric that is not there yet.
local function compute(self, kind, path, about)
  if kind.total then return kind.total(self, path, about.options) end
  local a = self.analysis
  local values, next = failure.must(a:begin(path .. ".part", table.concat({
    about.name, about.data, about.vocab, about.examples, about.options,
  }, "|")))
  if values > 0 and self.t.progress then
    self.t.progress(("%s: continuing after %d sequences"):format(about.name, values))
  end
  local tell = new_teller(self.t, about.name, math.max(1, a:parts()))
  local _, message, code = failure.returned(kind.run, self, next, tell, values)
  tell()
  if code == "data" or code == "invalid" then a:drop() end -- a wrong value: nothing to continue from
  if code then failure.raise(code, "%s", message) end
  failure.must(a:finish(path, about.name, about.options))
end

local function one(self, spec)
  local kind = require("seqrun.analysis.kinds").read(self, spec)
  local info = self.corpus:info()
  local path = type(spec) == "table" and spec.path or analysis.path_of(self.corpus, kind.name, self.t.out)
  local about = {
    name = kind.name, data = info.digest, vocab = info.fingerprint,
    examples = self.analysis:subject(), options = kind.options,
  }
  local opened = found(path, about)
  if opened then
    if self.t.progress then self.t.progress(("%s: %s is there already"):format(kind.name, path)) end
    return opened
  end
  compute(self, kind, path, about)
  return failure.must(metric.open(path))
end

local function analyze(t)
  local corpus = t.data
  if type(corpus) == "string" then corpus = failure.must(data.open(corpus)) end
  if not corpus then check.fail("data.analyze: give data, a data set or its path") end
  if t.too_long == "split" and not t.max_len then
    failure.raise("config", "analyze: pieces of fixed examples (--split) need --max-len, as the loader has it")
  end
  local self = { t = t, corpus = corpus, examples = examples_of(t, corpus) }
  local object <close> = failure.must(core.analysis(corpus.core, self.examples, t.threads))
  self.analysis = object
  local made = {}
  for _, spec in ipairs(t.metrics) do
    local opened = one(self, spec)
    made[#made + 1], made[opened:name()] = opened, opened
  end
  return made
end

---Computes metrics of the sequences of a data set, a file each; see seqrun.analysis.
---@param t seqrun.AnalyzeOptions
---@return table<string, seqrun.Metric>? metrics by name, and in order
---@return string? message
---@return string? code
function analysis.analyze(t)
  check.options("data.analyze", t, OPTIONS)
  check.value("data.analyze: metrics", t.metrics, "table")
  local made, message, code = failure.returned(analyze, t) -- no tail call: error messages name the function
  return made, message, code
end

return analysis
