-- origin.lua - what the bits of a run depend on beside the machine: its recipe, its config, the library, and the files
-- that the config names; written into environment.json, and compared by `seqrun repro`.

local checkpoint = require("seqrun.checkpoint")
local data = require("seqrun.data")
local failure = require("seqrun.base.failure")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")
local types = require("seqrun.config.types")

local origin = {}

---Bytes beyond which only the size and both ends of a file are hashed, and of each end.
local LARGE, SAMPLE = 1 << 32, 1 << 22

local function hash_of_file(path, size)
  if size <= LARGE then return sys.hash_file(path) end
  local file <close>, message = io.open(path, "rb")
  if not file then return nil, message, "storage" end
  local first, why = file:read(SAMPLE)
  local at, last
  if first then at, why = file:seek("end", -SAMPLE) end
  if at then last, why = file:read(SAMPLE) end
  if not last then return nil, ("%s: cannot be read: %s"):format(path, why or "it is shorter now"), "storage" end
  return sys.hash(("%d"):format(size) .. sys.hash(first) .. sys.hash(last))
end

---What a model may be read from; other files of its directory say nothing of the bits.
local READ = { json = true, safetensors = true, txt = true, model = true }

---Of a checkpoint its list of files with their hashes; of another model its files.
local function hash_of_model(path)
  local list = failure.there(sys.read_file(path .. "/MANIFEST", 1 << 24))
  if list then return sys.hash(list) end
  local parts = {}
  for _, name in ipairs(failure.must(sys.list(path))) do
    local facts = failure.there(sys.stat(path .. "/" .. name))
    if facts and facts.kind == "file" and READ[name:match("[^.]*$")] then
      parts[#parts + 1] = name .. " " .. failure.must(hash_of_file(path .. "/" .. name, facts.size))
    end
  end
  return sys.hash(table.concat(parts, "\n"))
end

---The hash of what a config names: a data set, a file, a run or another model; nil of other directories, which runs
---write into, and of what is not there.
---@param path string
---@return string|nil
function origin.hash(path)
  if not sys.exists(path) then return nil end
  local facts = failure.there(sys.stat(path))
  if not facts then return nil end
  if facts.kind == "file" then
    local set = path:find("%.sqr$") and failure.valid(data.open(path))
    return set and set:info().digest or failure.there(hash_of_file(path, facts.size))
  end
  if facts.kind ~= "dir" then return nil end
  local model = failure.valid(checkpoint.resolve(path))
  return model and hash_of_model(model) or nil
end

---The files that a config names, by key: those of keys that are paths.
---@param schema table
---@param values table
---@return table<string, { path: string, hash: string }[]>
function origin.inputs(schema, values)
  local inputs = {}
  types.each(schema, function(key, kind)
    local of = kind.kind == "list" and kind.of or kind
    if of.kind ~= "path" then return end
    local value = values
    for name in key:gmatch("[^.]+") do value = type(value) == "table" and value[name] or nil end
    for _, path in ipairs(type(value) == "table" and value or { value }) do
      local hash = type(path) == "string" and origin.hash(path)
      if hash then
        inputs[key] = inputs[key] or {}
        table.insert(inputs[key], { path = path, hash = hash })
      end
    end
  end, "", values)
  return inputs
end

---Fails if a file that a run was made with is another one now.
---@param inputs table<string, { path: string, hash: string }[]>|nil of its environment.json
---@param unless table<string, boolean> keys of files that are not read again
---@param format string of the message, with the key, the path
---@param known? table<string, string> hashes by path, which is filled: for several calls
function origin.check(inputs, unless, format, known)
  known = known or {}
  for key, list in pairs(type(inputs) == "table" and inputs or {}) do
    for _, one in ipairs(not unless[key] and type(list) == "table" and list or {}) do
      local path = type(one) == "table" and type(one.path) == "string" and one.path
      if path and known[path] == nil then known[path] = origin.hash(path) or false end
      local now = path and known[path]
      if now and one.hash and now ~= one.hash then failure.raise("data", format, key, one.path) end
    end
  end
end

local function add_lua_files(list, folder)
  for _, name in ipairs(failure.must(sys.list(folder))) do
    local path = folder .. "/" .. name
    if sys.is_dir(path) then
      if name ~= "meta" then add_lua_files(list, path) end
    elseif name:find("%.lua$") then
      list[#list + 1] = path
    end
  end
end

---The hash of the Lua files of the library.
---@return string
function origin.library()
  local root, list, parts = shipped.root .. "/lua/seqrun", {}, {}
  add_lua_files(list, root)
  for i, path in ipairs(list) do parts[i] = path:sub(#root + 1) .. " " .. failure.must(sys.hash_file(path)) end
  return sys.hash(table.concat(parts, "\n"))
end

---@param recipe string
---@param loaded seqrun.Config
---@return table
function origin.of(recipe, loaded)
  return {
    recipe_hash = sys.hash_file(recipe), config_hash = sys.hash(loaded:dump()), library_hash = origin.library(),
    folder = sys.real_path("."), inputs = origin.inputs(loaded.schema, loaded.values),
  }
end

return origin
