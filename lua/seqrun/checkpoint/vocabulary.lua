-- vocabulary.lua - whether a checkpoint and a data set have the same vocabulary

local sys = require("seqrun.core.sys")

local vocabulary = {}

local MOST_BYTES = 1 << 26

---The tokens of a vocabulary's text, one per line.
local function tokens_of(text)
  local tokens = {}
  for line in text:gsub("\n$", ""):gmatch("([^\n]*)\n?") do tokens[#tokens + 1] = (line:gsub("\r$", "")) end
  if tokens[#tokens] == "" then tokens[#tokens] = nil end -- gmatch ends with an empty match
  return tokens
end

---The vocabulary of a checkpoint's directory; nil if absent.
---@param folder string
---@return string|nil
function vocabulary.read(folder) return (sys.read_file(folder .. "/vocab.txt", MOST_BYTES)) end

---How two vocabularies differ, in a sentence; nil if they are equal.
---@param mine string
---@param theirs string
---@return string|nil
function vocabulary.difference(mine, theirs)
  if mine == theirs then return nil end
  local a, b = tokens_of(mine), tokens_of(theirs)
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then
      local text = "%d and %d tokens, first difference at id %d: '%s' and '%s'"
      return text:format(#a, #b, i - 1, a[i] or "", b[i] or "")
    end
  end
end

return vocabulary
