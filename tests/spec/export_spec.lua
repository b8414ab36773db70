-- What a checkpoint says about its tokenizer, for Transformers and for the next run.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local folder
before_each(function() folder = program.folder() end)

local function tokenizer_config(run)
  return json.decode(sr.must(sys.read_file(sr.must(sr.checkpoint.latest(run)) .. "/tokenizer_config.json")))
end

describe("an uncased tokenizer that keeps accents", function()
  it("is that of a model fine-tuned from one that does", function()
    local words, rows = task_model.words(), { "text,label" }
    for i = 1, 20 do rows[i + 1] = ("%s %s,%s"):format(words[i], words[i + 5], i % 2 == 0 and "a" or "b") end
    local file = program.write(folder, "all.csv", table.concat(rows, "\n") .. "\n")
    for keeps, wanted in pairs { ['"strip_accents": false, '] = false, [""] = "absent" } do
      local base = folder .. "/base" .. #keeps
      local model = task_model.save(base, task_model.new("mlm"))
      local hf = program.copy(model, base .. "/hf", { "config.json", "model.safetensors", "vocab.txt" })
      sr.must(sys.write_file(hf .. "/tokenizer_config.json", "{" .. keeps .. '"do_lower_case": true}'))
      program.ok {
        "recipes/finetune.lua", "task=classify", "init.from=" .. hf, "data.train=" .. file, "data.dev=" .. file,
        "data.folder=" .. folder, "data.max_len=32", "--max-steps", "1", "--out", base .. "/out", "--quiet",
      }
      local found = tokenizer_config(base .. "/out")
      local strips = found.strip_accents
      if strips == nil then strips = "absent" end
      assert.same({ true, wanted }, { found.do_lower_case, strips })
      local kept = sr.must(sr.checkpoint.pretrained(base .. "/out")).tokenizer
      assert.equal(wanted == false, kept.keep_accents)
    end
  end)

  it("is that of a data set made so, which is not replaced by another", function()
    local text = assert(sys.read_file("recipes/data/emma.txt")):sub(1, 60000)
    local input, out = program.write(folder, "text.txt", text), folder .. "/text.sqr"
    local options = { inputs = { input }, vocab = { size = 120 }, out = out, keep_accents = true }
    sr.must(sr.data.prepare(options))
    program.ok(small.words(out, "--out", folder .. "/run", "--max-steps", "1"))
    assert.is_false(tokenizer_config(folder .. "/run").strip_accents)
    options.keep_accents = nil
    fails.returning(nil, "was made with keep accents 'true', not 'none'", sr.data.prepare(options))
  end)
end)

describe("the model card of an export", function()
  ---Its YAML as text without quotes, and the rest.
  local function card_of(out, ...)
    program.ok { "export", folder .. "/run", folder .. "/" .. out, ... }
    return assert(sys.read_file(folder .. "/" .. out .. "/README.md")):match("^%-%-%-\n(.-)%-%-%-\n(.*)$")
  end

  it("names task, scores with their data, and how it was trained", function()
    program.ok(small.words(small.corpus(folder), "--out", folder .. "/run", "--max-steps", "2"))
    local evaluated = small.metrics(folder .. "/run", "eval")
    local loss = ("%.4f"):format(evaluated[#evaluated].mlm_loss)
    local head, rest = card_of("card", "--license", "mit", "--language", "en")
    local root = require("seqrun.core.yaml").parse(head)
    assert.equal("map", root.kind)
    for _, line in ipairs { "library_name: transformers", "pipeline_tag: fill%-mask", 'language: "en"',
      'license: "mit"', 'name: "10 %% of corpus.sqr, held out"', "{type: mlm_loss, value: " .. loss .. "}" } do
      assert.matches(line, head)
    end
    assert.matches("Step 2, on 10 %% of corpus.sqr, held out:.*| mlm_loss | " .. loss .. " |", rest)
    assert.matches("%- peak rate: 0.003\n", rest)
    assert.matches('BertForPreTraining.from_pretrained%("card"%)', rest)
    head, rest = card_of("encoder", "--encoder") -- which was not scored
    assert.matches("pipeline_tag: feature%-extraction", head)
    assert.is_nil((head .. rest):find("loss", 1, true))
    head, rest = card_of('a "b"\nc')
    assert.matches('name: "a \\"b\\"\\nc"\n', head)
    assert.matches('BertForPreTraining.from_pretrained%("a \\"b\\"\\nc"%)', rest)
  end)

  it("names task and labels where their head is, and no words to fill in of a discriminator", function()
    local card = require("seqrun.checkpoint.card")
    local function text(architecture)
      return card.text({ path = folder .. "/none", kind = "classify", labels = { "no", "yes" } },
        { out = "x", architecture = architecture, parameters = 1, dtype = "f32" })
    end
    assert.matches("Task: classify.\nLabels: no, yes.\n", text("BertForSequenceClassification"))
    assert.is_nil(text("BertModel"):find("classify", 1, true))
    assert.matches("pipeline_tag: feature%-extraction", text("ElectraForPreTraining"))
  end)

  it("has the scores of the weights that are written, which eval.average says", function()
    for _, average in ipairs { "false", "true" } do
      program.ok(small.words(small.corpus(folder), "--out", folder .. "/run", "--max-steps", "2", "--force",
        "optimizer.average=0.9", "eval.average=" .. average))
      assert.equal(average == "false", card_of("raw" .. average):find("mlm_loss", 1, true) ~= nil)
      assert.equal(average == "true", card_of("mean" .. average, "--average"):find("mlm_loss", 1, true) ~= nil)
    end
  end)

  it("is the one that a directory has", function()
    program.ok(small.words(small.corpus(folder), "--out", folder .. "/run", "--max-steps", "1"))
    card_of("first")
    program.ok { "export", folder .. "/first", folder .. "/bare", "--encoder" } -- a card of its own model
    assert.matches("pipeline_tag: feature%-extraction", assert(sys.read_file(folder .. "/bare/README.md")))
    program.write(folder, "first/README.md", "mine\n")
    program.ok { "export", folder .. "/first", folder .. "/second" }
    assert.equal("mine\n", sys.read_file(folder .. "/second/README.md"))
    program.exits(2, "first has a README.md, which stays as it is; leave out language and license",
      program.run { "export", folder .. "/first", folder .. "/third", "--license", "mit" })
  end)
end)
