-- verbs.lua - the command line as plain tables, for completion and for the manual page: read from the parsers of the
-- command line itself.

local commands = require("seqrun.cli.commands")

local verbs = {}

---@class seqrun.shell.Option
---@field names string[] "-h", "--help"
---@field doc string
---@field value? string what it takes, such as FILE; nil: nothing
---@field maybe? boolean the value may be left out
---@field choices? string[]

---@class seqrun.shell.Argument
---@field name string
---@field doc string
---@field many boolean

---@class seqrun.shell.Verb
---@field name string
---@field summary string
---@field usage string
---@field options seqrun.shell.Option[]
---@field arguments seqrun.shell.Argument[]
---@field epilog? string notes and examples

---Values that are worth offering, although others may be valid.
local OFFERED = { ["--solver"] = function() return require("seqrun.pack").builtin_solvers() end }

local function option_of(o)
  local value = o._minargs > 0 and (type(o._argname) == "table" and o._argname[1] or o._argname) or nil
  if o._minargs > 0 and not value then value = "VALUE" end
  local offered = OFFERED[o._aliases[1]]
  local choices = o._choices or offered and offered() or nil
  return { names = o._aliases, doc = o:_get_description(), value = value, choices = choices }
end

---One command.
---@param name string
---@return seqrun.shell.Verb
function verbs.verb(name)
  local command, parser = commands.load(name), commands.parser_of(name)
  local verb = {
    name = name, summary = command.summary, usage = parser:get_usage(), epilog = parser._epilog, options = {},
    arguments = {},
  }
  for i, o in ipairs(parser._options) do verb.options[i] = option_of(o) end
  for i, a in ipairs(parser._arguments) do
    verb.arguments[i] = { name = a._name, doc = a:_get_description(), many = a._maxargs > 1, choices = a._choices }
  end
  return verb
end

---What --help prints for a command.
---@param name string
---@return string
function verbs.help(name) return commands.parser_of(name):get_help() end

---All commands, sorted, with `help`.
---@return seqrun.shell.Verb[]
function verbs.all()
  local list, names = {}, commands.names()
  for i, name in ipairs(names) do
    list[i] = name ~= "help" and verbs.verb(name) or {
      name = "help", summary = "this help, that of a command or a topic, or with --html the API reference",
      usage = "Usage: seqrun help [COMMAND|TOPIC|--html]", options = {},
      arguments = { { name = "command", doc = "a command", many = false, choices = names } },
    }
  end
  return list
end

---The options of a run.
---@return seqrun.shell.Option[]
function verbs.run_options()
  local list = {}
  for i, o in ipairs(require("seqrun.run.options").list) do
    local maybe = o.value == "maybe"
    list[i] = { names = { o.name }, doc = o.doc, value = maybe and "DIR" or o.value, maybe = maybe or nil }
  end
  return list
end

---The config keys of all tasks: { name =, doc =, choices = }, sorted.
---@return { name: string, doc: string, choices?: string[] }[]
function verbs.keys()
  local sr, found, list = require("seqrun"), {}, {}
  local function add(fields, prefix)
    for _, field in ipairs(fields) do
      local path, kind = prefix .. field[1], field[2]
      if kind.fields then add(kind.fields, path .. ".") end
      if not found[path] and (kind.doc or not kind.fields) then
        found[path] = true
        local choices = kind.kind == "enum" and kind.names or kind.kind == "boolean" and { "false", "true" } or nil
        list[#list + 1] = { name = path, doc = kind.doc or "", choices = choices }
      end
    end
  end
  add(sr.run.schema(sr.tasks.pretraining).fields, "")
  for _, name in ipairs(sr.tasks.names) do add(sr.run.schema(sr.tasks[name]).fields, "") end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

---Completion for a shell, or the manual page.
---@param what "bash"|"zsh"|"fish"|"man"
---@return string
function verbs.script(what) return (require("seqrun.cli." .. what)()) end

---Whether values of an option are files or directories.
---@param option seqrun.shell.Option
function verbs.is_path(option)
  return option.value == "FILE" or option.value == "DIR" or option.value == "NAME" and option.names[1] == "--metric"
end

return verbs
