---@meta

---JSON to Lua values and back, strict in reading and with stable bytes in writing.
---@class seqrun.core.json
---@field null lightuserdata represents JSON null
local json = {}

---Reads one JSON value; a duplicate key, invalid UTF-8 or trailing text is an error.  If an integer of the text exceeds
---64 bits, all its numbers are floats.
---@param text string
---@return any|nil value
---@return string? message
---@return string? code
function json.decode(text) end

---Reads the JSON value at `place`, from 1, of a text; other text may follow it.
---@param text string
---@param place integer
---@return any|nil value
---@return integer|string|nil after the place after it; the message on failure
---@return string? code
function json.decode_at(text, place) end

---Writes a value: keys in byte order, floats in the fewest digits that round-trip, NaN and
---infinities as null.
---@param value any
---@return string
function json.encode(value) end

---Marks a list so that it is written as an array even when it is empty.
---@param list? table
---@return table
function json.array(list) end

return json
