-- packed.lua - names of compressed files.  Their first bytes identify the compression (core/text/unpack.h).

local packed = {}

---Endings of a file that may be compressed.
packed.ENDINGS = { "", ".gz", ".zst" }

---A path without the ending of its compression.
---@param path string
---@return string
function packed.bare(path)
  for _, ending in ipairs(packed.ENDINGS) do
    if ending ~= "" and path:sub(-#ending):lower() == ending then return path:sub(1, -#ending - 1) end
  end
  return path
end

return packed
