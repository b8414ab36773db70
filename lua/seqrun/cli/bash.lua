-- bash.lua - completion for bash.

local verbs = require("seqrun.cli.verbs")

local HEAD = [==[
# bash completion for seqrun, written by `seqrun completion bash`

_seqrun_words() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }
_seqrun_files() {
    compopt -o filenames
    COMPREPLY+=($(compgen -f -- "$cur"))
}

# A value of a config key: key = value are three words, since = breaks words.
_seqrun_value() {
    case $1 in
%s
    *) _seqrun_files ;;
    esac
}

_seqrun_run() {
    if [[ $cur == = ]]; then cur= && _seqrun_value "$prev" && return; fi
    if [[ $prev == = ]]; then _seqrun_value "${COMP_WORDS[COMP_CWORD - 2]}" && return; fi
    case $prev in
%s
    esac
    if [[ $cur == -* ]]; then _seqrun_words '%s' && return; fi
    _seqrun_words '%s'
    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}

_seqrun() {
    local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} first= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} != -* ]]; then first=${COMP_WORDS[i]} && break; fi
    done
    case $first in
    '')
        if [[ $cur == -* ]]; then _seqrun_words '%s' && return; fi
        _seqrun_words '%s'
        compopt -o filenames
        COMPREPLY+=($(compgen -f -X '!*.lua' -- "$cur") $(compgen -d -- "$cur"))
        ;;
]==]

local TAIL = [==[
    *) _seqrun_run ;;
    esac
}
complete -F _seqrun seqrun
]==]

local function names_of(options)
  local list = {}
  for _, o in ipairs(options) do table.move(o.names, 1, #o.names, #list + 1, list) end
  return table.concat(list, " ")
end

---Lines of a case: what follows each option that takes a value.
local function values(options, indent)
  local lines = {}
  for _, o in ipairs(options) do
    if o.value and not o.maybe or o.choices then
      local what = o.choices and ("_seqrun_words '%s'"):format(table.concat(o.choices, " "))
        or verbs.is_path(o) and "_seqrun_files" or ":"
      lines[#lines + 1] = ("%s%s) %s && return ;;"):format(indent, table.concat(o.names, " | "), what)
    end
  end
  return table.concat(lines, "\n")
end

local function case_of(verb)
  local arguments, lines = verb.arguments[1], { ("    %s)"):format(verb.name) }
  local follow = values(verb.options, "        ")
  if follow ~= "" then
    lines[#lines + 1] = "        case $prev in\n" .. follow .. "\n        esac"
  end
  lines[#lines + 1] = ("        if [[ $cur == -* ]]; then _seqrun_words '%s' && return; fi"):format(
    names_of(verb.options))
  if arguments then
    lines[#lines + 1] = arguments.choices and ("        _seqrun_words '%s'"):format(
      table.concat(arguments.choices, " ")) or "        _seqrun_files"
  end
  lines[#lines + 1] = "        ;;\n"
  return table.concat(lines, "\n")
end

---@return string
return function()
  local run, keys, choices, names, parts = verbs.run_options(), {}, {}, {}, {}
  for i, key in ipairs(verbs.keys()) do
    keys[i] = key.name .. "="
    if key.choices then
      choices[#choices + 1] = ("    %s) _seqrun_words '%s' ;;"):format(key.name, table.concat(key.choices, " "))
    end
  end
  local all = verbs.all()
  for i, verb in ipairs(all) do
    names[i], parts[i] = verb.name, case_of(verb)
  end
  local options = names_of(run)
  return HEAD:format(table.concat(choices, "\n"), values(run, "    "), options,
    table.concat(keys, " ") .. " config= preset=", "-e --version " .. options, table.concat(names, " "))
    .. table.concat(parts) .. TAIL
end
