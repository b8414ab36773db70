-- Signals where nothing looks for them: loops, patterns and finalizers, and commands that wait for input.

local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local folder = program.folder()

---Runs a script of bash; its `wait_for TEXT FILE` and `handled` (the program catches SIGTERM) wait for $p.
---@return string # its output
local function bash(script, ...)
  local path = program.write(folder, "script.sh", ([[
    cd %s; seqrun=%s
    pause() { sleep 0.02; kill -0 $p 2>/dev/null; }
    wait_for() { until grep -q "$1" $2 2>/dev/null; do pause || break; done; }
    handled() { until (( 0x0$(sed -n 's/^SigCgt:\t*//p' /proc/$p/status) & 0x4000 )); do pause || break; done; }
  ]]):format(folder, program.path) .. script:format(...))
  local pipe <close> = assert(io.popen("bash " .. path .. " 2>&1"))
  return pipe:read("a")
end

---What is said of two Ctrl-C, of which the second comes after the first one's message.
local TWICE = [[
  rm -f out err; %s >out 2>err & p=$!
  wait_for ready out; kill -INT $p; wait_for 'press Ctrl-C again' err; kill -INT $p; wait $p; echo "code $?"; cat err
]]

describe("Ctrl-C", function()
  for name, line in pairs {
    ["a long pattern"] = [[local _ = string.rep("a", 40):find(("a?"):rep(40) .. ("a"):rep(40))]],
    ["a finalizer"] = "do setmetatable({}, { __gc = function() while true do end end }) collectgarbage() end",
  } do
    it("at the prompt during " .. name .. ", the second one ends the program", function()
      program.write(folder, "in", "print 'ready' io.stdout:flush() " .. line .. "\n")
      local text
      for _ = 1, 10 do -- the first may come before the line has got there, and then ends it
        text = bash(TWICE, "$seqrun <in")
        if text:find("code 130", 1, true) then break end
      end
      assert.equal("code 130\nseqrun: busy; press Ctrl-C again to end the program at once\n"
        .. "seqrun: ended by a second Ctrl-C\n", text)
    end)
  end

  it("in a loop of a recipe names the line, and that a second one ends at once", function()
    program.write(folder, "loop.lua", [[
local sr = require "seqrun"
local run <close> = sr.run.open { recipe = arg, task = sr.tasks.pretraining }
print "ready"
local n = 0
while run do n = n + 1 end
]])
    local text = bash(TWICE, "$seqrun loop.lua data.file=none.sqr rate.peak=1e-3 rate.total=4 --out run")
    assert.equal("code 130\nseqrun: loop.lua:5: busy; press Ctrl-C again to end the program at once\n"
      .. "seqrun: loop.lua:5: ended by a second Ctrl-C\n", text)
  end)
end)

it("commands that wait for input end at the first signal", function()
  local bert = task_model.new("mlm", "nsp")
  local lock = sr.must(sr.checkpoint.lock(folder .. "/model"))
  local model = sr.must(sr.checkpoint.save(folder .. "/model", {
    step = 0, model = bert.params, config = bert:hf_config(), vocab_text = sr.must(sys.read_file(task_model.VOCAB)),
  }))
  lock:close()
  for signal, command in pairs { TERM = "encode %s", HUP = "fill %s", INT = "score %s -" } do
    local text = bash([[
      rm -f in; mkfifo in; env --default-signal=HUP $seqrun %s <in >out 2>err & p=$!
      exec 3>in; echo "the %s" >&3; handled; kill -%s $p; wait $p; echo "code $?"; cat out err
    ]], command:format(model), command:find("fill") and "[MASK]" or "it", signal)
    assert.equal("code 75\nseqrun: standard input: stopped while waiting for input\n", text)
  end
end)
