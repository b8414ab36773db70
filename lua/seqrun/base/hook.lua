-- hook.lua - functions of rooms above, for the rooms that call them: each is declared where it is called, and provided
-- by the program when it starts.
--
--     local open_data_set = hook "open_data_set"                       in the room below
--     hook.provide { open_data_set = function(path) ... end }          in cli/init.lua, and only there

local provided = {}

local hook = {}

---@param functions table<string, function>
function hook.provide(functions)
  for name, fn in pairs(functions) do provided[name] = fn end
end

return setmetatable(hook, {
  ---A function that calls what is provided under a name; without that it returns nothing.
  __call = function(_, name)
    return function(...)
      if provided[name] then return provided[name](...) end
    end
  end,
})
