-- Every public function and method, called with arguments of wrong types: an error at the line of the call, which names
-- the function or the argument unless it is one of Lua's own; never a crash or a hang.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local trace = require("seqrun.base.trace")

local exits = program.exits

---What a call raised; nil if it returned.
local function raised(fn, ...)
  local good, problem = xpcall(fn, trace.handler, ...)
  return not good and tostring(problem) or nil
end

it("wrong arguments #slow of every public function and every method raise at the caller's line", function()
  local folder = program.folder() -- a number may be the name of a file
  local code, out, err = program.run({ sys.real_path("tests/support/wrong_calls.lua") },
    { before = ("cd '%s' &&"):format(folder) })
  sys.remove(folder)
  assert.equal(0, code, err)
  local found = json.decode(out:match("[^\n]*\n$"))
  assert.equal("", table.concat(found.functions.found, "\n"))
  assert.equal("", table.concat(found.methods.found, "\n"))
  assert.is_true(found.functions.count > 150, found.functions.count)
  assert.is_true(found.methods.classes > 15 and found.methods.count > 200, found.methods.count)
end)

describe("an error of Lua inside the library", function()
  local function said(fn, ...) return (tostring(raised(fn, ...)):match("^[^\n]*")) end

  it("is told as one of the call that led to it", function()
    local bert = require("seqrun.help.sample")().model
    local function losses()
      local made = bert:losses(5)
      return made
    end
    assert.matches("wrong_arguments_spec.lua:%d+: losses: attempt to index a number value %(local 'batch'%)$",
      said(losses))
  end)

  it("has the line of a person's script, whatever its directory is called", function()
    local folder = program.folder() .. "/a/rather/long/name/of/a/directory/lua/seqrun"
    sys.make_dirs(folder)
    for text, wanted in pairs {
      ["sr.ones('x')"] = "", ["local x = nil + 1"] = "attempt to ", ["sr.hub()"] = "sr has no 'hub'",
    } do
      local path = program.write(folder, "mine.lua", 'local sr = require "seqrun"\n' .. text .. "\n")
      local _, err = exits(1, "^seqrun: [^\n]*mine.lua:2: " .. wanted, program.run { path })
      assert.is_nil(err:find("[C]", 1, true), err)
    end
  end)

  it("of the library alone keeps its traceback", function()
    local message = trace.handler(package.searchpath("seqrun.base.check", package.path) .. ":1: attempt to break")
    assert.matches("attempt to break", message)
  end)
end)
