-- Pseudo-log-likelihoods: those of Transformers, in company as alone; pairs and ties; the command.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local refuses, works = program.refuses, program.works

local FAMILIES = "tests/data/families/"
local BERT = FAMILIES .. "bert"

describe("scoring texts", function()
  local folder = program.folder()

  -- tests/peers/score.py golden: Transformers 5.23, f64, a copy at a time
  it("gives the pseudo-log-likelihoods of Transformers", function()
    local golden = json.decode(sr.must(sys.read_file("tests/data/scores/pseudo.json")))
    local seen = 0
    for name, wanted in pairs(golden.models) do
      local i = 0
      for found in sr.must(sr.score.open(FAMILIES .. name)):each(golden.texts) do
        i = i + 1
        assert.equal(wanted.tokens[i], found.tokens, name)
        assert.near(wanted.scores[i], found.score, 1e-4 * math.max(1, math.abs(wanted.scores[i]) / 100), name)
      end
      assert.equal(#golden.texts, i)
      seen = seen + 1
    end
    assert.is_true(seen >= 7)
  end)

  it("gives a text the same bits in company as alone, and memory for one text at a time", function()
    local texts, scores, i = {}, {}, 0
    for n = 1, 20 do texts[n] = ("the cat and his "):rep(1 + n % 4) .. "hat" end
    for found in sr.must(sr.score.open(BERT)):each(texts) do scores[#scores + 1] = found.score end
    assert.equal(20, #scores)
    for found in sr.must(sr.score.open(BERT, { rows = 20 })):each(texts) do
      i = i + 1
      assert.equal(scores[i], found.score)
      assert.equal(scores[i], sr.must(sr.score.open(BERT)):one(texts[i]).score)
    end
    assert.equal(20, i)
  end)

  it("says which sentence of a pair is more probable, and that a tie is one", function()
    local score, found = sr.must(sr.score.open(BERT)), {}
    local pairs_of = {}
    for i, one in ipairs { { "the hat", "the the hat in in" }, { "the the hat in in", "the hat" }, { "a b", "a b" } } do
      pairs_of[i] = { sentence_good = one[1], sentence_bad = one[2] }
    end
    for one in score:each(pairs_of) do found[#found + 1] = one end
    assert.equal(score:one("the hat").score, found[1].good)
    assert.equal(score:one("the the hat in in").score, found[1].bad)
    assert.same({ true, false, nil }, { found[1].correct, found[2].correct, found[3].correct })
    assert.equal(found[3].good, found[3].bad)
  end)

  it("says why a text cannot be scored", function()
    local score, list = sr.must(sr.score.open(BERT, { max_len = 6 })), {}
    for found in score:each {
      "", "a b c d e f", { sentence_good = "a" }, { text = "a", sentence_bad = "b" },
      { sentence_good = "a", sentence_bad = "" },
    } do list[#list + 1] = found.error or "good" end
    assert.same({
      "the text is empty", "has 6 tokens, but the model reads 4; shorten the text",
      "has no 'sentence_bad'; a pair needs both sentences",
      "has a text and a pair; give 'text', or 'sentence_good' and 'sentence_bad'", "the text is empty",
    }, list)
    assert.matches("score_spec.lua:%d+: score: the text is empty", select(2, pcall(function() score:one("") end)))
    assert.matches("the scorer has no 'row'; did you mean 'rows'%?$", select(2, pcall(function() return score.row end)))
    assert.matches("did you mean 'rows'", select(2, pcall(sr.score.open, BERT, { row = 1 })))
  end)

  it("refuses models without a masked-LM head, and other kinds by name", function()
    local plain = task_model.save(folder .. "/plain", task_model.new(sr.nn.heads.regress {}))
    local none, message, code = sr.score.open(plain)
    assert.same({ nil, "data" }, { none, code })
    assert.matches("has no masked%-LM head, so it cannot score texts; ", message)
    assert.matches("use its generator", select(2, sr.score.open(FAMILIES .. "electra_discriminator")))
    local other = folder .. "/other"
    sys.make_dirs(other)
    program.write(other, "config.json", '{"model_type":"t5","architectures":["T5Model"]}')
    program.write(other, "model.safetensors", ("<I8"):pack(2) .. "{}")
    none, message, code = sr.score.open(other)
    assert.same({ nil, "data" }, { none, code })
    assert.matches("t5.*relative position biases", message)
  end)

  it("#slow is a command: a line for each text, a table for pairs, JSON for both", function()
    local lines = program.write(folder, "lines.txt", "the his\n\na b\n")
    local out, err = works(program.run { "score", BERT, lines })
    assert.matches("^ +%-%d+%.%d%d%d%d +2  the his *\n +%-%d+%.%d+ +2  a b *\n$", out)
    assert.matches("2 texts, 4 tokens: mean score %-%d", err)
    out = works(program.run { "score", BERT, lines, "--json" })
    local first, blank = out:match("^(.-)\n(.-)\n")
    first, blank = json.decode(first), json.decode(blank)
    assert.same({ 1, 2, "the text is empty" }, { first.line, first.tokens, blank.error })
    assert.equal(sr.must(sr.score.open(BERT)):one("the his").score, first.score)

    local rows = {}
    for i, one in ipairs { { "the hat", "in in the the" }, { "in in the the", "the hat" }, { "a b", "a b" } } do
      rows[i] = json.encode {
        sentence_good = one[1], sentence_bad = one[2], UID = i < 3 and "agreement" or "islands", pairID = "0",
      }
    end
    local blimp = program.write(folder, "blimp.jsonl", table.concat(rows, "\n") .. "\n")
    out = works(program.run { "score", BERT, blimp })
    assert.matches("agreement +2 +1 +0 +50%.00 %%\nislands +1 +0 +1 +0%.00 %%\n", out)
    assert.matches("\nall +3 +1 +1 +33%.33 %%\nmean +25%.00 %%\n$", out)
    out = works(program.run { "score", BERT, blimp, "--json" })
    local tie = json.decode(out:match("([^\n]+)\n$"))
    assert.same({ json.null, "islands", 3 }, { tie.correct, tie.phenomenon, tie.line })
    assert.equal(tie.good, tie.bad)
    out = works(program.run { "score", BERT, program.write(folder, "pairs.tsv", "in in the the\tthe hat\n") })
    assert.matches("^pairs of[^\n]+\n%S+pairs%.tsv +1 +1 +0 +100%.00 %%\n$", out)
  end)

  it("#slow takes the named columns of a table, and refuses a header whose columns nobody names", function()
    local file = program.write(folder, "named.csv", "id,good,bad\n1,the hat,in in the the\n2,a b,a b\n")
    local code, out, err = program.run { "score", BERT, file }
    assert.same({ 3, "" }, { code, out })
    assert.matches("named.csv:1: 'id, good, bad' looks like the header of a table; name its columns: "
      .. "columns.text=NAME columns.pair=NAME", err)
    code, out, err = program.run { "score", BERT, file, "columns.text=good", "columns.pair=bad" }
    assert.same({ 0, "" }, { code, err })
    assert.matches("named%.csv +2 +%d +1 +%d+%.00 %%\n$", out)
    out = works(program.run { "score", BERT, file, "columns.text=good", "--format", "csv" })
    assert.matches("^file,line,score,tokens,text\n%S+named.csv,2,%-%d+%.%d+,4,the hat\n", out)
    refuses(2, "unknown key 'column'; did you mean 'columns'%?\n",
      program.run { "score", BERT, file, "column.text=good" })
    refuses(2, "score: name the column of the text too: columns.text=NAME",
      program.run { "score", BERT, file, "columns.pair=bad" })
    refuses(3, "has no column 'goof', only: id, good, bad; set columns.text; did you mean 'good'%?",
      program.run { "score", BERT, file, "columns.text=goof" })
  end)

  it("#slow ends with 3 if a line cannot be scored, with 2 without a file, with 0 if nobody reads", function()
    local file = program.write(folder, "half.jsonl", '{"sentence_good":"a"}\n{"text":"the hat"}\n')
    local out = program.exits(3, "1 line could not be scored: .*half%.jsonl:1: has no 'sentence_bad'",
      program.run { "score", BERT, file, "--json" })
    assert.equal(2, select(2, out:gsub("\n", "")))
    assert.equal(2, (program.run { "score", BERT }))
    refuses(2, "%-%-by is a field of JSON lines",
      program.run { "score", BERT, program.write(folder, "x.txt", "a\n"), "--by", "UID" })
    assert.equal(0, (program.run({ "score", BERT, file }, { shell = "| true" })))
  end)
end)
