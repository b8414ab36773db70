-- kind_of.lua - the kind of task of a class of Transformers.

local kinds = require("seqrun.base.kinds")

---@param architecture string|nil such as "BertForTokenClassification", of any family
---@param problem_type string|nil distinguishes the tasks of one class
---@param outputs integer decides where there is no problem type
---@return string|nil
return function(architecture, problem_type, outputs)
  local guess
  local class = architecture and architecture:match("For(%u%w+)$")
  for _, name in ipairs(class and kinds.names() or {}) do
    local head = kinds.get(name).head_fields
    if head.architecture == class and not kinds.get(name).like then
      if not head.problem_type or head.problem_type == problem_type then return name end
      if head.is_default and head.is_default(outputs) then guess = name end
    end
  end
  return guess
end
