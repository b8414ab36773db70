-- Export to and import from Hugging Face directories: the same weights, names and vocabulary, or nothing at all.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")
local tensor_file = require("seqrun.checkpoint.tensor_file")

local folder, source, bert

before_each(function()
  folder = program.folder()
  bert = task_model.new("mlm", "nsp")
  source = task_model.save(folder .. "/run", bert)
end)

local function read_json(path) return json.decode(sr.must(sys.read_file(path))) end

---Asserts that a directory has the weights of `bert`, to the bit.
local function same_weights(path)
  local other = sr.must(sr.nn.pretrained(path))
  assert.same(bert.params:names(), other.params:names())
  for _, name in ipairs(bert.params:names()) do
    assert.equal(bert.params:value_of(name):tostring_bytes(), other.params:value_of(name):tostring_bytes(), name)
  end
end

---The weights in the manner of older files: other names, buffers, tensors twice.
local function old_fashioned(dir)
  local tensors = {}
  for name, tensor in pairs(sr.must(tensor_file.read(source .. "/model.safetensors"))) do
    name = name:gsub("LayerNorm%.weight$", "LayerNorm.gamma"):gsub("LayerNorm%.bias$", "LayerNorm.beta")
    tensors["module." .. name] = tensor
  end
  tensors["module.cls.predictions.decoder.weight"] = tensors["module.bert.embeddings.word_embeddings.weight"]
  tensors["bert.embeddings.position_ids"] = sr.arange(0, 9)
  program.copy(source, dir, { "config.json", "vocab.txt", "tokenizer_config.json" })
  sr.must(tensor_file.write(dir .. "/model.safetensors", tensors))
  return dir
end

describe("export", function()
  it("writes what Hugging Face reads, and nothing else", function()
    local out = folder .. "/out"
    local facts = program.json { "export", folder .. "/run", out, "--json" }
    assert.same({ "README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
      "vocab.txt" }, sr.must(sys.list(out)))
    assert.same({ "BertForPreTraining", "f32", bert.params:count(), #bert.params:names() },
      { facts.architecture, facts.dtype, facts.parameters, #facts.tensors })
    same_weights(out)
    local tokenizer = read_json(out .. "/tokenizer.json")
    local vocab = sr.must(sr.text.vocab(task_model.VOCAB))
    for id = 0, #vocab - 1 do assert.equal(id, tokenizer.model.vocab[vocab:token(id)]) end
    assert.same({ "[PAD]", true, json.null }, {
      tokenizer.added_tokens[1].content, tokenizer.normalizer.lowercase, tokenizer.normalizer.strip_accents,
    })
  end)

  it("leaves out the heads, and halves the weights, if asked to", function()
    local out = folder .. "/out"
    local facts = sr.must(sr.checkpoint.export(source, out, { encoder = true, dtype = "bf16" }))
    local config = read_json(out .. "/config.json")
    assert.same({ "BertModel", "bfloat16" }, { config.architectures[1], config.dtype })
    local tensors = sr.must(tensor_file.read(out .. "/model.safetensors"))
    assert.is_nil(tensors["bert.embeddings.word_embeddings.weight"])
    local mine = bert.params:value_of("bert.embeddings.word_embeddings.weight")
    local theirs = tensors["embeddings.word_embeddings.weight"]
    assert.equal(mine:to("bf16"):to("f32"):tostring_bytes(), theirs:tostring_bytes())
    assert.is_true(facts.bytes < 0.6 * sys.stat(source .. "/model.safetensors").size)
    for _, one in ipairs(facts.tensors) do
      assert.equal("bf16", one.dtype)
      assert.is_nil(one.name:find("^cls"))
    end
    sr.must(sr.encode.open(out)):one("a day")
  end)

  it("replaces only what it wrote, and only with --force", function()
    local out = folder .. "/out"
    assert.equal(0, (program.run { "export", source, out }))
    program.refuses(2, "is not empty; choose another directory, or replace it with %-%-force",
      program.run { "export", source, out, "--json" })
    assert.equal(0, (program.run { "export", source, out, "--force", "--encoder" }))
    assert.equal("BertModel", read_json(out .. "/config.json").architectures[1])
    program.refuses(2, "is not an exported model", program.run { "export", source, folder .. "/run", "--force" })
    assert.equal(2, (program.run { "export", out, source, "--force" }))
    sr.must(sr.checkpoint.verify(source))
  end)

  it("refuses a damaged checkpoint and leaves nothing behind", function()
    local bytes = sr.must(sys.read_file(source .. "/model.safetensors"))
    program.write(source, "model.safetensors", bytes:sub(1, -2) .. (bytes:sub(-1) == "a" and "b" or "a"))
    assert.equal(3, (program.run { "export", source, folder .. "/out" }))
    assert.is_false(sys.exists(folder .. "/out"))
    for _, name in ipairs(sys.list(folder)) do assert.is_nil(name:find("^%.out"), name) end
    assert.equal(3, (program.run { "export", folder .. "/none", folder .. "/out" }))
  end)
end)

describe("import", function()
  it("makes a verified checkpoint with today's names of any spelling", function()
    local dir = old_fashioned(folder .. "/old")
    local facts = program.json { "import", dir, folder .. "/new", "--json" }
    assert.same({ "mlm", "nsp" }, { facts.heads[1], facts.heads[2] })
    assert.same({ 2, 0 }, { #facts.left_out, #facts.missing })
    assert.equal(0, sr.must(sr.checkpoint.verify(folder .. "/new/step-000000000")))
    same_weights(folder .. "/new")
    local names = sr.must(tensor_file.read(facts.path .. "/model.safetensors"))
    for _, name in ipairs(bert.params:names()) do assert.truthy(names[name], name) end
  end)

  it("takes the vocabulary from tokenizer.json", function()
    local dir = folder .. "/exported"
    sr.must(sr.checkpoint.export(source, dir))
    for _, name in ipairs { "vocab.txt", "tokenizer_config.json" } do os.remove(dir .. "/" .. name) end
    assert.equal(0, (program.run { "import", dir, folder .. "/new" }))
    same_weights(folder .. "/new")
    assert.equal(sr.must(sys.read_file(task_model.VOCAB)),
      sr.must(sys.read_file(folder .. "/new/step-000000000/vocab.txt")))
  end)

  it("says what is missing, and what the weights are instead", function()
    local dir = old_fashioned(folder .. "/old")
    local tensors = sr.must(tensor_file.read(source .. "/model.safetensors"))
    tensors["cls.seq_relationship.weight"] = nil
    tensors["gate.weight"] = tensors["cls.seq_relationship.bias"]
    sr.must(tensor_file.write(dir .. "/model.safetensors", tensors))
    local out = program.ok { "import", dir, folder .. "/new" }
    assert.matches("missing   cls.seq_relationship.weight: it will be new", out)
    assert.matches("extra     gate.weight: not used by any head; kept", out)
    os.remove(dir .. "/model.safetensors")
    program.write(dir, "pytorch_model.bin", "PK")
    program.refuses(3, "has pytorch_model.bin %(a pickle, which may execute code%), but no model.safetensors",
      program.run { "import", dir, folder .. "/other" })
    program.refuses(3, "no such.*; did you mean '.*/old'",
      program.run { "import", folder .. "/odl", folder .. "/other" })
    assert.is_false(sys.exists(folder .. "/other"))
  end)

  it("refuses weights that do not fit the config, and a directory in use", function()
    local dir = old_fashioned(folder .. "/old")
    fails.exiting(2, "run is not empty", { "import", dir, folder .. "/run" })
    local config = read_json(dir .. "/config.json")
    config.intermediate_size = config.intermediate_size + 8
    program.write(dir, "config.json", json.encode(config))
    local _, err = fails.exiting(3, "has shape", { "import", dir, folder .. "/new" })
    assert.matches("further tensors do not fit: .*intermediate%.dense%.bias, .*;", err)
    assert.is_false(sys.exists(folder .. "/new"))
  end)
end)
