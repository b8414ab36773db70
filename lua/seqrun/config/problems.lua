-- problems.lua - all errors of a config, reported at once: where, what, and what to do.

local Problems = {}
Problems.__index = Problems

---More than this many would scroll the first ones away.
local MOST_SHOWN = 20

---@return table # an empty list of problems
local function new() return setmetatable({}, Problems) end

---A file as a source of nodes.
local function file_source(name, text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do lines[#lines + 1] = line end
  return { name = name, lines = lines }
end

---An argument of the command line as a source; `shift` is added to the columns of its nodes.
local function argument_source(argument, shift)
  return { argument = argument, shift = shift or 0 }
end

---Adds a problem at a node; a node without a position means its whole source.
---@param node table { source, line, column, width? }
function Problems:add(node, format, ...)
  self[#self + 1] = {
    source = node.source, line = node.line or 1, column = node.column or 1, width = node.width or 1,
    message = select("#", ...) > 0 and format:format(...) or format, order = #self,
  }
end

---"FILE:LINE:COLUMN", "command line" or, where no file was read, "config".
local function place(problem)
  local source = problem.source
  if source.argument then return "command line" end
  if #source.lines == 0 then return "config" end
  return ("%s:%d:%d"):format(source.name, problem.line, problem.column)
end

---Spaces as wide as the text before a column, keeping tabs.
local function indent(line, column)
  local last = utf8.len(line) and utf8.offset(line, column) or column
  local before = line:sub(1, (last or #line + 1) - 1)
  return (before:gsub("[\128-\191]", ""):gsub("[^\t]", " "))
end

local function carets(problem)
  return "^" .. ("~"):rep(math.max(0, math.min(problem.width, 40) - 1))
end

---The source line with carets below the place; "" when there is no line to show.
local function excerpt(problem)
  local source = problem.source
  if source.argument then
    local before = (" "):rep(problem.column - 1 + source.shift)
    return ("\n    %s\n    %s%s"):format(source.argument, before, carets(problem))
  end
  local line = source.lines[problem.line]
  if not line or line:match("^%s*$") or #line > 200 then return "" end
  local number = ("%5d | "):format(problem.line)
  return ("\n%s%s\n      | %s%s"):format(number, line, indent(line, problem.column), carets(problem))
end

---All problems in the order of their places; "" when there are none.
function Problems:__tostring()
  local list, rank = table.move(self, 1, #self, 1, {}), {}
  for i, problem in ipairs(self) do rank[problem.source] = rank[problem.source] or i end
  table.sort(list, function(a, b)
    if a.source ~= b.source then return rank[a.source] < rank[b.source] end
    if a.line ~= b.line then return a.line < b.line end
    if a.column ~= b.column then return a.column < b.column end
    return a.order < b.order
  end)
  local out = {}
  for i = 1, math.min(#list, MOST_SHOWN) do
    out[i] = ("%s: %s%s"):format(place(list[i]), list[i].message, excerpt(list[i]))
  end
  if #list > MOST_SHOWN then out[#out + 1] = ("and %d more"):format(#list - MOST_SHOWN) end
  if #list > 1 then out[#out + 1] = ("%d errors; nothing was started"):format(#list) end
  return table.concat(out, "\n")
end

return { new = new, file_source = file_source, argument_source = argument_source, place = place }
