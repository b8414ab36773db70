-- recipes.lua - one plausible mistake in a recipe at a time: a line, and nothing else, is another.
--
--     [COUNT=N] [SEED=N] [ONLY=TEXT] build/seqrun tests/faults/recipes.lua
--
-- A recipe of pretraining or fine-tuning, perhaps with a head or a task of its own, gets one edit of
-- tests/support/recipes.lua at random, on a small model with drawn settings: a line is left out, moved, written twice
-- or with another word.  Each must end with a message that names the line, or print a warning; none may train silently,
-- and none may be an internal error.

package.path = "./?.lua;" .. package.path
local files = require("tests.support.task_files")
local frame = require("tests.faults.support.frame")
local program = require("tests.support.program")
local recipes = require("tests.support.recipes")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local trial = frame.open("recipes", { short = 12, long = 500, sanitized = 4 })

local function random(n) return trial:random(n) end

---The settings of a run: few and short updates, with an evaluation.
local function settings()
  return {
    "batch.sequences=" .. 12 + random(9), "rate.peak=3e-3", "rate.warmup=2", "seed=" .. random(1000), "threads=1",
    "precision=" .. (random(2) == 0 and "f32" or "bf16"), "log.every=" .. 1 + random(3),
    "optimizer.name=" .. ({ "adamw", "lamb", "stable_adamw" })[1 + random(3)], "--max-steps=6",
  }
end

local function joined(words, more) return table.move(more, 1, #more, #words + 1, words) end

local corpus, base

---The words of a recipe of pretraining.
local function pretraining()
  corpus = corpus or small.corpus(trial.folder, 60)
  return joined(settings(), {
    "config=recipes/pretrain.yaml", "model.hidden_size=16", "model.num_hidden_layers=2", "model.num_attention_heads=2",
    "model.intermediate_size=32", "batch.micro_packs=2", "rate.total=6", "eval.updates=2", "data.file=" .. corpus,
    "data.held=0.2", "data.max_len=64",
  })
end

---The words of a recipe of fine-tuning.
local function tuning(task)
  base = base or files.encoder(trial.folder .. "/base")
  local micro = "batch.micro_packs=" .. (task == "choice" and 2 or 1)
  local words = files.finetune(trial.folder, task, files.write(trial.folder, task), base, micro,
    task == "squad" and "data.query=16" or nil)
  return joined(joined({ "config=recipes/finetune.yaml" }, table.move(words, 2, #words, 1, {})), settings())
end

local WORDS = {
  loop = pretraining, head = pretraining, tune = function() return tuning(files.KINDS[1 + random(#files.KINDS)]) end,
  own = function()
    local words = tuning("regress")
    table.remove(words, 2)
    return joined(words, { "columns.label=score" })
  end,
}

---Runs a recipe of this text.
local function run(name, text, words)
  local path = program.write(trial.folder, name .. ".lua", text)
  local code, out, err = program.run(joined({ path, "--force", "--out", trial.folder .. "/out" }, words),
    { before = "timeout -s KILL 600" })
  for _, entry in ipairs(sys.list(trial.folder)) do
    if entry:find("^out") then sys.remove(trial.folder .. "/" .. entry) end
  end
  for _, usual in ipairs { "warning: alert: loss", "warning: %d+ of %d+ dev examples" } do err = err:gsub(usual, "") end
  return code, out .. err, path
end

---What is wrong with how an edited recipe ended; nil if nothing is.
local function judge(code, told, path)
  if told:find("internal error", 1, true) then return "an internal error" end
  if code > 128 then return "killed by signal " .. code - 128 end
  local is_told = told:find("warning: ", 1, true) or told:find("has left run:steps", 1, true)
  if code == 0 then return not is_told and "trained silently" or nil end
  local name = path:match("[^/]*$"):gsub("%p", "%%%0")
  local message = (told:match("seqrun: (.*)") or ""):gsub("\nstack traceback.*", "")
  if not message:find(name .. ":%d+: ") then return "no line of the recipe in the message" end
end

local list = {}
for _, edit in ipairs(recipes.edits) do
  for _, kind in ipairs(edit.of) do
    if trial:wants(edit.name) then list[#list + 1] = { edit = edit, kind = kind, key = edit.name .. kind } end
  end
end
trial:count_of(#list)

local draws = {}
if trial.count >= #list then
  for i = 1, trial.count == math.huge and #list or trial.count do draws[i] = list[1 + (i - 1) % #list] end
else
  draws = trial:due(list)
end

for kind, text in pairs(recipes.text) do
  local words = WORDS[kind]()
  local code, told = run(kind, text, words)
  if code ~= 0 or told:find("warning: ", 1, true) then
    trial:fail("%s is sound, but: %s\n%s", kind, told:sub(-600), table.concat(words, " "))
  end
end
for i, one in ipairs(draws) do
  local words = WORDS[one.kind]()
  local code, told, path = run(("%s-%d"):format(one.kind, i), recipes.edited(one.kind, one.edit), words)
  local problem = judge(code, told, path)
  if problem then
    trial:fail("%s in %s: %s (exit code %d)\n%s\n%s", one.edit.name, one.kind, problem, code, table.concat(words, " "),
      told:sub(-600))
  end
  trial:tally(problem == nil)
end

trial:done("%d of %d mistakes tried", trial.tried, trial.possible)
