-- Files of every family under other names: older ones, bare encoders, shards, tensors twice.

local families = require("tests.support.families")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local tensor_file = require("seqrun.checkpoint.tensor_file")

local function tensors_of(name) return sr.must(tensor_file.read(families.ROOT .. name .. "/model.safetensors")) end

---A directory with these tensors and the config of a family.
local function directory(name, tensors, architecture)
  local folder = program.folder()
  local config = json.decode(sr.must(sys.read_file(families.ROOT .. name .. "/config.json")))
  if architecture then config.architectures = { architecture } end
  program.write(folder, "config.json", json.encode(config))
  sr.must(tensor_file.write(folder .. "/model.safetensors", tensors))
  return folder
end

---Asserts that a directory gives the weights of the family's directory, all of them.
local function same(name, folder, options)
  local wanted = sr.must(sr.nn.pretrained(families.ROOT .. name, options))
  local got, _, report = sr.must(sr.nn.pretrained(folder, options))
  assert.equal(0, #report.missing, tostring(report))
  for _, one in ipairs(report.ignored) do
    assert.is_true(one.known or one.name:find("discriminator_predictions") ~= nil, one.name)
  end
  assert.same(wanted.params:names(), got.params:names())
  for _, own in ipairs(wanted.params:names()) do
    assert.equal(wanted.params:value_of(own):tostring_bytes(), got.params:value_of(own):tostring_bytes(), own)
  end
end

local function renamed(name, rename)
  local tensors = {}
  for own, value in pairs(tensors_of(name)) do tensors[rename(own)] = value end
  return tensors
end

local function prefix_of(name) return require("seqrun.nn.families").find(name).prefix end

---Model types of the directories.
local TYPES = { xlm_roberta = "xlm-roberta", modernbert_bias = "modernbert", eurobert_tied = "eurobert" }

describe("the names of tensors", function()
  for _, name in ipairs(families.names()) do
    local discriminator = name:find("discriminator")
    local prefix = prefix_of(TYPES[name] or name:gsub("_discriminator", ""))

    it(("of a bare encoder have no prefix: %s"):format(name), function()
      local bare = {}
      for own, value in pairs(tensors_of(name)) do
        if own:sub(1, #prefix) == prefix then bare[own:sub(#prefix + 1)] = value end
      end
      local class = require("seqrun.nn.families").find(TYPES[name] or name:gsub("_discriminator", "")).class
      same(name, directory(name, bare, class .. "Model"), { heads = {} })
    end)

    if not discriminator then
      it(("may begin with module, norms may be gamma and beta: %s"):format(name), function()
        same(name, directory(name, renamed(name, function(own)
          if own:lower():find("norm") then own = own:gsub("weight$", "gamma"):gsub("bias$", "beta") end
          return "module." .. own
        end)))
      end)
    end
  end

  ---Files that repeat tensors or hold buffers.
  local EXTRA = {
    roberta = {
      ["lm_head.decoder.weight"] = "roberta.embeddings.word_embeddings.weight",
      ["lm_head.decoder.bias"] = "lm_head.bias",
    },
    modernbert = { ["decoder.weight"] = "model.embeddings.tok_embeddings.weight" },
    distilbert = { ["vocab_projector.weight"] = "distilbert.embeddings.word_embeddings.weight" },
    electra = { ["generator_lm_head.weight"] = "electra.embeddings.word_embeddings.weight" },
    nomic_bert = { ["cls.predictions.decoder.weight"] = "nomic_bert.embeddings.word_embeddings.weight" },
    gte = { ["lm_head.decoder.weight"] = "gte.embeddings.word_embeddings.weight" },
    eurobert_tied = { ["lm_head.weight"] = "model.embed_tokens.weight" },
  }
  for name, extra in pairs(EXTRA) do
    it("may repeat the word embeddings as decoder, and hold buffers: " .. name, function()
      local tensors = tensors_of(name)
      for other, own in pairs(extra) do tensors[other] = tensors[own] end
      if tensors["roberta.embeddings.word_embeddings.weight"] then
        tensors["roberta.embeddings.position_ids"] = sr.arange(0, 9)
      end
      same(name, directory(name, tensors))
    end)
  end

  local OLDER = {
    gte = function(own) return (own:gsub("^gte%.", "new.")) end,
    nomic_bert = function(own) return (own:gsub("^nomic_bert%.", "bert.")) end,
    modernbert = function(own)
      return (own:gsub("^model%.layers%.", "bert.encoder.layers."):gsub("^model%.", "bert."))
    end,
  }
  for name, rename in pairs(OLDER) do
    it("may be those of the authors' own code: " .. name, function()
      same(name, directory(name, renamed(name, rename)))
    end)
  end

  it("may be spread over shards", function()
    for _, name in ipairs(families.names()) do
      local tensors, parts, map, i = tensors_of(name), { {}, {} }, {}, 0
      for own, value in pairs(tensors) do
        i = i + 1
        parts[i % 2 + 1][own], map[own] = value, ("model-0000%d-of-00002.safetensors"):format(i % 2 + 1)
      end
      local folder = directory(name, tensors)
      os.remove(folder .. "/model.safetensors")
      for k, part in ipairs(parts) do
        sr.must(tensor_file.write(("%s/model-0000%d-of-00002.safetensors"):format(folder, k), part))
      end
      program.write(folder, "model.safetensors.index.json", json.encode { weight_map = map })
      same(name, folder, name:find("discriminator") and { heads = {} } or nil)
    end
  end)

  it("that are missing, too many or of another shape are listed", function()
    for _, name in ipairs(families.names()) do
      local tensors = tensors_of(name)
      local first
      for own in pairs(tensors) do
        if own:find("[01]") and (not first or own < first) then first = own end
      end
      local value = tensors[first]
      tensors[first], tensors["left.over"] = nil, value
      local _, _, report = sr.must(sr.nn.pretrained(directory(name, tensors)))
      assert.equal(first, report.missing[1].name)
      local listed = false
      for _, one in ipairs(report.ignored) do listed = listed or one.name == "left.over" and not one.known end
      assert.is_true(listed, tostring(report))
      tensors["left.over"], tensors[first] = nil, sr.zeros(7, 5)
      local model, message = sr.nn.pretrained(directory(name, tensors))
      assert.is_nil(model)
      assert.is_truthy(message:find(first, 1, true) and message:find("(7, 5)", 1, true), message)
    end
  end)
end)
