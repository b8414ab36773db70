-- tasks.lua - what help says of a task: what it is for, its target, and the recipe that trains it.

local index = require("seqrun.help.index")
local tasks = require("seqrun.tasks")

local about = {}

local function is_task(name)
  for _, known in ipairs(tasks.names) do
    if known == name then return true end
  end
  return false
end

---What a task is for.
---@param name string
---@return string
function about.purpose(name) return tasks[name].doc or index.purpose("seqrun.tasks." .. name) end

---The task of a topic, "sr.tasks.classify" or the task itself; nil if it is none.
---@param topic any
---@return string|nil
function about.find(topic)
  if type(topic) == "string" then
    local name = topic:gsub("^sr%.", ""):match("^tasks%.(%l+)$")
    return name and is_task(name) and name or nil
  end
  for _, name in ipairs(tasks.names) do
    if rawequal(tasks[name], topic) then return name end
  end
end

---What is known of a task.
---@param name string
---@return string
function about.text(name)
  local task = tasks[name]
  local command = "seqrun " .. (task.recipe or "recipes/finetune.lua task=" .. name)
  local lines = { ("sr.tasks.%s: %s"):format(name, about.purpose(name)) }
  if task.head_class then lines[2] = ("  head             sr.nn.heads.%s"):format(task.kind) end
  lines[#lines + 1] = ("  train            %s %s"):format(command, task.example or ""):gsub("%s+$", "")
  lines[#lines + 1] = ("  its keys         %s --help"):format(command)
  return table.concat(lines, "\n")
end

---A line for each task.
---@return string[]
function about.lines()
  local lines = {}
  for i, name in ipairs(tasks.names) do
    lines[i] = ("  %-44s %s"):format("sr.tasks." .. name, (about.purpose(name):gsub(":.*", "")))
  end
  return lines
end

return about
