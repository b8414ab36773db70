-- hints.lua - what a line at the prompt that cannot run was probably meant to be.

local hints = {}

---Functions of the session that take a word in quotes.
local QUOTED = { help = true, apropos = true, examples = true, run = true, edit = true }

---A hint about a line that Lua cannot read, or "".
---@param text string
---@return string
function hints.syntax(text)
  local line = text:match("^%s*(.-)%s*$")
  local verb, word = line:match("^(%l+)%s+([%w_./:-]+)$")
  if QUOTED[verb] then return ('; write %s "%s"'):format(verb, word) end
  local asked = line:match("^%?+%s*([%w_.:]+)$") or line:match("^([%w_.:]+)%s*%?+$")
  if asked then return ("; write help(%s)"):format(asked) end
  if line:find("^%%+time") then return "; write time(function() return ... end)" end
  local command = line:match("^!%s*(.+)$")
  if command then return ("; write os.execute %q"):format(command) end
  if line:find("^import%s") or line:find("^from%s") then return '; sr is there; Lua imports by require "NAME"' end
  if line:find("[%w)%]]%s*@%s*[%w(]") then return "; a matrix product is a:matmul(b)" end
  if line:find("!=", 1, true) then return "; not equal is ~=" end
  if line:find("[+*/-]=") then return "; write x = x + 1" end
  return ""
end

return hints
