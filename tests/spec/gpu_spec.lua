-- tests/gpu without a GPU: its programs run on the simt device.

local conform = require("tests.support.conform")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/") or ""
local home = program.path:match("^(.*)/")

local it_on_simt = require("tests.support.devices").on_simt(it, function(reason) pending(reason) end)

---tests/gpu/run.sh device=cuda in a folder where all programs are stand-ins that do what variables say.
local stage_set
local function run_all(variables, arguments, keep)
  local line = [[cd '%s' && %s && PATH="$PWD/path:$PATH" %s tests/gpu/run.sh out=out %s >log 2>&1]]
  local _, _, code = os.execute(line:format(stage_set, keep and "true" or "rm -rf out", variables, arguments or ""))
  return code, assert(sys.read_file(stage_set .. "/log"))
end

---The states of stages in the table that run_all() left, by name.
local function states()
  local found = {}
  for line in io.lines(stage_set .. "/out/table.tsv") do
    local name, state = line:match("^([^\t]+)\t(%a+)\t%d+\t")
    assert.is_nil(found[name])
    found[name] = state
  end
  return found
end

describe("tests/gpu/run.sh", function()
  setup(function()
    stage_set = program.folder()
    for _, name in ipairs { "build/tests", "lua/bind", "recipes/bench", "tests/spec", "tests/support", "path",
      "runs/data", "tests/data/model", "tests/data/optim" } do
      assert(sys.make_dirs(stage_set .. "/" .. name))
    end
    assert(os.execute(("cp -r '%stests/gpu' '%stests/run.lua' '%s/tests/'"):format(folder, folder, stage_set)))
    for _, name in ipairs { "runs/data/novels.sqr", "recipes/a.lua", "recipes/a.yaml", "build/simt-conform",
      "build/seqrun_cuda.so", "build/seqrun_simt.so", "build/tests/late.so", "build/tests/odd.so" } do
      program.write(stage_set, name, "")
    end
    local programs = {
      ["build/seqrun"] = [=[for word in "$@"; do
        case $word in dump=*) echo >"${word#dump=}" ;; esac; done # of the roofline and the packs
        echo "$*" >>calls
        case "$*" in *${FAILS:-nothing}*) echo "1 passed, 1 failed"; exit 1 ;; esac
        case "$*" in *${SLEEPS:-nothing}*) echo "packed half"; exec sleep 100 ;; esac
        echo "packed 1 passed, 0 failed"]=],
      ["build/gpu-conform"] = '[ -z "$NO_CONFORM" ] && echo ex2',
      ["path/ncu"] = [[[ -z "$NO_NCU" ] || { echo "==ERROR== ERR_NVGPUCTRPERM"; exit 0; }
        printf ' dram__bytes_read.sum Mbyte 3\n dram__bytes_write.sum Mbyte 1\n gpu__time_duration.sum us 2\n']],
      ["build/gpu-bench"] = "cat >/dev/null; printf 'h100\\tbase\\t1\\tembed\\t1\\n'",
      ["path/nvidia-smi"] = '[ -z "$NO_GPU" ] && echo NVIDIA H100 80GB HBM3',
      ["path/compute-sanitizer"] = [[[ -z "$NO_SANITIZER" ] || { echo "Error: Device not supported"; exit 1; }
        echo "SUMMARY: 0 errors"]],
      ["path/python3"] = '[ -z "$NO_TORCH" ] && echo /a/torch/__init__.py',
    }
    for name, text in pairs(programs) do
      local path = program.write(stage_set, name, "#!/bin/bash\n" .. text .. "\n")
      os.execute(("chmod +x '%s'"):format(path))
    end
  end)

  it("exits with 0 only if every stage ran, and leaves at most 8 files, none in a folder", function()
    local text = program.works(run_all("PYTHON="))
    assert.matches("h100: all stages passed, %d+ s of 540; results in [^\n]*/out\n$", text)
    local names = assert(io.popen(("ls '%s/out'"):format(stage_set))):read("a")
    assert.equal("conform_h100.tsv\nh100.tsv\nlog.txt\nreport.txt\ntable.tsv\n", names)
    assert.matches("^h100\tbase\t1\tembed\t1\t%d+%-%d%d%-%d%d\n", assert(sys.read_file(stage_set .. "/out/h100.tsv")))
    assert.matches("\nprofile of attention backward\tok\t%d+\tdram__bytes_read 3 Mbyte  dram__bytes_write 1 Mbyte  ",
      assert(sys.read_file(stage_set .. "/out/table.tsv")))
    for name, state in pairs(states()) do assert.equal("ok", state, name) end
  end)

  it("takes up where a call was cut, at its end or by force, and does nothing twice", function()
    program.exits(3, "\nstep of large 16384 +cut", run_all("SLEEPS=step.lua", "seconds=6"))
    assert.equal("ok", states()["attention: errors"])
    assert.matches("\n== step of large 16384\npacked half\n", assert(sys.read_file(stage_set .. "/out/log.txt")))
    os.remove(stage_set .. "/calls")
    program.exits(137, "", run_all("SLEEPS=repeat.lua timeout -s KILL 6", "", true))
    assert.equal("ok", states()["step of large 16384"])
    assert.is_nil(states()["repeat bitwise"])
    assert(os.execute(("mv '%s/out' '%s/first'"):format(stage_set, stage_set)))
    local text = program.works(run_all("", "from=first", true))
    assert.matches("\nrepeat bitwise +ok", text)
    local _, errors = assert(sys.read_file(stage_set .. "/calls")):gsub("only=attention on cuda has.*most", "")
    assert.equal(0, errors)
  end)

  it("exits with 4 at once if there is no device", function()
    for _, variables in ipairs { "NO_GPU=1", "FAILS=sr.use" } do
      local text = program.exits(4, "run.sh: no device 'cuda' to run on; the lines above say why\n$",
        run_all(variables))
      assert.is_nil(text:find("primitives", 1, true))
    end
  end)

  it("exits with 2 for arguments that it does not know", function()
    for _, words in ipairs { "part=A", "device=tpu", "seconds=soon", "fast" } do
      program.exits(2, "^usage: run.sh ", run_all("", words))
    end
  end)

  it("exits with 3 if tools are missing, and says what was skipped", function()
    local text = program.exits(3, "memcheck +skipped +0 s  compute%-sanitizer does not work here: Error: Device",
      run_all("NO_SANITIZER=1 NO_TORCH=1 NO_NCU=1"))
    assert.matches("PyTorch attention +skipped +0 s  torch not found", text)
    assert.matches("profile of attention +skipped +0 s  ncu does not work here: ==ERROR== ERR_NVGPUCTRPERM", text)
    assert.matches("h100: no stage failed, but 9 skipped or cut, %d+ s of 540; results in ", text)
  end)

  it("names the stage that failed and exits with 1, whichever it is", function()
    for given, stage in pairs { ["FAILS=repeat.lua"] = "repeat bitwise", ["NO_CONFORM=1"] = "primitives" } do
      local text = program.exits(1, "\n" .. stage .. " +FAILED", run_all(given))
      assert.matches("h100: failed stages: 1, skipped or cut: %d, %d+ s of 540; results in ", text)
    end
  end)

  it("travels in one archive, which may not be too large together with the checkout", function()
    local line = "cd '%s'; git init -q; echo build >.gitignore; truncate -s %dM x && tests/gpu/bundle.sh 2>&1; echo $?"
    for size, words in pairs { [50] = "MiB\n0\n$", [61] = "MiB: more than 60 MiB together; leave files out\n1\n$" } do
      local text = assert(io.popen(line:format(stage_set, size))):read("a")
      assert.matches(("bundle: build/gpu.tgz %%d.%%d MiB, the checkout %d.%%d %s"):format(size, words), text)
    end
    local list = assert(io.popen(("tar tzf '%s/build/gpu.tgz'"):format(stage_set))):read("a")
    assert.matches("\ngpu/tests/gpu/run.sh\n", list, 1, true)
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
