-- recipes/embed.lua on small files: what it learns, what it refuses, what it leaves for other programs.

local draws = require("tests.support.draws")
local fails = require("tests.support.fails")
local files = require("tests.support.task_files")
local json = require("seqrun.core.json")
local mpi = require("tests.support.mpi")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = program.folder()

local function path(name) return folder .. "/" .. name end
local function write(name, text)
  local at = path(name)
  assert(sys.make_dirs(at:match("^(.*)/")))
  assert(sys.write_file(at, text))
  return at
end

---Pairs that share a rare word, among common ones.
local function pairs_file(name, count, negative)
  local lines, draw = { negative and "anchor,positive,negative_1" or "anchor,positive" }, draws(11)
  local function word(first, range) return "w" .. first + draw(range) end
  for i = 0, count - 1 do
    local key = "w" .. 20 + i % 40
    local row = { ("%s %s"):format(key, word(0, 10)), ("%s %s %s"):format(word(10, 10), key, word(10, 10)) }
    if negative then row[3] = ("w%d %s"):format(20 + (i + 7) % 40, word(0, 10)) end
    lines[#lines + 1] = table.concat(row, ",")
  end
  return write(name, table.concat(lines, "\n") .. "\n")
end

---Two words whose distance is the score.
local function scored_file(name, count)
  local lines = { "sentence1\tsentence2\tscore" }
  for i = 1, count do
    local near = i % 2
    lines[#lines + 1] = ("w%d w%d\tw%d w%d\t%d"):format(i % 30, i % 7, near == 1 and i % 30 or 60 + i % 20,
      near == 1 and i % 7 or 80 + i % 9, 4 * near)
  end
  return write(name, table.concat(lines, "\n") .. "\n")
end

local base = files.encoder(path("base"))

local function words(data, out, ...)
  return {
    "recipes/embed.lua", "init.from=" .. base, "data.train=" .. data, "data.folder=" .. path("sets"), "data.max_len=24",
    "seed=3", "save.minutes=0", "batch.sequences=20", "rate.peak=3e-3", "optimizer.decay=0", "--out", path(out), ...,
  }
end

---Runs the recipe; returns the last evaluation, and what was printed.
local function train(data, out, ...)
  local text, err = program.ok(words(data, out, ...))
  local lines = small.metrics(path(out), "eval")
  return lines[#lines], text .. err
end

local function refused(data, ...)
  local code, text, err = program.run(words(data, "refused", ...))
  assert.is_true(code == 2 or code == 3, text .. err)
  assert.is_falsy((text .. err):find("traceback", 1, true))
  return err
end

describe("recipes/embed.lua", function()
  it("learns pairs, and leaves a directory of sentence-transformers #slow", function()
    local data = pairs_file("pairs.csv", 120)
    local line, text = train(data, "pairs", "data.dev=" .. data, "epochs=12", "save.best=ndcg_at_10")
    assert.matches("120 pairs", text)
    assert.is_true(line.ndcg_at_10 > 0.9, line.ndcg_at_10)
    local modules = json.decode(sys.read_file(path("pairs/best/modules.json")) or
      sys.read_file(sr.must(sr.checkpoint.pretrained(path("pairs"))).path .. "/modules.json"))
    assert.equal("1_Pooling", modules[2].path)
    assert.equal(3, #modules)
    local out = program.ok { "recipes/search.lua", "model=" .. path("pairs"), "texts=" .. data, "w25 w3",
      "top=3" }
    for found in out:gmatch("[^\n]+") do assert.matches("w25", found) end
    assert.equal(3, select(2, out:gsub("\n", "")))
    out = fails.exiting(2, "search: unknown key 'mdel'; choose model, texts, vectors, top or dimensions",
      { "recipes/search.lua", "mdel=x", "a question" })
    assert.equal("", out)
    out = program.ok { "predict", path("pairs"), data } -- its columns have the usual names
    assert.equal(120, select(2, out:gsub('"similarity"', "")))
    out = program.ok { "export", path("pairs"), path("sent") }
    assert.matches('load it   SentenceTransformer%("', out)
  end)

  it("learns hard negatives, scored pairs and a teacher's vectors #slow", function()
    local _, text = train(pairs_file("triplets.csv", 80, true), "triplets", "epochs=1", "embed.learn_temperature=true",
      "embed.directions=both", "embed.matryoshka=[8,32]", "token_drop.keep=0.5",
      "token_drop.layers=[0,1]", "batch.micro_packs=1")
    assert.matches("80 pairs with 80 hard negatives", text)
    local listed = ('{"anchor":"w1 w%d","positive":"w2 w%d","negative":["w9","w8 w%d"]}\n'):rep(8)
    listed = listed:gsub("%%d", function() return "3" end)
    _, text = train(write("listed.jsonl", listed), "listed", "epochs=1")
    assert.matches("8 pairs with 16 hard negatives", text)
    local scored = scored_file("scored.tsv", 100)
    local line = train(scored, "scored", "data.dev=" .. scored, "epochs=6")
    assert.is_true(line.spearman > 0.8, line.spearman)

    local texts, lines = {}, {}
    for i = 1, 60 do
      lines[i] = ("w%d w%d"):format(i, i * 7 % 90)
      texts[i] = json.encode { text = lines[i] }
    end
    local input = write("texts.jsonl", table.concat(texts, "\n") .. "\n")
    program.ok { "encode", path("pairs"), input, "--out", path("teacher.safetensors") }
    write("turned.txt", table.concat(lines, "\n", 2) .. "\n" .. lines[1] .. "\n")
    program.ok { "encode", path("pairs"), path("turned.txt"), "--out", path("turned.safetensors") }
    assert.matches("turned.safetensors has the vectors of these texts in another order; encode the texts of data.train",
      refused(input, "embed.teacher=" .. path("turned.safetensors")))
    train(input, "student", "embed.teacher=" .. path("teacher.safetensors"), "epochs=30", "embed.pool=cls",
      "log.every=1")
    local steps = small.metrics(path("student"))
    assert.is_true(steps[#steps].embed_loss < 0.5 * steps[1].embed_loss)
    assert.matches("embed.teacher have 32 numbers, those of the model 16; set embed.dense=32",
      refused(input, "embed.dense=16", "embed.teacher=" .. path("teacher.safetensors")))
  end)

  it("goes out and in again with a dense layer: the same vectors #slow", function()
    train(pairs_file("pairs.csv", 120), "dense", "epochs=1", "embed.dense=12", "embed.dense_activation=tanh",
      "embed.pool=last", "embed.normalise=false")
    program.ok { "export", path("dense"), path("exported") }
    local function vectors(dir) return (program.ok({ "encode", dir }, { input = "w1 w2 w3\nw4\n" })) end
    assert.equal(vectors(path("dense")), vectors(path("exported")))
    assert.is_truthy(sys.exists(path("exported/2_Dense/model.safetensors")))
    local _, text = train(path("pairs.csv"), "again", "init.from=" .. path("exported"), "epochs=0.2")
    assert.is_falsy(text:find("2_Dense.linear.weight", 1, true) and text:find("missing", 1, true))
    local config = json.decode(sys.read_file(sr.must(sr.checkpoint.pretrained(path("again"))).path
      .. "/2_Dense/config.json"))
    assert.equal(12, config.out_features)
    local found = program.json({ "predict", path("exported"), "--format", "tsv" }, { input = "w1 w2\tw1 w2\n" })
    assert.is_near(1, found.similarity, 1e-6)
  end)

  it("has the bits of one rank on two, and of a run that never stopped #slow", function()
    local data = pairs_file("pairs.csv", 120, true)
    local more = { "batch.micro_packs=1", "batch.shares=4", "embed.learn_temperature=true", "epochs=2",
      "model.hidden_dropout_prob=0.1" }
    local function weights(out, step) return small.weights(path(out), step) end
    train(data, "one", table.unpack(more))
    train(data, "stopped", "--max-steps", "5", table.unpack(more))
    train(data, "stopped", "--resume", table.unpack(more))
    assert.same(weights("one", 12), weights("stopped", 12))
    if mpi.missing() then return pending(mpi.missing()) end
    program.works(mpi.run(2, words(data, "two", table.unpack(more))))
    assert.same(weights("one", 12), weights("two", 12))
    for shares, few in pairs { ["batch.shares=2"] = 2, ["batch.micro_packs=64"] = 1 } do -- 1: a rank without texts
      train(data, "one" .. few, "epochs=1", shares)
      program.works(mpi.run(2, words(data, "two" .. few, "epochs=1", shares)))
      assert.same(weights("one" .. few, 6), weights("two" .. few, 6))
    end
  end)

  it("evaluates on sets in BEIR's form, during training and by eval #slow", function()
    local corpus, queries, qrels = {}, {}, { "query-id\tcorpus-id\tscore" }
    for i = 0, 39 do
      corpus[#corpus + 1] = json.encode { _id = "d" .. i, title = "w1", text = ("w%d w3"):format(20 + i) }
      queries[#queries + 1] = json.encode { _id = "q" .. i, text = ("w%d w2"):format(20 + i) }
      if i < 30 then qrels[#qrels + 1] = ("q%d\td%d\t1"):format(i, i) end
    end
    for name, list in pairs { ["corpus.jsonl"] = corpus, ["queries.jsonl"] = queries, ["qrels/test.tsv"] = qrels } do
      write("beir/" .. name, table.concat(list, "\n") .. "\n")
    end
    local data = pairs_file("pairs.csv", 120)
    local recipe = assert(sys.read_file("recipes/embed.lua")):gsub("task:data%(cfg%)", "%0, cfg.data.dev") -- read later
    local more = words(data, "retrieval", "data.dev=" .. path("beir"), "epochs=8", "config=recipes/embed.yaml")
    more[1] = write("own.lua", recipe)
    program.ok(more)
    local line = small.metrics(path("retrieval"), "eval")
    line = line[#line]
    assert.is_true(line.ndcg_at_10 > 0.8, line.ndcg_at_10)
    local metrics = program.json({ "eval", path("retrieval"), path("beir"), "--json" }).metrics
    assert.equal(line.ndcg_at_10, metrics.ndcg_at_10)
    assert.equal(line.recall_at_1, metrics.recall_at_1)
    assert.matches("is a set for evaluation", refused(path("beir")))
    os.remove(path("beir/qrels/test.tsv"))
    local _, _, problem = program.run { "eval", path("retrieval"), path("beir") }
    assert.matches("needs corpus.jsonl, queries.jsonl and qrels/test.tsv", problem)
  end)

  it("refuses what makes no sense in one sentence #slow", function()
    local data, scored = pairs_file("pairs.csv", 30), scored_file("scored.tsv", 30)
    assert.matches("embed.loss=cosent needs scored pairs", refused(data, "embed.loss=cosent"))
    assert.matches("embed.loss=mnrl needs pairs", refused(scored, "embed.loss=mnrl"))
    assert.matches("embed.loss=mse needs embed.teacher", refused(data, "embed.loss=mse"))
    assert.matches("embed.matryoshka has 64, but vectors have 32 numbers", refused(data, "embed.matryoshka=64"))
    assert.matches("embed.temperature", refused(data, "embed.temperature=0"))
    assert.matches("learn_temperature requires embed.loss=mnrl", refused(scored, "embed.learn_temperature=true"))
    assert.matches("columns anchor, positive", refused(write("other.csv", "a,b\nw1,w2\nw3,w4\n")))
    assert.matches("the score is 'high'", refused(write("bad.csv", "sentence1,sentence2,score\nw1,w2,high\n")))
    assert.matches("one pair", refused(write("single.csv", "anchor,positive\nw1,w2\n")))
    assert.matches("a negative is the positive itself",
      refused(write("same.csv", "anchor,positive,negative\nw1,w2,w2\nw3,w4,w5\n")))
    assert.matches("single texts, which need embed.teacher", refused(write("text.csv", "text\nw1\nw2\n")))
    fails.exiting(2, "run recipes/embed.lua", { "recipes/finetune.lua", "task=embed", "data.train=" .. data })
    assert.matches("curriculum.length: the texts of a row belong in one update",
      refused(data, "curriculum.length=16"))
    local function said(...) return (select(2, train(...))) end
    assert.matches("batch.sequences: 30 instead of 100", said(data, "small", "batch.sequences=100", "embed.pool=cls"))
    assert.matches("the positive is the same text in all 3 rows",
      said(write("equal.csv", "anchor,positive\nw1,w9\nw2,w9\nw3,w9\n"), "equal"))
    assert.matches("all 2 rows have the score 1",
      said(write("flat.csv", "sentence1,sentence2,score\nw1,w9,1\nw2,w8,1\n"), "flat"))
  end)
end)
