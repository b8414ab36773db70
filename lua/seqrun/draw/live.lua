-- live.lua - a line of the terminal that is redrawn in place, and progress of long work.
--
-- On a terminal, standard error shows one line that fits its width; elsewhere there is no such line, but progress of
-- long work as lines at growing intervals.

local ansi = require("seqrun.draw.ansi")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local live = {}

local STDOUT, STDERR = 1, 2
local REDRAW = 0.2 -- seconds between redraws

-- ---- texts that fit ------------------------------------------------------------------------------

---Columns of a text; ill-formed UTF-8 counts by bytes.
---@param words string
---@return integer
function live.columns(words) return utf8.len(words) or #words end

---A text cut to a width.
---@param words string
---@param width integer
---@return string
function live.cut(words, width)
  if live.columns(words) <= width then return words end
  local stop = utf8.len(words) and utf8.offset(words, width + 1) or width + 1
  return words:sub(1, stop - 1)
end

---What later lines begin with: after an indented label, as in "  plan    100 sequences", they are below the text.
local function indent_of(line, width)
  local label = line:match("^  +%S.-   *%f[^ ]")
  if label and live.columns(label) <= math.min(width // 3, 32) then return (" "):rep(live.columns(label)) end
  return line:match("^ *") .. "  "
end

---Breaks one line at blanks, rather between fields, into lines of at most `width` columns, the later ones indented.
local function fold_line(line, width)
  local indent = indent_of(line, width)
  if live.columns(line) <= width or #indent > width // 2 then return line end
  local lines, current, field = {}, nil, nil -- field: where the last one of the line begins
  for blanks, word in line:gmatch("( *)([^ ]+)") do
    if current and live.columns(current .. blanks .. word) > width then
      local cut = #blanks < 2 and field or #current + 1
      if live.columns(indent .. current:sub(cut) .. blanks .. word) > width then cut = #current + 1 end
      lines[#lines + 1] = current:sub(1, cut - 1):gsub(" +$", "")
      local rest = current:sub(cut)
      current, field = indent .. (rest == "" and word or rest .. blanks .. word), nil
    else
      local before = current and #current + #blanks or 0
      if #blanks > 1 and before > width // 2 then field = before + 1 end
      current = (current or "") .. blanks .. word
    end
  end
  lines[#lines + 1] = current
  return table.concat(lines, "\n")
end

---A text whose lines fit the width; words longer than it stay whole.
---@param words string
---@param width integer
---@return string
function live.fold(words, width)
  return (words:gsub("[^\n]+", function(line) return fold_line(line, width) end))
end

---A text for standard output: where that is a terminal, its lines fit.
---@param words string
---@return string
function live.fit_output(words)
  return sys.is_terminal(STDOUT) and live.fold(words, sys.columns(STDOUT)) or words
end

---A bar of some columns.
---@param part number 0 to 1
---@param width integer
---@return string
function live.bar(part, width)
  local full = math.floor(math.max(0, math.min(1, part)) * width + 0.5)
  return ("━"):rep(full) .. ("─"):rep(width - full)
end

local SHORTEST, LONGEST = 6, 24 -- columns of a bar

---Those parts of a line that fit a width, the most important first; a bar takes what is left.
---@param parts { text?: string, bar?: number, rank: integer }[] in the order of the line; rank 1 is most important
---@param width integer
---@return string
function live.fit(parts, width)
  local order, chosen, left = {}, {}, width + 2
  for i, part in ipairs(parts) do order[i] = { i = i, part = part } end
  table.sort(order, function(a, b) return a.part.rank < b.part.rank or a.part.rank == b.part.rank and a.i < b.i end)
  for _, each in ipairs(order) do
    local need = (each.part.bar and SHORTEST or live.columns(each.part.text)) + 2
    if need > left then break end
    chosen[each.i], left = true, left - need
  end
  local list = {}
  for i, part in ipairs(parts) do
    if chosen[i] then
      list[#list + 1] = part.bar and live.bar(part.bar, math.min(LONGEST, SHORTEST + left)) or part.text
    end
  end
  return live.cut(table.concat(list, "  "), width)
end

-- ---- the line ------------------------------------------------------------------------------------

---@class seqrun.Live
---@field folds boolean whether standard error is a terminal, whose lines must fit
---@field terminal boolean whether there is a line
---@field drawn? integer columns of what is shown
---@field columns? integer of the terminal when it was drawn
local Live = {}
Live.__index = Live

---The line of standard error.
---@param off? boolean no line, even on a terminal
---@return seqrun.Live
function live.new(off)
  local folds = not off and sys.is_terminal(STDERR)
  return setmetatable({ folds = folds, terminal = folds and not ansi.is_dumb(), at = -math.huge }, Live)
end

---Columns that a line may have: the cursor stays in its row, even after the "^C" of a terminal.
---@return integer
function Live.width(_) return math.max(10, sys.columns(STDERR) - 3) end

---Whether it is time to draw again.
---@return boolean
function Live:due() return self.terminal and sys.now() - self.at >= REDRAW end

---What removes the line; a terminal that became narrower has broken it into several rows.
local function erasure(self)
  if not self.drawn then return "" end
  local above = math.max(0, self.drawn - 1) // sys.columns(STDERR)
  return above > 0 and ("\r\27[%dA\27[J"):format(above) or "\r\27[K"
end

---Shows a text in the place of the one before.
---@param words string without codes, of at most width() columns
---@param painted? string the same with colours
function Live:draw(words, painted)
  if not self.terminal then return end
  io.stderr:write(erasure(self), "\r", painted or words, "\27[K")
  io.stderr:flush()
  self.drawn, self.at, self.columns = live.columns(words), sys.now(), sys.columns(STDERR)
  sys.status_line(true)
end

---Whether the terminal has another width than when the line was drawn.
---@return boolean
function Live:resized() return self.drawn ~= nil and sys.columns(STDERR) ~= self.columns end

---Removes the line.
function Live:wipe()
  if not self.drawn then return end
  io.stderr:write(erasure(self))
  self.drawn = nil
  sys.status_line(false)
end

---Prints a text that stays, broken to fit the terminal.
---@param words string
function Live:print(words)
  self:wipe()
  io.stderr:write(self.folds and live.fold(words, self:width()) or words, "\n")
end

-- ---- long work -----------------------------------------------------------------------------------

local FIRST, FACTOR, MOST = 1, 2, 600 -- seconds: before anything is shown; growth of intervals; the longest

---@class seqrun.Work
local Work = {}
Work.__index = Work

---Progress of work that may be long: nothing is shown in its first second.
---@param title string "evaluating"
---@param options? { line?: seqrun.Live, print?: fun(words: string), total?: number, unit?: string, quiet?: boolean }
---  print: what takes lines where there is no terminal; unit: such as "updates"
---@return seqrun.Work
function live.work(title, options)
  options = options or {}
  local line = options.line or live.new(options.quiet)
  return setmetatable({
    title = title, line = line, total = options.total, unit = options.unit and " " .. options.unit or "",
    print = options.print or function(words) line:print(words) end, quiet = options.quiet,
    began = sys.now(), interval = 4, next = sys.now() + FIRST,
  }, Work)
end

---How far it is, in parts of a line.
local function parts_of(self, done, note)
  local total = self.total and math.max(self.total, done or 0) -- it may be an estimate
  local parts = { { text = self.title, rank = 1 } }
  if done and total and total > 0 then
    local share, spent = math.min(1, done / total), sys.now() - self.began
    parts[2] = { bar = share, rank = 4 }
    parts[3] = { text = text.percent(share), rank = 2 }
    if share > 0.01 then parts[4] = { text = "eta " .. text.duration(spent / share - spent), rank = 3 } end
    parts[#parts + 1] = { text = ("%s/%s%s"):format(text.count(done), text.count(total), self.unit), rank = 5 }
  elseif done then
    parts[2] = { text = text.count(done) .. self.unit, rank = 2 }
  end
  if note then parts[#parts + 1] = { text = note, rank = 6 } end
  return parts
end

---Whether it is time to print.
---@return boolean
function Work:due() return not self.quiet and sys.now() >= self.next end

---Tells how far the work is; may be called very often.
---@param done? number
---@param note? string
function Work:at(done, note)
  if not self:due() then return end
  local now, parts = sys.now(), parts_of(self, done, note)
  if self.line.terminal then
    self.line:draw(live.fit(parts, self.line:width()))
    self.next = now + REDRAW
    return
  end
  local list = {}
  for _, part in ipairs(parts) do list[#list + 1] = part.text end
  self.print(table.concat(list, "  "))
  self.next, self.interval = now + self.interval, math.min(self.interval * FACTOR, MOST)
end

---Ends it; nothing stays on a terminal.
function Work:finish() self.line:wipe() end
Work.__close = Work.finish

---Shows what is being done, of which nothing is known until it is done, on a terminal only.
---@param words string
---@return seqrun.Work to be finished
function live.busy(words)
  local work = live.work(words)
  if work.line.terminal then work.line:draw(live.cut(words .. " ...", work.line:width())) end
  return work
end

return live
