-- Checkpoints: saved state is restored, files of other writers load, and nothing damaged is accepted.

local checkpoint = require("seqrun.checkpoint")
local exact = require("seqrun.base.exact")
local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

require("tests.support.devices").late()

local TINY = "tests/data/model/tiny"

local folder = program.folder

local function config() return assert(json.decode(assert(sys.read_file(TINY .. "/config.json")))) end

---A tiny BERT's parameters with distinct values, and an optimizer whose moments are not zero.
local function trained(seed)
  local params = sr.nn.bert(config()).params
  params:initialise(seed)
  local opt = sr.optim.lamb(params, { decay = 0.01 })
  for i = 1, 2 do
    params.core:grad():copy_(params.core:value() * i)
    opt:step { rate = 0.01 }
  end
  return params, opt
end

local function same_values(a, b)
  for _, name in ipairs(a:names()) do
    assert.equal(a:value_of(name):tostring_bytes(), b:value_of(name):tostring_bytes(), name)
  end
end

local STATE = {
  cursor = { epoch = 2, pack = 17 }, seconds = 12.000000000000002, name = 'a "b"\n', list = { 1, 2.5, true },
  big = math.maxinteger,
}

local function save(dir, step, params, opt, options)
  return assert(checkpoint.save(dir, {
    step = step, model = params, opt = opt, vocab = TINY .. "/vocab.txt", state = STATE,
    config = sr.nn.bert(config()):hf_config(),
    files = { ["trainer/plan.txt"] = "a plan\n", ["trainer/config.yaml"] = "seed: 1\n" },
  }, options))
end

for _, device in ipairs(sr.devices()) do
  describe("a checkpoint on " .. device, function()
    local dir
    before_each(function() sr.use(device) dir = folder() end)
    after_each(function() sys.remove(dir) sr.use("cpu") end)

    it("restores weights, moments, counters and state bit for bit", function()
      local params, opt = trained(1)
      local path = save(dir, 42, params, opt)
      assert.equal(dir .. "/step-000000042", path)
      local again, other = trained(2)
      local loaded = assert(checkpoint.load(dir, { model = again, opt = other, carry = "resume" }))
      assert.equal(42, loaded.step)
      assert.same(STATE, loaded.state)
      assert.equal("float", math.type(loaded.state.list[2]))
      assert.equal("integer", math.type(loaded.state.list[1]))
      assert.same({ opt:counts() }, { other:counts() })
      same_values(params, again)
      for _, name in ipairs(params:names()) do
        for i = 1, 2 do
          local was, is = select(i, opt:moments(name)), select(i, other:moments(name))
          assert.equal(was:tostring_bytes(), is:tostring_bytes())
        end
      end
    end)

    it("restores the power of its betas, and rejects another optimizer", function()
      local params = sr.params.new { { name = "w", shape = { 2 } } }
      assert(checkpoint.save(dir, { step = 1, model = params, opt = sr.optim.lamb(params, { power = 3.25 }) }))
      local opt = sr.optim.lamb(params)
      assert(checkpoint.load(dir, { model = params, opt = opt, carry = "resume" }))
      params:get("w"):grad():fill_(1)
      opt:step { rate = 0 }
      local m = opt:moments("w")
      assert.is_true(math.abs(m:totable()[1] - (1 - 0.9 ^ 3.25)) < 1e-6)
      local parts = { model = params, opt = sr.optim.adamw(params), carry = "resume" }
      fails.returning("data", "written by lamb, not adamw", checkpoint.load(dir, parts))
      for _, values in ipairs {
        {}, { applied = -1 }, { applied = 1, skipped = 0, in_a_row = 0, power = 0 },
        { applied = 1, skipped = 0, in_a_row = 0, power = 1, kind = 5 },
      } do
        assert.same({ nil, "data" }, { (opt:restore(values)), select(3, opt:restore(values)) })
      end
    end)

    it("passes weights, or weights and moments, to a new run", function()
      local params, opt = trained(1)
      save(dir, 42, params, opt)
      local again, other = trained(2)
      local loaded = assert(checkpoint.load(dir, { model = again, opt = other, carry = "moments" }))
      assert.is_nil(loaded.step)
      same_values(params, again)
      assert.equal(2, (other:counts()))
      local bias = "cls.predictions.bias"
      assert.equal(opt:moments(bias):tostring_bytes(), other:moments(bias):tostring_bytes())
      assert.is_nil(loaded.state)
    end)
  end)
end

describe("a checkpoint", function()
  local dir
  before_each(function() dir = folder() end)

  it("is a Hugging Face directory: names, shapes and files", function()
    local params, opt = trained(1)
    local path = save(dir, 7, params, opt)
    local file = assert(train.safetensors(path .. "/model.safetensors"))
    local theirs = assert(train.safetensors(TINY .. "/model.safetensors"))
    local ours_by_name = {}
    for _, entry in ipairs(file:entries()) do ours_by_name[entry.name] = entry end
    for _, entry in ipairs(theirs:entries()) do
      assert.same(entry.shape, ours_by_name[entry.name] and ours_by_name[entry.name].shape, entry.name)
      ours_by_name[entry.name] = nil
    end
    assert.is_nil(next(ours_by_name))
    assert.same({ format = "pt" }, file:metadata())
    local written = assert(checkpoint.config(path))
    assert.same({ "BertForPreTraining" }, { table.unpack(written.architectures) })
    assert.same({ "bert", 120 }, { written.model_type, written.vocab_size })
    assert.equal(sys.read_file(TINY .. "/vocab.txt"), sys.read_file(path .. "/vocab.txt"))
    assert.is_true(json.decode(sys.read_file(path .. "/tokenizer_config.json")).do_lower_case)
    assert.equal("a plan\n", sys.read_file(path .. "/trainer/plan.txt"))
    file:close()
    theirs:close()
  end)

  it("is kept if it is one of the newest two, or at a multiple of a step", function()
    local params = trained(1)
    for step = 1, 7 do save(dir, step, params, nil, { keep = 2, every = 3 }) end
    local steps = {}
    for i, item in ipairs(assert(checkpoint.list(dir))) do steps[i] = item.step end
    assert.same({ 3, 6, 7 }, steps)
    local path, step = checkpoint.latest(dir)
    assert.same({ dir .. "/step-000000007", 7 }, { path, step })
  end)

  it("is skipped if it is damaged, and rejected if it was named", function()
    local params, opt = trained(1)
    save(dir, 1, params, opt)
    local newest = save(dir, 2, params, opt)
    local bytes = assert(sys.read_file(newest .. "/model.safetensors"))
    assert(sys.write_file(newest .. "/model.safetensors", bytes:sub(1, -2) .. string.char(bytes:byte(-1) ~ 1)))
    local _, step = checkpoint.latest(dir)
    assert.equal(1, step)
    local again, other = trained(2)
    fails.returning("data", "model.safetensors: corrupt between byte 0",
      checkpoint.load(newest, { model = again, opt = other, carry = "resume" }))
    assert.equal(1, assert(checkpoint.load(dir, { model = again, opt = other, carry = "resume" })).step)
  end)

  it("is reported with the reason if none is valid", function()
    local params, opt = trained(1)
    for step = 1, 2 do os.remove(save(dir, step, params, opt) .. "/model.safetensors") end
    assert.equal(("%s: none of its 2 checkpoints is valid; the oldest: %s/step-000000001/model.safetensors: the file "
      .. "is missing"):format(dir, dir), fails.returning("data", "", checkpoint.latest(dir)))
  end)

  it("is absent from empty and missing directories", function()
    fails.returning("missing", "contains no checkpoint", checkpoint.latest(dir))
    assert.equal("missing", (select(3, checkpoint.load(dir .. "/nowhere", { model = trained(1) }))))
  end)

  it("stays intact on a full disk, and the run continues until saving has failed too often", function()
    local params = trained(1)
    local saver = checkpoint.saver(dir, { max_failures = 2 })
    assert(saver:save { step = 1, model = params })
    local real = train.saving
    train.saving = function() return nil, "no space", "storage" end
    local path, message, code = saver:save { step = 2, model = params }
    assert.is_nil(path)
    assert.is_nil(code)
    assert.equal("no space (step 2 is not saved; 1 step is at risk)", message)
    path, message, code = saver:save { step = 3, model = params }
    train.saving = real
    assert.same({ nil, "storage" }, { path, code })
    assert(saver:save { step = 4, model = params })
    assert.equal(0, saver.failures)
    assert.equal(saver:save { step = 4, model = params }, dir .. "/step-000000004")
    assert.truthy(message)
  end)

  it("leaves no files behind if its state cannot be serialised", function()
    local params = trained(1)
    assert.has_error(function() checkpoint.save(dir, { step = 1, model = params, state = { f = print } }) end)
    assert.same({}, sys.list(dir))
  end)
end)

describe("loading foreign weights", function()
  local dir
  before_each(function() dir = folder() end)

  local function load(path)
    local params = sr.nn.bert(config()).params
    params:initialise(3)
    local loaded, message, code = checkpoint.load(path, { model = params })
    return params, loaded, message, code
  end

  local function original() return (assert(checkpoint.read_tensors(TINY .. "/model.safetensors"))) end

  it("writes the bytes of the reference writer for the same tensors", function()
    for _, name in ipairs { "model", "expected" } do
      local path = ("%s/%s.safetensors"):format(TINY, name)
      local tensors, metadata = assert(checkpoint.read_tensors(path))
      assert(checkpoint.write_tensors(dir .. "/again", tensors, metadata))
      assert.equal(sys.read_file(path), sys.read_file(dir .. "/again"))
    end
  end)

  it("maps old names, prefixes and tied tensors, and reports what it ignored", function()
    local renamed = {}
    for name, t in pairs(original()) do
      name = name:gsub("^bert%.", "")
      name = name:gsub("LayerNorm.weight", "LayerNorm.gamma"):gsub("LayerNorm.bias", "LayerNorm.beta")
      if name == "cls.predictions.bias" then name = "cls.predictions.decoder.bias" end
      renamed["module." .. name] = t
    end
    renamed["module.embeddings.position_ids"] = sr.zeros(1, 64, { dtype = "i32" })
    renamed["module.cls.predictions.decoder.weight"] = renamed["module.embeddings.word_embeddings.weight"]
    renamed["module.optimizer.step"] = sr.zeros(1)
    assert(checkpoint.write_tensors(dir .. "/old.safetensors", renamed))
    local params, loaded = load(dir .. "/old.safetensors")
    assert.equal(#params:names(), #loaded.report.loaded)
    local reasons = {}
    for _, item in ipairs(loaded.report.ignored) do reasons[item.name] = item.reason end
    assert.same({
      ["module.embeddings.position_ids"] = "position ids are implicit",
      ["module.cls.predictions.decoder.weight"] = "tied to bert.embeddings.word_embeddings.weight",
      ["module.optimizer.step"] = "not in the model",
    }, reasons)
    assert.truthy(tostring(loaded.report):find("tied to bert.embeddings.word_embeddings.weight", 1, true))
    local _, straight = load(TINY)
    assert.equal(#straight.report.loaded, #loaded.report.loaded)
  end)

  it("accepts a padded vocabulary and longer positions, and converts bf16", function()
    local tensors = original()
    local word = "bert.embeddings.word_embeddings.weight"
    tensors[word] = sr.cat({ tensors[word], sr.ones(8, 32) }, 1)
    tensors["cls.predictions.bias"] = sr.cat({ tensors["cls.predictions.bias"], sr.ones(8) }, 1)
    local position = "bert.embeddings.position_embeddings.weight"
    tensors[position] = sr.cat({ tensors[position], sr.ones(64, 32) }, 1)
    tensors["bert.pooler.dense.weight"] = tensors["bert.pooler.dense.weight"]:to("bf16")
    assert(checkpoint.write_tensors(dir .. "/padded.safetensors", tensors))
    local params, loaded = load(dir .. "/padded.safetensors")
    assert.equal(#params:names(), #loaded.report.loaded)
    assert.equal(original()[word]:tostring_bytes(), params:value_of(word):tostring_bytes())
    assert.truthy(tostring(loaded.report):find("vocabulary padded in the file: 120 of 128 rows", 1, true))
    local difference = params:value_of("bert.pooler.dense.weight") - original()["bert.pooler.dense.weight"]
    assert.is_true(difference:abs():max():item() < 0.01)
  end)

  it("loads no file of another directory that an index names", function()
    for _, name in ipairs { "../x", "/etc/passwd", ".hidden", "a/b", "" } do
      program.write(dir, "model.safetensors.index.json", json.encode { weight_map = { w = name } })
      fails.returning("data", "outside the checkpoint", select(2, load(dir)))
    end
  end)

  it("keeps the initial values of tensors that a file lacks, and reports them", function()
    local tensors = original()
    tensors["cls.seq_relationship.weight"], tensors["cls.seq_relationship.bias"] = nil, nil
    assert(checkpoint.write_tensors(dir .. "/part.safetensors", tensors))
    local _, loaded = load(dir .. "/part.safetensors")
    assert.same({ "cls.seq_relationship.weight", "cls.seq_relationship.bias" },
      { loaded.report.missing[1].name, loaded.report.missing[2].name })
    assert.matches("missing +2 +cls.seq_relationship +not in the checkpoint; left unchanged", tostring(loaded.report))
    local bert = sr.nn.bert(config())
    loaded = assert(checkpoint.load(dir .. "/part.safetensors", { model = bert.params, seed = 3 }))
    assert.truthy(tostring(loaded.report):find("not in the checkpoint; initialised with seed 3", 1, true))
    local wanted = sr.nn.bert(config()):initialise(3).params:value_of("cls.seq_relationship.weight")
    assert.is_true(wanted:abs():max():item() > 0)
    assert.equal(wanted:tostring_bytes(), bert.params:value_of("cls.seq_relationship.weight"):tostring_bytes())
    local params = load(TINY)
    fails.returning("data", "no parameter 'cls.seq_relationship.weight'; a resume needs all",
      checkpoint.load(dir .. "/part.safetensors", { model = params, carry = "resume" }))
  end)

  it("rejects a checkpoint of another shape, naming both shapes", function()
    local function refused(words, tensors)
      assert(checkpoint.write_tensors(dir .. "/other.safetensors", tensors))
      fails.returning("data", words, select(2, load(dir .. "/other.safetensors")))
    end
    local tensors = original()
    tensors["bert.pooler.dense.weight"] = sr.zeros(16, 32)
    refused("has shape (16, 32), the model expects (32, 32)", tensors)
    local word = "bert.embeddings.word_embeddings.weight"
    tensors = original()
    tensors[word] = sr.cat({ tensors[word], sr.ones(128, 32) }, 1) -- too many rows to be padding
    refused("has shape (248, 32), the model expects (120, 32)", tensors)
    refused("none of the parameters of this model", { x = sr.zeros(1) })
  end)

end)

it("the lock of a run is kept though its file is removed, unless another run has taken it since", function()
  local path = program.folder()
  local first <close> = sr.must(train.run_dir(path))
  assert.is_true(first:check())
  assert(os.remove(path .. "/lock"))
  assert.is_true(first:check())
  fails.returning("lock", "another run is using this directory", train.run_dir(path))
  assert(os.remove(path .. "/lock"))
  local second <close> = sr.must(train.run_dir(path))
  assert.is_true(second:check())
  fails.returning("lock", "its lock was removed and another run has taken it", first:check())
end)

it("a file that grows is synced, unless its path names another one since", function()
  local path = program.folder() .. "/lines"
  local file = assert(train.append(path))
  assert.is_true(file:sync())
  assert(os.rename(path, path .. ".away"))
  fails.returning("storage", "lines was removed or replaced while it was written", file:sync())
  assert(io.open(path, "w")):close()
  fails.returning("storage", "was removed or replaced", file:sync())
  assert(os.rename(path .. ".away", path))
  assert.is_true(file:sync())
  file:close()
end)

describe("exact values", function()
  it("are restored with their types, bit for bit", function()
    local values = { 0.1, -0.0, 1 / 3, 5e-324, 1.7976931348623157e308, math.huge, -math.huge, 3.0, 3, math.mininteger }
    local back = assert(exact.decode(exact.encode(values)))
    for i, x in ipairs(values) do
      assert.equal(math.type(x), math.type(back[i]))
      assert.equal(("%a"):format(x), ("%a"):format(back[i]))
    end
    local nan = exact.decode(exact.encode { x = 0 / 0 }).x
    assert.is_true(nan ~= nan)
  end)

  it("are rejected if they are invalid, with the position", function()
    for _, text in ipairs {
      "", "{", '{"a":1}', '{"a":"x:1"}', '{"a":"i:1.5"}', '{"a":"i:99999999999999999999"}', '{"a":"f:zzz"}',
      '{"a":null}',
    } do
      fails.returning("data", "", exact.decode(text))
    end
    fails.raising("state.a.b is a function", exact.encode, { a = { b = print } })
  end)
end)

describe("safetensors", function()
  local dir
  before_each(function() dir = folder() end)

  local function file(header, data, length)
    local path = dir .. "/x.safetensors"
    assert(sys.write_file(path, ("<I8"):pack(length or #header) .. header .. (data or "")))
    return path
  end

  local function entry(dtype, shape, first, last)
    return ('{"dtype":"%s","shape":[%s],"data_offsets":[%s,%s]}'):format(dtype, shape, first, last)
  end

  it("reads valid files", function()
    local header = '{"a":' .. entry("I64", "2", 0, 16) .. ',"__metadata__":{"k":"v"},"b":' .. entry("F16", "", 16, 18)
    local f = assert(train.safetensors(file(header .. "}   ", ("<i8i8"):pack(-5, 7) .. "\x00\x3e")))
    assert.same({ -5, 7 }, f:read("a", "i32"):totable())
    assert.same({ -5, 7 }, f:read("a"):totable())
    assert.equal(1.5, f:read("b"):item())
    assert.same({ k = "v" }, f:metadata())
    fails.returning("data", "has dtype F16, which cannot be converted to i32", f:read("b", "i32"))
    f:close()
    local bare = assert(train.safetensors(file('{"__metadata__":null,"a":' .. entry("F32", "", 0, 4) .. "}", "abcd")))
    assert.same({}, bare:metadata())
    bare:close()
  end)

  it("converts every f16 value, and rejects values that do not fit", function()
    local bits = { 0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0xC000, 0x7BFF, 0x7C00, 0xFC00 }
    local wanted = { 0, -0.0, 2.0 ^ -24, 1023 * 2.0 ^ -24, 2.0 ^ -14, 1, -2, 65504, math.huge, -math.huge }
    local data = {}
    for i, b in ipairs(bits) do data[i] = ("<I2"):pack(b) end
    data[11] = ("<I2"):pack(0x7E00)
    local f = assert(train.safetensors(file('{"h":' .. entry("F16", "11", 0, 22) .. "}", table.concat(data))))
    local values = f:read("h"):totable()
    for i, x in ipairs(wanted) do assert.equal(("%a"):format(x), ("%a"):format(values[i])) end
    assert.is_true(values[11] ~= values[11])
    f:close()
    local function refused(dtype, bytes, as, words)
      local g = assert(train.safetensors(file('{"x":' .. entry(dtype, "1", 0, #bytes) .. "}", bytes)))
      fails.returning("data", words, g:read("x", as))
      g:close()
    end
    refused("I64", ("<i8"):pack(1 << 31), "i32", "contains 2147483648, which is outside -2147483648..2147483647")
    refused("BOOL", "\2", "bool", "contains 2, which is outside 0..1")
    refused("U64", ("<I8"):pack(1), "i32", "has dtype U64, which cannot be converted to i32")
    refused("F32", ("<f"):pack(1), "bool", "has dtype F32, which cannot be converted to bool")
  end)

  it("rejects an invalid file, naming the file and the rule", function()
    local f32 = entry("F32", "1", 0, 4)
    local short = dir .. "/short.safetensors"
    assert(sys.write_file(short, "abc"))
    fails.returning("data", short .. ": not a valid safetensors file: too short", train.safetensors(short))
    local cases = {
      { "header extends beyond", "{}", nil, 3 }, { "header extends beyond", "{}", nil, -1 },
      { "header extends beyond", "{}", nil, 1 << 40 },
      { "nested too deeply", '{"a":[[[1]]]}' },
      { "duplicate object key", '{"a":' .. f32 .. ',"a":' .. f32 .. "}", "abcd" },
      { "duplicate object key", '{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', "abcd" },
      { "unable to decode byte", '{"\xff":' .. f32 .. "}", "abcd" },
      { "invalid", '{"\\ud800":' .. f32 .. "}", "abcd" },
      { "control character", '{"a\\u001b[2J":' .. f32 .. "}", "abcd" },
      { "control character", '{"a\xc2\x9b":' .. f32 .. "}", "abcd" },
      { "empty name", '{"":' .. f32 .. "}", "abcd" },
      { "too long", '{"' .. ("a"):rep(257) .. '":' .. f32 .. "}", "abcd" },
      { "has an unknown dtype", '{"a":' .. entry("F33", "1", 0, 4) .. "}", "abcd" },
      { "not an object of dtype", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}', "abcd" },
      { "not an object of dtype", '{"a":3}' },
      { "no data_offsets", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', "abcd" },
      { "is outside the file", '{"a":' .. entry("F32", "1", 4, 8) .. "}", "abcd" },
      { "is outside the file", '{"a":' .. entry("F32", "1", 4, 0) .. "}", "abcd" },
      { "does not match its size in bytes", '{"a":' .. entry("F32", "2", 0, 4) .. "}", "abcd" },
      { "more elements than 64 bits", '{"a":' .. entry("F32", "4294967296,4294967296,2", 0, 4) .. "}", "abcd" },
      { "does not match its size in bytes", '{"a":' .. entry("F64", "4611686018427387904", 0, 0) .. "}" },
      { "more than 8 dimensions", '{"a":' .. entry("F32", "1,1,1,1,1,1,1,1,1", 0, 4) .. "}", "abcd" },
      { "follows unused bytes", '{"a":' .. entry("F32", "1", 4, 8) .. "}", "abcdefgh" },
      { "overlaps another", '{"a":' .. f32 .. ',"b":' .. f32 .. "}", "abcd" },
      { "unused bytes after the last tensor", '{"a":' .. f32 .. "}", "abcde" },
      { "unused bytes after the last tensor", "{}", "abcd" },
      { "values that are not strings", '{"__metadata__":{"a":1}}' },
      { "not an object", '{"__metadata__":"a"}' },
    }
    for _, header in ipairs { "", " {}", "[]", "{}\n", "{}x" } do
      cases[#cases + 1] = { "not a JSON object", header }
    end
    for _, value in ipairs { "1.5", "true", "-1", "1e3" } do
      cases[#cases + 1] = { "something other than", '{"a":' .. value .. "}" }
    end
    for i, case in ipairs(cases) do
      local path = file(case[2], case[3], case[4])
      local message = fails.returning("data", path, train.safetensors(path))
      assert.truthy(message:find(case[1], 1, true), ("case %d: %s"):format(i, message))
    end
  end)

  it("enforces the limits of headers, tensors and metadata", function()
    local parts = {}
    for i = 1, 65538 do parts[i] = ('"%d":%s'):format(i, '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}') end
    for words, header in pairs {
      ["the limit is 8000000"] = ("{%s}"):format((" "):rep(8000000)),
      ["larger than 1 MiB"] = '{"__metadata__":{"a":"' .. ("x"):rep(1 << 20) .. '"}}',
      ["65,536 tensors"] = "{" .. table.concat(parts, ",") .. "}",
      ["too many entries"] = '{"a":[' .. ("0,"):rep(2000000) .. "0]}",
    } do
      fails.returning("data", words, train.safetensors(file(header)))
    end
  end)

  it("notices a file that shrinks while it is open", function()
    local path = file('{"a":' .. entry("F32", "4", 0, 16) .. "}", ("x"):rep(16))
    local f = assert(train.safetensors(path))
    os.execute(("truncate -s 70 '%s'"):format(path))
    fails.returning("data", "truncated", f:read("a"))
    f:close()
  end)
end)
