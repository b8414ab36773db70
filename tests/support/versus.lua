-- versus.lua - the same computation on two devices, for specs of kernels.

local sr = require("seqrun")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local within = require("tests.support.within")

local versus = {}

---What fn() returns on a device.
---@param device string
---@param fn function
function versus.on(device, fn)
  local before = sr.device()
  sr.use(device)
  local scope <close> = sr.scope()
  local good, result = pcall(fn)
  pcall(sr.synchronize)
  sr.use(before)
  if not good then error(result, 0) end
  return result
end

---The bytes of tensors.
---@return string
function versus.bytes(...)
  local list = {}
  for i, t in ipairs { ... } do list[i] = t:detach():contiguous():tostring_bytes() end
  return table.concat(list, "|")
end

---The numbers of tensors, one list.
---@return number[]
function versus.numbers(...)
  local list = {}
  for _, t in ipairs { ... } do
    local flat = t:detach():contiguous():reshape(t:numel()):totable()
    for _, x in ipairs(flat) do list[#list + 1] = x == true and 1 or x == false and 0 or x end
  end
  return list
end

---Raises unless every number is the wanted one, with an error of `tolerance` times the largest at most.
---@param wanted number[]
---@param got number[]
---@param tolerance number
function versus.close(wanted, got, tolerance)
  if #wanted ~= #got then error(("%d numbers, not %d"):format(#got, #wanted), 2) end
  local most = 1e-3
  for _, x in ipairs(wanted) do
    if math.abs(x) < math.huge then most = math.max(most, math.abs(x)) end
  end
  local worst, at = 0, 1
  for i, x in ipairs(wanted) do
    local y = got[i]
    local miss = (x == y or (x ~= x and y ~= y)) and 0 or math.abs(x - y)
    if miss ~= miss then miss = math.huge end
    if miss > worst then worst, at = miss, i end
  end
  within.check(worst, tolerance * most, ("number %d: %.9g is not %.9g"):format(at, got[at] or 0, wanted[at] or 0))
end

---Pseudo-random numbers in [-1, 1) that every device gets alike.
function versus.noise(uid, ...) return sr.rand({ ... }, { seed = 7, uid = uid }) * 2 - 1 end

---The same in 0 .. below - 1, i32.
function versus.integers(uid, below, ...) return (sr.rand({ ... }, { seed = 7, uid = uid }) * below):to("i32") end

---What the kernels moved while `body` ran on simt (kernels/simt/report.h), by op, line and kind of access.
---@param body string Lua, in which `sr` is the module
---@return { op: string, place: string, access: string, units: integer, best: integer }[]
function versus.traffic(body)
  local report, script = os.tmpname(), os.tmpname()
  assert(sys.write_file(script, 'local sr = require("seqrun")\nsr.use("simt")\n' .. body))
  local code, _, err = program.run({ script }, { before = "SEQRUN_SIMT_REPORT=" .. report })
  if code ~= 0 then error(err, 2) end
  local lines = {}
  for text in io.lines(report) do
    local op, place, access, units, best = text:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t%d+\t%d+\t(%d+)\t(%d+)")
    if op then
      lines[#lines + 1] = { op = op, place = place, access = access, units = tonumber(units), best = tonumber(best) }
    end
  end
  os.remove(report)
  os.remove(script)
  return lines
end

return versus
