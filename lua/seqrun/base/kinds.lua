-- kinds.lua - kinds of tasks by name, for the rooms below `tasks`: each finds here what it needs of a kind.
--
-- A task is a file of lua/seqrun/tasks, or a table of a recipe, which adds itself; see tasks/shared/kind.lua for its
-- fields.

local guess = require("seqrun.base.guess")
local hook = require("seqrun.base.hook")

local kinds = {}

local by_name, names = {}, {}

---Adds the task of this name if it ships; without a name, all that ship.
---@type fun(name?: string)
local load_tasks = hook "load_tasks"

local all = false -- whether all that ship have been added

---Adds a kind, or replaces the one of its name.
---@param kind table with `name`
function kinds.add(kind)
  if not by_name[kind.name] then names[#names + 1] = kind.name end
  by_name[kind.name] = kind
end

---@param name string|nil
---@return table|nil
function kinds.get(name)
  if name and not by_name[name] and not all then load_tasks(name) end
  return by_name[name]
end

---@return string[] names sorted
function kinds.names()
  if not all then
    all = true
    load_tasks()
  end
  local list = table.move(names, 1, #names, 1, {})
  table.sort(list)
  return list
end

---The kind of this name, or a sentence that says which there are.
---@param name any
---@return table|nil
---@return string? problem
function kinds.find(name)
  local kind = kinds.get(name)
  if kind then return kind end
  local hint = guess.hint(tostring(name), kinds.names())
  return nil, ("unknown task '%s'%s"):format(tostring(name),
    hint ~= "" and hint or "; choose " .. table.concat(kinds.names(), ", "))
end

return kinds
