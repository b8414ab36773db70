-- Tests that run on every device of the build.

local assert = require("luassert")
local sr = require("seqrun")

local devices = {}

---The path of a plug-in that `make ctests` builds from tests/support/NAME.c.
---@param name "late"|"odd"
function devices.plugin(name)
  return (require("tests.support.program").path:gsub("[^/]*$", "tests/" .. name .. ".so"))
end

---Adds the device "late" to sr.devices(): one that runs every op on a thread of its own at the next wait.
function devices.late() assert(sr.plugin(devices.plugin("late"))) end

---Makes a function each(name, body): a test for each device, its body in a scope of its own.  The body
---gets the device's name, and the test's name ends with it.
---@param it function busted's, which only the spec's own file sees
---@return fun(name: string, body: fun(device: string))
function devices.each(it)
  return function(name, body)
    for _, device in ipairs(sr.devices()) do
      it(name .. " on " .. device, function()
        local before = sr.device()
        sr.use(device)
        local scope <close> = sr.scope()
        local good, message = pcall(body, device)
        pcall(sr.synchronize) -- an error that nobody waited for is no other test's
        sr.use(before)
        if not good then error(message, 0) end
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
