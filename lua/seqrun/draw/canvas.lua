-- canvas.lua - curves in a frame of characters: braille dots, in colours or in letters where there are several.

local merged = require("seqrun.base.merged")

local canvas = {}

local DOTS = { { 0x01, 0x02, 0x04, 0x40 }, { 0x08, 0x10, 0x20, 0x80 } } -- of a braille character, by column and row
local LABEL = 11

---@class seqrun.Canvas
---@field width integer characters of the frame
---@field height integer
---@field log boolean a logarithmic y axis
local Canvas = {}
Canvas.__index = Canvas

---Characters that labels and the frame take beside the curves.
canvas.MARGIN = LABEL + 2

---@param x number
---@return string
function canvas.number(x)
  if x % 1 == 0 and math.abs(x) < 1e9 then return ("%d"):format(x) end
  return ("%.4g"):format(x)
end

local function finite(v) return v == v and math.abs(v) < math.huge end

---The least and the largest finite value of some lists; nil if there is none.
---@param lists number[][]
---@return number|nil least
---@return number|nil most
function canvas.bounds(lists)
  local least, most
  for _, list in ipairs(lists) do
    for _, v in ipairs(list) do
      if finite(v) then least, most = math.min(least or v, v), math.max(most or v, v) end
    end
  end
  return least, most
end

---@param t { width: integer, height: integer, left: number, right: number, low: number, high: number, log?: boolean }
---@return seqrun.Canvas
function canvas.new(t)
  return setmetatable(merged(t, { cells = {}, owners = {} }), Canvas)
end

local function place(v, least, most, count)
  return most > least and math.floor((v - least) / (most - least) * (count - 1) + 0.5) or 0
end

---The dot of a point: column and row from the top left.
local function dot_of(self, x, y)
  local low, high = self.low, self.high
  if self.log then y, low, high = math.log(y), math.log(low), math.log(high) end
  return place(x, self.left, self.right, 2 * self.width), 4 * self.height - 1 - place(y, low, high, 4 * self.height)
end

local function set(self, column, row, owner)
  local key = (row // 4) * self.width + column // 2
  self.cells[key] = (self.cells[key] or 0) | DOTS[column % 2 + 1][row % 4 + 1]
  self.owners[key] = owner
end

---Draws lines between points; a value that is not finite leaves a gap.
---@param xs number[]
---@param ys number[]
---@param owner? integer the number of the curve
function Canvas:curve(xs, ys, owner)
  local c0, r0
  for i, y in ipairs(ys) do
    if finite(y) and finite(xs[i]) then
      local c, r = dot_of(self, xs[i], y)
      c0, r0 = c0 or c, r0 or r
      local steps = math.max(math.abs(c - c0), math.abs(r - r0))
      for s = 0, steps do
        local part = steps > 0 and s / steps or 1
        set(self, (c0 + (c - c0) * part + 0.5) // 1 | 0, (r0 + (r - r0) * part + 0.5) // 1 | 0, owner)
      end
      c0, r0 = c, r
    else
      c0, r0 = nil, nil
    end
  end
end

local FRAME = { bar = "│", corner = "└", line = "─" }
local ASCII = { bar = "|", corner = "+", line = "-" }

local function row_of(self, row, mark, plain)
  local line = {}
  for column = 0, self.width - 1 do
    local key = row * self.width + column
    local bits, owner = self.cells[key], self.owners[key]
    local dots = plain and (bits and "*" or " ") or utf8.char(0x2800 + (bits or 0))
    line[column + 1] = bits and mark and owner and mark(dots, owner) or not bits and mark and " " or dots
  end
  return table.concat(line)
end

---The frame with its labels, as lines; in ASCII on a terminal that shows nothing else.
---@param mark? fun(dots: string, owner: integer): string the mark for the dots of a curve
---@return string[]
function Canvas:lines(mark)
  local lines, plain = {}, require("seqrun.draw.ansi").is_dumb()
  local frame = plain and ASCII or FRAME
  for row = 0, self.height - 1 do
    local y = row == 0 and self.high or row == self.height - 1 and self.low
    local label = y and canvas.number(y) or ""
    lines[#lines + 1] = ("%" .. LABEL .. "s %s%s"):format(label, frame.bar, row_of(self, row, mark, plain))
  end
  lines[#lines + 1] = (" "):rep(LABEL + 1) .. frame.corner .. frame.line:rep(self.width)
  local first, last = canvas.number(self.left), canvas.number(self.right)
  lines[#lines + 1] = (" "):rep(canvas.MARGIN) .. first .. (" "):rep(self.width - #first - #last) .. last
  return lines
end

return canvas
