-- options.lua - the words after a recipe's name: options, and key.path=value for its config.

local converters = require("seqrun.config.converters")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local synonyms = require("seqrun.config.synonyms")
local sys = require("seqrun.core.sys")

local options = {}

---Options of a run: `value`: it takes the next word; "maybe": only after `=`.
---@type { name: string, field: string, value?: string|boolean, doc: string }[]
options.list = {
  { name = "--resume", field = "resume", value = "maybe", doc = "resume from the newest checkpoint [in DIR]" },
  { name = "--new-rate", field = "new_rate",
    doc = "with --resume: the keys rate.* may change from here on; metrics.jsonl records it" },
  { name = "--force", field = "force",
    doc = "start over: an earlier run in the output directory is renamed to DIR-before-N" },
  { name = "--dry-run", field = "dry_run", doc = "print the plan and estimates; write nothing" },
  { name = "--explain", field = "explain", doc = "print every key with its value, origin and meaning" },
  { name = "--max-steps", field = "max_steps", value = "N",
    doc = "stop after step N of the run; schedules ignore it; 0: evaluate and save only" },
  { name = "--out", field = "out", value = "DIR", doc = "output directory; default runs/NAME" },
  { name = "--threads", field = "threads", value = "N", doc = "number of threads; default: all that are available" },
  { name = "--quiet", field = "quiet", doc = "no progress lines" },
  { name = "--json-log", field = "json_log", doc = "print progress as one JSON object per line" },
  { name = "--schema", field = "schema", doc = "print a JSON Schema of the config, for editors" },
  { name = "--help", field = "help", doc = "show this help, with every key of the config" },
}

local by_name, names = {}, {}
for i, option in ipairs(options.list) do by_name[option.name], names[i] = option, option.name end

local COUNTS = { max_steps = converters.whole(0, 1 << 53), threads = converters.threads }

---The value of one option, which may be the next word.
---@return any value nil with a message if it is invalid
---@return string|integer used number of further words used
local function value_of(option, attached, following)
  if not option.value then
    if attached then return nil, ("%s takes no value"):format(option.name) end
    return true, 0
  end
  if option.value == "maybe" then return attached or true, 0 end
  local text = attached or following
  if not text or text == "" then return nil, ("%s requires %s"):format(option.name, option.value) end
  if COUNTS[option.field] then
    local count, problem = COUNTS[option.field](text)
    if not count then return nil, ("%s: %s"):format(option.name, problem) end
    return count, attached and 0 or 1
  end
  return text, attached and 0 or 1
end

---What to write in place of an unknown option: a like option, or a key of this or another name.
local function hint_of(name, schema)
  local hint, plain = guess.hint(name, names), name:gsub("^%-+", "")
  if hint ~= "" then return hint end
  local key = plain:gsub("%-", "_")
  if schema and schema.by_name and schema.by_name[key] then return ("; use %s=VALUE"):format(key) end
  hint = synonyms.hint(plain, schema)
  return hint:find("; use [^-]") and hint .. "=VALUE" or hint
end

---Reads the words after a recipe's name.
---@param words string[] [0] is the recipe
---@param schema? table the keys of the config, for hints
---@return table|nil # file, arguments (key.path=value), and the options by field
---@return string? message
function options.parse(words, schema)
  local parsed, i = { file = words[0], arguments = {} }, 1
  while words[i] do
    local name, attached = words[i]:match("^(%-%-[^=]+)=(.*)$")
    name = name or words[i]
    local option = by_name[name]
    if option then
      local value, used = value_of(option, attached, words[i + 1])
      if value == nil then return nil, used end
      parsed[option.field], i = value, i + used
    elseif name:find("^%-") then
      return nil, ("unknown option '%s'%s"):format(name, hint_of(name, schema))
    else
      parsed.arguments[#parsed.arguments + 1] = words[i]
    end
    i = i + 1
  end
  return parsed
end

---Whether a word before the recipe's name is an option that takes the next word.
function options.takes_next(word)
  local option = by_name[word]
  return option ~= nil and option.value ~= nil and option.value ~= "maybe"
end

---The options as lines of help.
---@param without? table<string, string> fields of options that are left out
---@return string
function options.help(without)
  local lines = {}
  for _, o in ipairs(options.list) do
    local shown = o.value == "maybe" and o.name .. "[=DIR]" or o.value and o.name .. " " .. o.value or o.name
    if not (without and without[o.field]) then lines[#lines + 1] = ("  %-16s %s"):format(shown, o.doc) end
  end
  return table.concat(lines, "\n")
end

---The comment that a file begins with, without its marks.
local function leading_comment(path, mark)
  local lines = {}
  for line in (sys.read_file(path, 1 << 20) or ""):gmatch("([^\n]*)\n") do
    if line:sub(1, #mark) ~= mark then break end
    if not line:find("yaml-language-server:", 1, true) then lines[#lines + 1] = line:sub(#mark + 1):gsub("^ ", "") end
  end
  return table.concat(lines, "\n")
end

---What --help says about a recipe: its own words, those of its settings, the options and the keys.
local function recipe_help(request, schema, without)
  local file, columns = request.file, sys.is_terminal(1) and math.min(100, sys.columns(1) - 1) or nil
  local task = table.concat(request.arguments, "\n"):match("%f[^\0\n]task=[^\n]+")
  local parts = {
    ("usage: seqrun %s%s [key.path=value ...] [config=FILE] [preset=NAME]"):format(file, task and " " .. task or ""),
  }
  for path, mark in pairs { [file] = "--", [file:gsub("%.lua$", "") .. ".yaml"] = "#" } do
    local comment = leading_comment(path, mark)
    if comment ~= "" then table.insert(parts, mark == "--" and 2 or #parts + 1, comment) end
  end
  parts[#parts + 1] = options.help(without)
  if schema then
    parts[#parts + 1] = "keys, as KEY=VALUE or in a YAML file:\n"
      .. require("seqrun.config.reference").text(schema, columns)
  end
  parts[#parts + 1] = "--explain lists the keys with the values of this run, and where each comes from."
  return table.concat(parts, "\n\n")
end

---Like `parse`, but ends the program on an error, and after --help and --schema.
---@param words string[]
---@param schema? table the keys of the config
---@param without? table<string, string> fields of options that --help leaves out
---@return table
function options.read(words, schema, without)
  local request, problem = options.parse(words, schema)
  if not request then failure.raise("config", "%s; see seqrun help", problem) end
  if request.help then
    print(require("seqrun.draw.live").fit_output(recipe_help(request, schema, without)))
    failure.raise("ok", "")
  end
  if request.schema and schema then
    local title = "config of " .. request.file:match("[^/]*$")
    print(require("seqrun.core.json").encode(require("seqrun.config.reference").json_schema(schema, title)))
    failure.raise("ok", "")
  end
  return request
end

return options
