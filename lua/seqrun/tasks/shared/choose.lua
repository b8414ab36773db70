-- choose.lua - the task of a recipe that serves several, from the words of its command line.

local failure = require("seqrun.base.failure")
local problems = require("seqrun.config.problems")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")
local tree = require("seqrun.config.tree")

---The values of words such as task=NAME, config=FILE, --resume=DIR, --out DIR.
local function words_of(words)
  local given = {}
  for i, word in ipairs(words) do
    local name, value = word:match("^%-?%-?([%l]+)=(.*)$")
    if name then given[name] = value end
    if word == "--out" then given.out = words[i + 1] end
    if word == "--resume" then given.resume = given.resume or true end
    if word == "--help" or word == "-h" then given.help = true end
  end
  return given
end

---The task that a config file names.
local function task_in(path)
  if not path or not sys.exists(path) then return nil end
  local content, found = failure.must(sys.read_file(path, 1 << 20)), problems.new()
  local task = tree.read(content, problems.file_source(path, content), found).by_name.task
  if task and task.value.kind == "scalar" then return task.value.value end
  if #found > 0 then failure.raise("config", "%s", tostring(found)) end
end

---The same, unless it is code: a config may be somebody else's.
local function harmless_task_in(path)
  local name = task_in(path)
  if not name or not name:find("%.lua$") then return name end
  failure.raise("config", "%s names the task %s, a file of code; if you trust it, repeat task=%s on the command line",
    path, name, text.shell(name))
end

---The tasks without a loop of their own.
local function names_of(tasks)
  local names = {}
  for _, name in ipairs(tasks.finetuning()) do names[#names + 1] = not tasks[name].recipe and name or nil end
  return names
end

---Prints the tasks, as --help without one.
local function list(recipe, tasks)
  local lines = {
    ("usage: seqrun %s task=NAME [key.path=value ...] [config=FILE] [preset=NAME]"):format(recipe), "", "tasks:",
  }
  local names = names_of(tasks)
  for _, name in ipairs(names) do lines[#lines + 1] = ("  %-12s %s"):format(name, tasks[name].doc) end
  lines[#lines + 1] = ("  %-12s %s"):format("FILE.lua", "a task of your own: recipes/finetune_own.lua has one")
  lines[#lines + 1] = "\nexamples:"
  for _, name in ipairs(names) do
    if tasks[name].example then lines[#lines + 1] = ("  task=%-12s %s"):format(name, tasks[name].example) end
  end
  lines[#lines + 1] = ("\n`seqrun %s task=%s --help` lists the keys of a task"):format(recipe, names[1])
  print(require("seqrun.draw.live").fit_output(table.concat(lines, "\n")))
  failure.raise("ok", "")
end

---@param tasks table
---@param words string[] the global `arg`
---@return seqrun.FinetuningTask
return function(tasks, words)
  local given = words_of(words)
  local resumed = given.resume and (type(given.resume) == "string" and given.resume or given.out)
  local saved = task_in(resumed and resumed .. "/config.yaml")
  if saved and given.task and saved ~= given.task and not given.task:find("%.lua$") then
    failure.raise("config",
      "%s is a run of the task %s, not %s; leave out task=%s, or begin another run with --out DIR", resumed, saved,
      given.task, given.task)
  end
  local name = given.task or harmless_task_in(given.config) or harmless_task_in(resumed and resumed .. "/config.yaml")
  if name then
    local task = failure.must(tasks.open(name))
    if task.recipe then
      failure.raise("config", "the task %s has its own loop; run %s instead of %s task=%s", task.name, task.recipe,
        words[0], task.name)
    end
    return task
  end
  if given.help then list(words[0], tasks) end
  local way = given.resume == true and "name the run (--resume=DIR), or add task=NAME" or "add task=NAME"
  failure.raise("config", "%s: no task given; %s: %s", words[0], way, table.concat(names_of(tasks), ", "))
end
