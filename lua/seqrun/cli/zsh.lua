-- zsh.lua - completion for zsh.

local verbs = require("seqrun.cli.verbs")

local HEAD = [==[
#compdef seqrun
# zsh completion for seqrun, written by `seqrun completion zsh`

_seqrun_keys() {
  local -a keys=(
%s
  )
  case ${PREFIX%%%%=*} in
%s
  esac
  if compset -P '*='; then
    _files
  else
    _describe -t keys 'config key' keys -S '='
  fi
}

_seqrun_values() { compset -P '*=' && compadd -- "$@"; }

_seqrun() {
  local -a commands=(
%s
  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    _files -g '*.lua'
    _arguments %s
    return
  fi
  local first=$words[2]
  shift words
  (( CURRENT-- ))
  case $first in
]==]

local TAIL = [==[
  *)
    _arguments %s '*:key:_seqrun_keys'
    ;;
  esac
}

_seqrun "$@"
]==]

---Text in single quotes, with what has a meaning in a specification escaped.
local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function described(text) return (text:gsub("[%[%]:\\]", "\\%0")) end

---One specification for _arguments.
local function spec(o)
  local value = ""
  if o.value or o.choices then
    local what = o.choices and "(" .. table.concat(o.choices, " ") .. ")" or verbs.is_path(o) and "_files" or " "
    value = (o.maybe and "::" or ":") .. (o.value or "value") .. ":" .. what
  end
  local list = {}
  for i, name in ipairs(o.names) do
    local attached = o.value and (o.maybe and name .. "=-" or name:find("^%-%-") and name .. "=" or name) or name
    list[i] = quoted(attached .. "[" .. described(o.doc) .. "]" .. value)
  end
  return table.concat(list, " ")
end

local function specs(options)
  local list = {}
  for i, o in ipairs(options) do list[i] = spec(o) end
  return table.concat(list, " ")
end

local function case_of(verb)
  local all = { specs(verb.options) }
  for _, a in ipairs(verb.arguments) do
    local what = a.choices and "(" .. table.concat(a.choices, " ") .. ")" or "_files"
    all[#all + 1] = quoted((a.many and "*" or "") .. ":" .. a.name .. ":" .. what)
  end
  return ("  %s)\n    _arguments %s\n    ;;\n"):format(verb.name, table.concat(all, " "))
end

---@return string
return function()
  local keys, values, commands, cases = {}, {}, {}, {}
  for i, key in ipairs(verbs.keys()) do
    keys[i] = "    " .. quoted(key.name .. ":" .. key.doc)
    if key.choices then
      values[#values + 1] = ("  %s) _seqrun_values %s && return ;;"):format(key.name, table.concat(key.choices, " "))
    end
  end
  for i, verb in ipairs(verbs.all()) do
    commands[i], cases[i] = "    " .. quoted(verb.name .. ":" .. verb.summary), case_of(verb)
  end
  local run = specs(verbs.run_options())
  return HEAD:format(table.concat(keys, "\n"), table.concat(values, "\n"), table.concat(commands, "\n"), run)
    .. table.concat(cases) .. TAIL:format((run:gsub("%%", "%%%%")))
end
