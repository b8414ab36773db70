-- printable.lua - text from files and names as a terminal may show it.
--
-- Control characters, marks that turn the direction of writing, and bytes that are not UTF-8 appear as \xNN: a name of
-- somebody else's neither moves the cursor nor hides the text before it.

local mended = require("seqrun.base.mended")

local function spelled(bytes)
  return (bytes:gsub(".", function(byte) return ("\\x%02x"):format(byte:byte()) end))
end

---@param text string
---@param one_line? boolean line feeds and tabs are spelled out too
---@return string
return function(text, one_line)
  text = text:gsub(one_line and "[%c\127]" or "[%z\1-\8\11-\31\127]", spelled)
  if not text:find("[\128-\255]") then return text end
  if not utf8.len(text) then text = mended(text, spelled) end
  text = text:gsub("\xC2[\x80-\x9F]", spelled)
  return (text:gsub("\xE2\x80[\xAA-\xAE]", spelled):gsub("\xE2\x81[\xA6-\xA9]", spelled))
end
