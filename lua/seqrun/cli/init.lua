-- cli - the command line: finds the command or recipe to run, and the exit code.
--
--     seqrun                     the prompt
--     seqrun FILE.lua ...        a recipe; `arg` holds what follows, as under `lua`
--     seqrun -e EXPR             evaluate and print
--     seqrun COMMAND ...         a file of lua/seqrun/commands: { summary, define(cmd), run(args) }
--
-- A command's run() returns nothing or an exit code, or nil, message, code.  An error it raises is internal
-- (70); an error that a recipe raises ends the recipe (1).  See DESIGN, "Exit codes".

local commands = require("seqrun.cli.commands")
local failure = require("seqrun.base.failure")
local shipped = require("seqrun.base.shipped")
local guess = require("seqrun.base.guess")
local lua_files = require("seqrun.base.lua_files")
local output = require("seqrun.base.output")
local shell = require("seqrun.base.format").shell
local sys = require("seqrun.core.sys")

local cli = {}

local USAGE, FAILED, MEMORY, INTERNAL = 2, 1, 4, 70

---One sentence for stderr.
local function complain(message)
  output.note("%s", (tostring(message):gsub("%s+$", "")))
end

-- ---- errors ------------------------------------------------------------------------------------

---Keeps failures as they are and gives every other error its traceback.
local function traceback(problem)
  if failure.of(problem) then return failure.of(problem) end
  return debug.traceback(tostring(problem), 2)
end

---The sentence and the exit code for an error.
---@param problem any what was raised
---@param otherwise integer the code of an error that is not a Failure
---@param sentence string printed before the error
---@return string message
---@return integer exit
---@return string code the name of a status with this exit code
local function verdict(problem, otherwise, sentence)
  local known = failure.of(problem)
  if known then return known.message, known:exit_code(), known.code end
  if tostring(problem):find("not enough memory", 1, true) then return "out of memory", MEMORY, "memory" end
  return sentence .. tostring(problem), otherwise, otherwise == FAILED and "numeric" or "internal"
end

---Prints an error to stderr and returns the exit code.
local function report(problem, otherwise, sentence)
  local message, exit = verdict(problem, otherwise, sentence)
  if message ~= "" then complain(message) end
  return exit
end

---The same for a recipe, which may be one rank of many: one of them prints, all end.
local function report_recipe(problem)
  local message, exit, code = verdict(problem, FAILED, "")
  local speaks, named = require("seqrun.tensor.ranks").speaks(message, code)
  if speaks and message ~= "" then complain(named) end
  return exit
end

---Refuses a command line, which all ranks were given: one of them prints.
---@param text string
---@param code? "config"|"storage"
---@return integer exit
local function refuse(text, code)
  local speaks, named = require("seqrun.tensor.ranks").speaks(text, code or "config")
  if speaks then complain(named) end
  return sys.exit_code(code or "config")
end

---Ranks other than the first print nothing but errors.
local function mute_others()
  local launch = require("seqrun.tensor.ranks").launcher()
  if launch and (launch.rank or 0) > 0 then sys.mute() end
end

---Where a launcher started several processes, and the script did not make them ranks of one run.
local function warn_of_strangers(path)
  local ranks = require("seqrun.tensor.ranks")
  local strangers = ranks.strangers()
  if strangers == 1 or (ranks.launcher().rank or 0) > 0 then return end
  complain(("warning: %d processes each ran all of %s; sr.run.open makes them the ranks of one run"):format(strangers,
    path))
end

-- ---- commands -----------------------------------------------------------------------------------

---Prints help within the width of the terminal.
---@return integer exit
local function tell(words)
  print(require("seqrun.draw.live").fit_output(words))
  return 0
end

---Commands are for one process: under a launcher they run on rank 0.
local function leaves_to_first(name)
  local launch = require("seqrun.tensor.ranks").launcher() or {}
  local rank, several = launch.rank or 0, (launch.ranks or 1) > 1
  if several then require("seqrun.tensor.ranks").work_apart() end
  if several and rank == 0 then complain(name .. " runs on rank 0 alone; only recipes use all ranks") end
  return several and rank > 0
end

---The words, with a number below 0 joined to its option, as argparse takes any word that begins with - for an option.
local function joined(words)
  local list = {}
  for _, word in ipairs(words) do
    local last = list[#list]
    if word:find("^%-%.?%d") and last and last:find("^%-%-[^=]+$") then
      list[#list] = last .. "=" .. word
    else
      list[#list + 1] = word
    end
  end
  return list
end

---The option whose value a sentence refuses, as in "--top: "; or "".
local function refused_option(words, sentence)
  local value = sentence:match("^'([^']*)' is not ")
  for i, word in ipairs(value and words or {}) do
    local option = word == value and words[i - 1] or word == (word:match("^%-%-[%w-]+=") or "") .. value and word
    option = option and option:match("^%-[^=]*")
    if option then return option .. ": " end
  end
  return ""
end

local function run_command(name, words)
  if leaves_to_first(name) then return 0 end
  local command = commands.load(name)
  local good, args = commands.parser_of(name):pparse(joined(words))
  if not good then
    local sentence = args:gsub("\n+Did you mean '%-h'%?", ""):gsub("\n+Did", "; did"):gsub("\n+", "; ")
    complain(("%s%s; see seqrun %s --help"):format(refused_option(words, sentence), sentence, name))
    return USAGE
  end
  output.printable()
  local code, message, status = command.run(args)
  if code == nil and message ~= nil then
    complain(message)
    return sys.exit_code(status or "invalid") or FAILED
  end
  return math.tointeger(code) or 0
end

-- ---- help ------------------------------------------------------------------------------------

local function overview()
  local lines = {}
  local function say(words) lines[#lines + 1] = words end
  say("usage: seqrun                                  the prompt")
  say("       seqrun FILE.lua [key.path=value ...]    run a recipe")
  say("       seqrun -e EXPR                          evaluate and print")
  say("       seqrun COMMAND ...                      see `seqrun help COMMAND`\n")
  say("options of a run:")
  say(require("seqrun.run.options").help())
  say("\ncommands:")
  for _, name in ipairs(commands.names()) do
    local summary = name == "help" and "this help, that of a command or a topic, or with --html the API reference"
      or commands.load(name).summary
    say(("  %-16s %s"):format(name, summary))
  end
  say("\ndocuments: `seqrun help guide` lists the sections of one, `seqrun help guide 2` prints one:")
  say("  " .. table.concat(require("seqrun.help.elsewhere").documents(), " "))
  say("other topics: any function or word (`seqrun help sr.schedule`), or `recipes`")
  say("\nfirst steps:")
  say("  seqrun recipes/prepare.lua                  a data set of two bundled novels")
  say("  seqrun recipes/pretrain.lua --max-steps 20  a small BERT; --help lists its keys")
  say("  seqrun new work                             a recipe of your own")
  return tell(table.concat(lines, "\n"))
end

local function unknown_topic(topic)
  local names = require("seqrun.help").names()
  table.move(commands.names(), 1, #commands.names(), #names + 1, names)
  complain(("no help on '%s'%s; see seqrun help"):format(topic, guess.hint(topic, names)))
  return USAGE
end

local function unknown_command(word)
  return refuse(("unknown command '%s'%s; see seqrun help"):format(word, guess.hint(word, commands.names())))
end

local function help(words)
  local name = words[1]
  if name == "--html" then
    io.stdout:write(require("seqrun.help.html")())
    return 0
  end
  if not name or name == "help" or name:find("^%-") then return overview() end
  if name == "recipes" then return tell(require("seqrun.help").examples()) end
  if not commands.exists(name) then
    local topic, texts = table.concat(words, " "), require("seqrun.help")
    local mistyped = not words[2] and guess.nearest(name, commands.names())
    local known = texts.find(topic) or not mistyped and texts.mentions(topic)
    return known and tell(known) or unknown_topic(topic)
  end
  return tell(commands.parser_of(name):get_help())
end

-- ---- recipes and expressions -----------------------------------------------------------------

---Moves the recipe's name to the front, so that options may come before it.
local function split_recipe(words)
  local options, i = require("seqrun.run.options"), 1
  while words[i] and words[i]:find("^%-") do
    i = i + (options.takes_next(words[i]) and 2 or 1)
  end
  local rest = table.move(words, 1, i - 1, 1, {})
  table.move(words, i + 1, #words, #rest + 1, rest)
  return words[i], rest
end

---A shipped recipe with a similar name: "; did you mean 'recipes/pretrain.lua'?" or "".
local function recipe_hint(path)
  local base, names = path:match("[^/]*$"), {}
  for _, name in ipairs(sys.list(shipped.root .. "/recipes") or {}) do
    if name == base then return ("; did you mean 'recipes/%s'?"):format(name) end
    if name:find("%.lua$") then names[#names + 1] = name end
  end
  local name = guess.nearest(base, names)
  return name and ("; did you mean 'recipes/%s'?"):format(name) or ""
end

---Runs a Lua file as `lua` would: the global `arg` has the words after its name.  It may require what is beside it.
local function run_file(path, rest, program)
  if path:find("%.ya?ml$") then
    return refuse(("%s is a config, not a recipe; run seqrun RECIPE.lua config=%s"):format(path, shell(path)))
  end
  if sys.is_dir(path) then
    return refuse(("%s is a directory, not a recipe; seqrun info %s describes it"):format(path, shell(path)))
  end
  local chunk, problem = loadfile(path, "t")
  if not chunk and not path:find("%.lua$") and not problem:find("^cannot ") then
    return refuse(("%s is not Lua; seqrun info %s describes data sets, vocabularies and plans"):format(path,
      shell(path)))
  end
  if not chunk and problem:find("^cannot ") and sys.exists(path) then
    local way = problem:find("Permission denied", 1, true) and "; its owner permits it with chmod a+r" or ""
    return refuse(problem .. way, "storage")
  end
  if not chunk then
    return refuse(problem .. (sys.exists(path) and "" or recipe_hint(path)))
  end
  mute_others()
  rest[0], rest[-1] = path, program
  arg = rest -- luacheck: ignore 111
  lua_files.begin(path)
  local ok, raised = xpcall(chunk, require("seqrun.base.trace").handler, table.unpack(rest))
  if not ok then return report_recipe(raised) end
  warn_of_strangers(path)
  return 0
end

local function evaluate(words)
  if not words[2] or words[3] then
    complain("-e requires one expression, such as -e 'sr.version'")
    return USAGE
  end
  local repl = require("seqrun.repl")
  local done, message, code, mistyped = repl.evaluate(words[2], repl.environment())
  if done then return mistyped and FAILED or 0 end
  if message ~= "" then complain(message) end
  return code or FAILED
end

---Makes dofile and loadfile find shipped recipes as the command line does; an unreadable one is not an error
---of the program that names it.
local function find_from_lua()
  local do_file = dofile
  function loadfile(path, ...) return lua_files.load(shipped.find(path), ...) end -- luacheck: ignore 121
  function dofile(path) -- luacheck: ignore 121
    if type(path) ~= "string" then return do_file(path) end
    local found = shipped.find(path)
    local chunk, problem = lua_files.load(found)
    if not chunk and problem:find("^cannot ") and sys.exists(found) then failure.raise("storage", "%s", problem) end
    if not chunk then error(problem, 0) end
    return chunk()
  end
end

local function run_recipe(words)
  local path, rest = split_recipe(words)
  if not path then
    local name = words[1]:match("^[^=]*")
    local known = {}
    for _, option in ipairs(require("seqrun.run.options").list) do known[#known + 1] = option.name end
    table.move({ "--help", "--version", "-e" }, 1, 3, #known + 1, known)
    local hint = guess.hint(name, known)
    return refuse(("'%s' does not name a recipe%s; see seqrun help"):format(name, hint))
  end
  path = shipped.find(path)
  if path:find("%.lua$") or path:find("%.ya?ml$") or shipped.seen(path) then return run_file(path, rest, words[0]) end
  if commands.exists(path) then
    return refuse(("options of a command go after it: seqrun %s %s"):format(path, table.concat(rest, " ")))
  end
  if shipped.seen(shipped.find(path .. ".lua")) then
    return refuse(("%s does not exist; did you mean '%s.lua'?"):format(path, path))
  end
  return unknown_command(path)
end

-- ---- plug-ins --------------------------------------------------------------------------------

---Loads the libraries that SEQRUN_PLUGINS lists; an exit code when one cannot be used.
---@return integer|nil
local function load_plugins()
  for path in (os.getenv("SEQRUN_PLUGINS") or ""):gmatch("[^:]+") do
    local added, message, code = require("seqrun.core.tensor").plugin(path)
    if not added then
      complain(message .. " (listed in SEQRUN_PLUGINS)")
      return sys.exit_code(code)
    end
  end
end

---What rooms below reach of those above them.
local function provide_hooks()
  require("seqrun.base.hook").provide {
    load_tasks = function(name)
      local tasks = require("seqrun.tasks")
      for _, ship in ipairs(tasks.names) do
        if not name or ship == name then local _ = tasks[ship] end
      end
    end,
    open_data_set = function(path) return require("seqrun.data").open(path) end,
    listen = function(run) return require("seqrun.attach.server").open(run) end,
    verbs = function() return require("seqrun.cli.verbs") end,
  }
end

-- ---- main -------------------------------------------------------------------------------

local SAME = { ["--help"] = "help", ["-h"] = "help", ["--version"] = "version" }

local function dispatch(words)
  local first = words[1]
  local failed = load_plugins()
  if failed then return failed end
  provide_hooks()
  find_from_lua()
  if not first then return require("seqrun.repl").run() end
  first = SAME[first] or first
  if first == "help" then return help(table.move(words, 2, #words, 1, {})) end
  if first == "-e" then return evaluate(words) end
  if commands.exists(first) then return run_command(first, table.move(words, 2, #words, 1, {})) end
  return run_recipe(words)
end

---@param words string[] the words of the command line; [0] is the program
---@return integer # the process exit code
function cli.main(words)
  output.watch()
  local good, result = xpcall(dispatch, traceback, words)
  if good then return result end
  return report(output.ended or result, INTERNAL, "internal error, please report it: ")
end

return cli
