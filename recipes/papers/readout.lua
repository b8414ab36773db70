-- readout.lua - what pretrained weights are worth: the same fine-tuning from each, and from random weights.
--
--     local task = readout.task(options, "domains")
--     readout.train(options, task, "runs/mlm-1", 1)
--     local score, collapsed = readout.score(task, "runs/mlm-1")
--
-- domains   the domain of a noun of WordNet from its definition: 20 labels of each of nine
-- novels    which of the novels in recipes/data a paragraph is from: 50 labels of each
-- cola      acceptable sentences, by Matthews' correlation: DIR/CoLA/train.tsv and dev.tsv of glue=DIR
-- sst2      positive phrases: 3,000 labels of DIR/SST-2/train.tsv
--
-- A fine-tuning that predicts one class for all has no score: it is counted.

local experiment = require("experiment")
local common = require("common")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local readout = {}

local LABELLED, HELD, LEAST = 50, 400, 20 -- paragraphs of a novel to train on and to evaluate on; words of one

---Writes FOLDER/train.tsv and dev.tsv of paragraphs of the novels, spread over each.
local function novels(folder)
  local parts = { train = { "text\tlabel" }, dev = { "text\tlabel" } }
  for _, name in ipairs(experiment.NOVELS) do
    local list = {}
    for text in (sr.must(sys.read_file(experiment.RECIPES .. name)) .. "\n\n"):gmatch("(.-)\n%s*\n") do
      local words = {}
      for word in text:gmatch("%S+") do words[#words + 1] = word end
      if #words >= LEAST then list[#list + 1] = table.concat(words, " ", 1, math.min(#words, 3 * LEAST)) end
    end
    for i = 1, LABELLED + HELD do
      local part = parts[i <= LABELLED and "train" or "dev"]
      local at = 1 + (i * 7919) % #list -- a prime: paragraphs of the whole novel, each once
      part[#part + 1] = list[at] .. "\t" .. name:match("([^/]*)%.txt$")
    end
  end
  for name, lines in pairs(parts) do
    sr.must(sys.write_file(("%s/%s.tsv"):format(folder, name), table.concat(lines, "\n") .. "\n"))
  end
end

local function domains(folder)
  experiment.run { experiment.RECIPES .. "data/wordnet.lua", "out=" .. folder, "labelled=20", "--quiet" }
end

---The first lines of the files of a GLUE task.
local function glue(name, most)
  return function(folder, options)
    for _, part in ipairs { "train", "dev" } do
      local path, lines = ("%s/%s/%s.tsv"):format(options.glue, name, part), {}
      if not sys.exists(path) then common.refuse("glue=%s: %s is missing", options.glue, path) end
      for line in io.lines(path) do
        lines[#lines + 1] = line
        if #lines > most then break end
      end
      sr.must(sys.write_file(("%s/%s.tsv"):format(folder, part), table.concat(lines, "\n") .. "\n"))
    end
  end
end

local TASKS = {
  domains = { write = domains, words = { "columns.text=definition", "columns.label=domain", "epochs=16" } },
  novels = { write = novels, words = { "columns.text=text", "columns.label=label", "epochs=16" } },
  cola = {
    write = glue("CoLA", 1e5), score = "matthews",
    words = { "columns.header=false", "columns.text=1", "columns.label=2", "epochs=3" },
  },
  sst2 = { write = glue("SST-2", 3000), words = { "columns.text=sentence", "columns.label=label", "epochs=4" } },
}

---A task with its files, which are written unless they exist.
---@param options table of experiment.open, with glue
---@param name string
---@return table
function readout.task(options, name)
  local own = TASKS[name]
  if not own then common.refuse("tasks: there is no '%s'; choose domains, novels, cola or sst2", name) end
  local task = { name = name, folder = options.out .. "/" .. name, score = own.score or "accuracy", words = own.words,
    collapsed = {} }
  if options.only ~= "report" and not sys.exists(task.folder .. "/dev.tsv") then
    sr.must(sys.make_dirs(task.folder))
    own.write(task.folder, options)
  end
  return task
end

---Fine-tunes the weights of a run.
---@param options table
---@param task table
---@param from string its folder
---@param seed integer
function readout.train(options, task, from, seed)
  local words = {
    experiment.RECIPES .. "finetune.lua", "task=classify", "preset=demo", "init.from=" .. from,
    "data.train=" .. task.folder .. "/train.tsv", "data.dev=" .. task.folder .. "/dev.tsv",
    "data.folder=" .. options.out .. "/sets", "seed=" .. seed, "eval.epochs=0",
  }
  experiment.train(options, from .. "-" .. task.name, table.move(task.words, 1, #task.words, #words + 1, words))
end

---The score of a fine-tuned run; nil where it has not ended, or predicts one class for all.
---@param task table
---@param from string the folder of the pretrained run
---@return number?
---@return boolean? collapsed
function readout.score(task, from)
  local curve = experiment.curve(from .. "-" .. task.name)
  local last = curve[#curve]
  if not last or not experiment.finished(from .. "-" .. task.name) then return nil end
  if last.matthews == 0 then return nil, true end
  return last[task.score], false
end

return readout
