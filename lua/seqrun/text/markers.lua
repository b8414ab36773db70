-- markers.lua - special tokens that are written in texts, such as [E1] before an entity: a warning where they are read
-- as plain text, though Transformers reads them as the tokens that they name.

local output = require("seqrun.base.output")

local MOST = 64 -- tokenizers with more have reserved ones, which nobody writes

local left = setmetatable({}, { __mode = "k" }) -- by tokenizer: those that no text has had yet

---The special tokens that a tokenizer reads as plain text.
local function literal(core)
  local list = {}
  for _, id in ipairs(core:specials()) do
    local token = core:token(id)
    if token and core:ids(token)[1] ~= id then list[#list + 1] = token end
  end
  return #list <= MOST and list or {}
end

---Warns of the first special token in the texts of a tokenizer.
---@param core seqrun.core.text.tokenizer
---@param text string
return function(core, text)
  left[core] = left[core] or literal(core)
  for _, token in ipairs(left[core]) do
    if text:find(token, 1, true) then
      output.note("warning: a text has the special token '%s', which is read as plain text; data.specials=true "
        .. "(of commands: --parse-specials) reads it as the token, as Transformers does", token)
      left[core] = {}
      return
    end
  end
end
