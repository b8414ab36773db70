-- gates.lua LIBRARY PLANTED: what the machine code of the kernels must be; for tests/gates.sh.

package.path = "./?.lua;" .. package.path
local cubins = require("tests.support.cubins")

local HMMA = 0x23c
local LOCAL = { [0x983] = "LDL", [0x387] = "STL", [0x987] = "STL" }

-- Ceilings of registers a thread; 65,536 registers make 2 blocks of 128 threads at 255, 3 at 168, 4 at 128.
local REGISTERS = 128
local CEILINGS = {
  -- kernel and its first template arguments    registers
  ["attention::forward<32, 1"] = 128,
  ["attention::forward<32, 2"] = 208,
  ["attention::forward<64, 1"] = 168,
  ["attention::forward<64, 2"] = 255,
  ["attention::forward<128, 1"] = 216,
  ["attention::backward<32"] = 240, -- two blocks
  ["attention::backward<64"] = 128, -- of 256 threads: two blocks
  ["attention::backward<128"] = 240, -- of 256 threads: one block
}

-- The same for kernels of windows, causal masks and shared key heads, where they differ.
local LOCAL_CEILINGS = {
  ["attention::forward<32, 1"] = 168,
  ["attention::backward<64"] = 224, -- one block
  ["attention::backward<128"] = 255, -- one block
}

-- Bytes of local memory that kernels may have which are not on the path of a step.
local FRAMES = { map_strided = 112, random_blocks = 152 }

---"_ZN9attention7forwardI4bf16Li64ELi2E..." of "attention::forward<64, 2".
local function mangled(name)
  local path, arguments = name:match("^(.-)<(.*)$")
  local parts = {}
  for part in path:gmatch("[%w_]+") do parts[#parts + 1] = #part .. part end
  parts[#parts + 1] = "I"
  for word in arguments:gmatch("[%w_]+") do
    parts[#parts + 1] = tonumber(word) and ("Li%dE"):format(word) or #word .. word
  end
  return "_ZN" .. table.concat(parts)
end

local function local_memory(kernel)
  local found = {}
  for op, name in pairs(LOCAL) do
    if kernel.opcodes[op] then found[#found + 1] = ("%d %s"):format(kernel.opcodes[op], name) end
  end
  return table.concat(found, ", ")
end

local function allowed_frame(kernel)
  for name, bytes in pairs(FRAMES) do
    if kernel.name:find(#name .. name, 1, true) then return bytes end
  end
  return 0
end

local faults = 0
local function fault(kernel, ...)
  faults = faults + 1
  print(("%s (sm_%d): %s"):format(kernel.name, kernel.sm, string.format(...)))
end

---The ceiling of a kernel, and whether it is one of those named.
local seen = {}
local function ceiling(kernel)
  for name, registers in pairs(CEILINGS) do
    if kernel.name:find(mangled(name), 1, true) == 1 then
      seen[name .. kernel.sm] = true
      local sees_part = kernel.name:find("Lb%dELb1EEEv") -- <..., DROP, LOCAL = true>
      return sees_part and LOCAL_CEILINGS[name] or registers, true
    end
  end
  return REGISTERS, false
end

local function check(kernel)
  local most, hot = ceiling(kernel)
  if kernel.registers > most then fault(kernel, "%d registers; the ceiling is %d", kernel.registers, most) end
  if kernel.frame > allowed_frame(kernel) then
    fault(kernel, "%d bytes of local memory (%s)", kernel.frame, local_memory(kernel))
  end
  if not hot then return end
  if local_memory(kernel) ~= "" then fault(kernel, "%s in a hot kernel", local_memory(kernel)) end
  if not kernel.opcodes[HMMA] then fault(kernel, "no tensor-core instruction") end
end

local kernels = assert(cubins.read(arg[1]))
for _, kernel in ipairs(kernels) do check(kernel) end
for name in pairs(CEILINGS) do
  for _, sm in ipairs { 80, 90 } do
    if not seen[name .. sm] then
      faults = faults + 1
      print(("%s> is not in the library for sm_%d"):format(name, sm))
    end
  end
end

local planted = assert(cubins.read(arg[2]))[1]
if not planted or planted.frame == 0 or local_memory(planted) == "" then
  faults = faults + 1
  print("the planted kernel's local memory was not found")
end

if #kernels == 0 then faults = faults + 1 end
print(("gates: %d kernels, %d faults"):format(#kernels, faults))
os.exit(faults == 0 and 0 or 1)
