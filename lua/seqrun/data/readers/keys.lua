-- keys.lua - the config keys of runs that read labelled files.

local c = require("seqrun.config")
local formats = require("seqrun.data.readers.formats")
local weigh = require("seqrun.data.loader.keys").weigh

local keys = {}

---How files are read; of runs and of recipes/prepare_labelled.lua.
local function reading()
  return {
    { "format", c.enum(formats.NAMES, { default = "auto", doc = "format of the files; auto: from their names" }) },
    { "delimiter", c.string { optional = true, doc = "character between columns; none: comma in CSV, tab in TSV" } },
    { "quotes", c.enum({ "auto", "yes", "no" }, { default = "auto",
      doc = "yes: quotes enclose cells (RFC 4180); no: quotes are text; auto: yes in CSV, no in TSV" }) },
    { "bad", c.enum({ "error", "skip" }, { default = "error",
      doc = "rows that cannot be used (missing column, unknown label, empty text): error, or skip and count them" }) },
    { "labels", c.list(c.string {}, { optional = true, min = 2, distinct = true,
      doc = "class names in the order of their ids; none: those of the files, sorted" }) },
    { "separator", c.string { default = ",", doc = "text between the labels of a row with several (multilabel)" } },
    { "stride", c.integer { default = 128, min = 1, max = 65535,
      doc = "tokens between the starts of two windows of a long context (question answering), sentence (tokens) or "
        .. "text (data.windows; at most half of data.max_len)" } },
    { "windows", c.enum({ "mean", "max", "first" }, { optional = true,
      doc = "classify, multilabel: read longer texts in windows that overlap, and predict from the mean or the maximum "
        .. "of their log-probabilities (of labels: log-odds), or from the first; none: as data.too_long says" }) },
    { "query", c.integer { default = 64, min = 1, max = 65535,
      doc = "maximum tokens of a question (question answering)" } },
  }
end

---@param fields table[]
---@param more table[]
local function with(fields, more) return table.move(more, 1, #more, #fields + 1, fields) end

local data = c.map(with({
  { "train", c.list(c.path {}, { required = true, min = 1, one = true,
    doc = "labelled files to train on (CSV, TSV, JSONL, CoNLL, SQuAD; .gz and .zst too), or a data set (.sqr)" }) },
  { "dev", c.list(c.path {}, { optional = true, min = 1, one = true,
    doc = "labelled files to evaluate on; none: data.held of data.train" }) },
  { "held", c.number { default = 0.1, min = 0, max = 0.5,
    doc = "fraction of data.train to evaluate on where data.dev is none, drawn at random by seed" } },
  { "folds", c.integer { optional = true, min = 2, max = 1000,
    doc = "cross-validation: split data.train into this many parts, hold out each in turn in OUT/fold-N, and report "
      .. "mean and deviation; equal texts are in one part" } },
  { "fold", c.integer { optional = true, min = 1, max = 1000, doc = "run only the fold of this number" } },
  { "max_len", c.integer { default = 128, min = 8, max = 65535,
    doc = "maximum tokens of a sequence, [CLS] and [SEP] included, and length of a pack" } },
  { "too_long", c.enum({ "truncate", "error", "windows" }, { default = "truncate", before = "truncate",
    doc = "longer sequences: truncate them (pairs: the longer text first) and count them, error, or (task=tokens) read "
      .. "them in windows that overlap" }) },
  { "specials", c.boolean { default = false, doc = "read special tokens of the tokenizer that stand in texts, such as "
    .. "[E1], as these tokens; false: as plain text" } },
  { "folder", c.path { default = "runs/data", doc = "directory of the data sets made from files, which later runs "
    .. "reuse" } },
}, reading()))

local columns = c.map {
  { "text", c.string { optional = true, doc = "column of the text: a name, or a number from 1; none: text" } },
  { "pair", c.string { optional = true, doc = "column of the second text of a pair; none: single texts" } },
  { "label", c.list(c.string {}, { optional = true, min = 1, one = true,
    doc = "column of the label, or columns of several numbers or of 0 and 1 for each class; none: label" }) },
  { "choices", c.list(c.string {}, { optional = true, min = 1, one = true,
    doc = "columns of the choices of a question, or the one of a list (JSONL); none: choices" }) },
  { "id", c.string { optional = true, doc = "column of a row's id, which must be unique; none: rows have no ids" } },
  { "header", c.boolean { optional = true,
    doc = "whether the first row names the columns; none: yes if a column is given by name" } },
}

keys.keys = { { "data", data }, { "columns", columns } }
keys.reading, keys.columns = reading, columns

keys.rules = {
  { keys = { "data.train", "data.weights", "data.temperature" }, check = weigh "train" },
  {
    keys = { "data.windows", "data.weights", "data.temperature" },
    check = function(windows, weights, temperature)
      if not windows or not weights and not temperature then return nil end
      return ("data.windows numbers the texts of all files of data.train together, but with data.%s each is a source; "
        .. "leave one of them out"):format(weights and "weights" or "temperature")
    end,
  },
  {
    keys = { "data.windows", "columns.pair" },
    check = function(windows, pair)
      if windows and pair then return "data.windows cuts single texts; leave it out, or columns.pair" end
    end,
  },
  {
    keys = { "data.folds", "data.fold", "data.dev" },
    check = function(folds, fold, dev)
      if fold and not folds then return "data.fold needs data.folds, the number of folds" end
      if fold and fold > folds then return ("data.fold is %d, but data.folds is %d"):format(fold, folds) end
      if folds and dev then return "data.folds holds out parts of data.train; leave out data.dev, or data.folds" end
    end,
  },
  {
    keys = { "data.delimiter" },
    check = function(delimiter)
      if not delimiter or #delimiter == 1 or delimiter == "\\t" then return nil end
      return ("the delimiter is '%s'; it must be one character"):format(delimiter)
    end,
  },
}

return keys
