-- predictions.lua - what a pretrained model puts in the place of single words of held-out text.

local configs = require("seqrun.config")
local failure = require("seqrun.base.failure")
local fill = require("seqrun.predict.fill")
local history = require("seqrun.history.runs")
local json = require("seqrun.core.json")
local sr_data = require("seqrun.data")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local predictions = {}

---@class seqrun.report.Samples
---@field data? string the data set
---@field step? integer of the checkpoint
---@field note? string why there are none
---@field items { before: string, word: string, after: string, candidates: seqrun.FillCandidate[], rank?: integer }[]

local TOP = 5

---Words of a sentence that may be hidden, and sentences that are worth it.
local LEAST_LETTERS, FEWEST, MOST = 2, 7, 22

---A sentence of tokens as a person would write it.
local function tidied(sentence)
  return (sentence:gsub("(%w) ' (%w)", "%1'%2"):gsub(" +([,;:.!?)])", "%1"):gsub("%( +", "("))
end

---Whether a word is one token, after a space.
local function is_token(tokenizer, word)
  local ids = tokenizer:ids(" " .. word)
  return #ids == 1 and ids[1] ~= tokenizer:special("unk")
end

---The word to hide: one of the longer ones that are a token of their own; nil if there is none.
---@return { before: string, word: string, after: string }|nil
local function hidden(sentence, tokenizer, turn)
  local words, count = {}, 0
  for _ in sentence:gmatch("%S+") do count = count + 1 end
  if count < FEWEST or count > MOST or sentence:find("[", 1, true) then return nil end
  for first, word, last in sentence:gmatch("()(%a+)()") do
    local alone = not sentence:sub(first - 1, first - 1):find("[%w']") and not sentence:sub(last, last):find("[%w']")
    if #word >= LEAST_LETTERS and alone and is_token(tokenizer, word) then words[#words + 1] = { first, last } end
  end
  if #words == 0 then return nil end
  local at = words[math.floor((turn * 0.618034 + 0.35) % 1 * #words) + 1]
  return {
    before = sentence:sub(1, at[1] - 1), word = sentence:sub(at[1], at[2] - 1), after = sentence:sub(at[2]),
  }
end

---Sentences of the held-out documents, spread evenly, each with a word hidden.
local function collect(corpus, count)
  local info, list = corpus:info(), {}
  local units = info.documents or info.examples
  local first = info.cut and 1 or units - info.held.units
  local tries, tokenizer = 40 * count, corpus:tokenizer()
  for try = 0, tries - 1 do
    local unit = math.min(units, first + 1 + math.floor((units - first) * ((try * 0.618034) % 1)))
    local sentences = {}
    for line in (corpus:decode(unit) or ""):gmatch("[^\n]+") do sentences[#sentences + 1] = line end
    local from = info.cut and math.floor(0.96 * #sentences) or 0
    local sentence = sentences[from + 1 + (try * 31) % math.max(1, #sentences - from)]
    local item = sentence and hidden(tidied(sentence), tokenizer, try)
    if item and not list[sentence] then list[#list + 1], list[sentence] = item, true end
    if #list == count then break end
  end
  return list
end

---Fills the items in; items whose text the model cannot read are left out.
local function fill_in(filler, items)
  local list, texts = {}, {}
  for i, item in ipairs(items) do texts[i] = { text = item.before .. filler.mask .. item.after, item = item } end
  for found, given in filler:each(texts) do
    local item = given.item
    item.candidates = found.masks and found.masks[1]
    for rank, one in ipairs(item.candidates or {}) do
      if one.token:match("^%s*(.*)$"):lower() == item.word:lower() then item.rank = rank end
    end
    if item.candidates then list[#list + 1] = item end
  end
  return list
end

---Where a data set is that the config names: as seen from here, or from a directory above the run.
local function find(found, file)
  if sys.exists(file) then return file end
  local above = not file:find("^/") and sys.real_path(found.dir)
  while above and above:find("/", 1, true) do
    above = above:match("^(.*)/[^/]*$")
    if sys.exists(above .. "/" .. file) then return above .. "/" .. file end
  end
end

local function compute(found, named, count)
  local newest, files = history.newest(found) or failure.raise("missing", "no checkpoint is saved yet"), {}
  for i, name in ipairs(type(named) == "table" and named or { named }) do
    files[i] = find(found, name)
      or failure.raise("missing", "the data set %s was not found; run the report where the run was started", name)
  end
  local held = tonumber(history.value(found.config, "data.held"))
  if held == 0 then failure.raise("data", "no part of the data is held out") end
  local corpus = failure.must(sr_data.open(files, { held = held }))
  local filler = failure.must(fill.open(newest.path, { top = TOP }))
  return { data = table.concat(files, ", "), step = newest.step, items = fill_in(filler, collect(corpus, count)) }
end

---Sentences of a run's held-out text with one word filled in by its newest checkpoint; nil for runs that do
---not pretrain on text.
---@param found seqrun.History
---@param count integer
---@return seqrun.report.Samples|nil
function predictions.of(found, count)
  local file = configs.get(found.config, "data.file")
  local pretraining = found.config.mask ~= nil and found.scores == nil
  if not file or not pretraining then return nil end
  local before = tensor.device()
  local ok, samples = pcall(compute, found, file, count)
  if tensor.device() ~= before then tensor.use(before) end
  return ok and samples or { items = {}, note = tostring(samples) }
end

---For JSON.
---@param samples seqrun.report.Samples
---@return table
function predictions.plain(samples)
  local out = { data = samples.data or json.null, step = samples.step or json.null, note = samples.note or json.null }
  out.items = json.array()
  for i, item in ipairs(samples.items) do
    out.items[i] = {
      before = item.before, word = item.word, after = item.after, rank = item.rank or json.null,
      candidates = json.array(item.candidates),
    }
  end
  return out
end

return predictions
