-- lines.lua - the lines that a person types, with history across sessions; plain lines where there is no editor.

local edit = require("seqrun.core.edit")
local sys = require("seqrun.core.sys")

local KEPT, LONGEST = 2000, 4096 -- lines of the history, and bytes of one

---The history file: XDG_STATE_HOME/seqrun/history.
---@return string|nil path nil if there is no home
local function history_path()
  local home, state = os.getenv("HOME"), os.getenv("XDG_STATE_HOME")
  if not state or state == "" then state = home and home ~= "" and home .. "/.local/state" or nil end
  return state and state .. "/seqrun/history"
end

---The last lines of the history; a long file is cut.
local function read_history(path)
  local text, list = sys.read_file(path, 1 << 26) or "", {}
  for line in text:gmatch("[^\n]+") do
    if utf8.len(line) then list[#list + 1] = line end
  end
  local kept = table.move(list, math.max(1, #list - KEPT + 1), #list, 1, {})
  if #list > 2 * KEPT then edit.keep(path, table.concat(kept, "\n") .. "\n", true) end
  return kept
end

---@class seqrun.Lines
local Lines = {}
Lines.__index = Lines

---The next line; nil at the end of the input, false after Ctrl-C.
---@param prompt string
---@return string|false|nil
function Lines:read(prompt)
  sys.signals("waiting")
  local line
  if self.editor then
    line = self.editor:read(prompt)
  else
    if self.terminal then io.stdout:write(prompt) end
    io.stdout:flush()
    sys.signals("reading")
    line = io.stdin:read("L")
    line = line and line:gsub("\n$", "")
  end
  local interrupted = sys.caught(true)
  sys.signals("waiting") -- what is printed meanwhile is written whole, in spite of Ctrl-C
  if interrupted then return false end
  return line
end

---Adds a line to the history.
---@param line string
function Lines:remember(line)
  if not self.editor or not line:find("%S") or #line > LONGEST or not utf8.len(line) then return end
  self.editor:remember(line)
  if self.path then edit.keep(self.path, line .. "\n") end
end

function Lines:close()
  if self.editor then getmetatable(self.editor).__close(self.editor) end
  self.editor = nil
end

---@param complete fun(before: string): string?, string?
---@return seqrun.Lines
return function(complete)
  local self = setmetatable({ terminal = sys.is_terminal(0) }, Lines)
  local term = os.getenv("TERM")
  if term and term ~= "" and term ~= "dumb" then self.editor = edit.open(complete) end
  if not self.editor then return self end
  local path = history_path()
  if path and sys.make_dirs(path:match("^(.*)/")) then
    self.path = path
    for _, line in ipairs(read_history(path)) do self.editor:remember(line) end
  end
  return self
end
