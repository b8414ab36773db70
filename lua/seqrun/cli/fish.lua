-- fish.lua - completion for fish.

local verbs = require("seqrun.cli.verbs")

local function quoted(text) return "'" .. text:gsub("[\\']", "\\%0") .. "'" end

---A line for one option, under a condition.
local function option(condition, o)
  local words = { "complete -c seqrun -n " .. quoted(condition) }
  for _, name in ipairs(o.names) do
    words[#words + 1] = name:find("^%-%-") and "-l " .. name:sub(3) or "-s " .. name:sub(2)
  end
  if o.choices then
    words[#words + 1] = "-xa " .. quoted(table.concat(o.choices, " "))
  elseif o.value and not o.maybe then
    words[#words + 1] = verbs.is_path(o) and "-rF" or "-x"
  end
  words[#words + 1] = "-d " .. quoted(o.doc)
  return table.concat(words, " ")
end

---@return string
return function()
  local lines = { "# fish completion for seqrun, written by `seqrun completion fish`", "", "complete -c seqrun -f" }
  local function add(format, ...) lines[#lines + 1] = format:format(...) end
  local names = {}
  for i, verb in ipairs(verbs.all()) do
    names[i] = verb.name
    add("complete -c seqrun -n __fish_use_subcommand -a %s -d %s", verb.name, quoted(verb.summary))
    local here = "__fish_seen_subcommand_from " .. verb.name
    for _, o in ipairs(verb.options) do lines[#lines + 1] = option(here, o) end
    local argument = verb.arguments[1]
    if argument and argument.choices then
      add("complete -c seqrun -n %s -xa %s", quoted(here), quoted(table.concat(argument.choices, " ")))
    elseif argument then
      add("complete -c seqrun -n %s -F", quoted(here))
    end
  end
  add("complete -c seqrun -n __fish_use_subcommand -xa '(__fish_complete_suffix .lua)'")
  local run = "not __fish_seen_subcommand_from " .. table.concat(names, " ")
  for _, o in ipairs(verbs.run_options()) do lines[#lines + 1] = option(run, o) end
  local recipe = "string match -q -- \"*.lua\" (commandline -opc)[2]"
  for _, key in ipairs(verbs.keys()) do
    for _, value in ipairs(key.choices or { "" }) do
      add("complete -c seqrun -n %s -a %s -d %s", quoted(recipe), quoted(key.name .. "=" .. value), quoted(key.doc))
    end
  end
  return table.concat(lines, "\n") .. "\n"
end
