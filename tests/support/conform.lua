-- conform.lua - whether simt computes a line of tests/gpu/conform.cu as a chip did.

local conform = {}

---Words whose every bit is defined; the others are f32.
local EXACT = { ["cvt.bf16x2"] = true, ldmatrix = true, ["mma.bf16 integers"] = true }

---Units in the last place that an approximation may be off, as PTX documents it (ex2, lg2, rcp: about 2^-22
---relative), and that the order of 16 products may cost.
local ULPS = { ex2 = 4, lg2 = 4, rcp = 2, ["mma.bf16"] = 16 }

---The number of an f32 among all, in order; denormals count as zero, as the approximations flush them.
local function place(word)
  local bits = tonumber(word, 16)
  local magnitude = bits & 0x7FFFFFFF
  if magnitude < 0x00800000 then return 0 end
  return bits >= 0x80000000 and -(magnitude - 0x007FFFFF) or magnitude - 0x007FFFFF
end

---Raises if the words of a line differ by more than its primitive may.
---@param what string for the message
---@param name string of the primitive
---@param chip string words, by tabs
---@param simt string|nil
function conform.compare(what, name, chip, simt)
  assert(simt, what .. " is missing on simt")
  assert(EXACT[name] or ULPS[name], what .. ": unknown primitive")
  local theirs = simt:gmatch("%x+")
  for word in chip:gmatch("%x+") do
    local other = assert(theirs(), what .. " is shorter on simt")
    local good = word == other
    if not good and ULPS[name] then good = math.abs(place(word) - place(other)) <= ULPS[name] end
    if not good then error(("%s: %s on the chip, %s on simt"):format(what, word, other), 2) end
  end
end

return conform
