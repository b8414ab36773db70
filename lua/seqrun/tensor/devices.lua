-- devices.lua - which device `auto` means, and a device in words.

local commas = require("seqrun.base.format").commas
local core = require("seqrun.core.tensor")
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")
local guess = require("seqrun.base.guess")
local tensor = require("seqrun.tensor")

local devices = {}

local GIB = 1 << 30

---The device that `auto` means: cuda if it can be used, else cpu.
---@param own? string the GPU of this rank, as "cuda:1": looking at one takes memory of it
---@return "cuda"|"cpu" name
---@return string? reason why it is not cuda, in a few words
function devices.auto(own)
  local facts, message = core.describe(own or "cuda")
  if not facts and own then facts, message = core.describe("cuda") end -- fewer GPUs than ranks: not for the CPU
  local problem = message or facts and facts.problem
  if problem then return "cpu", (problem:gsub("^device 'cuda' is not available: ", ""):gsub(";.*", "")) end
  return "cuda"
end

---What is wrong with the name of a device if it looks like a typo; tensor.use checks whether the device exists.
---@param name string
---@return string?
function devices.problem(name)
  local names = { "auto", "cpu", "cuda", "ref", "simt" }
  table.move(tensor.devices(), 1, #tensor.devices(), #names + 1, names)
  local base = name:gsub("^(cuda):%d+$", "%1")
  for _, known in ipairs(names) do
    if base == known then return nil end
  end
  local meant = (name:lower() == "gpu" or name:lower():find("^gpu:%d+$")) and "cuda" or guess.nearest(base, names)
  return meant and ("'%s' is not a device; did you mean '%s'?"):format(name, meant) or nil
end

---The name of a device on a command line, for argparse.
---@param name string
---@return string|nil
---@return string? problem
function devices.converter(name)
  local problem = devices.problem(name)
  if problem then return nil, problem end
  return name
end

---Makes the device of a config the current one and sets its options.
---@param cfg { device: string, threads?: integer, tf32: boolean }
function devices.use(cfg)
  tensor.use(cfg.device, { threads = cfg.threads })
  local name = core.device()
  if cfg.tf32 and not core.option("tf32", true) then
    failure.raise("config", "tf32=true requires device=cuda; %s computes products of f32 in f32", name)
  end
end

---The instruction sets of the cpu device, ascending.
devices.INSTRUCTION_SETS = { "plain", "avx2", "avx512", "avx512_bf16", "amx" }

---The instruction set that the current device computes with: resuming with another is not bit-exact.
---@return string # "avx2", "ref", "cuda sm_90": the device and its architecture
function devices.instructions()
  local name = core.device()
  if name == "cpu" then return (core.instructions()) end
  if name == "ref" or name == "simt" then return name end
  return name:gsub(":.*", "") .. " " .. ((core.describe(name) or {}).arch or "")
end

local own -- the instruction set that the cpu device had before a stored run changed it
local refused -- why it does not compute with that of the stored run

---Makes the current device compute with the instruction set of a stored run, where it can; else it keeps its own.
---@param set string "auto": its own, also after another run of this process; "cuda sm_90": not of this device
function devices.use_instructions(set)
  if core.device() ~= "cpu" then return end
  if set == "auto" then
    set, own = own, nil
  else
    own = own or core.instructions()
  end
  refused = nil
  if not set or set == "ref" or set == "simt" or set:find(" ", 1, true) then return end
  local good, why = core.instructions(set)
  refused = not good and why or nil
end

---Why the current device does not compute with the instruction set of the stored run; nil if it does.
---@return string|nil
function devices.refused_instructions() return refused end

---Why the cpu device does not use each higher instruction set; nil if it uses the highest.
---@return string|nil
function devices.lesser()
  if core.device() == "cpu" then return (select(2, core.instructions())) end
end

---Bytes that the current device has for this process, and its name in messages; nil if unknown.
---@return integer|nil bytes
---@return string name
function devices.memory()
  local name = tensor.device()
  local facts = tensor.describe(name) or {}
  if not facts.memory then
    local total = sys.machine().memory
    return total > 0 and total or nil, "this machine"
  end
  local usable = facts.free > 0 and facts.free + tensor.memory().held or facts.memory
  return math.min(usable, facts.memory), ("%s (%s)"):format(name, facts.model)
end

---Ends the program if a model cannot fit on the current device, before anything is allocated.
---@param bytes number that it needs
---@param parameters number
---@param what string in addition to the parameters: "with gradients and moments"
function devices.check_fits(bytes, parameters, what)
  local limit, name = devices.memory()
  if not limit or bytes <= limit then return end
  failure.raise("memory", "%s parameters %s need %.1f GiB, but %s has %.1f GiB; use a smaller model, a device with "
    .. "more memory, or several ranks, which share the moments", commas(parameters), what, bytes / GIB, name,
    limit / GIB)
end

---"NVIDIA H100 80GB HBM3, sm_90, 79.2 GiB (78.8 GiB free), driver 13.0, CUDA 13.0".
---@param facts table of core.describe
---@return string
function devices.text(facts)
  local parts = { facts.model, facts.arch ~= "" and facts.arch or nil }
  if facts.memory > 0 then
    parts[#parts + 1] = ("%.1f GiB (%.1f GiB free)"):format(facts.memory / GIB, facts.free / GIB)
  end
  if facts.driver ~= "" then parts[#parts + 1] = "driver " .. facts.driver end
  if facts.runtime ~= "" then parts[#parts + 1] = "CUDA " .. facts.runtime end
  return table.concat(parts, ", ")
end

return devices
