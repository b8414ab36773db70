-- Every public function and method, called with arguments of wrong types: a sentence at the caller's line that names
-- the function or the argument, never an error of Lua's own, a crash or a hang.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local trace = require("seqrun.base.trace")

---What a call raised; nil if it returned.
local function raised(fn, ...)
  local good, problem = xpcall(fn, trace.handler, ...)
  return not good and tostring(problem) or nil
end

describe("wrong arguments #slow", function()
  it("of every public function and every method are named in a sentence", function()
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
end)

describe("an error of Lua inside the library", function()
  local function said(fn, ...) return (tostring(raised(fn, ...)):match("^[^\n]*")) end

  it("is told as one of the call that led to it, with the argument of a wrong type", function()
    local sample = require("seqrun.help.sample")()
    local bert = sample.model
    local function losses(...) return bert:losses(...) end
    assert.matches("wrong_arguments_spec.lua:%d+: Bert:losses: batch must be Batch, got 'x'$", said(losses, "x"))
    assert.matches("wrong_arguments_spec.lua:%d+: Bert:losses.*batch", said(losses, {}))
    local function encode() bert:encode(5) end
    assert.matches("wrong_arguments_spec.lua:%d+: Encoder:encode: batch must be .*, got 5$", said(encode))
    assert.matches("called without its object; write object:losses", said(function() bert.losses(5) end))
  end)

  it("of the library alone keeps its traceback", function()
    local message = trace.handler(package.searchpath("seqrun.base.check", package.path) .. ":1: attempt to break")
    assert.matches("attempt to break", message)
  end)
end)
