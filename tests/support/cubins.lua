-- The machine code for GPUs inside an object or library: kernels with their registers, frames and opcodes.
--
-- nvcc embeds one ELF file per architecture.  A kernel is its section .text.NAME: instructions of 16 bytes,
-- the opcode in the low 12 bits of the first word.  Section .nv.info has attributes by symbol.

local cubins = {}

local MAGIC, MACHINE = "\x7fELF\x02\x01", 190 -- EM_CUDA
local FRAME, REGISTERS = 0x11, 0x2f -- attributes of .nv.info: a symbol and a number

---@class CubinKernel
---@field name string mangled
---@field sm integer 80, 90
---@field registers integer
---@field frame integer bytes of local memory a thread: arrays and spilled registers
---@field opcodes table<integer, integer> how many instructions of each opcode
---@field loops integer[] instructions of each innermost loop that has products of tensor cores

local function sections(data, at)
  local offset = string.unpack("<I8", data, at + 40)
  local size, count, names = string.unpack("<I2I2I2", data, at + 58)
  local list = {}
  for i = 0, count - 1 do
    local name, _, _, _, from, bytes, link, info =
      string.unpack("<I4I4I8I8I8I8I4I4", data, at + offset + i * size)
    list[i] = { name = name, from = at + from, bytes = bytes, link = link, info = info }
  end
  for _, s in pairs(list) do s.name = string.unpack("z", data, list[names].from + s.name) end
  return list
end

local function opcodes(data, section)
  local found = {}
  for i = section.from, section.from + section.bytes - 1, 16 do
    local op = string.unpack("<I2", data, i) & 0xfff
    found[op] = (found[op] or 0) + 1
  end
  return found
end

local BRANCH, EXIT, HMMA, ALWAYS = 0x947, 0x94d, 0x23c, 7

---Where a branch goes, in instructions from the next one; the bits of its distance in words differ by architecture.
local function distance(word, sm)
  local words, bits = word >> 34, 30
  if sm >= 90 then words, bits = words << 8 | word >> 16 & 0xff, 38 end
  if words >> bits - 1 == 1 then words = words - (1 << bits) end
  return words // 4
end

---Branches back over products, but not over the end of the kernel, behind which rare cases are.
local function loops(data, section, sm)
  local products, ends, found = { [0] = 0 }, { [0] = 0 }, {}
  for i = 1, section.bytes // 16 do
    local word = string.unpack("<i8", data, section.from + (i - 1) * 16)
    local op = word & 0xfff
    products[i] = products[i - 1] + (op == HMMA and 1 or 0)
    ends[i] = ends[i - 1] + (op == EXIT and word >> 12 & 15 == ALWAYS and 1 or 0)
    if op == BRANCH then
      local first = i + 1 + distance(word, sm)
      if first <= i and products[i] > products[first - 1] and ends[i] == ends[first - 1] then
        local inner = #found > 0 and found[#found].first >= first
        if not inner then found[#found + 1] = { first = first, size = i - first + 1 } end
      end
    end
  end
  for i, loop in ipairs(found) do found[i] = loop.size end
  return found
end

---Attribute -> symbol index -> number.
local function attributes(data, list)
  local found = { [FRAME] = {}, [REGISTERS] = {} }
  for _, s in pairs(list) do
    if s.name == ".nv.info" then
      local i, last = s.from, s.from + s.bytes
      while i < last do
        local format, kind, bytes = string.unpack("<BBI2", data, i)
        if format == 4 and found[kind] then
          local symbol, number = string.unpack("<I4I4", data, i + 4)
          found[kind][symbol] = number
        end
        i = i + 4 + (format == 4 and bytes or 0)
      end
    end
  end
  return found
end

---Symbol names -> indices.
local function symbols(data, list)
  local found = {}
  for _, s in pairs(list) do
    if s.name == ".symtab" then
      for i = 0, s.bytes // 24 - 1 do
        local name = string.unpack("<I4", data, s.from + i * 24)
        found[string.unpack("z", data, list[s.link].from + name)] = i
      end
    end
  end
  return found
end

---All kernels in a file, or nil and a reason.
---@param path string
---@return CubinKernel[]?, string?
function cubins.read(path)
  local file, reason = io.open(path, "rb")
  if not file then return nil, reason end
  local data = file:read("a")
  file:close()
  local kernels, at = {}, data:find(MAGIC, 1, true)
  while at do
    if string.unpack("<I2", data, at + 18) == MACHINE then
      local list = sections(data, at)
      local numbers, index = attributes(data, list), symbols(data, list)
      for _, s in pairs(list) do
        local name = s.name:match("^%.text%.(.+)$")
        if name then
          local sm = string.unpack("<I4", data, at + 48) >> 8 & 0xff
          kernels[#kernels + 1] = {
            name = name, sm = sm, loops = loops(data, s, sm),
            registers = assert(numbers[REGISTERS][index[name]], name .. " has no register count"),
            frame = numbers[FRAME][index[name]] or 0, opcodes = opcodes(data, s),
          }
        end
      end
    end
    at = data:find(MAGIC, at + 1, true)
  end
  return kernels
end

return cubins
