-- checks.lua - what a run was made from beside what is here now: recipe, config, data, library, build, machine.

local lua_files = require("seqrun.base.lua_files")
local origin = require("seqrun.run.directory.origin")
local run_keys = require("seqrun.keys")
local shipped = require("seqrun.base.shipped")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local there = require("seqrun.base.failure").there
local types = require("seqrun.config.types")

local checks = {}

---@class seqrun.Check
---@field name string
---@field equal? boolean nil: the run did not record it
---@field was? string
---@field now? string
---@field must boolean a difference changes the bits for certain

local same_bits -- the keys of every run that change no bit, by path; made on first use

---Whether a key of a config changes no bit of a training.
---@param key string
---@return boolean
function checks.is_harmless(key)
  if not same_bits then
    same_bits = {}
    types.each(run_keys(), function(path, kind) same_bits[path] = kind.same_bits end)
  end
  return same_bits[key] or false
end

local function short(hash) return type(hash) == "string" and #hash == 32 and hash:sub(1, 12) or hash end

---Adds a comparison of two values, of which the first may not have been recorded.
local function add(list, name, was, now, must)
  local equal = nil
  if was ~= nil then equal = was == now end
  list[#list + 1] = {
    name = name, equal = equal, was = was ~= nil and tostring(short(was)) or nil,
    now = now ~= nil and tostring(short(now)) or "missing", must = must or false,
  }
end

---A table of a file that may be somebody else's.
local function part(value) return type(value) == "table" and value or {} end

---The files that the config named.
local function add_inputs(list, inputs)
  for _, key in ipairs(sorted(inputs)) do
    for _, one in ipairs(part(inputs[key])) do
      one = part(one)
      add(list, ("%s %s"):format(key, tostring(one.path)), one.hash, origin.hash(tostring(one.path)), true)
    end
  end
end

---The Lua files that the recipe loaded.
local function add_lua_files(list, files, recipe)
  for _, name in ipairs(sorted(files)) do
    local path = shipped.find(name)
    if name ~= recipe then
      add(list, "file " .. name, files[name], sys.exists(path) and there(sys.hash_file(path)) or nil, true)
    end
  end
end

---What was done to the run on its way that its config does not say, up to a step.
local function add_events(list, events, last)
  for _, event in ipairs(events) do
    local what
    if event.event == "rate" then what = ("the rate was scaled by %s from an attached prompt"):format(event.factor) end
    if event.event == "weights" then what = "the weights were changed from an attached prompt" end
    if event.event == "changed" and not checks.is_harmless(tostring(event.key)) then
      what = ("%s was %s before a resume"):format(tostring(event.key), tostring(event.was))
    end
    if event.event == "schedule" then
      local keys = sorted(type(event.changed) == "table" and event.changed or {})
      what = ("a resume changed %s"):format(table.concat(keys, ", "))
    end
    if what and event.step <= last then
      list[#list + 1] = { name = ("step %d"):format(event.step), equal = false, was = what, now = "-", must = true }
    end
  end
end

---The processes before a resume, where they were made from something else than the last one.
local function add_sessions(list, was)
  for i, session in ipairs(part(was.sessions)) do
    session = part(session)
    for key, must in pairs { instructions = true, library_hash = false } do
      if session[key] ~= nil and session[key] ~= was[key] then
        add(list, ("%s of session %d, %s"):format(key:gsub("_hash", ""), i, tostring(session.started)), session[key],
          was[key], must)
      end
    end
  end
end

local function has_device(name)
  for _, one in ipairs(tensor.devices()) do
    if one == name or name:match("^[^:]+") == one then return name end
  end
end

---Compares a run with this machine.
---@param past seqrun.History
---@param recipe string the file of its recipe
---@param last integer the last step that matters
---@return seqrun.Check[]
function checks.of(past, recipe, last)
  local was, list = part(past.environment), {}
  local build, here = part(was.build), sys.build()
  local words = part(was.words)
  add(list, "recipe " .. tostring(words[1]), was.recipe_hash, there(sys.hash_file(shipped.find(recipe))), true)
  local dump = there(sys.read_file(past.dir .. "/config.yaml", 1 << 24))
  add(list, "config.yaml", was.config_hash, dump and sys.hash(dump), true)
  add_lua_files(list, part(was.lua_files), lua_files.name(recipe))
  add_inputs(list, part(was.inputs))
  add_events(list, past.events, last)
  add_sessions(list, was)
  if type(was.device) == "string" then add(list, "device", was.device, has_device(was.device), true) end
  if was.device ~= "cuda" then
    add(list, "instructions", was.instructions, (require("seqrun.core.tensor").instructions()), true)
  end
  add(list, "version", build.version, here.version)
  add(list, "commit", build.git, here.git)
  add(list, "compiler", build.compiler, here.compiler)
  add(list, "flags", build.cflags, here.cflags)
  add(list, "library", was.library_hash, origin.library())
  return list
end

---Whether a run again cannot give the same bits.
---@param list seqrun.Check[]
---@return seqrun.Check|nil # the first reason
function checks.refusal(list)
  for _, check in ipairs(list) do
    if check.must and check.equal == false then return check end
  end
end

return checks
