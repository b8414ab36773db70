-- The annotations that are made from the comments of lua/bind describe exactly the functions of the C modules.

local sys = require("seqrun.core.sys")

local FOLDER = sys.real_path("/proc/self/exe"):match("^(.*)/") .. "/meta"

local modules = {}
for name in pairs(package.preload) do modules[#modules + 1] = name:match("^seqrun%.core%.([%w_]+)$") end
table.sort(modules)

require("seqrun.tensor") -- adds methods written in Lua

---Calls fn(owner, name, lines, parameters) for each function of a file: "text." or, of a class, "vocab:".
local function each_function(path, fn)
  local said = {}
  for line in io.lines(path) do
    local owner, name, list = line:match("^function ([%w_]+[.:])([%w_]+)%(([^)]*)%)")
    if owner then fn(owner:lower(), name, said, list) end
    if line:find("^%-%-%-") then said[#said + 1] = line else said = {} end
  end
end

local described = {} -- owner -> set of names
local function note(owner, name)
  described[owner] = described[owner] or {}
  described[owner][name] = true
end
for _, module in ipairs(modules) do each_function(FOLDER .. "/core_" .. module .. ".lua", note) end
each_function("lua/seqrun/tensor/sort.lua", note)

local function functions_of(index)
  local set = {}
  for name, value in pairs(index) do
    if type(name) == "string" and type(value) == "function" and not name:find("^__") then set[name] = true end
  end
  return set
end

describe("annotations", function()
  for _, module in ipairs(modules) do
    it("of " .. module .. " name exactly its functions", function()
      assert.same(functions_of(require("seqrun.core." .. module)), described[module .. "."] or {})
    end)

    it("of " .. module .. " have a sentence, and the types of parameters and results", function()
      each_function(FOLDER .. "/core_" .. module .. ".lua", function(owner, name, lines, list)
        local where, text = owner .. name, table.concat(lines, "\n")
        assert.matches("^%-%-%-[%w`\"]", text, where)
        for parameter in list:gmatch("[%w_.]+") do
          assert.matches("\n%-%-%-@param " .. parameter:gsub("%.", "%%.") .. "%?? [%w{(\"]", text, where)
        end
        for _, line in ipairs(lines) do
          local tag, rest = line:match("^%-%-%-@(%l+)(.*)$")
          assert.is_true(not tag or tag == "param" or tag == "return" and rest:find("^ [%w{(\"]") ~= nil, where)
        end
      end)
    end)
  end

  it("name exactly the methods of every class of C", function()
    for key, metatable in pairs(debug.getregistry()) do
      local ours = type(key) == "string" and key:find("^seqrun") and type(metatable) == "table"
      local index = ours and (rawget(metatable, "methods") or rawget(metatable, "__index"))
      if type(index) == "table" then
        assert.same(functions_of(index), described[key:match("[^.]*$"):lower() .. ":"] or {}, "class " .. key)
      end
    end
  end)
end)
