-- doctor - checks whether this machine can train, and what to do if not.
--
-- Every check is a function that returns whether it passed, one line of facts, a command that helps if it
-- failed, and optionally the same facts as fields for --json.  A check that raises an error has failed.

local devices = require("seqrun.tensor.devices")
local formats = require("seqrun.draw.formats")
local json = require("seqrun.core.json")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.core.tensor")

local GIB = 1 << 30

local function gib(bytes) return ("%.1f GiB"):format(bytes / GIB) end

---@class seqrun.doctor.finding
---@field name string
---@field ok boolean
---@field facts string
---@field command? string a command that helps, if not ok
---@field gpus? seqrun.doctor.gpu[] of the check "GPU"; none is an empty list
---@field engines? table[] of the check "ranks": name, and facts or problem of each
---@field launcher? string of the check "ranks": the path of mpirun or srun
---@field missing? string of the check "GPU": why there is none, and what to do

---@class seqrun.doctor.gpu
---@field device string the name for `device:` in a config
---@field model string
---@field arch string such as "sm_90"
---@field memory integer bytes
---@field free integer bytes
---@field driver string the newest CUDA version that the driver supports
---@field runtime string the CUDA version of this build
---@field problem? string why it cannot be used

---@type { [1]: string, [2]: fun(): boolean, string, string?, table? }[]
local checks = {}

local function check(name, examine) checks[#checks + 1] = { name, examine } end

check("program", function()
  local build = sys.build()
  local facts = ("seqrun %s (%s), %s, %s"):format(build.version, build.git, build.compiler, build.lua)
  return build.lua:find("^Lua 5%.4") ~= nil, facts, "apt-get install liblua5.4-dev && make clean all"
end)

check("processor", function()
  local m = sys.machine()
  local has = {}
  for _, name in ipairs { "avx2", "avx512", "avx512_bf16", "amx_bf16" } do
    if m[name] then has[#has + 1] = name end
  end
  local set, lesser = tensor.instructions()
  local used = ("; kernels use %s%s"):format(set, lesser and ", not " .. lesser or "")
  if #has > 0 then return true, m.cpu .. ": " .. table.concat(has, ", ") .. used end
  return false, m.cpu .. ": no AVX2; using portable loops, which are slow", "grep -m1 flags /proc/cpuinfo"
end)

check("processors", function()
  local n = sys.machine().processors
  return n >= 1, ("%d available to this process"):format(n)
end)

check("memory", function()
  local total = sys.machine().memory
  return total >= 2 * GIB, gib(total) .. " for this process; the demo needs 1 GiB, BERT-base about 8 GiB",
    "ulimit -v unlimited; cat /sys/fs/cgroup/memory.max"
end)

check("floating point", function()
  local least = 2.0 ^ -1074
  return least > 0 and least / 2 == 0 and tonumber("0.5") == 0.5,
    "denormals are kept, and the decimal separator is a point", "env -u LD_PRELOAD LC_ALL=C seqrun doctor"
end)

check("runs", function()
  local folder = shipped.seen("runs") and "runs" or "."
  local probe = ("%s/.doctor-%d"):format(folder, sys.pid())
  local done, message = sys.write_file(probe, "probe\n")
  if not done then return false, message, "cd to a writable directory, or use --out DIR" end
  local same = sys.read_file(probe) == "probe\n"
  sys.remove(probe)
  return same, ("files can be written, renamed and synced in %s"):format(sys.real_path(folder) or folder),
    "df -h ."
end)

check("disk", function()
  local free, message = sys.free_space(".")
  if not free then return false, message, "df -h ." end
  return free >= 2 * GIB, gib(free) .. " free here; a checkpoint of BERT-base takes 1.3 GiB", "df -h ."
end)

check("command line", function()
  local ok = pcall(require, "argparse")
  return ok, ok and "argparse found" or "Lua module argparse not found", "apt-get install lua-argparse"
end)

check("tests", function()
  local ok = pcall(require, "busted.core")
  return ok, ok and "busted found, for make test" or "Lua module busted not found",
    "apt-get install lua-busted"
end)

check("text", function()
  local build = sys.build()
  return build.unicode ~= nil, ("utf8proc %s, Unicode %s"):format(build.utf8proc, build.unicode)
end)

check("recipes", function()
  local folder = shipped.root .. "/recipes"
  local found = sys.is_dir(folder)
  return found, found and sys.real_path(folder) or "recipes not found next to the Lua files",
    "make install, or run from a checkout"
end)

local function has_gpu()
  for _, name in ipairs(sys.list("/dev") or {}) do
    if name:find("^nvidia%d+$") or name == "dxg" then return true end
  end
  return false
end

---What is missing for training on a GPU; that is a failure only where there is a GPU.
local function without_gpu(message)
  local facts = message:gsub("^device 'cuda' is not available: ", "")
  local fields = { gpus = json.array {}, missing = facts }
  if not has_gpu() then
    return true, "none; training uses the CPU (" .. facts:gsub(";.*", "") .. ")", nil, fields
  end
  local command = "nvidia-smi; install or update the NVIDIA driver"
  if not sys.build().cuda then command = "install CUDA 13, export CUDA_HOME=/usr/local/cuda, make" end
  return false, "an NVIDIA GPU is there, but " .. facts, command, fields
end

---@return seqrun.doctor.gpu[]
---@return string? message why there is none
local function list_gpus()
  local list = json.array {}
  for i = 0, math.huge do
    local name = i == 0 and "cuda" or "cuda:" .. i
    local facts, message = tensor.describe(name)
    if not facts then return list, message end
    facts.reserved, facts.device = nil, name
    list[i + 1] = facts
  end
end

check("GPU", function()
  local list, message = list_gpus()
  if #list == 0 then return without_gpu(message) end
  local lines, usable = {}, 0
  for i, gpu in ipairs(list) do
    lines[i] = ("%s: %s%s"):format(gpu.device, devices.text(gpu), gpu.problem and ": " .. gpu.problem or "")
    if not gpu.problem then usable = usable + 1 end
  end
  return usable > 0, table.concat(lines, "; "), "seqrun doctor --json", { gpus = list }
end)

---The path of a program, or nil.
local function which(name)
  for folder in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    if shipped.seen(folder .. "/" .. name) then return folder .. "/" .. name end
  end
end

check("ranks", function()
  local engines, message = require("seqrun.core.comm").engines()
  local launcher = which("mpirun") or which("srun")
  if not engines then return true, "none; a run has one process: " .. message, nil, { engines = json.array {} } end
  local words = {}
  for i, engine in ipairs(engines) do
    words[i] = ("%s: %s"):format(engine.name, engine.facts or engine.problem:gsub("^%a+: ", ""))
  end
  table.insert(words, 1, launcher or "one process: neither mpirun nor srun found in PATH; apt-get install openmpi-bin")
  return true, table.concat(words, "; "), nil, { engines = engines, launcher = launcher }
end)

---@return seqrun.doctor.finding
local function examine(name, examination)
  local ran, ok, facts, command, fields = pcall(examination)
  if not ran then ok, facts, command = false, tostring(ok), "seqrun doctor --json" end
  local finding = { name = name, ok = ok and true or false, facts = facts, command = not ok and command or nil }
  for key, value in pairs(ran and fields or {}) do finding[key] = value end
  return finding
end

---Runs all checks.
---@return seqrun.doctor.finding[]
local function examine_all()
  local findings = {}
  for i, each in ipairs(checks) do findings[i] = examine(each[1], each[2]) end
  return findings
end

---Whether the locale uses UTF-8.
local function speaks_utf8()
  local locale = os.getenv("LC_ALL") or os.getenv("LC_CTYPE") or os.getenv("LANG") or ""
  return locale:upper():find("UTF%-?8") ~= nil
end

---The findings as lines of text.
---@param findings seqrun.doctor.finding[]
---@return string
local function text_of(findings)
  local tick, cross = "ok", "NO"
  if speaks_utf8() then tick, cross = "✓", "✗" end
  local lines = {}
  for _, f in ipairs(findings) do
    lines[#lines + 1] = ("%s %-16s %s"):format(f.ok and tick or cross, f.name, f.facts)
    if f.command then lines[#lines + 1] = ("  %-16s try: %s"):format("", f.command) end
  end
  return table.concat(lines, "\n")
end

-- ---- the command ----------------------------------------------------------------------------------

local command = { summary = "check whether this machine can train; failed checks suggest a remedy" }

command.examine, command.text = examine_all, text_of

function command.define(cmd)
  formats.define(cmd)
  cmd:epilog([[examples:
  seqrun doctor
  seqrun doctor --json]])
end

function command.run(args)
  local findings = examine_all()
  local well = true
  for _, finding in ipairs(findings) do well = well and finding.ok end
  formats.tell(args, {
    json = function() return { ok = well, findings = json.array(findings) } end,
    text = function() return require("seqrun.draw.live").fit_output(text_of(findings)) end,
    rows = function(format) return formats.rows(findings, { "name", "ok", "facts", "command" }, format) end,
  })
  return well and 0 or 1
end

return command
