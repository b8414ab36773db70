-- What helps to write a config: RECIPE --help, its JSON Schema, and `seqrun new`.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local types = require("seqrun.config.types")

local exits, works = program.exits, program.works

local run = program.run

local TASKS = { "pretraining", "curriculum", "classify", "pair", "regress", "multilabel", "choice", "tokens", "squad" }

it("a recipe's --help lists every key with type, range, default and meaning", function()
  local out = works(run { "recipes/pretrain.lua", "--help" })
  types.each(sr.run.schema(sr.tasks.pretraining), function(path, t)
    local _, last = out:find("\n  " .. path .. "  (", 1, true)
    assert.truthy(last, path)
    local rest = out:sub(last, last + 400):gsub("%s+", " ")
    assert.truthy(t.required and rest:find("required", 1, true) or rest:find("default", 1, true), path)
    assert.truthy(rest:find(t.doc:sub(1, 20), 1, true), path)
  end)
  assert.matches("\n  data.held  %(number from 0 to 0.5; default 0.05%)\n", out)
  assert.matches("\n  optimizer.betas  %(list of 2: number in %[0, 1%); default %[0.9, 0.999%]%)\n", out)
end)

it("a recipe's --help lists the keys of recipes that do not train, and those of a recipe's own", function()
  local _, out = run { "recipes/prepare.lua", "--help" }
  assert.matches("\n  out  %(string; required%)", out)
  _, out = run { "recipes/finetune_own.lua", "--help" }
  assert.matches("\n  epochs  %(", out)
end)

---Whether a value fits a JSON Schema, as far as ours use it.
local function fits(schema, value)
  if schema.anyOf then
    for _, each in ipairs(schema.anyOf) do
      if fits(each, value) then return true end
    end
    return false
  end
  if schema.const ~= nil then return value == schema.const end
  if schema.enum then
    for _, each in ipairs(schema.enum) do
      if each == value then return true end
    end
    return false
  end
  local kinds = type(schema.type) == "table" and schema.type or { schema.type }
  local kind = ({ table = "object", string = "string", boolean = "boolean" })[type(value)] or math.type(value)
  if kind == "object" and #value > 0 then kind = "array" end
  local good = false
  for _, each in ipairs(kinds) do good = good or each == kind or each == "number" and type(value) == "number" end
  if not good then return false end
  if schema.minimum and value < schema.minimum or schema.maximum and value > schema.maximum then return false end
  for key, inner in pairs(kind == "object" and value or {}) do
    local of = schema.properties[key] or schema.additionalProperties
    if not of or not fits(of, inner) then return false end
  end
  return true
end

it("the JSON Schema of a recipe accepts the defaults and refuses unknown keys and wrong values", function()
  local out = works(run { "recipes/pretrain.lua", "--schema" })
  local schema = assert(json.decode(out))
  assert.equal("config of pretrain.lua", schema.title)
  assert.is_true(fits(schema, { data = { held = 0.1, max_len = 64 }, threads = "none", seed = 3 }))
  assert.is_true(fits(schema, { rate = { peak = "10%" }, optimizer = { betas = { 0.9, 0.98 } } }))
  assert.is_false(fits(schema, { data = { hold = 0.1 } }))
  assert.is_false(fits(schema, { data = { held = 0.7 } }))
  assert.is_false(fits(schema, { precision = "f16" }))
  types.each(sr.run.schema(sr.tasks.pretraining), function(path, t)
    local at = schema
    for name in path:gmatch("[^.]+") do at = at.properties[name] end
    assert.equal(0, (at.description:find(t.doc, 1, true) or 0) - 1, path)
  end)
end)

describe("a recipe", function()
  it("names the config that it looked for, when keys are missing", function()
    local recipe = program.write(program.folder(), "alone.lua", sys.read_file("recipes/pretrain.lua"))
    exits(2, "no config file was read: .*/alone.yaml does not exist; write it, or pass config=FILE\n$", run { recipe })
  end)

  it("with a model larger than the machine is refused with the bytes that it needs", function()
    local huge = "sr.nn.bert { hidden_size = 1 << 20, num_attention_heads = 32, num_hidden_layers = 96 }"
    exits(4, "^seqrun: [%d,]+ parameters and their gradients need [%d.]+ GiB, but .* has [%d.]+ GiB; use a "
      .. "smaller model, a device with more memory, or several ranks, which share the moments\n$", run { "-e", huge })
  end)

  it("that fails names its own lines, with a guess for a mistyped name", function()
    local recipe = program.write(program.folder(), "bad.lua", "local sr = require 'seqrun'\nlocal function inner(x)\n"
      .. "  local head = sr.nn.heads.clasify(x)\n  return head\nend\nlocal y = inner {}\nprint(y)\n")
    local _, err = exits(1, "bad.lua:3: [^\n]*'clasify'[^\n]*; did you mean 'classify'%?\n", run { recipe })
    assert.matches("bad.lua:3 in function 'inner': local head = sr.nn.heads.clasify%(x%)\n", err)
    assert.matches("bad.lua:6 at its top level: local y = inner {}\n$", err)
  end)
end)

describe("seqrun new", function()
  local folder = program.folder()

  for _, task in ipairs(TASKS) do
    it("writes a recipe of " .. task .. " whose config is read", function()
      local out = works(run { "new", folder .. "/" .. task, "--task", task })
      assert.matches("wrote .*/train.lua\nwrote .*/train.yaml\nwrote .*/train.schema.json\nnext: ", out)
      local recipe = folder .. "/" .. task .. "/train.lua"
      out = works(run { recipe, "--explain" })
      assert.matches("train.yaml:%d+", out)
      local schema = sys.read_file(folder .. "/" .. task .. "/train.schema.json")
      assert.equal(schema, (select(2, run { recipe, "--schema" })))
    end)
  end

  it("is followed by a dry run that points at the line to fill in", function()
    local recipe, yaml = folder .. "/classify/train.lua", folder .. "/classify/train.yaml"
    local text = assert(sys.read_file(yaml))
    local _, before = text:match("^(.-\n)#   train: "):gsub("\n", "")
    exits(2, ("train.yaml:%d:5: key 'train'.*remove the # from this line and from its section"):format(before + 1),
      run { recipe, "--dry-run" })
    program.write(folder, "classify/train.yaml", (text:gsub("\n# *data:", "\ndata:", 1)))
    exits(2, "remove the # from this line, and write", run { recipe, "--dry-run" })
    program.write(folder, "classify/train.yaml", text)
  end)

  it("comments every key, so that uncommenting one sets it #slow", function()
    local path = folder .. "/pretraining/train.yaml"
    local text = sys.read_file(path):gsub("# seed: 42\n", "seed: 7\n")
    sys.write_file(path, text)
    local _, out = run { folder .. "/pretraining/train.lua", "--explain" }
    assert.matches("\nseed +7 +", out)
  end)

  it("has each key once, with the section it belongs to, so that all can be uncommented #slow", function()
    local path = folder .. "/pretraining/train.yaml"
    local head, body = sys.read_file(path):match("^(.-\n)(\n.*)$")
    local text = head .. body:gsub("\n# ", "\n")
    text = text:gsub("( +type: linear\n)", "%1    min: 8\n    max: 128\n    total: 10\n") -- a schedule needs them
      :gsub("\n    m%a+: none", ""):gsub("\n    total: none", "")
    sys.write_file(path, text)
    local out = works(run { folder .. "/pretraining/train.lua", "--explain" })
    types.each(sr.run.schema(sr.tasks.pretraining), function(key, t)
      if t.kind == "map" then return end
      assert.matches("\n" .. key:gsub("%p", "%%%0") .. " [^\n]*train.yaml:%d+", "\n" .. out, key)
    end)
  end)

  it("names the keys whose name is free #slow", function()
    assert.matches("\n#   NAME:\n", sys.read_file(folder .. "/curriculum/train.yaml"))
    assert.matches("\n  curriculum.NAME.file  %(", (select(2, run { "recipes/curriculum.lua", "--help" })))
  end)

  it("replaces nothing, and guesses a mistyped task", function()
    exits(2, "train.lua exists; choose another directory or %-%-name\n$", run { "new", folder .. "/pretraining" })
    exits(2, "did you mean 'classify'", run { "new", folder .. "/other", "--task", "clasify" })
    assert.is_false(sys.exists(folder .. "/other"))
  end)
end)
