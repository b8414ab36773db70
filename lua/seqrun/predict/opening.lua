-- opening.lua - what the directory of a model decides for inference: its tokenizer, the longest text; raises failures.

local failure = require("seqrun.base.failure")
local output = require("seqrun.base.output")
local run_config = require("seqrun.predict.run_config")
local text = require("seqrun.text")
local tokenizers = require("seqrun.checkpoint.tokenizer")
local vocabulary = require("seqrun.checkpoint.vocabulary")

local opening = {}

---Tokens of the shortest sequence that holds a pair and its special tokens, and what no model exceeds.
opening.LEAST, opening.MOST = 4, 65535

---What all models for inference are opened with, for check.typed.
opening.OPTIONS = {
  max_len = { opening.LEAST, opening.MOST }, rows = { 1 }, precision = { "f32", "bf16" }, average = "boolean",
  parse_specials = "boolean",
}

---These options, and others.
---@param more table<string, any>
---@return table<string, any>
function opening.with(more)
  for key, value in pairs(opening.OPTIONS) do more[key] = more[key] or value end
  return more
end

---The tokenizer of a directory.  Special tokens written in a text, such as [MASK], are plain text unless `literal` is
---false, `parse_specials` true, or the run that made it read them so.
---@param facts seqrun.Pretrained
---@param options? { literal?: boolean, parse_specials?: boolean }
---@return seqrun.text.Tokenizer
function opening.tokenizer(facts, options)
  if not facts.tokenizer then failure.must(tokenizers.open(facts)) end
  options = options or {}
  local parses = options.literal == false or options.parse_specials or run_config.reading(facts).specials
  local tokenizer = failure.must(facts.tokenizer:open { literal = not parses, lowercase = facts.sentences.lower })
  local problem = vocabulary.too_large(#tokenizer, facts.design.vocabulary)
  if problem then failure.raise("data", "%s: %s", facts.path, problem) end
  problem = vocabulary.too_small(#tokenizer, facts.design.vocabulary)
  if problem then output.note("warning: %s: %s", facts.path, problem) end
  return text.tokenizer { vocab = tokenizer }
end

---Fails if a model lacks tensors, which are random now.
---@param facts seqrun.Pretrained
---@param report seqrun.LoadReport
function opening.check_whole(facts, report)
  local missing = report.missing[1]
  if not missing then return end
  failure.raise("data", "%s has no tensor '%s'%s; it cannot be used without it", facts.path, missing.name,
    #report.missing > 1 and (" and %d others"):format(#report.missing - 1) or "")
end

---The longest text, in tokens: as wanted, else as the directory says, else as many as the model has positions.
---@param facts seqrun.Pretrained
---@param wanted? integer
---@param usual? integer
---@return integer
function opening.max_len(facts, wanted, usual)
  local positions = facts.design.longest
  if wanted and wanted > positions then
    failure.raise("config", "%s: has %d positions, fewer than max_len %d", facts.path, positions, wanted)
  end
  return wanted or math.min(usual or positions, positions)
end

return opening
