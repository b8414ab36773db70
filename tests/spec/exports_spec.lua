-- Exported models: every family, kind of tokenizer and task predicts what Transformers does with it
-- (tests/peers/exports.py).

local exported = require("tests.support.exported")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local function read_json(path) return json.decode(sr.must(sys.read_file(path))) end
local wanted = read_json("tests/data/directories/exports.json")

---Asserts that the files say what Transformers would otherwise take from defaults.
local function check_files(out, case)
  local config, settings = read_json(out .. "/config.json"), read_json(out .. "/tokenizer_config.json")
  local tokenizer = sr.must(sr.text.tokenizer { path = out })
  for key, role in pairs { cls = "cls", sep = "sep", bos = "cls", eos = "sep", pad = "pad", mask = "mask" } do
    local id = config[key .. "_token_id"]
    if id ~= nil and id ~= json.null then assert.equal(tokenizer.core:special(role), id, key) end
  end
  local types = config.type_vocab_size or 0
  assert.same(types > 1 and { "input_ids", "token_type_ids", "attention_mask" } or { "input_ids", "attention_mask" },
    { table.unpack(settings.model_input_names) })
  if case.task ~= "tokens" then return end
  local words = exported.items().tokens[1].words
  assert.same((tokenizer:words(words)), (tokenizer:encode(table.concat(words, " "))))
end

for _, case in ipairs(exported.all()) do
  it("an exported " .. case.name .. " predicts what it does in Transformers", function()
    local folder = program.folder()
    local _, out = exported.make(case, folder)
    if not out then return assert.is_nil(wanted[case.name]) end
    check_files(out, case)
    for i, list in ipairs(exported.predict(out, case.task)) do
      for k, x in ipairs(list) do assert.is_near(wanted[case.name][i][k], x, 2e-4) end
    end
  end)
end
