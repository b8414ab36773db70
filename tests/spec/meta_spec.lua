-- The annotations in lua/seqrun/meta describe exactly the functions of the C modules.

--- The declarations of an annotation file: functions of the module, and methods by class.
local function declared(path)
  local functions, methods = {}, {}
  local module
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  for _, line in ipairs(lines) do module = line:match("^return ([%w_]+)") or module end
  for _, line in ipairs(lines) do
    local owner, dot, name = line:match("^function ([%w_]+)([.:])([%w_]+)%(")
    if owner == module and dot == "." then
      functions[name] = true
    elseif owner then
      methods[owner] = methods[owner] or {}
      methods[owner][name] = true
    end
  end
  return functions, methods
end

--- The functions in the module's table.
local function bound(name)
  local functions = {}
  for key, value in pairs(require("seqrun.core." .. name)) do
    if type(value) == "function" then functions[key] = true end
  end
  return functions
end

--- The methods of every class registered by C code, by the last part of its name in lower case:
--- those of "seqrun.Tensor" are under "tensor".
local function bound_methods()
  local classes = {}
  for key, metatable in pairs(debug.getregistry()) do
    local ours = type(key) == "string" and key:find("^seqrun") and type(metatable) == "table"
    local index = ours and (rawget(metatable, "methods") or rawget(metatable, "__index"))
    if type(index) == "table" then
      local methods = {}
      for name, value in pairs(index) do
        if type(value) == "function" and not name:find("^__") then methods[name] = true end
      end
      classes[key:match("[^.]*$"):lower()] = methods
    end
  end
  return classes
end

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local modules = {}
for name in pairs(package.preload) do
  modules[#modules + 1] = name:match("^seqrun%.core%.([%w_]+)$")
end
table.sort(modules)

require("seqrun.tensor") -- adds methods written in Lua

describe("annotations", function()
  local all_methods = {}

  local function describes_every_function(path)
    it("of " .. path:match("([%w_]+)%.lua$") .. " describe every function", function()
      local _, methods = declared(path)
      for class, list in pairs(methods) do all_methods[class:lower()] = list end
      local sentence = false
      for line in io.lines(path) do
        local whole = line:match("^function ([%w_.:]+)%(")
        assert.is_true(not whole or sentence, path .. ": " .. tostring(whole))
        if line == "" then sentence = false end
        sentence = sentence or line:find("^%-%-%-%s*[A-Za-z`]") ~= nil
      end
    end)
  end

  for _, name in ipairs(modules) do
    local path = "lua/seqrun/meta/core_" .. name .. ".lua"

    it("of core_" .. name .. " name exactly its functions", function()
      assert.same(names(bound(name)), names((declared(path))))
    end)
    describes_every_function(path)
  end
  for _, class in ipairs { "layout", "scope", "tensor", "safetensors", "saving" } do -- each in a file of its own
    describes_every_function("lua/seqrun/meta/" .. class .. ".lua")
  end

  it("name exactly the methods of every class", function()
    for class, methods in pairs(bound_methods()) do
      assert.same(names(methods), names(all_methods[class] or {}), "class " .. class)
    end
  end)

  it("exist only for existing modules", function()
    for name in require("lfs").dir("lua/seqrun/meta") do
      local module = name:match("^core_([%w_]+)%.lua$")
      assert.is_truthy(not module or package.preload["seqrun.core." .. module], name)
    end
  end)
end)
