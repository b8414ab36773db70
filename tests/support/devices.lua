-- Tests that run on every device of the build.

local assert = require("luassert")
local core = require("seqrun.core.tensor")
local sr = require("seqrun")

local devices = {}

---The path of a plug-in that `make ctests` builds from tests/support/NAME.c.
---@param name "late"|"odd"
function devices.plugin(name)
  return (require("tests.support.program").path:gsub("[^/]*$", "tests/" .. name .. ".so"))
end

---Adds the device "late" to sr.devices(): one that runs every op on a thread of its own at the next wait.
function devices.late() assert(sr.plugin(devices.plugin("late"))) end

---Adds the devices that run the kernels of kernels/cuda, as far as they are built and usable.  Their new tensors
---are full of NaN, so that an output that a kernel leaves unwritten fails its test.
function devices.gpus()
  local mutant = os.getenv("SEQRUN_TEST_SIMT") -- tests/mutate.sh
  if mutant then assert(sr.plugin(mutant)) end
  local before = sr.device()
  for _, name in ipairs { "simt", "cuda" } do
    if pcall(sr.use, name) then core.poison(true, name) end
  end
  sr.use(before)
end

---Returns a function test(name, body), which adds a test that is skipped where the device simt is not built.
---@param it function busted's `it`, which is visible only in the spec file
---@param skip function calls busted's `pending`, which is another function within a test than outside
---@return fun(name: string, body: fun())
function devices.on_simt(it, skip)
  local before = sr.device()
  local built = pcall(sr.use, "simt")
  sr.use(before)
  return function(name, body)
    it(name, function()
      if not built then return skip("no simt device: g++ was not found") end
      body()
    end)
  end
end

---Runs a body on a device, in a new scope, and returns what it does.
---@param device string
---@param body function
function devices.on(device, body, ...)
  local before = sr.device()
  sr.use(device)
  local scope <close> = sr.scope()
  local good, result = pcall(body, ...)
  pcall(sr.synchronize) -- an unread error must not reach another test
  sr.use(before)
  if not good then error(result, 0) end
  return result
end

---Returns a function it_on(device, name, body), which adds a test whose body runs on a device, in a new scope.
---@param it function busted's `it`, which is visible only in the spec file
---@return fun(device: string, name: string, body: fun())
function devices.it_on(it)
  return function(device, name, body)
    it(name, function() devices.on(device, body) end)
  end
end

---Returns a function each(name, body), which adds a test per device, its body in a new scope.  The body
---receives the name of the device, and the name of the test ends with it.
---@param it function busted's `it`, which is visible only in the spec file
---@return fun(name: string, body: fun(device: string))
function devices.each(it)
  return function(name, body)
    for _, device in ipairs(sr.devices()) do
      it(name .. " on " .. device .. (device == "simt" and " #slow" or ""), function()
        devices.on(device, body, device)
      end)
    end
  end
end

---Asserts that fn, or the wait after it, raises a message with these words.
---@param words string
---@param fn function
function devices.fails(words, fn, ...)
  local good, message = pcall(fn, ...)
  if good then good, message = pcall(sr.synchronize) end
  assert.is_false(good)
  assert.is_truthy(tostring(message):find(words, 1, true), tostring(message))
end

return devices
