-- seqrun info: every kind of file, and invalid ones.

local checkpoint = require("seqrun.checkpoint")
local info = require("seqrun.commands.info")
local json = require("seqrun.core.json")
local metrics = require("seqrun.history.metrics")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local TINY = "tests/data/model/tiny"

local program = require("tests.support.program")

---The output and the result of the command.
local function run(path, options)
  local args, printed, real = { path = path, format = "table" }, {}, print
  for key, value in pairs(options or {}) do args[key] = value end
  if args.json then args.format = "json" end
  _G.print = function(text) printed[#printed + 1] = tostring(text) end -- luacheck: ignore 121 122
  local results = table.pack(pcall(require("seqrun.base.failure").returned, info.run, args))
  _G.print = real -- luacheck: ignore 121 122
  assert(results[1], results[2])
  return table.concat(printed, "\n"), table.unpack(results, 2, results.n)
end

describe("info", function()
  local dir
  before_each(function() dir = program.folder() end)

  it("names the task of a checkpoint and its classes", function()
    local task_model = require("tests.support.task_model")
    local bert = task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } })
    assert.matches("\n  task +classify: no, yes\n", (run(task_model.save(dir, bert))))
  end)

  it("names the parts of a directory that cannot be read", function()
    program.copy(TINY, dir, { "config.json", "vocab.txt" })
    assert(sys.write_file(dir .. "/model.safetensors", "half of a download"))
    local text, code = run(dir)
    assert.equal(0, code)
    assert.matches("\n  problem +[^\n]*model.safetensors: not a valid safetensors file", text)
    local facts = json.decode((run(dir, { json = true })))
    assert.same({ 1, "nil" }, { #facts.problems, type(facts.parameters) })
    assert.same(json.array(), json.decode((run(TINY, { json = true }))).problems)
  end)

  it("describes a run, its checkpoints and its metrics", function()
    local params = sr.params.new { { name = "w", shape = { 3 } } }
    for step = 1, 2 do assert(checkpoint.save(dir, { step = step, model = params, opt = sr.optim.adamw(params) })) end
    assert(sys.write_file(dir .. "/step-000000002/trainer/state.json", "{}"))
    local m = assert(metrics.open(dir))
    m:write { step = 1, loss = 2.5 }
    m:close()
    local text, code = run(dir, { json = true })
    assert.equal(0, code)
    local facts = assert(json.decode(text))
    assert.same({ true, false }, { facts.checkpoints[1].verified, facts.checkpoints[2].verified })
    assert.same({ "run", dir .. "/step-000000001", "adamw", 2.5 },
      { facts.kind, facts.newest, facts.newest_checkpoint.optimizer, facts.metrics.last.loss })
    assert.truthy(run(dir):find("CORRUPT", 1, true))
    facts = json.decode((run(dir .. "/step-000000001", { json = true })))
    assert.same({ "checkpoint", 1, true, 3 }, { facts.kind, facts.step, facts.verified, facts.parameters })
  end)

  it("describes files of other writers", function()
    local facts = json.decode((run(TINY, { json = true })))
    assert.same({ "checkpoint", 32, false }, { facts.kind, facts.config.hidden_size, facts.manifest })
    assert.equal("bert", facts.config.model_type)
    assert.truthy(run(TINY):find("model +bert: hidden_act gelu, hidden_size 32"))
    facts = json.decode((run(TINY .. "/model.safetensors", { json = true })))
    assert.equal("safetensors", facts.kind)
    assert.equal(facts.elements, facts.dtypes.F32)
    assert.truthy(run(TINY .. "/model.safetensors", { tensors = true }):find("bert.pooler.dense.weight", 1, true))
    facts = json.decode((run(TINY .. "/vocab.txt", { json = true })))
    assert.same({ "vocabulary", 120 }, { facts.kind, facts.tokens })
  end)

  it("describes a plan and a metrics file", function()
    local plan = assert(sr.pack({ 5, 3, 5, 3 }, { max_len = 8, solver = "lpfhp" }))
    assert(plan:save(dir .. "/plan"))
    local facts = json.decode((run(dir .. "/plan", { json = true })))
    assert.same({ "plan", "lpfhp", 2, 4, 1.0 },
      { facts.kind, facts.solver, facts.packs, facts.sequences, facts.efficiency })
    assert(sys.write_file(dir .. "/m", '{"type":"train","step":1}\nxx\n{"type":"eval","step":1}\n'))
    facts = json.decode((run(dir .. "/m", { json = true })))
    assert.same({ "metrics", 2, 1 }, { facts.kind, facts.lines, facts.damaged })
    assert.truthy(run(dir .. "/m"):find("2, 1 invalid", 1, true))
  end)

  it("describes a data set", function()
    local corpus = require("tests.support.small").corpus(dir)
    local facts = json.decode((run(corpus, { json = true })))
    assert.same({ "dataset", "text", 100 }, { facts.kind, facts.holds, facts.documents })
    assert.truthy(run(corpus):find("documents      100", 1, true))
  end)

  it("rejects invalid files with a message and a code, and prints nothing", function()
    local random = require("seqrun.core.sys").read_file("tests/spec/info_spec.lua")
    local cases = {
      "", "\0", ("\0"):rep(100), "hello\n", "{", "{}", "[]", ("["):rep(10000), ("\255"):rep(64), random:reverse(),
      "\x89SQR\r\n\x1a\n", "\x89SQR\r\n\x1a\n" .. ("x"):rep(1000), ("<I8"):pack(2) .. "{}x",
      ("<I8"):pack(1 << 60) .. "{}",
    }
    for i, bytes in ipairs(cases) do
      assert(sys.write_file(dir .. "/x", bytes))
      local text, result, message, code = run(dir .. "/x", { json = true })
      assert.equal("", text, i)
      assert.is_nil(result, i)
      assert.is_string(message)
      assert.is_string(code)
    end
    local _, result, _, code = run(dir .. "/none")
    assert.same({ nil, "missing" }, { result, code })
    sys.remove(dir .. "/x")
    _, result, _, code = run(dir)
    assert.same({ nil, "data" }, { result, code })
  end)

  it("prints foreign names without terminal escapes", function()
    assert(sys.write_file(dir .. "/m", '{"type":"train","step":1,"\\u001b[2J":"\\u001b]0;x\\u0007"}\n'))
    local text = run(dir .. "/m")
    assert.is_nil(text:find("\27", 1, true))
    assert.truthy(text:find("\\x1b[2J", 1, true))
  end)

  it("survives truncation of any file of a checkpoint at any point #slow", function()
    local params = sr.params.new { { name = "w", shape = { 3 } } }
    local path = assert(checkpoint.save(dir, { step = 1, model = params, opt = sr.optim.adamw(params) }))
    for _, name in ipairs { "MANIFEST", "model.safetensors", "trainer/state.json" } do
      local bytes = assert(sys.read_file(path .. "/" .. name))
      for n = 0, #bytes - 1, 7 do
        assert(sys.write_file(path .. "/" .. name, bytes:sub(1, n)))
        local text, result = run(path)
        assert.equal(0, result)
        assert.truthy(text:find("CORRUPT", 1, true))
      end
      assert(sys.write_file(path .. "/" .. name, bytes))
    end
  end)
end)
