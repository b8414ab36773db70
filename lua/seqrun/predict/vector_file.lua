-- vector_file.lua - vectors written one by one to a safetensors file, as the tensor `embeddings` of (N, H), with
-- digests of their texts.
--
-- The number of vectors is known only at the end: the header has a fixed size and is written last.  The file appears
-- under its name when it is whole.

local draft = require("seqrun.base.draft")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local text_order = require("seqrun.data.text_order")

local VectorFile = {}
VectorFile.__index = VectorFile

local HEADER = 248 -- bytes, with 8 before it

local function fail(self, message)
  self.file:close()
  os.remove(self.temporary)
  self.file = nil
  return nil, ("%s: %s"):format(self.path, message), "storage"
end

---@param path string
---@param size integer H
---@return table? file
---@return string? message
---@return string? code
local function open(path, size)
  local writable, message, code = sys.check_writable(path)
  if not writable then return nil, message, code end
  local self = setmetatable({ path = path, temporary = draft(path), size = size, count = 0 }, VectorFile)
  self.order = text_order()
  self.file, message = io.open(self.temporary, "wb")
  if not self.file then return nil, message, "storage" end
  local good
  good, message = self.file:write((" "):rep(8 + HEADER))
  if not good then return fail(self, message) end
  return self
end

---Appends the vector of a text, as bytes of little-endian f32.
function VectorFile:add(bytes, text)
  local good, message = self.file:write(bytes)
  if not good then return fail(self, message) end
  self.count = self.count + 1
  self.order:add(text)
  return true
end

---Writes the header and gives the file its name.
function VectorFile:commit()
  local header = json.encode {
    __metadata__ = self.order:digests(),
    embeddings = { dtype = "F32", shape = { self.count, self.size }, data_offsets = { 0, 4 * self.count * self.size } },
  }
  local file = self.file
  local good, message = file:seek("set", 0)
  if good then good, message = file:write(string.pack("<I8", HEADER), header, (" "):rep(HEADER - #header)) end
  if not good then return fail(self, message) end
  self.file = nil -- closed, even if that fails
  good, message = file:close()
  if not good then message = ("%s: %s"):format(self.path, message) else
    good, message = os.rename(self.temporary, self.path)
  end
  if good then return true end
  os.remove(self.temporary)
  return nil, message, "storage"
end

---Removes what is not committed.
function VectorFile:close()
  if not self.file then return end
  self.file:close()
  os.remove(self.temporary)
  self.file = nil
end

VectorFile.__close = VectorFile.close

return { open = open }
