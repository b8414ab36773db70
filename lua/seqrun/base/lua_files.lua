-- lua_files.lua - the Lua files of a person that this process has run: a recipe, and what it loads by dofile, loadfile
-- and require.
--
-- Their hashes are kept, and reading a global that was never set is an error in them, with a guess.

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local names = require("seqrun.base.names")
local shipped = require("seqrun.base.shipped")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local word_set = require("seqrun.base.word_set")

local lua_files = {}

local load_file = loadfile -- Lua's own
local LIBRARY = shipped.root .. "/lua/"

-- ---- hashes ----------------------------------------------------------------------------------

local hashes, count = {}, 0

---A path as it is kept: of what ships, that in the checkout.
---@param path string
---@return string
function lua_files.name(path)
  return path:sub(1, #shipped.root + 1) == shipped.root .. "/" and path:sub(#shipped.root + 2) or path
end

---Keeps the hash of a file that is about to run.
local function note(path)
  local name = lua_files.name(path)
  if not hashes[name] then hashes[name], count = sys.hash_file(path), count + 1 end
end

---The hashes by name, and how many there are.
---@return table<string, string>
---@return integer
function lua_files.hashes() return hashes, count end

---The recipe, and the Lua files that it loaded, that differ from those with which a run was started or last resumed.
---@param recipe string its path
---@param before table environment.json of the run
---@return { path: string, mine: string, theirs: string }[]
function lua_files.edited(recipe, before)
  local list = {}
  local function compare(path, hash)
    local now = sys.exists(path) and failure.must(sys.hash_file(path)) or "none"
    if type(hash) == "string" and now ~= hash then list[#list + 1] = { path = path, mine = now, theirs = hash } end
  end
  compare(recipe, before.recipe_hash)
  local files = type(before.lua_files) == "table" and before.lua_files or {}
  for _, name in ipairs(sorted(files)) do
    if name ~= lua_files.name(recipe) then compare(shipped.find(name), files[name]) end
  end
  return list
end

-- ---- globals -----------------------------------------------------------------------------------

---Globals that other versions of Lua, and programs around it, have: files that run on several look for them.
local ELSEWHERE = word_set "unpack loadstring setfenv getfenv module jit bit bit32 newproxy gcinfo ngx love _TEST"

---"; did you mean 'NAME'?" of the globals and of the words of the file that reads the name, or "".
local function hint(name, source)
  local known, text = names.of(_G), sys.read_file(source:match("^@(.*)") or "", 1 << 22) or ""
  for word in text:gsub("%-%-[^\n]*", ""):gmatch("[%a_][%w_]*") do
    if word ~= name then known[#known + 1] = word end
  end
  return guess.hint(name, known)
end

---The files in which it is an error, as debug.getinfo() calls them.
local sources = {}

---@return table # the globals of Lua, as the files of a person have them
local function environment()
  local was_set = {}
  return setmetatable({}, {
    __names = function() return names.of(_G) end,
    __pairs = function() return pairs(_G) end,
    __index = function(_, name)
      local value = _G[name]
      if value ~= nil or was_set[name] or ELSEWHERE[name] or type(name) ~= "string" then return value end
      local info = debug.getinfo(2, "S")
      if not info or not sources[info.source] then return nil end -- a read that another program passes on
      check.fail("the global '%s' was never set%s; write _G.%s to read one that may be unset", name,
        hint(name, info.source), name)
    end,
    __newindex = function(_, name, value)
      was_set[name] = true
      _G[name] = value
    end,
  })
end

local globals = environment()

-- ---- loading -----------------------------------------------------------------------------------

---Loads a Lua file of a person; notes it.
---@param path string
---@param ... any mode and environment of loadfile; usually the globals
---@return function|nil chunk
---@return string? message
function lua_files.load(path, ...)
  if type(path) ~= "string" or select("#", ...) > 1 then return load_file(path, ...) end
  local chunk, message = load_file(path, (...) or "t", globals)
  if chunk then
    note(path)
    sources["@" .. path] = true
  end
  return chunk, message
end

---Loads modules that are not of the library; those that lie below `folder` have its globals.
local function search(folder)
  return function(name)
    local path = package.searchpath(name, package.path)
    if not path or path:sub(1, #LIBRARY) == LIBRARY then return nil end
    local own = path:sub(1, 1) ~= "/" or path:sub(1, #folder) == folder
    if own then return lua_files.load(path) or nil, path end -- without one, the next searcher says why
    note(path)
  end
end

---A recipe begins, once in a process: modules may lie beside it.
---@param recipe string its path
function lua_files.begin(recipe)
  local folder = recipe:match("^.*/") or "./"
  package.path = ("%s;%s?.lua"):format(package.path, folder)
  table.insert(package.searchers, 2, search(folder))
end

return lua_files
