-- Filling in [MASK]: what the model says of that token, in company as alone; the command.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

describe("filling in [MASK]", function()
  local dir, model, bert, words
  setup(function()
    dir = program.folder()
    bert, words = task_model.new("mlm", "nsp"), task_model.words()
    local vocab = sr.must(sys.read_file(task_model.VOCAB)):gsub("[^\n]+\n[^\n]+\n?$", "##ing\n,\n")
    local lock = sr.must(sr.checkpoint.lock(dir .. "/model"))
    model = sr.must(sr.checkpoint.save(dir .. "/model", {
      step = 0, model = bert.params, config = bert:hf_config(), vocab_text = vocab,
    }))
    lock:close()
  end)

  local function open(options) return sr.must(sr.fill.open(model, options)) end

  it("gives the probabilities of the model, the largest first", function()
    local fill = open { words = false, top = 1000 }
    local text = words[3] .. " [MASK] " .. words[8]
    local found = fill:one(text)
    local ids = fill.tokenizer:encode(text, { specials = true })
    local batch = require("seqrun.predict.batches").make({ { a = table.move(ids, 2, #ids - 1, 1, {}) } },
      fill.tokenizer.core)
    local probabilities = bert:head("mlm"):logits(bert:encode(batch)):softmax(-1):totable()[3]
    local list, sum = found.masks[1], 0
    assert.equal(#fill.tokenizer.vocab - 5, #list) -- without special tokens
    for i, one in ipairs(list) do
      assert.near(probabilities[one.id + 1], one.probability, 1e-6)
      assert.equal(fill.tokenizer.vocab:token(one.id), one.token)
      assert.is_true(i == 1 or one.probability <= list[i - 1].probability)
      sum = sum + one.probability
    end
    assert.is_true(sum <= 1 + 1e-5)
    assert.equal(list[1].token:gsub("^##", ""):lower(), found.text:match("^%S+ ?(.-) ?%S+$"):lower())
  end)

  it("gives a line in company what it gets alone", function()
    local texts, i = {}, 0
    for n = 1, 20 do texts[n] = (words[n] .. " "):rep(n % 7) .. "[MASK] " .. words[2 * n] end
    for found in open { rows = 64 }:each(texts) do
      i = i + 1
      local alone = open():one(texts[i])
      assert.equal(alone.text, found.text)
      for k, one in ipairs(alone.masks[1]) do
        assert.equal(one.token, found.masks[1][k].token)
        assert.near(one.probability, found.masks[1][k].probability, 1e-5)
      end
    end
    assert.equal(20, i)
  end)

  it("offers whole words unless all tokens are asked for", function()
    for _, one in ipairs(open { top = 1000 }:one("[MASK]").masks[1]) do assert.matches("^%w", one.token) end
    local others = {}
    for _, one in ipairs(open { top = 1000, words = false }:one("[MASK]").masks[1]) do others[one.token] = true end
    assert.same({ true, true }, { others["##ing"], others[","] })
  end)

  it("fills several in one after the other, the most probable first", function()
    local fill = open { top = 1 }
    local found = fill:one(("%s [MASK] %s [MASK]"):format(words[5], words[9]))
    local first = found.masks[1][1].probability >= found.masks[2][1].probability and 1 or 2
    local token = found.masks[first][1].token
    local rest = first == 1 and ("%s %s %s [MASK]"):format(words[5], token, words[9])
      or ("%s [MASK] %s %s"):format(words[5], words[9], token)
    assert.equal(fill:one(rest).text, found.text)
  end)

  it("says why a text cannot be used", function()
    local fill, list = open { max_len = 8 }, {}
    local texts = { "the", "the <mask>", ("the "):rep(9) .. "[MASK]", "[MASK] the" }
    for found in fill:each(texts) do list[#list + 1] = found.error or "good" end
    assert.matches("no %[MASK%]; write it in place", list[1])
    assert.matches("the filler has no 'tpo'; did you mean 'top'%?$", select(2, pcall(function() return fill.tpo end)))
    assert.matches("did you mean it by '<mask>'", list[2])
    assert.matches("a %[MASK%] is token 10, but the model reads 6 tokens", list[3])
    assert.equal("good", list[4])
    assert.matches("fill_spec.lua:%d+: fill: no %[MASK%]", select(2, pcall(function() fill:one("x") end)))
    local plain = task_model.save(dir .. "/plain", task_model.new(sr.nn.heads.regress {}))
    fails.returning("data", "has no masked%-LM head, .* use the model that it began from", sr.fill.open(plain))
    sys.make_dirs(plain .. "/trainer")
    program.write(plain .. "/trainer", "config.yaml", "init:\n  from: runs/some\n")
    assert.matches("; use the model that it was fine%-tuned from, runs/some$", select(2, sr.fill.open(plain)))
    assert.equal("config", (select(3, sr.fill.open(model, { max_len = 1000 }))))
    assert.matches("did you mean 'top'", select(2, pcall(sr.fill.open, model, { tpo = 1 })))
  end)

  it("warns of a vocabulary that is much smaller than the model's", function()
    local cut = program.copy(model, dir .. "/cut", { "config.json", "model.safetensors", "tokenizer_config.json" })
    local count, lines = 0, {}
    for line in assert(sys.read_file(model .. "/vocab.txt")):gmatch("[^\n]+") do
      count = count + 1
      if count <= 20 then lines[count] = line end
    end
    program.write(cut, "vocab.txt", table.concat(lines, "\n") .. "\n")
    local warning = ("warning: .*: the tokenizer has 20 tokens, but the model has embeddings of %d; "):format(count)
    for _, command in ipairs { { "fill", cut, "-t", "[MASK]" }, { "import", cut, dir .. "/imported" } } do
      assert.matches(warning, (select(2, program.ok(command))))
    end
    assert.is_nil(select(3, program.run { "fill", model, "-t", "[MASK]" }):find("warning", 1, true))
  end)

  it("is a command: text for a person, JSON for a program", function()
    local input = words[4] .. " [MASK].\n" .. "[MASK] " .. words[6] .. " [MASK]\n"
    local out = program.ok({ "fill", model, "-k", "3" }, { input = input })
    assert.matches("^" .. words[4] .. " %[MASK%]%.\n    %S+ %d+%.%d %%", out)
    for line in out:gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 80, line) end
    local told = program.ok({ "fill", model, "-k", "3", "--json" }, { input = input })
    local objects = {}
    for line in told:gmatch("[^\n]+") do objects[#objects + 1] = json.decode(line) end
    assert.same({ 1, 2, 1, 2, 3 }, {
      objects[1].line, objects[2].line, #objects[1].masks, #objects[2].masks, #objects[1].masks[1],
    })
    assert.same(objects[1], program.json { "fill", model, "-k", "3", "--json", "--text", words[4] .. " [MASK]." })
  end)

  it("answers each line of a person at once", function()
    local terminal = require("tests.support.terminal")
    if terminal.missing() then return pending(terminal.missing()) end
    local code, told, err = terminal.run(table.concat({
      "? Ctrl-D ends", "! " .. words[4] .. " [MASK].\\r", "?  %", "! none\\r", "? no [MASK]", "! \\x04", "",
    }, "\n"), { words = "fill " .. model .. " -k 2" })
    assert.same({ 0, "" }, { code, err })
    assert.matches("\n    %S+ %d+%.%d %% +%S+ %d+%.%d %%\n", told) -- the echo of the line may be anywhere
  end)

  it("ends with 3 if a line cannot be used, with 2 for a wrong option, with 0 if nobody reads", function()
    assert.equal(0, (program.run({ "fill", model }, { input = "[MASK]\n\n  \n[MASK]\n" })), "blank lines are none")
    local out = fails.exiting(3, "1 line could not be used: standard input:1: no %[MASK%]",
      { "fill", model, "--json" }, { input = "the\n[MASK]\n" })
    assert.matches('"error":"no %[MASK%]', out)
    assert.equal("", (fails.exiting(2, "did you mean '%-%-top'", { "fill", model, "--tpo", "3" })))
    assert.equal(3, (program.run { "fill", dir .. "/none", "--text", "[MASK]" }))
    assert.equal(2, (program.run { "fill", model, "a.txt", "--text", "[MASK]" }))
    local many = { input = ("[MASK]\n"):rep(3000), shell = "| head -1 >/dev/null" }
    assert.equal(0, (program.run({ "fill", model }, many)))
  end)
end)
