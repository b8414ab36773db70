-- bars.lua - horizontal bars in the terminal, exact to an eighth of a character.

local ansi = require("seqrun.draw.ansi")

local bars = {}

local EIGHTHS = { "▏", "▎", "▍", "▌", "▋", "▊", "▉" }

---A bar that takes this part of `width` characters; anything above zero is visible.
---@param part number from 0 to 1
---@param width integer
---@return string
function bars.bar(part, width)
  if ansi.is_dumb() then return ("#"):rep(math.ceil(part * width - 1e-9)) end
  local eighths = math.floor(part * width * 8 + 0.5)
  if part > 0 then eighths = math.max(1, eighths) end
  return ("█"):rep(eighths // 8) .. (EIGHTHS[eighths % 8] or "")
end

---The characters that bars may take beside labels of `taken` characters: 44, or what the terminal has left.
---@param taken integer
---@return integer
function bars.room(taken)
  return math.max(8, math.min(44, require("seqrun.core.sys").columns(1) - 1 - taken))
end

return bars
