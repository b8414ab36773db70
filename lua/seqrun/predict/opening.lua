-- opening.lua - what the directory of a model decides for inference: its tokenizer, the longest text.

local output = require("seqrun.base.output")
local text = require("seqrun.text")
local tokenizers = require("seqrun.checkpoint.tokenizer")
local vocabulary = require("seqrun.checkpoint.vocabulary")

local opening = {}

---Tokens of the shortest sequence that holds a pair and its special tokens, and what no model exceeds.
opening.LEAST, opening.MOST = 4, 65535

---The tokenizer of a directory.  Special tokens written in a text, such as [MASK], are plain text unless `literal` is
---false.
---@param facts seqrun.Pretrained
---@param options? { literal?: boolean }
---@return seqrun.text.Tokenizer|nil
---@return string? message
---@return string? code
function opening.tokenizer(facts, options)
  if not facts.tokenizer then return nil, select(2, tokenizers.open(facts)), "data" end
  local tokenizer, message, code = facts.tokenizer:open {
    literal = not options or options.literal ~= false, lowercase = facts.sentences.lower,
  }
  if not tokenizer then return nil, message, code end
  local problem = vocabulary.too_large(#tokenizer, facts.design.vocabulary)
  if problem then return nil, ("%s: %s"):format(facts.path, problem), "data" end
  problem = vocabulary.too_small(#tokenizer, facts.design.vocabulary)
  if problem then output.note("warning: %s: %s", facts.path, problem) end
  return text.tokenizer { vocab = tokenizer }
end

---Why a model cannot be used that lacks tensors, which are random now; nil if it has all.
---@param facts seqrun.Pretrained
---@param report seqrun.LoadReport
---@return string|nil
function opening.incomplete(facts, report)
  local missing = report.missing[1]
  return missing and ("%s has no tensor '%s'%s; it cannot be used without it"):format(facts.path, missing.name,
    #report.missing > 1 and (" and %d others"):format(#report.missing - 1) or "")
end

---The longest text, in tokens: as wanted, else as the directory says, else as many as the model has positions.
---@param facts seqrun.Pretrained
---@param wanted? integer
---@param usual? integer
---@return integer|nil
---@return string? message
---@return string? code
function opening.max_len(facts, wanted, usual)
  local positions = facts.design.longest
  if wanted and wanted > positions then
    local few = "%s: has %d positions, fewer than max_len %d"
    return nil, few:format(facts.path, positions, wanted), "config"
  end
  return wanted or math.min(usual or positions, positions)
end

return opening
