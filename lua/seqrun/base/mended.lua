-- mended.lua - text with something else in the place of the bytes that are not UTF-8.

---@param text string
---@param instead fun(byte: string): string
---@return string
return function(text, instead)
  local parts, at = {}, 1
  while at <= #text do
    local _, bad = utf8.len(text, at)
    parts[#parts + 1] = text:sub(at, (bad or #text + 1) - 1)
    if bad then parts[#parts + 1] = instead(text:sub(bad, bad)) end
    at = (bad or #text) + 1
  end
  return table.concat(parts)
end
