-- frames.lua - what a run and an attached prompt send each other.
--
-- A frame is a line "KIND ID LENGTH [COLUMNS SECONDS]" and LENGTH bytes.  The prompt sends `eval` (an expression or
-- statements), `tab` (a line to complete) and `stop` (end the expression ID); the run sends `hello`, `out` and `err`
-- (what an expression printed), `done` (its exit code), `tab` (bytes to insert, a zero byte, what to list) and `bye`.

local frames = {}

local LONGEST_HEADER = 64

---Bytes of an expression.
frames.LONGEST = 1 << 20

---@class seqrun.attach.Frame
---@field kind string
---@field id integer
---@field text string
---@field columns? integer
---@field seconds? integer

---@param kind string
---@param id integer
---@param text string
---@param columns? integer
---@param seconds? integer
---@return string
function frames.pack(kind, id, text, columns, seconds)
  local more = columns and (" %d %d"):format(columns, seconds) or ""
  return ("%s %d %d%s\n%s"):format(kind, id, #text, more, text)
end

---The parts of a header; nil if it is not one.
local function header(line)
  local kind, id, length, rest = line:match("^(%l+) (%d+) (%d+)(.*)$")
  local columns, seconds = (rest or ""):match("^ (%d+) (%d+)$")
  if not kind or #id > 15 or #length > 15 or rest ~= "" and not columns or #rest > 15 then return nil end
  return { kind = kind, id = tonumber(id), columns = tonumber(columns), seconds = tonumber(seconds) }, tonumber(length)
end

---@class seqrun.attach.Reader
---@field rest string bytes that make no frame yet
---@field most integer bytes that a frame may have
local Reader = {}
Reader.__index = Reader

---@param most? integer default: no limit
---@return seqrun.attach.Reader
function frames.reader(most) return setmetatable({ rest = "", most = most or math.maxinteger }, Reader) end

---@param bytes string
function Reader:feed(bytes) self.rest = self.rest .. bytes end

---The next frame; nil if it is not complete, with a message if it is not a frame.
---@return seqrun.attach.Frame|nil
---@return string? problem
function Reader:next()
  local stop = self.rest:find("\n", 1, true)
  if not stop or stop > LONGEST_HEADER then
    if #self.rest < LONGEST_HEADER then return nil end
    return nil, "not a message of seqrun attach"
  end
  local frame, length = header(self.rest:sub(1, stop - 1))
  if not frame then return nil, "not a message of seqrun attach" end
  if length > self.most then
    return nil, ("the expression has %d bytes; the maximum is %d"):format(length, self.most)
  end
  if #self.rest < stop + length then return nil end
  frame.text = self.rest:sub(stop + 1, stop + length)
  self.rest = self.rest:sub(stop + length + 1)
  return frame
end

return frames
