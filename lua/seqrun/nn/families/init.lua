-- families - kinds of encoders, a file each: config.json both ways, the names of tensors, the heads.
--
--   name         the `model_type` of config.json
--   class        of Transformers' classes: "ModernBert" makes ModernBertForMaskedLM
--   classes      those with other names: { CausalLM = "GPT2LMHeadModel" }
--   causal       true if a token attends to none after it
--   prefix       of the names of an encoder's parameters, which bare encoders omit
--   bare_pooler  false if Transformers' bare encoder has no pooler though the class for sequences has one
--   keys         of config.json, with types and defaults (nn/keys)
--   only         keys that select what is not supported, with the only supported value
--   ignored      keys that change no number
--   token_ids    special tokens whose ids Transformers has defaults for: { "cls", "sep", "bos", "eos", "mask" }
--   read(given)  a config.json, old or new, as `keys`; nil and a sentence if it is of another kind
--   write(c)     further keys for config.json, such that Transformers of every age reads the same
--   check(c)     a sentence if keys do not agree with each other
--   design(c)    what the forward pass reads: nn/design.lua
--   names        of parameters, after the prefix: nn/parameters.lua
--   like         name of a family: what this one does not have is taken from there
--   rename       patterns that turn names of other programs into these
--   heads(c, design)  the layers between the encoder's output and the last layer of each head: nn/heads
--
-- A family of your own is such a table: sr.nn.bert { family = mine }, or sr.nn.family(mine).

local check = require("seqrun.base.check")
local failure = require("seqrun.base.failure")
local merged = require("seqrun.base.merged")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local FOLDER = debug.getinfo(1, "S").source:match("^@(.*)/init%.lua$")

---@class seqrun.Family
---@field name string
---@field like? string
---@field class string
---@field classes? table<string, string>
---@field causal? boolean
---@field prefix string
---@field bare_pooler? boolean
---@field keys table<string, seqrun.Key>
---@field only table<string, any>
---@field ignored table<string, boolean>
---@field token_ids? string[]
---@field read? fun(given: table): table?, string?
---@field write? fun(config: table): table
---@field check? fun(config: table): string?
---@field design fun(config: table): seqrun.Design
---@field names seqrun.ParameterNames
---@field rename? { [1]: string, [2]: string }[]
---@field heads fun(config: table, design: seqrun.Design): seqrun.FamilyHeads
---@field rename_tensor fun(name: string): string made of `rename`

local families = {}

local known, ships = {}, {}

for _, file in ipairs(failure.must(sys.list(FOLDER))) do
  local name = file:match("^(.+)%.lua$")
  if name and name ~= "init" then ships[name:gsub("_roberta", "-roberta")] = name end
end

---What others would need, by their model_type.
local OTHERS = {
  deberta = "disentangled attention", ["deberta-v2"] = "disentangled attention",
  neobert = "queries, keys and values interleaved by head", albert = "layers that share their parameters",
  t5 = "a decoder and relative position biases", mpnet = "relative position biases", xlnet = "permuted attention",
  funnel = "pooled layers", longformer = "global attention at chosen tokens", big_bird = "random sparse attention",
  roformer = "rotary positions in pairs of neighbours", convbert = "convolutions in attention",
  mobilebert = "bottleneck layers", squeezebert = "grouped convolutions", nystromformer = "landmark attention",
  reformer = "hashed attention", ["megatron-bert"] = "a norm before each block with BERT's names",
  ["xlm-roberta-xl"] = "a norm before each block with RoBERTa's names", ultrabert = "a masked-LM head of two layers",
  llama = "rotary positions in a causal decoder", mistral = "rotary positions in a causal decoder",
  qwen2 = "rotary positions in a causal decoder", gpt_neox = "rotary positions in a causal decoder",
  bart = "a decoder", ibert = "quantised layers", canine = "characters without a vocabulary",
}

---Families under the names of published files.
local ALIASES = { new = "gte" }

---Turns names of other programs into those of a family.
local function renamer(family)
  return function(name)
    for _, rule in ipairs(family.rename or {}) do name = name:gsub(rule[1], rule[2]) end
    return name
  end
end

---Fills in what a family may leave out.
local function whole(family)
  if family.like then setmetatable(family, { __index = failure.must(families.find(family.like)) }) end
  family.only, family.ignored = family.only or {}, family.ignored or {}
  family.rename_tensor = renamer(family)
  return family
end

---The names of all families, sorted.
---@return string[]
function families.names()
  return sorted(merged(ships, known))
end

---The family of a name, or a sentence that says which there are.
---@param name any
---@return seqrun.Family|nil
---@return string? problem
function families.find(name)
  if known[name] then return known[name] end
  if ships[name] then
    known[name] = whole(require("seqrun.nn.families." .. ships[name]))
    return known[name]
  end
  if ALIASES[name] then return families.find(ALIASES[name]) end
  local shown, needs = tostring(name), OTHERS[name]
  if needs then return nil, ("the family '%s' is not supported: it needs %s"):format(shown, needs) end
  local hint = require("seqrun.base.guess").hint(shown, families.names())
  return nil, ("unknown family '%s'%s"):format(shown, hint ~= "" and hint or "; choose "
    .. table.concat(families.names(), ", ") .. "; to add your own, see docs/reference/families.md")
end

local FIELDS = {
  name = "string", class = "string", prefix = "string", keys = "table", design = "function", names = "table",
  heads = "function",
}

---Adds a family of your own, so that configs and checkpoints with its name as model_type find it.
---@param family seqrun.Family
---@return seqrun.Family
function families.register(family)
  check.value("nn.family: a family", family, "table")
  check.value("nn.family: name", family.name, "string")
  if family.like and not families.find(family.like) then
    check.fail("nn.family: like: %s", (select(2, families.find(family.like))))
  end
  whole(family)
  for field, type_of in pairs(FIELDS) do check.value("nn.family: " .. field, family[field], type_of) end
  known[family.name] = family
  return family
end

return families
