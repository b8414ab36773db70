-- encode - vectors of texts, from any BERT: sentence embeddings.
--
--     local encode = sr.must(sr.encode.open("runs/pretrain"))
--     local vector = encode:one("a fine day in the garden")            -- a list of numbers
--     for vector, item in encode:each { "it rained", { text = "who", pair = "she" } } do ... end

local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local encoding = require("seqrun.predict.encoding")
local failure = require("seqrun.base.failure")
local opening = require("seqrun.predict.opening")
local pretrained = require("seqrun.checkpoint.bert")
local sorted = require("seqrun.base.sorted")

local encode = {}

---@class seqrun.TextEncoder
---@field model seqrun.Bert
---@field tokenizer seqrun.text.Tokenizer
---@field size integer numbers of a vector
---@field max_len integer
---@field counts table `cut`: texts that were truncated
---@field prompts table<string, string> by name; in a search, the default one is not put before texts
local TextEncoder = {}
TextEncoder.__index = TextEncoder
TextEncoder.__name = "seqrun.TextEncoder"
require("seqrun.base.strict").seal(TextEncoder, "the text encoder",
  { "model", "tokenizer", "size", "max_len", "counts", "pool", "normalise", "prompt", "prompts", "skips_prompt", "rows",
    "head" })

local OPTIONS = opening.with {
  pool = { "mean", "cls", "last" }, normalise = "boolean", prompt = "string",
}

---The text of a prompt: that of a name that the directory has, else what is given.
local function prompt_of(facts, given)
  local prompts = facts.sentences.prompts
  if given == nil then return facts.sentences.prompt end
  if prompts[given] then
    given = prompts[given]
  elseif next(prompts) and given:find("^[%w_-]+$") then
    return nil, ("%s has no prompt '%s'; choose %s, or give the text itself with the space after it"):format(facts.path,
      given, table.concat(sorted(prompts), ", ")), "config"
  end
  return given ~= "" and given or nil
end

---Pooling, normalisation and prompt: as the options say, else as the directory does, else the normalised mean.
---@param facts seqrun.Pretrained
---@param t { pool?: "mean"|"cls"|"last", normalise?: boolean, prompt?: string }
---@return table|nil options of encoding.each
---@return string? message
---@return string? code
function encode.pooling(facts, t)
  local theirs = facts.sentences
  if theirs.problem and (t.pool == nil or t.normalise == nil) then
    return nil, ("%s: %s; to make other vectors than sentence-transformers does, set --pool and --raw or "
      .. "--normalise (in Lua: pool and normalise)"):format(facts.path, theirs.problem), "data"
  end
  local normalise = t.normalise
  if normalise == nil then normalise = theirs.normalise ~= false end
  local prompt, message, code = prompt_of(facts, t.prompt)
  if message then return nil, message, code end
  return {
    pool = t.pool or theirs.pool or "mean", normalise = normalise, prompt = prompt, skips_prompt = theirs.skips_prompt,
    prompts = t.prompt and { query = prompt, document = prompt } or theirs.prompts,
  }
end

---The head with the linear layer that a directory has after the pooling; none otherwise.
---@param facts seqrun.Pretrained
---@return table
function encode.heads(facts)
  if not facts.sentences.dense then return {} end
  return { require("seqrun.tasks.embed.head").new(require("seqrun.tasks.embed").options_of(facts)) }
end

local function open(path, options)
  local facts = failure.must(checkpoint.pretrained(path))
  local model, _, report = failure.must(pretrained(path, {
    heads = encode.heads(facts), precision = options.precision, average = options.average,
  }))
  opening.check_whole(facts, report)
  local self = failure.must(encode.pooling(facts, options))
  self.max_len = opening.max_len(facts, options.max_len, facts.max_len)
  self.tokenizer = opening.tokenizer(facts, options)
  self.model, self.rows, self.head, self.counts = model, options.rows, model.heads[1], {}
  self.size = self.head and self.head.size or model.design.hidden
  return setmetatable(self, TextEncoder)
end

---Opens a run, a checkpoint, or a directory of Hugging Face or sentence-transformers.
---@param path string
---@param options? { pool?: "mean"|"cls"|"last", normalise?: boolean, prompt?: string, max_len?: integer,
---  rows?: integer, precision?: "f32"|"bf16", average?: boolean, parse_specials?: boolean } prompt: the name of one
---  that the directory has, or a text; rows: tokens of a batch, 2048; average: with the moving average of the weights
---@return seqrun.TextEncoder|nil
---@return string? message
---@return string? code
function encode.open(path, options)
  check.value("encode.open: path", path, "string")
  return failure.returned(open, path, check.typed("encode.open", options, OPTIONS))
end

local FIELDS = { keys = { "text", "pair" }, optional = { pair = true } }

---How texts of a role are encoded: with its prompt.
---@param role? "query"|"document" default: with the default prompt
---@return seqrun.EncodeOptions
function TextEncoder:as(role)
  if not role then return self end
  local prompt = self.prompts[role]
  return setmetatable({ prompt = prompt ~= "" and prompt or false }, { __index = self })
end

---The vector of each text, in their order, and the item: a string, or { text =, pair = }.
---@param items (string|table)[]|fun(): (string|table)?
---@param role? "query"|"document" of the texts in a search: which prompt they get
---@return fun(): number[]?, table?
function TextEncoder:each(items, role)
  local next_done = encoding.each(require("seqrun.predict.items")("encode", items, FIELDS), self:as(role))
  return function()
    local item = next_done()
    if item then return item.vector, item end
  end
end

---The vector of one text.
---@param text string|table a string, or { text =, pair = }
---@param role? "query"|"document"
---@return number[]
function TextEncoder:one(text, role) return (self:each({ text }, role)()) end

function TextEncoder:__tostring()
  return ("encoder of texts: %d numbers, %s%s, at most %d tokens"):format(self.size, self.pool,
    self.normalise and ", normalised" or "", self.max_len)
end

return encode
