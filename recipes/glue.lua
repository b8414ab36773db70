-- glue.lua - fine-tunes and scores an encoder on every GLUE and SuperGLUE task whose files it finds, over seeds.
--
--     seqrun recipes/glue.lua init.from=DIR data=glue                     folders CoLA, SST-2, MRPC ... as published
--     seqrun recipes/glue.lua init.from=DIR data=[glue,super_glue] tasks=[RTE,BoolQ] seeds=5
--     seqrun recipes/glue.lua init.from=DIR data=glue epochs=5 MRPC.epochs=10 CoLA.rate.peak=2e-5
--
-- Other keys are those of recipes/finetune.lua, for all tasks or, after a task's name, for one.  Repeating the command
-- continues it: finished runs are not repeated, and a failed run is a row with the reason.  Scores are those of the
-- development sets; test sets are not read.

local sr = require "seqrun"
local c = sr.config
local show = require "seqrun.run.suite.show"
local suite = require "seqrun.run.suite"

local schema = c.map {
  { "data", c.list(c.path {}, { required = true, min = 1, one = true,
    doc = "directories with a folder for each task, such as CoLA/train.tsv and CoLA/dev.tsv" }) },
  { "tasks", c.list(c.string {}, { optional = true, min = 1, one = true,
    doc = "tasks or suites to run; none: all found" }) },
  { "seeds", c.integer { default = 3, min = 1, max = 1000, doc = "runs of each task, with the seeds 1 to N" } },
  { "budget", c.duration { optional = true, doc = "time for all runs, such as 2h; the same command continues" } },
  { "retry", c.boolean { default = false, doc = "repeat runs that failed" } },
  { "format", c.enum({ "table", "csv", "markdown", "json" }, { default = "table", doc = "of the result" }) },
}
local own = {}
for _, field in ipairs(schema.fields) do own[field.name] = true end

local words, of_runs = suite.split(arg, own)
local cfg, request = require("seqrun.run.settings") { recipe = words, schema = schema }
local all = table.move(require "seqrun.run.suite.glue", 1, 99, 1, {})
table.move(require "seqrun.run.suite.superglue", 1, 99, #all + 1, all)

local found = suite.new {
  tasks = suite.choose(all, cfg.tasks), data = cfg.data, words = of_runs, recipe = request.file,
  out = request.out or "runs/glue", seeds = cfg.seeds, retry = cfg.retry, budget = cfg.budget,
  threads = request.threads, dry = request.dry_run,
  told = function(line) if not request.quiet then io.stderr:write(line, "\n") end end,
}
if request.dry_run then return print(show.plan(found)) end

local rows, whole = found:run()
print(show.text(found, rows, { all = all, whole = whole, format = cfg.format }))
local scored = false
for _, row in ipairs(rows) do scored = scored or row.mean ~= nil end
if whole and not scored then sr.must(nil, "no task has a score", "numeric") end
if not whole then sr.must(nil, "the budget ended; repeat the command with a larger budget to continue", "stopped") end
