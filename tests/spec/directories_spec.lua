-- Directories of Transformers and sentence-transformers, whatever of it is said in which file: the ids and the vectors
-- that they make of texts (tests/peers/directories.py).

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local merged = require("tests.support.with")
local task_model = require("tests.support.task_model")
local tensor_file = require("seqrun.checkpoint.tensor_file")
local tokenizer_json = require("seqrun.text.tokenizer_json")

local DATA = "tests/data/"
local function read_json(name) return json.decode(sr.must(sys.read_file(DATA .. "directories/" .. name))) end
local cases, wanted = read_json("cases.json"), read_json("wanted.json")

---Weights that Lua and Python compute alike.
local function formula(rows, columns, a, b, modulus)
  local list = {}
  for i = 0, rows - 1 do
    list[i + 1] = {}
    for j = 0, columns - 1 do list[i + 1][j + 1] = ((i * a + j * b) % modulus - modulus // 2) / 64 end
  end
  return sr.tensor(list)
end

local function write_dense(folder, dense)
  local tensors = {
    ["linear.weight"] = formula(dense.outputs, 32, 31, 17, 23),
    ["linear.bias"] = formula(dense.outputs, 1, 7, 0, 5):reshape(-1),
    ["residual.weight"] = dense.residual and formula(dense.outputs, 32, 13, 29, 19) or nil,
  }
  sr.must(tensor_file.write(("%s/%s/model.safetensors"):format(folder, dense.path), tensors))
end

---The directory of a case.
local function make(case)
  local folder = program.folder() .. "/model"
  program.copy(DATA .. "model/tiny", folder, { "config.json", "model.safetensors" })
  local words = cases.words:gsub(" ", "\n") .. "\n"
  if not case.json then program.write(folder, "vocab.txt", words) end
  if case.json == "bert" then
    program.write(folder, "tokenizer.json", tokenizer_json(words, { lowercase = true }))
  elseif case.json then
    program.copy(DATA .. "families/" .. case.json, folder, { "config.json", "tokenizer.json" })
  end
  for name, value in pairs(case.files) do
    sr.must(sys.make_dirs(folder .. "/" .. (name:match("^(.*)/") or "")))
    program.write(folder, name, json.encode(value))
  end
  if case.dense then write_dense(folder, case.dense) end
  return folder
end

describe("the tokens of a directory are those of Transformers:", function()
  for _, case in ipairs(cases.tokens) do
    it(case.name, function()
      local tokenizer = sr.must(sr.text.tokenizer { path = make(case) })
      for i, text in ipairs(case.texts or cases.texts) do
        assert.same(wanted.tokens[case.name][i], (tokenizer:encode(text, { specials = true })), text)
      end
    end)
  end
end)

it("a vocab.txt whose special tokens have other names is refused", function()
  for role, usual in pairs { cls_token = "%[CLS%]", unk_token = "%[UNK%]" } do
    local folder = make { files = { ["tokenizer_config.json"] = { [role] = "<s>" } } }
    fails.returning("data", "has the " .. role .. " '<s>', which with a vocab.txt can only be " .. usual .. "; save",
      sr.text.tokenizer { path = folder })
  end
end)

describe("the vectors of a directory are those of sentence-transformers:", function()
  for _, case in ipairs(cases.vectors) do
    it(case.name, function()
      local encode = sr.must(sr.encode.open(make(case), {
        prompt = case.prompt, parse_specials = case.sentences ~= nil,
      }))
      for i, text in ipairs(case.sentences or cases.sentences) do
        local vector = encode:one(text, case.role)
        assert.equal(#wanted.vectors[case.name][i], #vector)
        for k, x in ipairs(vector) do assert.is_near(wanted.vectors[case.name][i][k], x, 2e-5, text) end
      end
    end)
  end
end)

---A directory with some other files.
local function sentences(changes)
  local files = { ["modules.json"] = cases.vectors[1].files["modules.json"] }
  for name, value in pairs(changes) do files[name] = value end
  return make { files = files }
end

---A directory with the files of a model of another program, of which one has another value.
local function changed(trained, name, key, value)
  local folder = program.folder()
  program.copy(trained, folder, { "config.json", "model.safetensors", "vocab.txt" })
  local object = json.decode(sr.must(sys.read_file(folder .. "/config.json")))
  if name ~= "config.json" then object = {} end
  object[key] = value
  program.write(folder, name, json.encode(object))
  return folder
end

it("values of config.json that make no sense are refused, and what is not done is said", function()
  local trained = task_model.save(program.folder(), task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } }))
  local function of(key, value) return changed(trained, "config.json", key, value) end
  fails.returning("data", "has no task head", sr.predict.open(of("architectures", json.array { 5 })))
  fails.returning("data", "id2label has the name 'a' twice; give each class its own",
    sr.predict.open(of("id2label", { ["0"] = "a", ["1"] = "a" })))
  local _, err = program.ok({ "predict", of("quantization_config", { bits = 4 }) }, { input = "the\n" })
  assert.matches("config.json has a quantization_config; here the weights are used as they are stored", err)
end)

it("a cross-encoder has the activation of its directory in predictions and scores, or is refused", function()
  local trained = task_model.save(program.folder(), task_model.new(sr.nn.heads.regress { outputs = 1 }))
  local function of(...) return changed(trained, ...) end
  local sigmoid = "torch.nn.modules.activation.Sigmoid"
  local plain = sr.must(sr.predict.open(of("config.json", "sentence_transformers", { version = "4" }))):one("the").value
  for _, folder in ipairs {
    of("config.json", "sentence_transformers", { activation_fn = sigmoid }),
    of("config.json", "sbert_ce_default_activation_function", sigmoid),
    of("config_sentence_transformers.json", "activation_fn", sigmoid),
  } do
    assert.near(1 / (1 + math.exp(-plain)), sr.must(sr.predict.open(folder)):one("the").value, 1e-6)
  end
  local identity = of("config.json", "sentence_transformers", { activation_fn = "torch.nn.Identity" })
  assert.equal(plain, sr.must(sr.predict.open(identity)):one("the").value)
  fails.returning("data", "its activation_fn is Tanh, which the outputs of task=regress cannot have; remove the key",
    sr.predict.open(of("config.json", "sentence_transformers", { activation_fn = "torch.nn.Tanh" })))
end)

it("a decoder with other values than the embeddings that it repeats is a warning", function()
  local saved = task_model.save(program.folder(), task_model.new("mlm"))
  local tensors = sr.must(tensor_file.read(saved .. "/model.safetensors"))
  for times, warns in pairs { [1] = false, [2] = true } do
    local folder = program.folder()
    program.copy(saved, folder, { "config.json", "vocab.txt" })
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"] * times
    sr.must(tensor_file.write(folder .. "/model.safetensors", tensors))
    local _, err = program.ok { "fill", folder, "-t", "the [MASK]" }
    assert.equal(warns, err:find("decoder.weight is not used, as it repeats bert.embed", 1, true) ~= nil)
  end
end)

describe("a directory of sentence-transformers", function()
  local PROMPTS = { prompts = { query = "it is: ", document = "a man " }, default_prompt_name = "query" }

  it("whose vectors cannot be made is refused by the name of what is in the way", function()
    local function problem(pattern, changes)
      fails.returning("data", pattern, sr.encode.open(sentences(changes)))
    end
    local function modules(kind)
      local list = table.move(cases.vectors[1].files["modules.json"], 1, 2, 1, {})
      list[3] = { path = "2_X", type = kind }
      return list
    end
    local DENSE = "sentence_transformers.models.Dense"
    problem("its pooling is cls and mean, concatenated; only one of", {
      ["1_Pooling/config.json"] = { pooling_mode = { "cls", "mean" } },
    })
    problem("it has a module custom_st.Normalize, which is not", { ["modules.json"] = modules("custom_st.Normalize") })
    problem("2_X has module_input_name = token_embeddings; only Dense on the vector", {
      ["modules.json"] = modules(DENSE),
      ["2_X/config.json"] = { out_features = 4, module_input_name = "token_embeddings" },
    })
    problem("2_X has module_output_name = b; only the vector of a text can be normalised", {
      ["modules.json"] = modules("sentence_transformers.models.Normalize"),
      ["2_X/config.json"] = { module_output_name = "b" },
    })
    problem("its transformer_task is fill%-mask; only", {
      ["sentence_bert_config.json"] = { transformer_task = "fill-mask" },
    })
    problem("its model_type is SparseEncoder; only", {
      ["config_sentence_transformers.json"] = { model_type = "SparseEncoder" },
    })
  end)

  it("has keys and files that are not known here, which is a warning, and an adapter is refused", function()
    local known = json.decode(sr.must(sys.read_file(DATA .. "model/tiny/config.json")))
    local folder = sentences {
      ["sentence_bert_config.json"] = { max_seq_length = 9, config_kwargs = { num_hidden_layers = 1 } },
      ["tokenizer_config.json"] = { do_lower_case = true, truncation_side = "left", split_at = "|", ent_token = "w3",
        model_input_names = { "input_ids" } },
      ["config.json"] = merged(known, { is_folded = true, nothing = json.null }), ["heads_config.json"] = { 1 },
      ["1_Pooling/config.json"] = { pooling_mode = "mean", weights = { 1, 2 } },
    }
    local _, _, err = program.run({ "encode", folder }, { input = "the\n" })
    for _, text in ipairs {
      "sentence_bert_config.json has a key 'config_kwargs' that is not known here; if it changes a number",
      "tokenizer_config.json has truncation_side = left; here the end of longer texts is cut",
      "tokenizer_config.json has model_input_names without token_type_ids; here pairs",
      "tokenizer_config.json has a key 'split_at' that", "config.json has a key 'is_folded' that",
      "heads_config.json is a file that is not known here", "1_Pooling/config.json has a key 'weights' that",
    } do
      local _, count = err:gsub("warning: [^\n]*" .. text:gsub("%p", "%%%0"), "")
      assert.equal(1, count, text .. "\n" .. err)
    end
    assert.equal(7, select(2, err:gsub("warning", "")), err)
    program.write(folder, "adapter_config.json", "{}")
    fails.returning("data", "has an adapter %(adapter_config.json%), which is not supported; in Python, merge_and",
      sr.encode.open(folder))
  end)

  it("has prompts by name for encode --prompt", function()
    local folder = sentences { ["config_sentence_transformers.json"] = PROMPTS }
    local function encode(text, ...) return (program.ok({ "encode", folder, ... }, { input = text .. "\n" })) end
    assert.equal(encode("a man the", "--prompt", ""), encode("the", "--prompt", "document"))
    assert.equal(encode("it is: the", "--prompt", ""), encode("the"))
    assert.equal(encode("of the", "--prompt", ""), encode("the", "--prompt", "of "))
    fails.exiting(2, "has no prompt 'documnt'; choose document, query, or give the text itself with the space after it",
      { "encode", folder, "--prompt", "documnt" })
  end)

  it("puts its prompts before queries and documents of recipes/search.lua and recipes/sts.lua", function()
    local with, without = sentences { ["config_sentence_transformers.json"] = PROMPTS }, sentences {}
    local texts, queries = { "the café", "the man", "it and of" }, { "a man", "co" }
    local function search(model, before, question)
      local file = program.write(model, "texts.txt", before .. table.concat(texts, "\n" .. before) .. "\n")
      return (program.ok { "recipes/search.lua", "model=" .. model, "texts=" .. file, question }):gsub("a man ", "")
    end
    assert.equal(search(without, "a man ", "it is: x=y"), search(with, "", "x=y"))
    local function score(model, query, document)
      local place = model .. "/beir"
      sr.must(sys.make_dirs(place .. "/qrels"))
      for name, list in pairs { corpus = texts, queries = queries } do
        local lines = {}
        for i, text in ipairs(list) do
          lines[i] = json.encode { _id = tostring(i), text = (name == "corpus" and document or query) .. text }
        end
        program.write(place, name .. ".jsonl", table.concat(lines, "\n") .. "\n")
      end
      program.write(place, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\t2\t1\n2\t3\t2\n2\t1\t1\n")
      local found = program.json { "recipes/sts.lua", "model=" .. model, "data=" .. place, "format=json" }
      return found.models[1].data[1].metrics
    end
    assert.same(score(without, "it is: ", "a man "), score(with, "", ""))
  end)

  it("puts its prompts before the texts of eval and predict, and of runs with embed.prompts", function()
    local place = program.folder()
    local function encoder(files, name)
      return sr.must(sr.checkpoint.export(sentences(files), place .. "/" .. name, { encoder = true })).path
    end
    local with = encoder({ ["config_sentence_transformers.json"] = PROMPTS }, "with")
    local without = encoder({}, "without")
    local function rows(name, header, before, other)
      local text = header .. "\n"
      local list = "the café|the man|1;it|of and|3;a man|the|2;is it|and café|4"
      for a, b, score in list:gmatch("([^|;]+)|([^|]+)|(%d)") do
        text = text .. before .. a .. "," .. other .. b .. (header:find("score") and "," .. score or "") .. "\n"
      end
      return program.write(place, name, text)
    end
    local function scores(model, file)
      local found = program.json { "eval", model, file, "data.folder=" .. place, "--json" }.metrics
      return { found.spearman, found.ndcg_at_10, found.mrr_at_10 }
    end
    for header, other in pairs { ["sentence1,sentence2,score"] = "it is: ", ["anchor,positive"] = "a man " } do
      local plain, prompted = rows("plain.csv", header, "", ""), rows("prompted.csv", header, "it is: ", other)
      assert.same(scores(without, prompted), scores(with, plain))
    end
    local pairs_of = { input = '{"sentence1": "the man", "sentence2": "it"}\n' }
    local columns = { "columns.text=sentence1", "columns.pair=sentence2", "--format", "jsonl" }
    local like = program.ok({ "predict", without, table.unpack(columns) },
      { input = '{"sentence1": "it is: the man", "sentence2": "it is: it"}\n' })
    assert.equal(like, program.ok({ "predict", with, table.unpack(columns) }, pairs_of))
    for _, prompts in ipairs { "true", "false" } do
      local out = place .. "/" .. prompts
      program.ok { "recipes/embed.lua", "init.from=" .. with, "data.train=" .. rows("a.csv", "anchor,positive", "", ""),
        "data.folder=" .. place, "embed.prompts=" .. prompts, "--max-steps", "1", "--out", out, "--quiet" }
      assert.equal(prompts == "true", sr.must(sr.checkpoint.pretrained(out)).sentences.prompt == "it is: ")
    end
  end)

  it("has special tokens that texts hold: a warning, or with data.specials the tokens", function()
    local specials_of = { additional_special_tokens = json.array { "[ENT]" } }
    local folder = make { files = { ["tokenizer_config.json"] = specials_of } }
    local file = program.write(folder, "train.csv", "text,label\n[ENT] the man,a\nit [ENT] is,b\nthe [ENT] man,a\n")
    local WARNING = "warning: a text has the special token '%[ENT%]', which is read as plain text; data.specials=true"
    for specials, warns in pairs { ["true"] = false, ["false"] = true } do
      local out = folder .. "/" .. specials
      local _, _, err = program.run { "recipes/finetune.lua", "task=classify", "init.from=" .. folder,
        "data.train=" .. file, "data.dev=" .. file, "data.folder=" .. folder, "data.specials=" .. specials,
        "--max-steps", "1", "--out", out, "--quiet" }
      assert.equal(warns, err:find(WARNING) ~= nil, err)
      local _, printed, told = program.run({ "predict", out }, { input = "[ENT] man\n[ENT] it\n" })
      assert.equal(warns and 1 or 0, select(2, told:gsub(WARNING, "")), told)
      local flagged = program.ok({ "predict", out, "--parse-specials" }, { input = "[ENT] man\n[ENT] it\n" })
      assert.equal(not warns, flagged == printed)
      local function loss(...) return program.json { "eval", out, file, "--json", ... }.metrics.label_loss end
      assert.equal(not warns, loss() == loss "--parse-specials")
    end
  end)
end)
