-- data - text to .sqr files, files to data sets, data sets to updates.
--
--     sr.must(sr.data.prepare { inputs = "my/texts", out = "runs/data/novels.sqr", vocab = { size = 4000 } })
--     local corpus = sr.must(sr.data.open("runs/data/novels.sqr", { held = 0.05 }))
--     local loader = sr.must(sr.data.loader { data = corpus, max_len = 512, sequences = 32, seed = 1 })
--     for batch in loader:next():batches() do print(batch.ids, batch.layout) end

local data = {}

---Opens a data set.
---
---`held` is the fraction of the tokens held out for evaluation, 0.05 by default for text and 0
---for given examples: the last documents ("tail"), or documents by a keyed coin ("keyed").
---With `vocab`, a path or a vocabulary, a data set made with another one is rejected.
---@param path string
---@param options? seqrun.OpenOptions
---@return seqrun.Corpus? corpus
---@return string? message
---@return string? code
function data.open(path, options) return require("seqrun.data.dataset.corpus").open(path, options) end

---Makes updates of packed, padded or single sequences; see seqrun.data.loader.
---@param options seqrun.LoaderOptions
---@return seqrun.Loader? loader
---@return string? message
---@return string? code
function data.loader(options) return require("seqrun.data.loader").open(options) end

---The order of examples that come in groups, such as the choices of a question: for the loader's option `order`.
---@param corpus seqrun.Corpus
---@param options seqrun.GroupOptions
---@return fun(update: integer): (integer[][])? order for the loader
---@return integer updates of an epoch
---@return integer groups in the data set
---@return seqrun.Source[]? sources with weights: for the loader's option `mixed`
function data.groups(corpus, options) return require("seqrun.data.loader.groups")(corpus, options) end

---Makes a data set from raw text: trains a vocabulary if none is given, tokenizes on all threads, and
---puts the file in its place when it is whole.
---@param options seqrun.PrepareOptions
---@return table<string, number>? counts what was read, stored and dropped
---@return string? message
---@return string? code
function data.prepare(options) return require("seqrun.data.dataset.prepare")(options) end

---Makes a data set from given examples, { a = ids, b = ids, label = integer } each, or with any other columns.
---@param options seqrun.WriteOptions
---@return integer? count
---@return string? message
---@return string? code
function data.write(options) return require("seqrun.data.dataset.write")(options) end

---Makes a data set from labelled files: CSV, TSV, JSONL, CoNLL columns or SQuAD JSON.
---@param options seqrun.ReadOptions
---@return table? report
---@return string? message
---@return string? code
function data.read(options) return require("seqrun.data.readers").read(options) end

---Opens the data sets of a run: labelled files become data sets once, and are found again.
---@param options seqrun.FilesOptions
---@return { train: seqrun.Corpus, dev?: seqrun.Corpus, dev_part?: string, labels?: string[], notes: string[] }? sets
---@return string? message
---@return string? code
function data.files(options) return require("seqrun.data.readers.files")(options) end

---A metric: one number for each sequence, opened from a file of `seqrun analyze`, or a list of values by uid + 1.
---With `corpus`, a metric of another data set or vocabulary is rejected; with options of a loader, also one of other
---examples.
---@param from string|number[]
---@param corpus? seqrun.Corpus
---@param options? table
---@return seqrun.Metric? metric
---@return string? message
---@return string? code
function data.metric(from, corpus, options)
  local metric = require("seqrun.data.metric")
  if type(from) == "table" then return metric.new(from) end
  return metric.open(from, corpus, options)
end

---Streams the rows of labelled files, without making a data set.
---@param options seqrun.RecordOptions
---@return seqrun.readers.Records? records with next(): { text =, pair =, label =, id =, line =, file = }
---@return string? message
---@return string? code
function data.records(options) return require("seqrun.data.readers.records").open(options) end

return data
