-- A task of the user's own, in one file: training, evaluation, eval, predict, export and --help know it.

local json = require("seqrun.core.json")
local files = require("tests.support.task_files")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

---Ranks: K classes in an order, learned as K - 1 questions "is it more than k?", each with a sigmoid.
local TASK = [[
local sr = require "seqrun"
local function rank_of(logits)
  local rank = 0
  for _, x in ipairs(logits) do rank = rank + (x > 0 and 1 or 0) end
  return rank
end
return {
  name = "ordinal", like = "classify", doc = "a class of an ordered scale for each text",
  head = {
    layer = "ranks", counts = "classes", fewest = 2,
    loss = function(self, hidden, target, batch)
      local x = self:real_logits(hidden, target, batch)
      local k = sr.arange(0, self.outputs - 1, 1, { dtype = "i32" }):reshape(1, -1)
      local more = target.labels:reshape(-1, 1):gt(k):to(x:dtype())
      local items = sr.ops.binary_cross_entropy(x, more):mean(2)
      return { total = (items * target.weights):sum(), items = items }
    end,
  },
  scores = {
    shown = { "off_by" }, metrics = { "off_by" },
    take = function(found, head, hidden, target, batch)
      local gold = target.labels:totable()
      for i, logits in ipairs(head:logits(hidden, target, batch):to("f32"):totable()) do
        found[#found + 1] = { gold = gold[i], guess = rank_of(logits) }
      end
    end,
    score = function(found)
      local sum = 0
      for _, item in ipairs(found) do sum = sum + math.abs(item.gold - item.guess) end
      return { off_by = sum / #found }, {}
    end,
  },
  prediction = {
    result = function(item, predictor)
      local rank = rank_of(item.sequences[1].output)
      return { rank = rank, label = predictor.head.labels[rank + 1] }
    end,
  },
  settings = { rate = { peak = 2e-3 } },
  keys = { { "scale", sr.config.number { default = 1, doc = "distance between two ranks" } } },
}
]]

describe("a task in a file of the user's", function()
  local folder, task, data
  setup(function()
    folder = program.folder()
    task = program.write(folder, "ordinal.lua", TASK)
    data = files.write(folder, "classify")
    works(program.run {
      "recipes/finetune.lua", "task=" .. task, "data.train=" .. data.train, "data.dev=" .. data.dev,
      "data.folder=" .. folder .. "/sets", "init.from=" .. files.encoder(folder .. "/base"), "data.max_len=48",
      "epochs=12", "optimizer.decay=0", "save.minutes=0",
      "--quiet", "--out", folder .. "/run", table.unpack(data.words),
    })
  end)

  it("takes fewer than 80 lines", function() assert.is_true(select(2, TASK:gsub("\n", "")) < 80) end)

  it("trains, and is evaluated by its own metric", function()
    local eval = small.metrics(folder .. "/run", "eval")
    assert.is_true(eval[#eval].off_by < 0.3, tostring(eval[#eval].off_by))
  end)

  it("is scored by eval and used by predict, with its file", function()
    local words = { "eval", folder .. "/run", data.dev, "data.folder=" .. folder, "--task", task, "--json" }
    local out = works(program.run(words))
    local eval = small.metrics(folder .. "/run", "eval")
    assert.near(eval[#eval].off_by, json.decode(out).metrics.off_by, 1e-9)
    out = works(program.run({ "predict", folder .. "/run", "--task", task }, { input = "some words\n" }))
    assert.equal("integer", math.type(json.decode(out).rank))
  end)

  it("is refused without its file, in one sentence", function()
    exits(3, "unknown task 'ordinal'; .*name its file with %-%-task FILE",
      program.run({ "predict", folder .. "/run" }, { input = "some words\n" }))
  end)

  it("has its keys and defaults in --help, and resumes", function()
    local out = works(program.run { "recipes/finetune.lua", "task=" .. task, "--help" })
    assert.matches("\n  scale  %(number; default 1%)\n", out)
    assert.matches("\n  rate.peak  %(number >= 0; default 0.002%)\n", out)
    local words = { "recipes/finetune.lua", "--resume=" .. folder .. "/run", "--quiet" }
    local again, _, err = program.run(words) -- the config of a run names no code
    assert.equal(2, again)
    assert.matches("names the task .*, a file of code; if you trust it, repeat task=", err)
    words[#words + 1] = "task=" .. task
    works(program.run(words))
  end)

  it("is exported with its head described", function()
    works(program.run { "export", folder .. "/run", folder .. "/exported" })
    local config = json.decode(assert(sys.read_file(folder .. "/exported/config.json")))
    assert.equal("ordinal", config.seqrun_heads[1].kind)
    works(program.run({ "predict", folder .. "/exported", "--task", task }, { input = "some words\n" }))
  end)

  it("whose metric is NaN is warned of", function()
    local words = files.finetune(folder, "classify", data, folder .. "/base", "epochs=2", "batch.sequences=240",
      "eval.epochs=1", "save.minutes=0", "--quiet", "--out", folder .. "/nan")
    words[2] = "task=" .. program.write(folder, "nan.lua", (TASK:gsub("sum / #found", "0 / 0")))
    local _, err = works(program.run(words))
    assert.matches("warning: step 2: the held%-out off_by is NaN; let score%(%) leave out what is not defined", err)
    assert.equal(1, select(2, err:gsub("is NaN", "")))
  end)

  it("has no names that are similar to those of fields", function()
    local sr, with = require("seqrun"), require("tests.support.with")
    local own = { name = "spelled", like = "regress", doc = "a number", targets = print, head = { help = print } }
    sr.tasks.register(own)
    for words, more in pairs {
      ["tasks.register: a task has no 'heads'; did you mean 'head'%?"] = { heads = {} },
      ["tasks.register: head has no 'lose'; did you mean 'loss'%?"] = { head = { lose = print } },
      ["tasks.register: scores has no 'taek'; did you mean 'take'%?"] = { scores = { taek = print } },
      ["config: no key 'peek' in the schema to give another default"] = { settings = { rate = { peek = 1 } } },
    } do
      assert.error_matches(function() sr.run.schema(sr.tasks.register(with(own, more))) end, words)
    end
  end)
end)
