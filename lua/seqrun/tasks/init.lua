-- tasks - what can be trained, a file or folder each: pretraining, a curriculum, and fine-tuning for a task.
--
--     sr.tasks.classify                            a task; sr.tasks.names has the names of all that ship
--     sr.tasks.register { name = "robust", like = "regress", doc = "...", head = { ... } }   one of your own
--
-- A task is { keys, rules, without, settings } for sr.run.open, and functions that turn a config into options of the
-- loader, the model and the optimizer.  One of fine-tuning has a head, a reader, scores and predictions in one table:
-- tasks/shared/kind.lua says which fields.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local kinds = require("seqrun.base.kinds")
local sys = require("seqrun.core.sys")

local FOLDER = debug.getinfo(1, "S").source:match("^@(.*)/init%.lua$")

local tasks, known, ships, opened = {}, {}, {}, {}

for _, file in ipairs(failure.must(sys.list(FOLDER))) do
  local name = file:match("^(%l+)%.lua$") or file:match("^%l+$")
  if name and name ~= "init" and name ~= "shared" then ships[#ships + 1] = name end
end
table.sort(ships)

---Adds a task, so that training, evaluation, prediction and checkpoints know it; see tasks/shared/kind.lua.
---@param spec table
---@return seqrun.FinetuningTask
function tasks.register(spec)
  local task = require("seqrun.tasks.shared.kind")(spec)
  known[task.name] = task
  return task
end

---A task by its name, one that ships being loaded on first use; nil if there is none.
local function find(name)
  if known[name] then return known[name] end
  for _, ship in ipairs(ships) do
    if name == ship then
      local spec = require("seqrun.tasks." .. name)
      known[name] = spec
      if spec.head or spec.like then
        spec.name = name
        if spec.like then find(spec.like) end
        known[name] = require("seqrun.tasks.shared.kind")(spec, true)
      end
      return known[name]
    end
  end
end

---The task of a name, or of a Lua file that returns one.  The file is called with this module: a recipe that holds a
---task ends with `if ... == sr.tasks then return task end` before its loop.
---@param word string "classify", "my/task.lua"
---@return table|nil task
---@return string? message
---@return string? code
function tasks.open(word)
  if not word:find("%.lua$") then
    local task, problem = kinds.find(word)
    return task, problem, not task and "config" or nil
  end
  if opened[word] then return opened[word] end
  local chunk, message = loadfile(word, "t")
  if not chunk then return nil, ("task: %s"):format(message), "config" end
  local task = chunk(tasks)
  if type(task) == "table" and not task.head_class then task = tasks.register(task) end
  if type(task) ~= "table" then
    return nil, ("%s returns no task; end it with `return task`, a table for sr.tasks.register"):format(word), "config"
  end
  opened[word] = task
  return task
end

---The task of a recipe that serves several: task=NAME or task=FILE.lua of its words, or that of the config or of the
---run that they name.  Without one, --help lists the tasks, and the recipe ends.
---@param words string[] the global `arg`
---@return seqrun.FinetuningTask
function tasks.choose(words)
  return require("seqrun.tasks.shared.choose")(tasks, check.value("tasks.choose: words", words, "table"))
end

---The names of the tasks of fine-tuning, sorted.
---@return string[]
function tasks.finetuning() return kinds.names() end

tasks.names = ships

return setmetatable(tasks, {
  __index = function(_, name)
    local task = find(name)
    if task or type(name) ~= "string" then return task end
    local hint = require("seqrun.base.guess").hint(tostring(name), ships)
    check.fail("tasks: unknown task '%s'%s", tostring(name), hint)
  end,
})
