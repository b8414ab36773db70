-- Checks the layers: a directory may include only itself and lower layers, and no folders form a circle.
--
--   core/*     those before it in the list `core`; core/pack/lp is below core/pack, and used by it only
--   kernels/*  all of core, to fill the tables in core/tensor/backend.h
--   lua/bind   core, kernels/ref and kernels/cpu; the only C that includes lua.h
--   plug-ins   built outside, against the installed core headers
--
-- A room of Lua, which is a folder of lua/seqrun with what is inside it, may require itself and those before it in the
-- list `rooms`, lazily or not.  Names that are computed, as in require("seqrun.commands." .. name), are those of files
-- in the named room.  A room may not write into a module of one below it, which would call up that way (a room does
-- complete the classes of the C module of its name); what a room needs of those above it is a hook (base/hook.lua),
-- which the program provides, in cli/init.lua only.
-- recipes/papers may require what its README lists.
--
-- A type or a function is defined by one header; headers of one folder may announce each other's types.  (Names without
-- sr_ are those of one file, or of one build.)
--
-- Prints every violation and exits with 1 if there is any.

local core = { "base", "unicode", "text", "tokenizer", "data", "pack", "batch", "loader", "tensor", "train", "store" }

--- What a directory may include: "core/base" -> { ["core/base"] = true }.
local allowed, so_far = {}, {}
for _, name in ipairs(core) do
  so_far[#so_far + 1] = "core/" .. name
  allowed["core/" .. name] = table.move(so_far, 1, #so_far, 1, {})
end
local all_core = allowed["core/store"]
allowed["core/pack"] = { "core/pack/lp", table.unpack(allowed["core/pack"]) }
allowed["core/pack/lp"] = { "core/base", "core/pack/lp" }

local function with_core(...)
  return table.move({ ... }, 1, select("#", ...), #all_core + 1, table.move(all_core, 1, #all_core, 1, {}))
end

allowed["core"] = with_core("core") -- the umbrella header
for _, kernels in ipairs { "ref", "cpu", "cuda", "simt", "comm" } do
  allowed["kernels/" .. kernels] = with_core("kernels/" .. kernels)
end
allowed["kernels/cpu/simd"] = with_core("kernels/cpu", "kernels/cpu/simd")
table.insert(allowed["kernels/cpu"], "kernels/cpu/simd")
table.insert(allowed["kernels/cuda"], "kernels/simt") -- prim.cuh gives one of its two definitions
allowed["lua/bind"] = with_core("core", "kernels/ref", "kernels/cpu", "lua/bind")

local libraries = { ["lua.h"] = "lua/bind", ["lauxlib.h"] = "lua/bind", ["lualib.h"] = "lua/bind" }

local faults = 0
local function fault(file, line, message)
  faults = faults + 1
  print(("%s:%d: %s"):format(file, line, message))
end

local function folder_of(path) return path:match("^(.*)/[^/]*$") or "" end

--- What the files of a folder use in other folders: uses[folder][other] = "FILE:LINE".
local uses = {}
local function note_use(file, line, other)
  local folder = folder_of(file)
  uses[folder] = uses[folder] or {}
  if other ~= folder then uses[folder][other] = uses[folder][other] or ("%s:%d"):format(file, line) end
end

local function contains(list, item)
  for _, each in ipairs(list) do
    if each == item then return true end
  end
  return false
end

local function check(file)
  local folder, number = folder_of(file), 0
  for line in io.lines(file) do
    number = number + 1
    local quoted = line:match('^%s*#%s*include%s*"([^"]+)"')
    local library = line:match("^%s*#%s*include%s*<([^>]+)>")
    local owner = libraries[quoted or library]
    if quoted and quoted:find("/") then note_use(file, number, folder_of(quoted)) end
    if owner and folder ~= owner then
      fault(file, number, (quoted or library) .. " may be included only in " .. owner)
    elseif quoted and quoted:find("/") and not contains(allowed[folder], folder_of(quoted)) then
      fault(file, number, folder .. " may not include " .. quoted)
    end
  end
end

local defined = {}
local function define(file, number, name, whole)
  local before = defined[name]
  if not name:find("^l?sr_") then return end
  if before and before.file ~= file and (whole and before.whole or folder_of(before.file) ~= folder_of(file)) then
    fault(file, number, ("%s is defined in %s:%d too; rename one of them"):format(name, before.file, before.number))
  elseif not before or whole then
    defined[name] = { file = file, number = number, whole = whole }
  end
end

--- What defines a type or a function as a whole; a typedef of one line, of some, or of a function.
local DEFINITIONS = {
  "\n()typedef [^;{}\n]-{[^\n]-} ([%w_]+);", "\n()} ([%w_]+);", "\n()typedef [^;{}]-%(%*([%w_]+)%)%(",
  "\n()struct ([%w_]+) {", "\n()enum ([%w_]+) {", "\n()[%w_][%w_ %*]-([%w_]+)%(", "\n()#define ([%w_]+)",
}

local function check_names(file)
  local handle <close> = assert(io.open(file))
  local text = "\n" .. handle:read("a"):gsub("/%*.-%*/", function(comment) return (comment:gsub("[^\n]", "")) end)
  local function line_of(at) return select(2, text:sub(2, at):gsub("\n", "")) + 1 end
  for at, what, name in text:gmatch("\n()typedef ([^;{}]-)([%w_]+);") do
    define(file, line_of(at), name, what ~= "struct " .. name .. " ")
  end
  for _, pattern in ipairs(DEFINITIONS) do
    for at, name in text:gmatch(pattern) do define(file, line_of(at), name, true) end
  end
end

local pipe = assert(io.popen("find core kernels lua/bind -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'"))
for file in pipe:lines() do
  if allowed[folder_of(file)] then
    check(file)
    if file:find("%.c?u?h$") then check_names(file) end
  else
    fault(file, 1, ("unknown folder %s; add it to .make/layers.lua"):format(folder_of(file)))
  end
end
pipe:close()

-- ---- Lua ---------------------------------------------------------------------------------------------

--- From the bottom: "." is lua/seqrun/init.lua, the API, and "cli" the command line.
local rooms = {
  "base", "draw", "config", "tensor", "nn", "optim", "schedule", "text", "pack", "data", "checkpoint", "analysis",
  "curriculum", "history", "scores", "keys", "tasks", "predict", "run", "advise", ".", "report", "help", "repl",
  "attach", "watch", "commands", "cli",
}
local floor = {}
for i, name in ipairs(rooms) do floor[name] = i end

local function room_of_file(file)
  local room = file:match("^lua/seqrun/([^/]+)/") or file:match("^lua/seqrun/([^/]+)%.lua$")
  return room == "init" and "." or room
end

--- The room that a required name is in; nil for C modules and names that are not of the library.
local function room_of_module(name)
  if name == "seqrun" then return "." end
  local room = name:match("^seqrun%.([%w_]+)")
  return room ~= "core" and room or nil
end

local function exists(path)
  local file = io.open(path)
  return file and file:close() or false
end

--- The folder that the file of a module is in; nil for C modules.
local function folder_of_module(name)
  local path = "lua/" .. name:gsub("%.", "/")
  if exists(path .. "/init.lua") then return path end
  return exists(path .. ".lua") and folder_of(path) or nil
end

--- The variable and the field of each write of a line: `data.open = `, `data.a, data.b = `, `function data.open(`.
local function written(code)
  local name, field = code:match("^%s*function ([%w_]+)[.:]([%w_.:]+)%s*%(")
  if not name then name, field = code:match("rawset%(([%w_]+), ?[\"']?([%w_]+)") end
  if name then return { { name, field } } end
  local list, targets = {}, code:match("^%s*([%w_][%w_.,%[%]\"' ]-)%s*=[^=]") or ""
  for each, of in (", " .. targets):gmatch(",%s*([%w_]+)[.%[][\"']?([%w_.]+)") do list[#list + 1] = { each, of } end
  return list
end

--- The module that the code after `local NAME = ` gives a name to, or a part of one.
local function module_of(code, modules)
  local required = code:match("^require%s*%(?%s*[\"'](seqrun%.[%w_.]+)[\"']%s*%)?[%w_.]*$")
  return required or modules[code:match("^([%w_]+)[%w_.]*$")]
end

--- Reports what writes into a module of a room below; `modules` has the variables that hold modules, or parts of them.
local function check_writing(file, number, code, modules)
  code = code:gsub("%s+%-%-.*$", "")
  local variable, value = code:match("^%s*local ([%w_]+) = (.-)%s*$")
  if variable then modules[variable] = module_of(value, modules) end
  local direct, field = code:match("^%s*require%s*%(?%s*[\"'](seqrun%.[%w_.]+)[\"']%s*%)?%.([%w_.]+)%s*=[^=]")
  local writes = direct and { { direct, field } } or written(code)
  for _, each in ipairs(writes) do
    local module, room = direct or modules[each[1]], room_of_file(file)
    local lower = module and (room_of_module(module) or module:match("[^.]*$"))
    if lower and (floor[lower] or 0) < floor[room] then
      fault(file, number, ("%s may not write %s into %s, which is below it; pass it, or declare a hook where it is "
        .. "called (base/hook.lua)"):format(room, each[2], module))
    end
  end
  if code:find("hook.provide", 1, true) or code:find("base.hook\").provide", 1, true) then
    if room_of_file(file) ~= "cli" and file ~= "lua/seqrun/base/hook.lua" then
      fault(file, number, "only cli may provide hooks")
    end
  end
  if code:find("getregistry", 1, true) then fault(file, number, "the registry is not for Lua code") end
end

local function check_lua(file)
  local room, number, modules = room_of_file(file), 0, {}
  if not floor[room] then return fault(file, 1, "unknown room " .. room .. "; add it to .make/layers.lua") end
  for line in io.lines(file) do
    number = number + 1
    local code = line:gsub("^%s*%-%-.*$", "")
    check_writing(file, number, code, modules)
    for name in code:gmatch("require%s*%(?%s*[\"']([%w_.]+)[\"']") do
      local wanted, folder = room_of_module(name), folder_of_module(name)
      if folder then note_use(file, number, folder) end
      if wanted and not floor[wanted] or name == "seqrun." then
        fault(file, number, ("%s names no room"):format(name))
      elseif wanted and floor[wanted] > floor[room] then
        fault(file, number, ("%s may not require %s, which is above it"):format(room, name))
      end
    end
    -- a module that is named elsewhere, as in pcall(require, "seqrun.run") or in a table of names
    local rest = code:gsub("require%s*%(?%s*[\"'][%w_.]+[\"']", "")
    for name in rest:gmatch("[\"'](seqrun%.[%w_.]+)[\"']") do
      local wanted, folder = floor[room_of_module(name)], folder_of_module(name)
      if folder then note_use(file, number, folder) end
      if wanted and wanted > floor[room] then
        fault(file, number, ("%s may not name %s, which is above it"):format(room, name))
      end
    end
  end
end

pipe = assert(io.popen("find lua/seqrun -name '*.lua'"))
for file in pipe:lines() do check_lua(file) end
pipe:close()

--- The programs of papers may require `seqrun` and what their README lists.
local listed = assert(io.open("recipes/papers/README.md")):read("a")
pipe = assert(io.popen("ls recipes/papers/*.lua"))
for file in pipe:lines() do
  local number = 0
  for line in io.lines(file) do
    number = number + 1
    for name in line:gmatch("[\"'](seqrun%.[%w_.]*)[\"']") do
      if not listed:find("`" .. name .. "`", 1, true) then
        fault(file, number, name .. " is not among the modules that recipes/papers/README.md lists")
      end
    end
  end
end
pipe:close()

-- ---- circles -----------------------------------------------------------------------------------------

--- Follows what a folder uses; a folder that is still being followed closes a circle.
local state, path = {}, {}
local function follow(folder)
  state[folder], path[#path + 1] = "open", folder
  for other, where in pairs(uses[folder] or {}) do
    if state[other] == "open" then
      faults = faults + 1
      print(("%s: %s uses %s, which uses it (%s)"):format(where, folder, other, table.concat(path, " > ")))
    elseif not state[other] then
      follow(other)
    end
  end
  state[folder], path[#path] = "done", nil
end
local folders = {}
for folder in pairs(uses) do folders[#folders + 1] = folder end
table.sort(folders)
for _, folder in ipairs(folders) do
  if not state[folder] then follow(folder) end
end
os.exit(faults == 0)
