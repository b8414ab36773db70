-- ansi.lua - colours in the terminal, where it has them and the user wants them.

local sys = require("seqrun.core.sys")

local ansi = {}

---Of curves and their names: bright blue (the dark one cannot be read on black), red, green, magenta, cyan, yellow.
local COLOURS = { 94, 31, 32, 35, 36, 33 }

---Whether the terminal shows nothing but ASCII.
---@return boolean
function ansi.is_dumb() return os.getenv("TERM") == "dumb" end

---Whether a file descriptor takes colours: a terminal, unless NO_COLOR is set or it is too simple.
---@param fd integer
---@return boolean
function ansi.colours(fd)
  return sys.is_terminal(fd) and (os.getenv("NO_COLOR") or "") == "" and not ansi.is_dumb()
end

---The number of distinct colours.
ansi.COUNT = #COLOURS

---A text in colour number n, from 1.
---@param text string
---@param n integer
---@return string
function ansi.paint(text, n) return ("\27[%dm%s\27[0m"):format(COLOURS[(n - 1) % #COLOURS + 1], text) end

return ansi
