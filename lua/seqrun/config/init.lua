-- config - strict YAML, typed by a schema; all errors at once, with location and suggestion.
--
--     local schema = config.map {
--       { "seed", config.integer { default = 1, min = 0, doc = "key of every random decision" } },
--       { "rate", config.map { { "peak", config.number { required = true } } } },
--     }
--     local loaded, message, code = config.load { schema = schema, file = "x.yaml", arguments = { "rate.peak=1e-4" } }
--     print(loaded.values.rate.peak)
--
-- Values come from four layers, each overriding the one before: defaults, the file, the preset that
-- `preset` names (a part of the file under `presets`), the arguments.  All pass the same checks.

local guess = require("seqrun.base.guess")
local printable = require("seqrun.base.printable")
local problems = require("seqrun.config.problems")
local sys = require("seqrun.core.sys")
local tree = require("seqrun.config.tree")
local types = require("seqrun.config.types")

local config = {}
for name, value in pairs(types) do config[name] = value end

local FILE_LIMIT = 1 << 20

---@class seqrun.Config
---@field values table the typed values
---@field origins table<string, string> path -> where the value came from
---@field preset string|nil
---@field notes string[] on keys that were given and have no effect
---@field file string|nil
local Config = {}
Config.__index = Config

-- ---- checking nodes against types ------------------------------------------------------------

---The state of a check: problems, the whole schema, and where values came from.
local Check = {}
Check.__index = Check

local function is_null(node)
  return node.kind == "scalar" and not node.quoted
    and (node.value == "" or node.value == "~" or node.value == "null")
end

---Where a value came from, for `--explain`.
local function origin(node)
  if node.source.argument then return "command line" end
  local place = node.source.name .. (node.source.lines[1] and (":%d"):format(node.line) or "")
  return node.layer and ("%s (%s)"):format(place, node.layer) or place
end

function Check:scalar(wanted, node, path)
  local name = path:match("[^.]*$")
  if is_null(node) then
    local way = wanted.optional and "; write none to leave it unset" or ""
    return self.found:add(node, "'%s' has no value; expected %s%s", name, wanted:describe(), way)
  end
  if node.kind ~= "scalar" then
    local given = node.kind == "map" and "keys" or "a list"
    return self.found:add(node, "'%s' must be %s, not %s", name, wanted:describe(), given)
  end
  if wanted.optional and node.value == "none" and not node.quoted then return nil end
  local value, want, hint = wanted:parse(node.value)
  if value == nil then
    local text = #node.value > 40 and node.value:sub(1, 40) .. "..." or node.value
    self.found:add(node, "'%s' is '%s'; expected %s%s", name, text, want, hint or "")
  end
  return value
end

function Check:list(wanted, node, path)
  if wanted.optional and node.kind == "scalar" and node.value == "none" then return nil end
  if wanted.one and node.kind == "scalar" and not is_null(node) then node = { kind = "list", node } end
  if node.kind ~= "list" then
    return self.found:add(node, "'%s' must be a list, such as [a, b]", path:match("[^.]*$"))
  end
  local list, seen = {}, {}
  for i, item in ipairs(node) do
    local value = self:scalar(wanted.of, item, path)
    if value == nil then return nil end
    if wanted.distinct and seen[value] then
      return self.found:add(item, "'%s' has %s twice", path, wanted.of:text(value))
    end
    list[i], seen[value] = value, true
  end
  local least, most = wanted.min or 0, wanted.max
  if #list < least or #list > (most or #list) then
    local want = least == most and ("%d"):format(least) or most and ("%d to %d"):format(least, most)
      or ("at least %d"):format(least)
    return self.found:add(node, "'%s' has %d %s; expected %s", path, #list, #list == 1 and "entry" or "entries", want)
  end
  if wanted.bare and #list == 1 then return list[1] end
  return list
end

---The line of a file that has a key as a comment, as `seqrun new` writes it, or the map that lacks the key.
local function place_of(path, map)
  local lines, at, section = map.source.lines or {}, 1, ""
  for name in path:gmatch("[^.]+") do
    section = at > 1 and lines[at] or ""
    while lines[at] and not lines[at]:find("^#?%s*" .. name .. ":") do at = at + 1 end
  end
  local column = (lines[at] or ""):match("^#%s*()%a")
  if not column then return map, "" end
  local own = section:find("^#%s*%a") and " and from its section" or ""
  return { source = map.source, line = at, column = column, width = #lines[at] - column + 1 },
    (": remove the # from this line%s, and write the value"):format(own)
end

---The value of a key that is not given.
function Check:absent(wanted, name, path, map)
  if wanted.kind == "map" and not wanted.optional then
    local empty = { kind = "map", by_name = {}, source = map.source, line = map.line, column = map.column }
    self.good[path] = true
    return self:map(wanted, empty, path .. ".")
  end
  if wanted.required and self.found.truncated then return nil end
  if wanted.required and not self.partial then
    local where = path == name and "" or (" in '%s'"):format(path:sub(1, -#name - 2))
    local doc = wanted.doc and (" (%s)"):format(wanted.doc) or ""
    local place, how = place_of(path, map)
    self.found:add(place, "key '%s' is missing%s%s; set %s%s", name, where, doc, path, how)
    return nil
  end
  if wanted.required then
    self.origins[path] = "missing"
    return nil
  end
  self.origins[path], self.good[path] = "default", true
  if wanted.before ~= nil and map.source.dumped then return wanted.before end
  return wanted:usual()
end

---More unknown keys than these get no guess of what was meant: most are not shown, and a guess takes time.
local MOST_GUESSES = 100

---Adds an unknown key.
function Check:unknown(key, ...)
  self.found:add(key, "%s", #self.found < MOST_GUESSES and tree.unknown(...) or ("unknown key '%s'"):format(key.value))
end

---The map that a node chooses, whose keys are all known to it.
function Check:variant(map, node)
  local choice = map.variants and node.by_name[map.variants.by]
  local wanted = choice and types.chosen(map, choice.value.value) or map
  local any = map.variants and self.partial and not choice -- a preset, whose file may choose
  for _, entry in ipairs(node) do
    local name = entry.key.value
    local skipped = self.foreign and not entry.key.source.argument or wanted.idle and wanted.idle[name]
    if not skipped and wanted ~= map and not types.own(wanted, name) then
      self.found:add(entry.key, "%s", tree.unknown_of(name, wanted, map.variants.by, choice.value.value))
    elseif not skipped and not (any and types.inner or types.own)(wanted, name) then
      self:unknown(entry.key, name, wanted, self.schema)
    end
  end
  return wanted
end

function Check:map(wanted, node, prefix)
  if node.kind ~= "map" then
    local name = prefix:match("([^.]*)%.$") or "the config"
    return self.found:add(node, "'%s' must be keys and values, not %s", name,
      node.kind == "list" and "a list" or "one value")
  end
  wanted = self:variant(wanted, node)
  local values = {}
  for _, field in ipairs(wanted.fields) do
    values[field.name] = self:entry(field.type, node.by_name[field.name], field.name, prefix, node)
  end
  for _, entry in ipairs(wanted.others and node or {}) do
    local name = entry.key.value
    if not wanted.by_name[name] and types.inner(wanted, name) then
      values[name] = self:entry(wanted.others, entry, name, prefix, node)
    end
  end
  return values
end

---A map that may be left out, or given as none or as the one value that `scalar` names.
function Check:optional_map(wanted, node, path, map)
  local scalar = node.kind == "scalar" and not is_null(node)
  if scalar and node.value == "none" and not node.quoted then return nil end
  if scalar and wanted.scalar then
    local entry = { key = { value = wanted.scalar, source = node.source, line = node.line, column = node.column },
                    value = node }
    node = { kind = "map", entry, by_name = { [wanted.scalar] = entry }, source = node.source, line = node.line,
             column = node.column }
  end
  if is_null(node) then return self:absent(wanted, path:match("[^.]*$"), path, map) end
  return self:map(wanted, node, path .. ".")
end

function Check:entry(wanted, entry, name, prefix, map)
  local path = prefix .. name
  if not entry then return self:absent(wanted, name, path, map) end
  if wanted.kind == "map" and not wanted.optional then
    if is_null(entry.value) then return self:absent(wanted, name, path, map) end
    local before = #self.found
    local values = self:map(wanted, entry.value, path .. ".")
    self.nodes[path], self.good[path] = entry.value, #self.found == before
    return values
  end
  self.nodes[path], self.origins[path] = entry.value, origin(entry.value)
  local before = #self.found
  local value
  if wanted.kind == "map" then
    value = self:optional_map(wanted, entry.value, path, map)
  elseif wanted.kind == "list" then
    value = self:list(wanted, entry.value, path)
  else
    value = self:scalar(wanted, entry.value, path)
  end
  self.good[path] = #self.found == before
  return value
end

local function new_check(schema, found, partial)
  return setmetatable({ schema = schema, found = found, partial = partial, nodes = {}, origins = {}, good = {} }, Check)
end

-- ---- rules that tie several keys together ----------------------------------------------------

---The value at a dotted path.
---@param values table
---@param path string
function config.get(values, path)
  for name in path:gmatch("[^.]+") do
    if type(values) ~= "table" then return nil end
    values = values[name]
  end
  return values
end

---A rule is { keys = { path, ... }, check = fn(value, ...) -> message or nil }; it is applied if all its
---keys have passed their own checks, and its message is reported at the first of them that was given.
local function apply_rules(check, rules, values, root)
  for _, rule in ipairs(rules or {}) do
    local arguments, place, good = {}, nil, true
    for i, path in ipairs(rule.keys) do
      good = good and check.good[path]
      arguments[i] = config.get(values, path)
      place = place or check.nodes[path]
    end
    local message = good and rule.check(table.unpack(arguments, 1, #rule.keys))
    if message then check.found:add(place or root, "%s", message) end
  end
end

-- ---- layers ----------------------------------------------------------------------------------

---Takes an entry out of a map.
local function take(map, name)
  local entry = map.by_name[name]
  if not entry then return nil end
  for i, other in ipairs(map) do
    if other == entry then table.remove(map, i) break end
  end
  map.by_name[name] = nil
  return entry
end

---The presets of a file, each checked as a part of the schema, used or not.
local function read_presets(root, schema, found)
  local entry = take(root, "presets")
  if not entry then return {}, {} end
  if entry.value.kind ~= "map" then
    found:add(entry.value, "'presets' must have names, and under each the keys it sets")
    return {}, {}
  end
  local parts, names = {}, {}
  for _, preset in ipairs(entry.value) do
    names[#names + 1] = preset.key.value
    parts[preset.key.value] = preset.value
    local check = new_check(schema, found, true)
    check:map(schema, preset.value, "")
  end
  table.sort(names)
  return parts, names
end

---Merges the chosen preset into the file; an argument chooses it, or the file's own `preset`.
local function lay_preset(root, arguments, schema, found)
  local parts, names = read_presets(root, schema, found)
  local entry = take(root, "preset")
  local choice = entry and entry.value
  for _, argument in ipairs(arguments) do
    local name = argument:match("^preset=(.*)$")
    if name then
      local source = problems.argument_source(argument)
      choice = { kind = "scalar", value = name, source = source, line = 1, column = 8, width = math.max(1, #name) }
    end
  end
  if not choice or choice.value == "none" then return nil end
  local part = parts[choice.value]
  if not part then
    local known = #names > 0 and "; choose one of: " .. table.concat(names, ", ") or "; the file has none"
    found:add(choice, "unknown preset '%s'%s", tostring(choice.value), known)
  elseif part.kind == "map" then
    tree.lay(root, part, "preset " .. choice.value)
    return choice.value
  end
end

---Problems in a preset are found twice if it is used; keeps one of them.
local function without_repeats(found)
  local seen, list = {}, problems.new()
  for _, problem in ipairs(found) do
    local key = table.concat({ tostring(problem.source), problem.line, problem.column, problem.message }, "|")
    if not seen[key] then
      seen[key] = true
      list[#list + 1] = problem
    end
  end
  return list
end

---Keys, schedules and metrics that an earlier version wrote, by their names of today.
config.RENAMED = { ltd = "token_drop" }

---Gives the keys of a map the names of today, where the schema lacks the old ones.
local function rename(root, schema)
  for _, entry in ipairs(root) do
    local old = entry.key.value
    local name = not schema.by_name[old] and config.RENAMED[old]
    if name and not root.by_name[name] then
      entry.key.value, root.by_name[old], root.by_name[name] = name, nil, entry
    end
  end
end

---The first line of what a run writes.
local DUMPED = "# All values of this run; to repeat it, pass this file with `config=`."

local function read_file(path, schema, found)
  if not path then return tree.empty { name = "defaults", lines = {} } end
  local text, message, code = sys.read_file(path, FILE_LIMIT + 1)
  if not text then return nil, message, code end
  local source = problems.file_source(path, text)
  source.dumped = source.lines[1] == DUMPED
  local root = tree.read(text, source, found)
  if root then rename(root, schema) end
  return root
end

---A note on each key of an earlier version that was given, by an argument or in the file, another value than usual.
local function idle_notes(idle, root, given)
  local notes = {}
  for name, usual in pairs(idle) do
    local entry = root.by_name[name]
    local value = given[name] or entry and tostring(entry.value.value)
    if value and value ~= usual then
      notes[#notes + 1] = ("%s=%s has no effect any more; remove it"):format(name, value)
    end
  end
  table.sort(notes)
  return notes
end

---Reads and checks a config.
---@param options { schema: table, file?: string, arguments?: string[], rules?: table[], partial?: boolean,
---  foreign?: boolean, lay?: fun(root: table, found: table) } arguments: `key.path=value` and `preset=NAME`; partial:
---  required keys may be missing; foreign: the file may have keys of another schema, which are left out; lay: adds to
---  the nodes before they are checked
---@return seqrun.Config|nil
---@return string? message all problems
---@return string? code "storage" or "memory" of a file that could not be read, else "config"
function config.load(options)
  local found, arguments = problems.new(), options.arguments or {}
  local root, message, code = read_file(options.file, options.schema, found)
  if code == "storage" or code == "memory" then return nil, message, code end
  if not root then
    local hint = options.file and not sys.exists(options.file) and guess.file_hint(options.file) or ""
    return nil, message .. hint, "config"
  end
  local preset = lay_preset(root, arguments, options.schema, found)
  local idle, given = options.schema.idle or {}, {}
  for _, argument in ipairs(arguments) do
    local name, value = argument:match("^([^=]*)=(.*)$")
    if idle[name] then
      given[name] = value
    elseif name ~= "preset" then
      tree.set(root, argument, options.schema, found)
    end
  end
  if options.lay then options.lay(root, found) end
  local check = new_check(options.schema, found, options.partial)
  check.foreign = options.foreign
  local values = check:map(options.schema, root, "")
  apply_rules(check, options.rules, values, root)
  if #found > 0 then return nil, tostring(without_repeats(found)), "config" end
  return setmetatable({
    values = values, origins = check.origins, schema = options.schema, preset = preset, file = options.file,
    notes = idle_notes(idle, root, given),
  }, Config)
end

-- ---- printing a loaded config -----------------------------------------------------------

local function dump_map(schema, values, depth, out)
  for _, field in ipairs(types.fields(schema, values)) do
    local indent, value = ("  "):rep(depth), values[field.name]
    if field.type.kind == "map" and value then
      out[#out + 1] = ("%s%s:"):format(indent, field.name)
      dump_map(field.type, value, depth + 1, out)
    elseif value ~= nil or field.type.optional then
      out[#out + 1] = ("%s%s: %s"):format(indent, field.name, field.type:text(value))
    end
  end
  return out
end

---The whole config as YAML without presets: reading it gives the same values.
---@return string
function Config:dump()
  return table.concat(dump_map(self.schema, self.values, 0, { DUMPED }), "\n") .. "\n"
end

---A table of all keys: value, origin, description.
---@return string
function Config:explain()
  local rows, widths = {}, { 0, 0, 0 }
  types.each(self.schema, function(path, wanted)
    local value = config.get(self.values, path)
    local shown = value == nil and wanted.required and "(required)" or wanted:text(value)
    local row = { path, shown, self.origins[path] or "default", wanted.doc or "" }
    for i = 1, 3 do widths[i] = math.max(widths[i], math.min(#row[i], 44)) end
    rows[#rows + 1] = row
  end, "", self.values)
  local format = ("%%-%ds  %%-%ds  %%-%ds  %%s"):format(table.unpack(widths))
  for i, row in ipairs(rows) do rows[i] = printable(format:format(table.unpack(row)):gsub("%s+$", ""), true) end
  return table.concat(rows, "\n") .. "\n"
end

---What the prompt prints: the same.
function Config:__tostring() return self:explain() end

---The keys whose values differ from another config's, with both values as text.
---@param other seqrun.Config
---@return { path: string, mine: string, theirs: string, changeable: boolean }[]
function Config:differences(other)
  local list, seen = {}, {}
  local function compare(path, wanted)
    if seen[path] then return end
    seen[path] = true
    local mine, theirs = wanted:text(config.get(self.values, path)), wanted:text(config.get(other.values, path))
    if mine ~= theirs then
      list[#list + 1] = { path = path, mine = mine, theirs = theirs, changeable = wanted.changeable or false }
    end
  end
  types.each(self.schema, compare, "", self.values)
  types.each(self.schema, compare, "", other.values)
  return list
end

return config
