-- masked_model.lua - a language model and its tokenizer: a masked one for filling in [MASK] and scoring texts, a causal
-- one for scoring and continuing them.

local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local history = require("seqrun.history.runs")
local opening = require("seqrun.predict.opening")
local pretrained = require("seqrun.checkpoint.bert")
local stream = require("seqrun.predict.stream")

local masked_model = {}

---Why a model without the head is of no use here; a fine-tuned one names its base.
local function headless(path, facts, purpose)
  if facts.architecture and facts.architecture:find("ForPreTraining$") and facts.family_heads.without_mlm then
    return ("%s %s"):format(path, facts.family_heads.without_mlm)
  end
  local from = history.value(history.config(facts.path .. "/trainer/config.yaml"), "init.from")
  return ("%s has no masked-LM head, so it cannot %s; %s"):format(path, purpose, from and from ~= "none"
    and ("use the model that it was fine-tuned from, " .. from)
    or "if it was fine-tuned, use the model that it began from")
end

---Why a model of this kind is of no use here; nil if it is of use.
local function wrong_kind(facts, causal)
  if facts.family.causal and not causal then
    return ("%s is a %s, a causal model, which sees no token after a mask; `seqrun fill --causal` continues texts with "
      .. "it, and `seqrun score` scores them"):format(facts.path, facts.family.name)
  end
  if causal == true and not facts.family.causal then
    return ("%s is a %s, which sees both sides of a token and continues no text; leave out --causal to fill in [MASK], "
      .. "or train a causal model with recipes/causal.lua"):format(facts.path, facts.family.name)
  end
end

---The ids of the tokens that may be predicted, in order; of the special ones none but those of `kept`.
---@param tokenizer seqrun.core.text.tokenizer
---@param kept? table<integer, any>
---@param is_wanted? fun(tokenizer: seqrun.core.text.tokenizer, id: integer): boolean
---@return integer[]
function masked_model.candidates(tokenizer, kept, is_wanted)
  local ids, special = {}, {}
  for _, id in ipairs(tokenizer:specials()) do special[id] = not (kept and kept[id]) end
  for id = 0, #tokenizer - 1 do
    local known = not special[id] and tokenizer:token(id)
    if known and (not is_wanted or is_wanted(tokenizer, id)) then ids[#ids + 1] = id end
  end
  return ids
end

---Opens a run, a checkpoint or a Hugging Face directory with a masked-LM head, or with `causal` a causal model, which
---is the only kind if it is true; raises failures.
---@param purpose string what it is opened for: "fill in [MASK]"
---@param path string
---@param options { max_len?: integer, rows?: integer, precision?: "f32"|"bf16", literal?: boolean, average?: boolean,
---  causal?: true|"too" }
---@return { model: seqrun.Bert, facts: seqrun.Pretrained, tokenizer: seqrun.text.Tokenizer, max_len: integer,
---  causal: boolean }
function masked_model.open(purpose, path, options)
  local known = failure.must(checkpoint.pretrained(path))
  local problem = wrong_kind(known, options.causal)
  if problem then failure.raise("data", "%s", problem) end
  local causal = known.family.causal or false
  local model, facts, report = failure.must(pretrained(path, {
    heads = { causal and "causal" or "mlm" }, precision = options.precision, average = options.average,
  }))
  for _, missing in ipairs(report.missing) do
    if not missing.name:find(model.encoder.prefix, 1, true) then
      failure.raise("data", "%s", headless(path, facts, purpose))
    end
  end
  local self = { model = model, facts = facts, max_len = opening.max_len(facts, options.max_len), causal = causal }
  self.tokenizer = opening.tokenizer(facts, { literal = options.literal })
  if not causal and not self.tokenizer.core:special("mask") then
    failure.raise("data", "%s: its tokenizer has no mask token", facts.path)
  end
  model.training = false
  return self
end

---The results of texts, in their order, and each text as an item.
---@param what string the function, for messages
---@param self table model, tokenizer, rows
---@param items (string|table)[]|fun(): (string|table)?
---@param t { fields: seqrun.ItemFields, sequences: function, compute: function, result: function } each of self, and
---  of an item or a batch
---@return fun(): table?, table?
function masked_model.each(what, self, items, t)
  local next_done = stream {
    items = require("seqrun.predict.items")(what, items, t.fields),
    sequences = function(item) return t.sequences(self, item) end,
    compute = function(batch) return t.compute(self, batch) end,
    tokenizer = self.tokenizer.core, rows = self.rows or 2048,
  }
  return function()
    local item = next_done()
    if item then return t.result(self, item), item end
  end
end

---A method for the result of one text, which fails where it has an error.
---@param what string the function, for messages
---@return fun(self: table, text: string|table): table
function masked_model.one(what)
  return function(self, text)
    local found = self:each { text }()
    if found.error then check.fail("%s: %s", what, found.error) end
    return found
  end
end

return masked_model
