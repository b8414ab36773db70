-- What sr.encode, sr.fill and sr.predict share: options are checked, items stay the caller's, failures are values.

local none = require("tests.support.none")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local OPEN = {
  encode = { open = sr.encode.open, heads = { "mlm" } },
  fill = { open = sr.fill.open, heads = { "mlm" } },
  predict = { open = sr.predict.open, heads = { sr.nn.heads.classify { labels = { "no", "yes" } } } },
  score = { open = sr.score.open, heads = { "mlm" } },
}

---Values that an option of a kind refuses.
local BAD = {
  integer = { -5, 0, 0 / 0, 3.5, "x", math.huge, {}, false }, number = { "x", {}, true, 0 / 0 },
  boolean = { 1, "yes", {}, 0 }, string = { 1, {}, true }, choice = { "max", 1, {}, true },
}

---The other options, by function: the kind of each.
local OPTIONS = {
  encode = { pool = "choice", normalise = "boolean", prompt = "string", average = "boolean" },
  fill = { top = "integer", words = "boolean", average = "boolean" },
  predict = {
    nbest = "integer", stride = "integer", longest_answer = "integer", null_threshold = "number", head = "string",
    average = "boolean",
  },
  score = { average = "boolean" },
}

describe("a model that is opened for inference", function()
  local dir, paths
  setup(function()
    dir, paths = program.folder(), {}
    for name, one in pairs(OPEN) do
      paths[name] = task_model.save(("%s/%s"):format(dir, name), task_model.new(table.unpack(one.heads)))
    end
  end)

  ---A copy of a model with another vocabulary; none for nil.
  local function with_vocab(name, vocab)
    local folder = ("%s/%s-%s"):format(dir, name, vocab and #vocab or "none")
    program.copy(paths[name], folder, { "config.json", "model.safetensors" })
    if vocab then program.write(folder, "vocab.txt", vocab) end
    return folder
  end

  for name, one in pairs(OPEN) do
    local function refusal(options)
      local good, message = pcall(function()
        local opened = one.open(paths[name], options)
        return opened
      end)
      assert.is_false(good, ("%s of %s"):format(next(options)))
      return message
    end

    it(("by sr.%s.open has a max_len and rows in range"):format(name), function()
      for _, key in ipairs { "max_len", "rows" } do
        for _, value in ipairs { -5, 0, 0 / 0, 3.5, "x", math.huge, {}, false } do
          assert.matches(("inference_spec.lua:%%d+: %s.open: %s must be an integer"):format(name, key),
            refusal { [key] = value })
        end
      end
      assert.matches(name .. ".open: max_len must be an integer from 4 to %d+, got 3$", refusal { max_len = 3 })
      none("config", "has 64 positions, fewer than max_len 65", one.open(paths[name], { max_len = 65 }))
      assert.matches("did you mean 'max_len'", refusal { max_lne = 8 })
      assert.matches("precision must be one of f32, bf16, got 'f16'", refusal { precision = "f16" })
      for _, options in ipairs { { max_len = 4 }, { max_len = 64, rows = 1 }, { max_len = 8.0, rows = 64.0 } } do
        local text = name == "score" and "is" or "[MASK] is here"
        assert.is_table(sr.must(one.open(paths[name], options)):one(text))
      end
    end)

    it(("by sr.%s.open has each option of its kind"):format(name), function()
      for key, kind in pairs(OPTIONS[name]) do
        for _, value in ipairs(BAD[kind]) do
          assert.matches(("inference_spec.lua:%%d+: %s.open: %s must be "):format(name, key), refusal { [key] = value })
        end
      end
    end)

    it(("by sr.%s.open needs a vocabulary that fits: else nil, a message and a code"):format(name), function()
      none("data", "has neither tokenizer.json nor vocab.txt", one.open(with_vocab(name, nil)))
      local words = sr.must(sys.read_file(task_model.VOCAB))
      local opened, message, code = one.open(with_vocab(name, words .. ("more\n"):rep(3):gsub("more", { "x1" })))
      assert.is_nil(opened)
      assert.same({ "string", "string" }, { type(message), type(code) })
      local more = {}
      for i = 1, 100 do more[i] = ("another%d\n"):format(i) end
      none("data", "the vocabulary has %d+ tokens, but the model only %d+",
        one.open(with_vocab(name, words .. table.concat(more))))
    end)
  end

  it("leaves the caller's items as they are, so that a second call gives the same", function()
    local plain, item = sr.must(sr.encode.open(paths.encode)), { text = "it is here", pair = "the" }
    local prompted = sr.must(sr.encode.open(paths.encode, { prompt = "the " }))
    local wanted = plain:one { text = "the it is here", pair = "the" }
    for _ = 1, 2 do assert.same(wanted, prompted:one(item)) end
    assert.same({ "it is here", "the" }, { item.text, item.pair })

    local fill, line = sr.must(sr.fill.open(paths.fill)), { text = "it is here" }
    assert.matches("no %[MASK%]", fill:each { line }().error)
    line.text = "[MASK] is here"
    assert.equal(1, #fill:one(line).masks)
    assert.is_nil(line.wrong)
  end)
end)

it("opening without a path, or with something else, is refused at the line of the caller", function()
  for name, module in pairs { predict = sr.predict, encode = sr.encode, fill = sr.fill, score = sr.score } do
    for _, given in ipairs { 5, false } do
      local _, message = pcall(function() return module.open(given or nil) end)
      assert.matches(("^%%S*inference_spec.lua:%%d+: %s.open: path"):format(name), message)
    end
  end
end)

describe("windows of a long context", function()
  local function answer(options)
    local o = { tokenizer = task_model.tokenizer(), max_len = 64 }
    for key, value in pairs(options) do o[key] = value end
    local predictor = sr.predict.new(task_model.new(sr.nn.heads.squad {}), o)
    return predictor
  end
  local context = ("it is here "):rep(40)

  it("advance by at least one token, so that reading them ends", function()
    for _, options in ipairs {
      { stride = 1 }, { stride = 1000 }, { max_len = 4 }, { max_len = 5, stride = 1 }, { max_len = 6, stride = 128 },
    } do
      assert.equal("string", type(answer(options):one { question = "the it is here", context = context }.answer))
    end
    for _, key in ipairs { "stride", "longest_answer", "nbest" } do
      for _, value in ipairs { 0, -3, 0.5, 0 / 0, "8", math.huge } do
        local _, message = pcall(function() answer { [key] = value } end)
        assert.matches(("inference_spec.lua:%%d+: predict.new: %s must be an integer"):format(key), message)
      end
    end
    assert.error_matches(function() answer { null_threshold = 0 / 0 } end, "null_threshold must be a number, got NaN")
    assert.error_matches(function() answer { max_len = 65 } end, "the model has 64 position embeddings")
  end)

  it("have a stride that is at least 1 on the command line and in sr.data.read", function()
    for _, word in ipairs { "0", "0.5", "nan", "x", "" } do
      program.exits(2, "is not an integer from 1 to 65535",
        program.run({ "predict", "tests/data/model/tiny", "--stride", word }))
    end
    for _, value in ipairs { 0, -1, 0.5, 0 / 0, "x" } do
      local _, message = pcall(function()
        sr.data.read { task = "squad", files = "x.json", out = "x.sqr", vocab = task_model.VOCAB, stride = value }
      end)
      assert.matches("inference_spec.lua:%d+: data.read: stride must be an integer from 1", message)
    end
  end)
end)
