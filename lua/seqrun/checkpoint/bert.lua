-- bert.lua - a BERT from a directory: its config, a head for its task, its weights.
--
--     local bert, facts = sr.must(sr.nn.pretrained("runs/classify"))
--     local encoder = sr.must(sr.nn.pretrained("minilm", { heads = {} }))

local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local nn = require("seqrun.nn")

local OPTIONS = { heads = true, precision = true, seed = true }

---The heads that a directory has.
local function heads_of(facts)
  if not facts.kind then return facts.heads end
  local heads = {}
  for i, given in ipairs(facts.task_heads or { facts }) do
    heads[i] = nn.heads[given.kind] {
      labels = given.labels, outputs = not given.labels and given.outputs or nil, name = given.name,
      prefix = given.prefix,
    }
  end
  return heads
end

---A model with the weights of a run, a checkpoint or a Hugging Face directory.  `heads` replaces those of the directory
---({}: none); parameters that it lacks are initialised with `seed` (default 0).
---@param path string
---@param options? { heads?: table, precision?: "f32"|"bf16", seed?: integer }
---@return seqrun.Bert|nil
---@return seqrun.Pretrained|string facts or the message
---@return seqrun.LoadReport|string|nil report or the code
function nn.pretrained(path, options)
  options = check.options("nn.pretrained", options, OPTIONS)
  local facts, message, code = checkpoint.pretrained(path)
  if not facts then return nil, message, code end
  local config = { heads = options.heads or heads_of(facts), precision = options.precision }
  for key, value in pairs(facts.config) do config[key] = value end
  local bert = nn.bert(config)
  local loaded
  loaded, message, code = checkpoint.load(facts.path, { model = bert.params, seed = options.seed or 0 })
  if not loaded then return nil, message, code end
  return bert, facts, loaded.report
end

return nn.pretrained
