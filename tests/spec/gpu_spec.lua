-- tests/gpu without a GPU: its programs run on the simt device.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/") or ""
local home = program.path:match("^(.*)/")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

---tests/gpu/run.sh device=cuda in a folder where all programs are stand-ins that do what variables say.
local stage_set
local function run_all(variables, arguments)
  local line = [[cd '%s' && PATH="$PWD/path:$PATH" %s tests/gpu/run.sh out=out %s >log 2>&1]]
  local _, _, code = os.execute(line:format(stage_set, variables, arguments or ""))
  return code, assert(sys.read_file(stage_set .. "/log"))
end

describe("tests/gpu/run.sh", function()
  setup(function()
    stage_set = program.folder()
    for _, name in ipairs { "build", "tests", "path", "out", "runs/data" } do
      assert(sys.make_dirs(stage_set .. "/" .. name))
    end
    assert(os.execute(("cp -r '%stests/gpu' '%s/tests/'"):format(folder, stage_set)))
    program.write(stage_set .. "/runs/data", "novels.sqr", "")
    program.write(stage_set .. "/out", "work.txt", "") -- of the roofline
    local programs = {
      ["build/seqrun"] = [=[case "$*" in *${FAILS:-nothing}*) echo "1 passed, 1 failed"; exit 1 ;; esac
        case "$*" in *${SLEEPS:-nothing}*) exec sleep 100 ;; esac
        echo "packed 1 passed, 0 failed"]=],
      ["build/gpu-bench"] = "cat >/dev/null; printf 'h100\\tbase\\t1\\tembed\\t1\\n'",
      ["path/nvidia-smi"] = "echo NVIDIA H100 80GB HBM3",
      ["path/compute-sanitizer"] = '[ -z "$NO_SANITIZER" ]',
      ["path/python3"] = '[ -z "$NO_TORCH" ] && echo yes',
    }
    for name, text in pairs(programs) do
      local path = program.write(stage_set, name, "#!/bin/bash\n" .. text .. "\n")
      os.execute(("chmod +x '%s'"):format(path))
    end
  end)

  it("exits with 0 only if every stage ran", function()
    local code, text = run_all("")
    assert.equal(0, code, text)
    assert.matches("h100: all stages passed, %d+ s; rows in out/h100.tsv\n$", text)
    assert.is_nil(text:find("skipped", 1, true))
  end)

  it("exits with 3 if tools are missing, and says what was skipped", function()
    local code, text = run_all("NO_SANITIZER=1 NO_TORCH=1")
    assert.equal(3, code, text)
    assert.matches("memcheck, racecheck +skipped +0s  compute%-sanitizer does not run here", text)
    assert.matches("PyTorch +skipped +0s  torch not found", text)
    assert.matches("h100: no stage failed, but 2 skipped, %d+ s; rows in out/h100.tsv\n$", text)
  end)

  it("exits with 1 if a stage failed", function()
    local code, text = run_all("FAILS=repeat.lua NO_TORCH=1")
    assert.equal(1, code, text)
    assert.matches("\nrepeat bitwise +FAILED", text)
    assert.matches("h100: failed stages: 1, skipped: 1, %d+ s; rows in out/h100.tsv\n$", text)
  end)

  it("counts what the end of the time cuts as skipped, not as failed", function()
    local code, text = run_all("SLEEPS=recipes/bench/step.lua", "seconds=6")
    assert.equal(3, code, text)
    assert.matches("\nstep of base 16384 +skipped", text)
    assert.is_nil(text:find("FAILED", 1, true))
  end)
end)

describe("tests/gpu", function()
  it_on_simt("repeats a batch to the bit", function()
    local code, out, err = program.run { folder .. "tests/gpu/repeat.lua", "simt", "2" }
    assert.equal(0, code, err)
    assert.is_truthy(out:find("simt in bf16: 2 runs", 1, true))
  end)

  it_on_simt("times every op that the roofline of a step has, but what is tiny", function()
    local work = os.tmpname()
    local roofline = { folder .. "recipes/bench/roofline.lua", "model=tiny", "tokens=512", "dump=" .. work }
    assert.equal(0, (program.run(roofline)))
    local pipe = assert(io.popen(("SEQRUN_SIMT_CHECK=0 '%s/gpu-bench' simt h100 <'%s'"):format(home, work)))
    local timed, tsv = {}, os.tmpname()
    local file = assert(io.open(tsv, "w"))
    for line in pipe:lines() do
      file:write(line, "\n")
      timed[line:match("^h100\t[^\t]*\t[^\t]*\t([^\t]*)\t%d")] = true
    end
    file:close()
    assert.is_true(pipe:close())
    roofline[4] = "measured=" .. tsv
    local _, out = program.run(roofline)
    for line in out:match("\na step of.*"):gmatch("[^\n]+") do
      local op, measured = line:match("^(.-)  +%d+ .* (%S+) +%S+$")
      local tiny = op and (op:find("^pooler") or op:find("^next sentence") or op:find("^transform"))
      if op and op ~= "op" and op ~= "step" then
        assert.equal(tiny == nil, timed[op] == true and measured ~= "-", op)
      end
    end
    os.remove(work)
    os.remove(tsv)
  end)
end)
