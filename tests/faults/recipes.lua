-- recipes.lua - one plausible mistake in a recipe at a time: a line, and nothing else, is another.
--
--     [COUNT=N] [SEED=N] [ONLY=TEXT] build/seqrun tests/faults/recipes.lua
--
-- A recipe of pretraining, or one with a head of its own, gets one edit of tests/support/recipes.lua at random, on a
-- small model with drawn settings: a line is left out, moved, written twice or with another word.  Each must end with a
-- message that names the line, or print a warning; none may train silently, and none may be an internal error.

package.path = "./?.lua;" .. package.path
local frame = require("tests.faults.support.frame")
local program = require("tests.support.program")
local recipes = require("tests.support.recipes")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local trial = frame.open("recipes", { short = 12, long = 500, sanitized = 4 })
local corpus = small.corpus(trial.folder, 60)

---The settings of a run: few and short updates, with an evaluation.
local function settings(draw)
  return {
    "model.hidden_size=16", "model.num_hidden_layers=2", "model.num_attention_heads=2", "model.intermediate_size=32",
    "batch.sequences=" .. 8 + draw(9), "batch.micro_packs=2", "rate.peak=3e-3", "rate.warmup=2", "rate.total=6",
    "seed=" .. draw(1000), "threads=1", "precision=" .. (draw(2) == 0 and "f32" or "bf16"), "log.every=" .. 1 + draw(3),
    "eval.updates=2", "data.file=" .. corpus, "data.held=0.2", "data.max_len=64",
    "optimizer.name=" .. ({ "adamw", "lamb", "stable_adamw" })[1 + draw(3)],
  }
end

---Runs a recipe of this text.
local function run(name, text)
  local path, words = ("%s/%s.lua"):format(trial.folder, name), settings(function(n) return trial:random(n) end)
  assert(sys.write_file(path, text))
  assert(sys.write_file(path:gsub("lua$", "yaml"), assert(sys.read_file("recipes/pretrain.yaml"))))
  words = table.move(words, 1, #words, 5, { path, "--force", "--out", trial.folder .. "/out" })
  local code, out, err = program.run(words)
  for _, entry in ipairs(sys.list(trial.folder)) do
    if entry:find("^out") then sys.remove(trial.folder .. "/" .. entry) end
  end
  return code, out .. err, path
end

---What is wrong with how an edited recipe ended; nil if nothing is.
local function judge(code, told, path)
  if told:find("internal error", 1, true) then return "an internal error" end
  if code > 128 then return "killed by signal " .. code - 128 end
  local is_told = told:find("warning: ", 1, true) or told:find("has left run:steps", 1, true)
  if code == 0 then return not is_told and "trained silently" or nil end
  local name = path:match("[^/]*$"):gsub("%p", "%%%0")
  if not told:find(name .. ":%d+: ") then return "no line of the recipe in the message" end
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
  local code, told = run(kind, text)
  if code ~= 0 or told:find("warning: ", 1, true) then trial:fail("%s is sound, but: %s", kind, told:sub(-600)) end
end
for i, one in ipairs(draws) do
  local code, told, path = run(("%s-%d"):format(one.kind, i), recipes.edited(one.kind, one.edit))
  local problem = judge(code, told, path)
  if problem then
    trial:fail("%s in %s: %s (exit code %d)\n%s", one.edit.name, one.kind, problem, code, told:sub(-600))
  end
  trial:tally(problem == nil)
end

trial:done("%d of %d mistakes tried", trial.tried, trial.possible)
