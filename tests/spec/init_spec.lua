-- Starting from directories that others wrote: configs, tokenizers, shards, names with and without a prefix, heads.

local checkpoint = require("seqrun.checkpoint")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local none = require("tests.support.none")

local TINY = "tests/data/model/tiny"

local function tiny_config() return json.decode(sr.must(sys.read_file(TINY .. "/config.json"))) end

describe("a pretrained directory", function()
  local dir
  before_each(function() dir = program.folder() end)
  after_each(function() sys.remove(dir) end)

  ---Writes config.json: the tiny one with changes (json.null removes a key).
  local function config(changes)
    local whole = tiny_config()
    for key, value in pairs(changes or {}) do whole[key] = value end
    program.write(dir, "config.json", json.encode(whole))
  end

  ---Writes the tiny model's tensors, with other names where `rename` gives one; false leaves a tensor out.
  local function tensors(rename, file)
    local all = sr.must(checkpoint.read_tensors(TINY .. "/model.safetensors"))
    local renamed = {}
    for name, t in pairs(all) do
      local new = rename(name)
      if new then renamed[new] = t end
    end
    sr.must(checkpoint.write_tensors(dir .. "/" .. (file or "model.safetensors"), renamed))
  end

  local function same(name) return name end

  it("gives its encoder, heads, vocabulary and case", function()
    local facts = sr.must(checkpoint.pretrained(TINY))
    assert.same({ "mlm", "nsp" }, facts.heads)
    assert.equal(32, facts.config.hidden_size)
    assert.is_nil(facts.kind)
    assert.equal(sys.read_file(TINY .. "/vocab.txt"), facts.tokenizer.content)
    local bert, again, report = sr.must(sr.nn.pretrained(TINY))
    assert.same({ 0, "bert" }, { #report.missing, tostring(bert):match("^%a+") })
    assert.equal(facts.path, again.path)
  end)

  it("may come from Transformers 5: tokenizer.json alone, a limit above 64 bits, unknown keys", function()
    config { dtype = "float32", rope_parameters = json.null, some_future_key = { 1 } }
    tensors(same)
    local vocab = sr.must(sys.read_file(TINY .. "/vocab.txt"))
    program.write(dir, "tokenizer.json", require("seqrun.text.tokenizer_json")(vocab, { lowercase = true }))
    program.write(dir, "tokenizer_config.json",
      '{"do_lower_case": false, "strip_accents": null, "model_max_length": 1000000000000000019884624838656}')
    local facts = sr.must(checkpoint.pretrained(dir))
    local opened = sr.must(facts.tokenizer:open { literal = true })
    assert.same({ vocab, false, false }, { opened:plain() }) -- tokenizer_config.json decides on the casing
    assert.is_nil(facts.config.some_future_key)
    program.write(dir, "tokenizer.json", json.encode { model = { type = "WordPiece", vocab = { a = 7 } } })
    none("data", "tokenizer.json", sr.must(checkpoint.pretrained(dir)).tokenizer:open { literal = true })
  end)

  it("may have no prefix, no pooler and no heads", function()
    config { architectures = { "BertModel" } }
    tensors(function(name) return name:match("^bert%.(.*)$") end)
    local bert, _, report = sr.must(sr.nn.pretrained(dir, { heads = { "mlm" }, seed = 5 }))
    local whole = sr.must(sr.nn.pretrained(TINY))
    local name = "bert.encoder.layer.1.output.dense.weight"
    assert.equal(whole.params:value_of(name):tostring_bytes(), bert.params:value_of(name):tostring_bytes())
    local told = tostring(report)
    assert.matches("missing +5 +cls.predictions +not in the checkpoint; initialised with seed 5", told)
    assert.matches("cls.predictions.transform.dense.weight, ", told)
    assert.matches("ignored +2 +pooler.dense +not in the model\n +pooler.dense.bias, pooler.dense.weight", told)
    assert.equal(0, #select(3, sr.must(sr.nn.pretrained(dir, { heads = {} }))).missing)
  end)

  it("names the tensors that layers lack, once for all layers", function()
    config()
    tensors(function(name) return not name:find("output.dense") and name or nil end)
    local _, _, report = sr.must(sr.nn.pretrained(dir))
    local told = "missing +8 +bert.encoder.layer.%* .-\n +layers 0, 1: attention.output.dense.weight, "
    assert.matches(told, tostring(report))
  end)

  it("reports its task and its labels", function()
    local function facts(changes)
      config(changes)
      return checkpoint.pretrained(dir)
    end
    tensors(same)
    local sequences = { "BertForSequenceClassification" }
    local three = facts { architectures = sequences, id2label = { ["1"] = "b", ["0"] = "a", ["2"] = "c" } }
    assert.same({ "classify", 3, { "a", "b", "c" } }, { three.kind, three.outputs, three.labels })
    assert.equal("regress", facts({ architectures = sequences, id2label = { ["0"] = "LABEL_0" } }).kind)
    local many = { architectures = sequences, problem_type = "multi_label_classification" }
    assert.same({ "multilabel", 2, nil }, { facts(many).kind, facts(many).outputs, facts(many).labels })
    many.id2label = { ["0"] = "LABEL_0", ["1"] = "LABEL_1", ["2"] = "LABEL_2" }
    assert.same({ 3, nil }, { facts(many).outputs, facts(many).labels })
    assert.same({ "3", "5" }, facts({ architectures = sequences, id2label = { ["0"] = 3, ["1"] = 5 } }).labels)
    facts { architectures = sequences, id2label = { ["0"] = "a" }, problem_type = "single_label_classification" }
    none("data", "config.json: the task classify needs at least 2 classes, but its head has 1", sr.nn.pretrained(dir))
    assert.equal("tokens", facts({ architectures = { "BertForTokenClassification" } }).kind)
    assert.same({ "squad", 2 }, { facts({ architectures = { "BertForQuestionAnswering" } }).kind, 2 })
    assert.equal(1, facts({ architectures = { "BertForMultipleChoice" } }).outputs)
    local _, message, code = facts { architectures = sequences, id2label = { ["0"] = "a", ["2"] = "c" } }
    assert.same({ "data", true }, { code, message:find("id2label does not number", 1, true) ~= nil })
  end)

  it("is rejected if it is another architecture", function()
    tensors(same)
    config { model_type = "albert" }
    none("data", "the family 'albert' is not supported: it needs layers that share their parameters",
      checkpoint.pretrained(dir))
    for key, value in pairs { position_embedding_type = "relative_key", is_decoder = true } do
      config { [key] = value }
      none("data", key .. " = .* is not supported", checkpoint.pretrained(dir))
    end
    config { hidden_act = "selu" }
    assert.matches("hidden_act 'selu' is not supported", (select(2, checkpoint.pretrained(dir))))
    config()
    program.write(dir, "vocab.txt", sr.must(sys.read_file(TINY .. "/vocab.txt")))
    assert.equal("missing", (select(3, checkpoint.pretrained(dir .. "/nowhere"))))
    local pickled = program.folder()
    program.write(pickled, "pytorch_model.bin", "PK")
    none("data", "has pytorch_model.bin %(a pickle", checkpoint.pretrained(pickled))
    assert.matches("expected a directory", (select(2, checkpoint.pretrained(dir .. "/model.safetensors"))))
  end)

  it("initializes parameters that should be new, whatever their shape in the file", function()
    config()
    tensors(same)
    local bert = sr.nn.bert(sr.must(checkpoint.pretrained(dir)).config)
    local fresh = { "cls.seq_relationship.weight", "cls.seq_relationship.bias" }
    local report = sr.must(checkpoint.load(dir, { model = bert.params, seed = 3, fresh = fresh })).report
    assert.matches("missing +2 +cls.seq_relationship +new; initialised with seed 3", tostring(report))
    local wanted = sr.nn.bert(tiny_config()):initialise(3).params:value_of(fresh[1])
    assert.equal(wanted:tostring_bytes(), bert.params:value_of(fresh[1]):tostring_bytes())
    assert.equal(0, #report.ignored)
  end)
end)
