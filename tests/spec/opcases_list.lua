-- opcases_list.lua - the list of cases of ops, which adds one when it is called: case(name, make, run, more).

return setmetatable({}, {
  __call = function(list, name, make, run, more)
    local case = more or {}
    case.name, case.make, case.run = name, make, run
    list[#list + 1] = case
  end,
})
