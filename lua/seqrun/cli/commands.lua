-- commands.lua - finds the commands, a file each in lua/seqrun/commands: { summary, define(cmd), run(args) }.

local failure = require("seqrun.base.failure")
local fit_output = require("seqrun.draw.live").fit_output
local sys = require("seqrun.core.sys")

local commands = {}

local FOLDER = debug.getinfo(1, "S").source:match("^@(.*)/cli/[^/]*$") .. "/commands"

---The names of all commands, sorted; `help` is part of the command line itself.
---@return string[]
function commands.names()
  local names = { "help" }
  for _, file in ipairs(failure.must(sys.list(FOLDER))) do
    local name = file:match("^(%l+)%.lua$")
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

---Whether a word names a command that has a file.
---@param word string
function commands.exists(word)
  return word:find("^%l+$") ~= nil and sys.exists(FOLDER .. "/" .. word .. ".lua")
end

---@param name string
---@return { summary: string, define: function, run: function }
function commands.load(name) return require("seqrun.commands." .. name) end

---The library that parses command lines.
local function argparse()
  local found, result = pcall(require, "argparse")
  if found then return result end
  if not tostring(result):find("^module 'argparse' not found") then error(result, 0) end
  failure.raise("storage", "the Lua library argparse is missing or cannot be read; install lua-argparse")
end

---The parser of one command.
---@param name string
---@return table # of argparse
function commands.parser_of(name)
  local command = commands.load(name)
  local parser = argparse()("seqrun " .. name, command.summary)
  parser:usage_max_width(sys.is_terminal(1) and math.min(100, sys.columns(1)) or 100)
  parser:add_help { action = function()
    print(fit_output(parser:get_help()))
    os.exit(0, true)
  end }
  command.define(parser)
  local fields = require("seqrun.cli.fields").text(name)
  if fields then parser:epilog((parser._epilog and parser._epilog .. "\n\n" or "") .. fields) end
  return parser
end

return commands
