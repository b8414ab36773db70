-- glue.lua - the tasks of GLUE: their files as published, and the metrics whose mean is the score of a task.
--
-- Source: Wang et al. 2018, arXiv:1804.07461; gluebenchmark.com/tasks and /leaderboard.

local files = require("seqrun.run.suite.files")
local measure = require("seqrun.run.suite.measure")

---@class seqrun.SuiteTask
---@field name string
---@field suite string
---@field folders string[] names of its folder
---@field train string[] names of its training file
---@field dev string[]
---@field task string of fine-tuning
---@field metrics string[]
---@field usual? table<string, string> settings that the command line wins over
---@field columns? table[] forms of its tables: run/suite/files.lua
---@field prepare? fun(paths: table, out: string): table<string, string> of SuperGLUE: writes plain files
---@field measured? fun(paths: table): fun(folder: string): table?, string? metrics of a run that has ended

local PAIR = { text = "sentence1", pair = "sentence2", label = "label" }

local TASKS = {
  {
    name = "CoLA", task = "classify", metrics = { "matthews" },
    columns = {
      { text = "sentence", label = "label" }, { count = 4, text = 4, label = 2 }, { count = 2, text = 1, label = 2 },
    },
  },
  {
    name = "SST-2", folders = { "SST-2", "SST" }, task = "classify", metrics = { "accuracy" },
    columns = { { text = "sentence", label = "label" }, { count = 2, text = 1, label = 2 } },
  },
  {
    name = "MRPC", task = "pair", metrics = { "f1", "accuracy" },
    columns = {
      { header = "#1 String", text = 4, pair = 5, label = 1 }, PAIR, { count = 5, text = 4, pair = 5, label = 1 },
    },
  },
  {
    name = "STS-B", folders = { "STS-B", "STSBenchmark" }, task = "regress", metrics = { "pearson", "spearman" },
    columns = {
      { text = "sentence1", pair = "sentence2", label = "score" }, PAIR,
      { count = 10, text = 8, pair = 9, label = 10 },
    },
  },
  {
    name = "QQP", task = "pair", metrics = { "f1", "accuracy" },
    usual = { ["data.bad"] = "skip" }, -- some rows lack columns, as published
    columns = { { text = "question1", pair = "question2", label = "is_duplicate" } },
  },
  {
    name = "MNLI", folders = { "MNLI", "MultiNLI" }, task = "pair", metrics = { "accuracy", "accuracy_mismatched" },
    dev = { "dev_matched.tsv" },
    columns = { { text = "sentence1", pair = "sentence2", label = "gold_label" } },
    measured = function(paths)
      local other = files.first(paths.folder, { "dev_mismatched.tsv" })
      if not other then return nil, paths.folder .. ": dev_mismatched.tsv is missing, half of the score" end
      return measure.file(other, { accuracy_mismatched = "accuracy" })
    end,
  },
  {
    name = "QNLI", task = "pair", metrics = { "accuracy" },
    columns = { { text = "question", pair = "sentence", label = "label" } },
  },
  { name = "RTE", task = "pair", metrics = { "accuracy" }, columns = { PAIR } },
  { name = "WNLI", task = "pair", metrics = { "accuracy" }, columns = { PAIR } },
}

for _, task in ipairs(TASKS) do
  task.suite, task.folders = "GLUE", task.folders or { task.name }
  task.train, task.dev = { "train.tsv" }, task.dev or { "dev.tsv" }
end

return TASKS
