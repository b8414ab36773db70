-- What commands take and say: numbers below 0, lengths that are too small, directories that are not there.

local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local exits, refuses = program.exits, program.refuses

describe("the command line", function()
  local folder, corpus, model
  setup(function()
    folder = program.folder()
    corpus, model = small.corpus(folder, 10), task_model.save(folder .. "/model", task_model.new("mlm"))
  end)

  it("takes a number below 0 as the value of an option", function()
    local squad = task_model.save(folder .. "/squad", task_model.new(sr.nn.heads.squad {}))
    program.ok({ "predict", squad, "--format", "jsonl", "--null-threshold", "-1.4" },
      { input = '{"question": "the", "context": "of"}\n' })
    refuses(2, "unknown option '-x'", program.run { "predict", squad, "--null-threshold", "-x" })
  end)

  it("names the option whose value is refused", function()
    refuses(2, "-k: '4000' is not an integer from 1 to 1000", program.run { "fill", model, "-k", "4000" })
    refuses(2, "--top: '4000' is not an integer from 1 to 1000", program.run { "fill", model, "--top=4000" })
  end)

  it("refuses packs that hold no pair of a data set", function()
    refuses(2, "--max-len 4 is less than the 5 tokens", program.run { "pack", corpus, "--max-len", "4" })
  end)

  it("describes sentence pairs, or with --no-nsp the single texts that a run without them has", function()
    local report = program.json { "stats", corpus, "--max-len", "48", "--no-nsp", "--json" }
    assert.matches("max_len 48: [%d,]+ examples, ", program.ok { "stats", corpus, "--max-len", "48", "--no-nsp" })
    assert.matches("max_len 48: [%d,]+ sentence pairs, ", program.ok { "stats", corpus, "--max-len", "48" })
    local plan = program.json { "pack", corpus, "--max-len", "48", "--no-nsp", "--json" }
    assert.same({ false, report.train_tokens }, { report.pairs, plan.tokens })
    assert.not_equal(plan.tokens, program.json({ "pack", corpus, "--max-len", "48", "--json" }).tokens)
  end)

  it("makes the directory of a metric", function()
    local out = folder .. "/new/metrics"
    program.ok { "analyze", corpus, "--metric", "length", "--out", out }
    assert.is_true(sys.is_dir(out))
  end)

  it("prepares a single file, and lists no options of runs for what trains nothing", function()
    local text, out = folder .. "/corpus.txt", folder .. "/one.sqr"
    program.ok { "recipes/prepare.lua", "inputs=" .. text, "out=" .. out, "vocab.size=200" }
    local help = program.ok { "recipes/prepare.lua", "--help" }
    assert.same({ nil, true }, { help:find("--resume", 1, true), help:find("--explain", 1, true) ~= nil })
  end)

  it("refuses seeds and labels that come twice", function()
    local words = { "recipes/finetune.lua", "task=classify", "seeds=[1,1,2]", "data.labels=[a,b,a]" }
    local _, err = exits(2, "'seeds' has 1 twice", program.run(words))
    assert.matches("'data.labels' has a twice", err)
  end)

  it("has a column once", function()
    local words = small.words(corpus, "--max-steps", "1", "--out", folder .. "/runs/a")
    program.ok(words)
    assert.matches("^run,state,seed\n", program.ok { "runs", folder .. "/runs", "--columns", "state,seed,state",
      "--format", "csv" })
  end)

  it("takes any text as a question", function()
    local words = { "recipes/search.lua", "model=" .. model, "texts=" .. program.write(folder, "texts.txt", "the\n") }
    exits(2, "unknown key 'a'; choose", program.run { words[1], words[2], words[3], "x=y", "a=b" })
    assert.matches("the\n$", program.ok { words[1], words[2], words[3], "x=y" })
  end)
end)
