-- gates.lua LIBRARY PLANTED: what the machine code of the kernels must be; for tests/gates.sh.

package.path = "./?.lua;" .. package.path
local cubins = require("tests.support.cubins")

local HMMA = 0x23c
local LOCAL = { [0x983] = "LDL", [0x387] = "STL", [0x987] = "STL" }

-- Kernels of tensor cores by their first template arguments: threads of a block, blocks that must share a processor,
-- and ceilings of the instructions of the largest loop, without and with dropout.
local REGISTERS, FILE, MOST = 128, 65536, 255
local HOT = {
  ["attention::forward<32, 1"] = { threads = 128, blocks = 4, loops = { 400, 540 } },
  ["attention::forward<32, 2"] = { threads = 128, blocks = 2, loops = { 680, 950 } },
  ["attention::forward<64, 1"] = { threads = 128, blocks = 3, loops = { 490, 630 } },
  ["attention::forward<64, 2"] = { threads = 128, blocks = 2, loops = { 820, 1060 } },
  ["attention::forward<128, 1"] = { threads = 128, blocks = 2, loops = { 690, 840 } },
  ["attention::backward<32"] = { threads = 128, blocks = 2, loops = { 765, 965 } },
  ["attention::backward<64"] = { threads = 256, blocks = 2, loops = { 600, 750 } },
  ["attention::backward<128"] = { threads = 256, blocks = 1, loops = { 830, 940 } },
}

-- The same for kernels of windows, causal masks and shared key heads, where they differ: a mask of each row's own.
local LOCAL_BLOCKS, LOCAL_LOOPS = { ["attention::backward<64"] = 1 }, 130

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

local seen, rows = {}, {}

---What the name of a kernel says, if it is one of those named.
local function hot_of(kernel)
  for name, is in pairs(HOT) do
    if kernel.name:find(mangled(name), 1, true) == 1 then
      seen[name .. kernel.sm] = true
      local drops, sees_part = kernel.name:match("Lb(%d)ELb(%d)EEEv") -- <..., DROP, LOCAL>
      return name, is, drops == "1", sees_part == "1"
    end
  end
end

---A kernel of tensor cores, and its line of the table.
local function check_hot(kernel, name, is, drops, sees_part)
  local blocks = sees_part and LOCAL_BLOCKS[name] or is.blocks
  local most = math.min(MOST, FILE // (is.threads * blocks) // 8 * 8)
  local loop, longest = math.max(0, table.unpack(kernel.loops)), is.loops[drops and 2 or 1]
  if sees_part then longest = longest + LOCAL_LOOPS end
  rows[#rows + 1] = ("%s%s%s>\t%d\t%d\t%d\t%d of %d\t%s"):format(name, drops and ", drop" or "",
    sees_part and ", local" or "", kernel.sm, kernel.registers, FILE // (is.threads * kernel.registers), loop, longest,
    local_memory(kernel) == "" and "-" or local_memory(kernel))
  if kernel.registers > most then
    fault(kernel, "%d registers; the ceiling is %d, for %d blocks at once", kernel.registers, most, blocks)
  end
  if loop == 0 or loop > longest then
    fault(kernel, "%d instructions in its largest loop; the ceiling is %d", loop, longest)
  end
  if local_memory(kernel) ~= "" then fault(kernel, "%s in a hot kernel", local_memory(kernel)) end
  if not kernel.opcodes[HMMA] then fault(kernel, "no tensor-core instruction") end
end

local function check(kernel)
  local name, is, drops, sees_part = hot_of(kernel)
  if name then
    check_hot(kernel, name, is, drops, sees_part)
  elseif kernel.registers > REGISTERS then
    fault(kernel, "%d registers; the ceiling is %d", kernel.registers, REGISTERS)
  end
  if kernel.frame > allowed_frame(kernel) then
    fault(kernel, "%d bytes of local memory (%s)", kernel.frame, local_memory(kernel))
  end
end

local kernels = assert(cubins.read(arg[1]))
for _, kernel in ipairs(kernels) do check(kernel) end
table.sort(rows)
print("kernel\tsm\tregisters\tblocks\tloop\tspills\n" .. table.concat(rows, "\n"))
for name in pairs(HOT) do
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
