-- tests/gpu without a GPU: its programs run on the simt device.

local conform = require("tests.support.conform")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/") or ""
local home = program.path:match("^(.*)/")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

---tests/gpu/run.sh device=cuda in a folder where all programs are stand-ins that do what variables say.
local stage_set
local function run_all(variables, arguments)
  local line = [[cd '%s' && rm -rf out && PATH="$PWD/path:$PATH" %s tests/gpu/run.sh out=out %s >log 2>&1]]
  local _, _, code = os.execute(line:format(stage_set, variables, arguments or ""))
  return code, assert(sys.read_file(stage_set .. "/log"))
end

describe("tests/gpu/run.sh", function()
  setup(function()
    stage_set = program.folder()
    for _, name in ipairs { "build", "tests", "path", "runs/data" } do
      assert(sys.make_dirs(stage_set .. "/" .. name))
    end
    assert(os.execute(("cp -r '%stests/gpu' '%s/tests/'"):format(folder, stage_set)))
    program.write(stage_set .. "/runs/data", "novels.sqr", "")
    local programs = {
      ["build/seqrun"] = [=[for word in "$@"; do
        case $word in dump=*) echo >"${word#dump=}" ;; esac; done # of the roofline and the packs
        case "$*" in *${FAILS:-nothing}*) echo "1 passed, 1 failed"; exit 1 ;; esac
        case "$*" in *${SLEEPS:-nothing}*) exec sleep 100 ;; esac
        echo "packed 1 passed, 0 failed"]=],
      ["build/gpu-conform"] = '[ -z "$NO_CONFORM" ] && echo ex2',
      ["path/ncu"] = "echo ' Duration us 1'",
      ["build/gpu-bench"] = "cat >/dev/null; printf 'h100\\tbase\\t1\\tembed\\t1\\n'",
      ["path/nvidia-smi"] = '[ -z "$NO_GPU" ] && echo NVIDIA H100 80GB HBM3',
      ["path/compute-sanitizer"] = '[ -z "$NO_SANITIZER" ]',
      ["path/python3"] = '[ -z "$NO_TORCH" ] && echo yes',
    }
    for name, text in pairs(programs) do
      local path = program.write(stage_set, name, "#!/bin/bash\n" .. text .. "\n")
      os.execute(("chmod +x '%s'"):format(path))
    end
  end)

  it("exits with 0 only if every stage of all parts ran, and leaves at most 7 files", function()
    local text = program.works(run_all(""))
    assert.matches("h100: all stages passed, %d+ s; results in [^\n]*/out\n$", text)
    assert.is_nil(text:find("skipped", 1, true))
    local names = {}
    for name in assert(io.popen(("ls '%s/out'"):format(stage_set))):lines() do
      assert.matches("^[%w._-]+$", name)
      names[#names + 1] = name
    end
    assert.same({ "h100.tsv", "logs-A.tar.gz", "logs-B.tar.gz", "logs-C.tar.gz", "report-A.txt", "report-B.txt",
      "report-C.txt" }, names)
    assert.matches("^h100\tbase\t1\tembed\t1\t%d+%-%d%d%-%d%d\n", assert(sys.read_file(stage_set .. "/out/h100.tsv")))
    local list = assert(io.popen(("tar tzf '%s/out/logs-C.tar.gz'"):format(stage_set))):read("a")
    assert.matches("profile_of_norm_back_rows.log", list, 1, true)
    assert.matches("conform_h100.tsv", list, 1, true)
  end)

  it("runs one part", function()
    local text = program.works(run_all("", "part=C"))
    assert.matches("\nprimitives +ok", text)
    assert.is_nil(text:find("all specs", 1, true))
    assert.is_nil(text:find("attention matrix", 1, true))
  end)

  it("exits with 4 at once if there is no device", function()
    for _, variables in ipairs { "NO_GPU=1", "FAILS=sr.use" } do
      local text = program.exits(4, "run.sh: no device 'cuda' to run on; the lines above say why\n$",
        run_all(variables))
      assert.is_nil(text:find("attention matrix", 1, true))
    end
  end)

  it("exits with 2 for arguments that it does not know", function()
    for _, words in ipairs { "part=D", "device=tpu", "seconds=soon", "fast" } do
      program.exits(2, "^usage: run.sh ", run_all("", words))
    end
  end)

  it("exits with 3 if tools are missing, and says what was skipped", function()
    local text = program.exits(3, "memcheck, racecheck +skipped +0s  compute%-sanitizer does not run here",
      run_all("NO_SANITIZER=1 NO_TORCH=1"))
    assert.matches("PyTorch attention +skipped +0s  torch not found", text)
    assert.matches("PyTorch steps +skipped +0s  torch not found", text)
    assert.matches("h100: no stage failed, but 3 skipped, %d+ s; results in ", text)
  end)

  it("names the stage that failed and exits with 1, whichever it is", function()
    for _, case in ipairs {
      { "A", "cuda_attention_spec", "attention matrix" }, { "A", "model=base", "step of base 16384" },
      { "B", "repeat.lua", "repeat bitwise" }, { "B", "curves.lua", "training curves" },
    } do
      local text = program.exits(1, "\n" .. case[3] .. " +FAILED", run_all("FAILS=" .. case[2], "part=" .. case[1]))
      assert.matches("h100: failed stages: [12], skipped: 0, %d+ s; results in ", text)
    end
    program.exits(1, "\nprimitives +FAILED", run_all("NO_CONFORM=1", "part=C"))
  end)

  it("counts what the end of the time cuts as skipped, not as failed", function()
    local text = program.exits(3, "\nstep of large 16384 +skipped",
      run_all("SLEEPS=recipes/bench/step.lua", "part=A seconds=6"))
    assert.is_nil(text:find("FAILED", 1, true))
  end)
end)

describe("tests/gpu", function()
  it_on_simt("repeats a batch to the bit", function()
    local out = program.ok { folder .. "tests/gpu/repeat.lua", "simt", "2" }
    assert.is_truthy(out:find("simt in bf16: 2 runs", 1, true))
  end)

  it_on_simt("computes with the primitives of kernels what chips compute", function()
    local here = {}
    for line in assert(io.popen(("'%s/simt-conform'"):format(home))):lines() do
      local name, case, words = line:match("^([^\t]+)\t(%d+)\t(.*)$")
      here[name .. " " .. case] = words
    end
    -- what an ISA manual says: columns of a matrix
    assert.equal("00010000\t00410040\t00810080\t00c100c0\t00080000\t00480040\t00880080\t00c800c0", here["ldmatrix 0"])
    for path in assert(io.popen(("ls '%stests/data/gpu/'conform_*.tsv 2>/dev/null"):format(folder))):lines() do
      for line in io.lines(path) do
        local name, case, words = line:match("^([^\t]+)\t(%d+)\t(.*)$")
        conform.compare(path .. ": " .. name .. " " .. case, name, words, here[name .. " " .. case])
      end
    end
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
