-- The ranks of a run agree on what they train, stop together, and hold one lock.

local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local test = mpi.tests(it, function(why) pending(why) end)

local folder, corpus = small.folder()

local function words(out, ...) return small.words(corpus, "--out", folder .. "/" .. out, "threads=1", ...) end

---Two ranks, of which the second gets further arguments, or settings.
local function run_two(list, further, settings)
  local second = table.move(list, 1, #list, 1, {})
  second = table.move(further, 1, #further, #second + 1, second)
  local quoted = { ("env %s %s"):format(settings or "", program.path) }
  for i, word in ipairs(second) do quoted[i + 1] = "'" .. word .. "'" end
  return mpi.run(1, list, {
    mpirun = "--bind-to none", shell = ": -n 1 " .. table.concat(quoted, " "), seconds = 400,
  })
end

local function says(err, text)
  local count = select(2, err:gsub("\nseqrun: ", "\nseqrun: ")) + (err:find("^seqrun: ") and 1 or 0)
  assert.equal(1, count, err)
  assert.is_truthy(err:find(text, 1, true), err)
end

---The same of a start that is refused, with these words.
local function refused(text, ...)
  local _, err = exits(2, "", ...)
  says(err, text)
  return err
end

describe("the ranks of a run", function()
  test("must have one config: the key that differs is named", function()
    local err = refused("rank 1 (", run_two(words("config", "--max-steps", "2"), { "optimizer.decay=0.5" }))
    says(err, "differs from rank 0: optimizer.decay is 0.5, but 0.01 on rank 0; start all ranks with the same")
    assert.is_false(sys.exists(folder .. "/config"))
  end)

  test("say once what is wrong with a command line", function()
    local wrong = { ["recipes/none.lua"] = "cannot open", trian = "unknown command" }
    wrong["recipes/pretrain.yaml"] = "config"
    for word, text in pairs(wrong) do
      refused(text, mpi.run(2, { word }, { seconds = 400 }))
    end
  end)

  it("need GPUs for NCCL", function()
    refused("ranks.engine=nccl requires device=cuda, but this run is on cpu; use auto or mpi",
      program.run(words("nccl", "ranks.engine=nccl", "device=cpu", "--dry-run")))
  end)

  test("must train as long and into one directory", function()
    refused("--max-steps is 3, but absent on rank 0", run_two(words("long"), { "--max-steps", "3" }))
    refused("the run's directory is " .. folder .. "/there, but",
      run_two(words("here"), { "--out", folder .. "/there" }))
  end)

  test("must have one build, the Lua library and the recipe included", function()
    local place = program.folder()
    local built = program.path:match("^(.*)/[^/]*$")
    local copy = "mkdir %s/build && cp %s/seqrun %s/seqrun_mpi.so %s/build/ && cp -r lua recipes %s/"
    assert(os.execute(copy:format(place, built, built, place, place)))
    program.write(place, "lua/seqrun/more.lua", "return {}\n")
    assert(os.execute(("echo '-- more' >>%s/recipes/pretrain.lua"):format(place)))
    local list = words("build", "--max-steps", "2")
    local function differs(second, message)
      local shell = (": -n 1 %s %s"):format(second, table.concat(list, " "))
      local err = refused("rank 1 (",
        mpi.run(1, list, { mpirun = "--bind-to none", shell = shell, seconds = 400 }))
      assert.matches(message, err)
    end
    differs(place .. "/build/seqrun", "the checksum of the Lua library is %x+, but %x+ on rank 0; install the same")
    local elsewhere = ("env -C %s %s"):format(place, program.path)
    differs(elsewhere, "the checksum of recipes/pretrain.lua is %x+, but %x+ on rank 0")
  end)

  test("must have one data set", function()
    local other = program.folder()
    small.corpus(other, 60)
    local recipe = program.write(folder, "swapped.lua", ([[
      local data = require("seqrun").data
      local open, rank = data.open, require("seqrun.tensor.ranks").launcher().rank
      data.open = function(path, ...) return open(rank == 1 and %q or path, ...) end
      dofile("recipes/pretrain.lua")
    ]]):format(other .. "/corpus.sqr"))
    local list = words("data", "--max-steps", "2")
    list[1] = recipe
    list[#list + 1] = "config=recipes/pretrain.yaml"
    local code, _, err = mpi.run(2, list, { seconds = 400 })
    sys.remove(other)
    assert.equal(3, code, err)
    says(err, "rank 1 (")
    says(err, "give all ranks the same files")
  end)

  test("are refused together where another run holds the directory", function()
    local out = folder .. "/held"
    assert(sys.make_dirs(out))
    local lock = assert(require("seqrun.checkpoint").lock(out))
    local code, _, err = mpi.run(2, words("held", "--resume"), { seconds = 400 })
    lock:close()
    assert.equal(5, code, err)
    says(err, "held")
  end)

  for _, signal in ipairs { "USR1", "TERM" } do
    test("stop at one step with a checkpoint when mpirun gets " .. signal, function()
      local out = folder .. "/stopped" .. signal
      local list = words("stopped" .. signal, "rate.total=100_000", "log.every=1")
      local before = mpi.settings .. "OMPI_MCA_odls_base_sigkill_timeout=10 exec mpirun -n 2"
      local kill = ("& job=$!; for i in $(seq 3000); do [ -s %s/metrics.jsonl ] && break; sleep 0.1; done; "
        .. "kill -%s $job; wait $job"):format(out, signal)
      local stopped, _, err = program.run(list, { before = before, shell = kill })
      if signal == "USR1" then assert.equal(75, stopped, err) end -- mpirun returns its own after TERM
      assert.is_truthy(err:find("stopped by signal " .. signal .. " at step", 1, true), err)
      says(err, "resume with --resume=" .. out)
      works(mpi.run(2, words("stopped" .. signal, "rate.total=100_000", "--resume", "--max-steps",
        tostring(#small.metrics(out) + 2)), { seconds = 400 }))
    end)
  end

  test("must compute with the same instructions, which differ in bits", function()
    exits(2, "rank 1 %(.*%) differs from rank 0: the instruction set is plain, but [%w_]+ on rank 0; set",
      run_two(words("mixed", "--max-steps", "1"), {}, "SEQRUN_ISA=plain"))
  end)

  test("are warned of too many threads, also where their processors overlap in part", function()
    local count = sys.machine().processors
    if count < 2 then return pending("needs two processors") end
    local list, more = words("partly", "--max-steps", "1"), { "threads=" .. count }
    local _, err = works(run_two(list, more, "taskset -c " .. sys.affinity()[1]))
    assert.is_truthy(err:find(("%d threads of 2 ranks share %d processors"):format(count + 1, count), 1, true), err)
  end)

  test("are not made of a script that does not open them: it says so, and does not train copies", function()
    local path = program.write(folder, "apart.lua", "print('apart')\n")
    local _, err = works(mpi.run(2, { path }))
    says(err, "warning: 2 processes each ran all of " .. path)
    path = program.write(folder, "copies.lua", [[
      local sr = require("seqrun")
      local params = sr.params.new { { name = "w", shape = { 4 } } }
      if arg[1] then require("seqrun.tensor.ranks").open("cpu", { engine = arg[1] }) end
      sr.optim.adamw(params):step { rate = 1 }
    ]])
    exits(2, "2 processes were started, and each would train a separate model", mpi.run(2, { path }))
    works(mpi.run(2, { path, "self" }))
  end)

  test("cannot be several where the plug-in is missing, which is one sentence", function()
    local place = program.folder()
    local built = program.path:match("^(.*)/[^/]*$")
    local copy = "mkdir %s/build && cp %s/seqrun %s/build/ && ln -s %s/../lua %s/lua"
    assert(os.execute(copy:format(place, built, place, built, place)))
    local line = ("%s timeout 400 mpirun -n 2 %s/build/seqrun"):format(mpi.settings, place)
    local quoted = {}
    for i, word in ipairs(words("alone")) do quoted[i] = "'" .. word .. "'" end
    local pipe = assert(io.popen(line .. " " .. table.concat(quoted, " ") .. " 2>&1"))
    local err = pipe:read("a")
    local _, _, code = pipe:close()
    sys.remove(place)
    assert.equal(4, code, err)
    says(err, "mpirun started several processes, but seqrun_mpi.so is neither beside the program nor in ../lib/seqrun")
  end)
end)
