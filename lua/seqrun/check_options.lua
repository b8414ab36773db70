-- check_options.lua - a table of named options with a key that nobody reads is a mistake of the caller.

local guess = require("seqrun.guess")

---Raises at the caller's caller when `given` has a key that `known` has not.
---@param what string the function, for the message
---@param given table
---@param known table<string, any>
return function(what, given, known)
  for key in pairs(given) do
    if known[key] == nil then
      local names = {}
      for name in pairs(known) do names[#names + 1] = name end
      table.sort(names)
      error(("%s: unknown option '%s'%s"):format(what, tostring(key), guess.hint(tostring(key), names)), 3)
    end
  end
end
