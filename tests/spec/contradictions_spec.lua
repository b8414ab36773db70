-- What contradicts a checkpoint is refused: layers that its config does or does not have, heads, the activation.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = program.folder()

local function run(...)
  return program.run(small.words(folder .. "/corpus.sqr", "--max-steps=1", ...))
end

---A Hugging Face directory of a model of two layers, whose config says something else.
local function changed(name, from, to)
  local place = folder .. "/" .. name
  sr.must(sys.make_dirs(place))
  for _, file in ipairs(sr.must(sys.list(folder .. "/hf"))) do
    local text = sr.must(sys.read_file(folder .. "/hf/" .. file, 1 << 30))
    if file == "config.json" then
      local count
      text, count = text:gsub(from, to)
      assert.equal(1, count)
    end
    sr.must(sys.write_file(place .. "/" .. file, text))
  end
  return place
end

describe("a contradiction with a checkpoint #slow", function()
  setup(function()
    small.corpus(folder)
    assert.equal(0, (run("--out", folder .. "/run")))
    program.ok { "export", folder .. "/run", folder .. "/hf" }
  end)

  it("in the number of layers is refused by every command", function()
    for count, model in pairs { [3] = "the model has 3", [1] = "the model has 1" } do
      local place = changed("layers" .. count, '("num_hidden_layers": *)2', "%1" .. count)
      fails.exiting(3, model, { "fill", place }, { input = "a [MASK] day\n" })
      fails.exiting(3, model, { "import", place, folder .. "/imported" .. count })
      fails.returning(nil, ("config.json has %d layers, but the tensors have 2"):format(count),
        sr.checkpoint.import(place, folder .. "/imported" .. count))
      program.exits(2, ("model.num_hidden_layers is %d, but the model of init.from, .*, has 2"):format(count),
        run("--out", folder .. "/new" .. count, "init.from=" .. folder .. "/hf", "model.num_hidden_layers=" .. count))
    end
  end)

  it("of positions for less than a sentence is refused by every command", function()
    local place = changed("positions", '("max_position_embeddings": *)%d+', "%14")
    for _, words in ipairs { { "fill", place }, { "encode", place } } do
      fails.exiting(3, "config.json: the model would read at most 4 tokens", words, { input = "a [MASK] day\n" })
    end
  end)

  it("in heads or the activation is refused by init.from", function()
    for key, pattern in pairs {
      ["model.num_attention_heads=4"] = "model.num_attention_heads is 4, but the model of init.from, .*, has 2",
      ["model.hidden_act=relu"] = "model.hidden_act is relu, but the model of init.from, .*, has gelu",
    } do
      program.exits(2, pattern, run("--out", folder .. "/other", "init.from=" .. folder .. "/run", key))
      assert.is_false(sys.exists(folder .. "/other"))
    end
    assert.equal(0, (run("--out", folder .. "/same", "init.from=" .. folder .. "/run")))
  end)
end)

it("labels in another order than the model's #slow are refused in evaluation and fine-tuning", function()
  local csv = program.write(folder, "train.csv", "text,label\nthe cat,yes\nthe dog,no\na song,yes\nhorse,no\n")
  local function finetune(out, from, ...)
    return program.run { "recipes/finetune.lua", "task=classify", "data.train=" .. csv, "data.held=0", "epochs=1",
      "batch.sequences=2", "init.from=" .. from, "--quiet", "--out", folder .. "/" .. out, ... }
  end
  program.works(finetune("labelled", folder .. "/run", "data.labels=[no,yes]"))
  assert.equal(0, (program.run { "eval", folder .. "/labelled", csv, "data.labels=[no,yes]" }))
  local why = "the labels of the model are in another order, [no,yes]"
  fails.exiting(2, why, { "eval", folder .. "/labelled", csv, "data.labels=[yes,no]" })
  program.exits(2, why, finetune("again", folder .. "/labelled", "data.labels=[yes,no]"))
  assert.equal(0, (finetune("again", folder .. "/labelled", "data.labels=[yes,no]", "init.heads=new")))
end)

it("texts that come twice #slow are reported where some are held out, or have another label", function()
  local rows = { "text,label" }
  for i = 1, 20 do
    rows[#rows + 1] = ("the cat %d,%s"):format(i % 8, (i == 20 or i % 2 == 1) and "yes" or "no")
  end
  local csv = program.write(folder, "twice.csv", table.concat(rows, "\n") .. "\n")
  local out, err = program.ok { "recipes/finetune.lua", "task=classify", "data.train=" .. csv, "data.held=0.2",
    "epochs=1", "batch.sequences=4", "init.from=" .. folder .. "/run", "--out", folder .. "/twice" }
  assert.matches("1 of 20 rows have the text of an earlier row with another label, the first is .*twice.csv:21 "
    .. "%('yes', 'no' in line 5%)", out .. err)
  assert.matches("12 of 20 rows of train repeat an earlier text", out .. err, 1, true)
end)

it("a directory that begins with a dash #slow is named so that commands take it for a path", function()
  local words = small.words(small.corpus(folder), "--max-steps=1", "--out", "-x")
  for i, word in ipairs(words) do words[i] = word:gsub("^recipes/", sys.real_path("recipes") .. "/") end
  local out = program.ok(words, { before = ("cd '%s' &&"):format(folder) })
  assert.matches("seqrun report ./-x", out, 1, true)
  assert.equal(0, (program.run({ "info", "./-x" }, { before = ("cd '%s' &&"):format(folder) })))
end)
