-- A linear-chain CRF over the words of a sentence: its loss, its probabilities and its tags are those of enumeration.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local schemes = require("seqrun.scores.schemes")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_files = require("tests.support.task_files")
local task_model = require("tests.support.task_model")
local tasks = require("tests.support.tasks")

local folder = program.folder()
teardown(function() sys.remove(folder) end)

---The score of tags, from 1, of words with these logits.
local function score_of(rows, tags, chain)
  local sum = chain.first[tags[1]] + chain.last[tags[#tags]]
  for i, tag in ipairs(tags) do sum = sum + rows[i][tag] + (i > 1 and chain.into[tag][tags[i - 1]] or 0) end
  return sum
end

---Calls `see` with all sequences of so many tags.
local function each(words, classes, see, tags)
  tags = tags or {}
  if #tags == words then return see(tags) end
  for tag = 1, classes do
    tags[#tags + 1] = tag
    each(words, classes, see, tags)
    tags[#tags] = nil
  end
end

local function random_row(count)
  local row = {}
  for j = 1, count do row[j] = 3 * math.random() - 1.5 end
  return row
end

---A model with random transitions.
local function with_transitions(model)
  for _, name in ipairs(model.params:names()) do
    if name:find("crf.", 1, true) then
      local shape = model.params:shape(name)
      model.params:set(name, sr.tensor(random_row(shape[1] * (shape[2] or 1))):reshape(table.unpack(shape)))
    end
  end
  return model
end

describe("a CRF", function()
  before_each(function() math.randomseed(11) end)

  it("has the loss that enumeration gives, as the mean over words", function()
    local model = with_transitions(tasks.model("crf"))
    model.training = false
    local head, chain = model.heads[1], schemes.of_head(model.heads[1])
    local loader <close> = tasks.loader("crf", tasks.corpus("crf", folder), { micro_packs = 2 })
    local scope <close> = sr.scope()
    local quiet <close> = sr.no_grad()
    local found, wanted, words = 0, 0, 0
    for batch in loader:next():batches() do
      local target, loss = batch.targets.tags, model:losses(batch).tags
      local logits = head:logits(model.encoder:states(batch), target, batch):totable()
      local labels, items, of = target.labels:totable(), loss.items:totable(), {}
      for i, uid in ipairs((require("seqrun.data.items").uids(target, batch))) do
        of[uid] = of[uid] or {}
        table.insert(of[uid], i)
      end
      for _, list in pairs(of) do
        local rows, tags, sum, mean = {}, {}, 0, 0
        for k, i in ipairs(list) do rows[k], tags[k], mean = logits[i], labels[i] + 1, mean + items[i] end
        each(#list, 2, function(all) sum = sum + math.exp(score_of(rows, all, chain)) end)
        local own = math.log(sum) - score_of(rows, tags, chain)
        assert.near(own, mean, 1e-4 * own)
        wanted, words = wanted + own, words + #list
      end
      found = found + loss.total:item()
    end
    assert.near(wanted / words, found, 1e-5)
  end)

  it("predicts the best sequence, with the probability of each tag in the sentence, valid or not", function()
    local labels = { "O", "B-X", "I-X" }
    for _, scheme in ipairs { "none", "iob2" } do
      local head = sr.nn.bert { vocab_size = 20, hidden_size = 4, num_hidden_layers = 1, num_attention_heads = 1,
        heads = { sr.nn.heads.tokens { labels = labels, crf = true, scheme = scheme } } }
      local chain = schemes.of_head(with_transitions(head:initialise(1)).heads[1])
      for words = 1, 5 do
        local rows, best, most, sum, p = {}, nil, -math.huge, 0, {}
        for i = 1, words do rows[i], p[i] = random_row(3), { 0, 0, 0 } end
        each(words, 3, function(tags)
          for i, tag in ipairs(tags) do
            if scheme == "iob2" and tag == 3 and (tags[i - 1] or 1) == 1 then return end
          end
          local score = score_of(rows, tags, chain)
          if score > most then best, most = table.move(tags, 1, words, 1, {}), score end
          sum = sum + math.exp(score)
          for i, tag in ipairs(tags) do p[i][tag] = p[i][tag] + math.exp(score) end
        end)
        local tags, probabilities = schemes.decode(rows, chain)
        assert.same(best, tags)
        for i, tag in ipairs(tags) do assert.near(p[i][tag] / sum, probabilities[i], 1e-9) end
      end
    end
  end)

  it("is exported with its transitions in a file that Transformers ignores, and predicts as before", function()
    local path = task_model.save(folder, with_transitions(task_model.new(sr.nn.heads.tokens {
      labels = { "O", "B-X", "I-X" }, crf = true, scheme = "iob2" })))
    assert.matches("note: crf.safetensors has the transitions", program.ok { "export", path, folder .. "/out" })
    local theirs = sr.must(sr.checkpoint.read_tensors(folder .. "/out/model.safetensors"))
    for name in pairs(theirs) do assert.is_nil(name:find("crf.", 1, true)) end
    assert.matches("The CRF of its tags", sys.read_file(folder .. "/out/README.md"))
    local text = task_model.text(25, 3)
    local wanted = sr.must(sr.predict.open(path)):one(text)
    assert.same(wanted, sr.must(sr.predict.open(folder .. "/out")):one(text))
    assert.not_same(wanted.tags, sr.must(sr.predict.open(path, { decode = "greedy" })):one(text).tags)
    sys.remove(folder .. "/out/crf.safetensors")
    assert.matches("has no tensor 'crf.", select(3, program.run { "predict", folder .. "/out", "--text" }))
  end)

  it("trains in a run, and goes on after a stop as if there had been none", function()
    local given, base = task_files.write(folder, "tokens"), task_files.encoder(folder .. "/base")
    local function run(out, ...)
      return program.run(task_files.finetune(folder, "tokens", given, base, "epochs=1", "batch.sequences=120",
        "rate.peak=1e-3", "tune.crf=true", "--out", folder .. "/" .. out, "--quiet", ...))
    end
    program.works(run("whole"))
    program.works(run("stopped", "--max-steps", "2"))
    program.works(run("stopped", "--resume"))
    assert.same(small.weights(folder .. "/whole", 4), small.weights(folder .. "/stopped", 4))
    program.exits(2, "tune.label_smoothing is for the loss of each word", run("no", "tune.label_smoothing=0.1"))
    program.exits(2, "tune.class_weights is for the loss of each word", run("no", "tune.class_weights=balanced"))
    program.exits(2, "eval.decode=greedy would not use the transitions", run("no", "eval.decode=greedy"))
    assert.is_true(json.decode(sys.read_file(sr.must(require("seqrun.checkpoint.directory").resolve(folder .. "/whole"))
      .. "/config.json")).seqrun_head.crf)
  end)
end)
