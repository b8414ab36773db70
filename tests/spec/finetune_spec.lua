-- The fine-tuning recipes on files: each learns a separable file, and stays at chance when its labels are shuffled.

local files = require("tests.support.task_files")
local program = require("tests.support.program")
local small = require("tests.support.small")

local folder = program.folder()
local base = files.encoder(folder .. "/base")

---Runs a recipe on files of a kind; returns its last evaluation and the words that it printed.
local function run(recipe, data, out, ...)
  local words = {
    "recipes/finetune.lua", "task=" .. recipe, "data.train=" .. data.train, "data.dev=" .. data.dev,
    "data.folder=" .. folder .. "/sets", "init.from=" .. base, "data.max_len=48", "seed=3", "save.minutes=0",
    "optimizer.decay=0", "data.query=16", "--quiet", "--out", folder .. "/" .. out, ...,
  }
  table.move(data.words, 1, #data.words, #words + 1, words)
  local text, err = program.ok(words)
  local lines = small.metrics(folder .. "/" .. out, "eval")
  return lines[#lines], text, err
end

---What counts as learned, and what as chance, by recipe.
local GOALS = {
  classify = { epochs = 12, chance = 1 / 3 }, pair = { epochs = 12, chance = 1 / 2 },
  choice = { epochs = 12, chance = 1 / 3 }, tokens = { epochs = 6, chance = 1 / 2 },
  multilabel = { epochs = 14, chance = 1 / 8 }, regress = { epochs = 12, metric = "pearson", chance = 0 },
  squad = { epochs = 8, metric = "f1", chance = 0.15 },
}

describe("the recipe", function()
  for _, kind in ipairs(files.KINDS) do
    local goal = GOALS[kind]
    local function score(line) return line[goal.metric or "accuracy"] end

    it("finetune_" .. kind .. " learns a separable file #slow", function()
      local line = run(kind, files.write(folder, kind), kind, "rate.peak=4e-3", "epochs=" .. goal.epochs)
      assert.is_true(score(line) >= 0.95, tostring(score(line)))
    end)

    it("finetune_" .. kind .. " stays at chance when labels are shuffled #slow", function()
      local line = run(kind, files.write(folder, kind, true), kind .. "-shuffled", "rate.peak=1e-3", "epochs=2")
      assert.is_true(math.abs((score(line) or 0) - goal.chance) <= 0.2, tostring(score(line))) -- nil: undefined
    end)
  end
end)
