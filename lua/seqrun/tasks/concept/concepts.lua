-- concepts.lua - the concepts of a run: words and phrases that occur in the training text, each with the stage from
-- which on it is masked.
--
-- They come from a file, or from WordNet by their distance from the seeds; a checkpoint keeps them as such a file,
-- trainer/concepts.tsv, so that a resume needs neither.

local core = require("seqrun.core.batch")
local failure = require("seqrun.base.failure")
local forms = require("seqrun.tasks.concept.forms")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")
local WordNet = require("seqrun.tasks.concept.wordnet")

---@class seqrun.Concepts
---@field names string[] of those that occur
---@field stages integer[] of each, from 1
---@field times integer[] how often each occurs in the training text
---@field count integer of stages
---@field table seqrun.core.batch.concepts for the loader
local Concepts = {}
Concepts.__index = Concepts

local FILE = "trainer/concepts.tsv"
Concepts.FILE = FILE

local MOST = 1 << 28 -- bytes of a file

-- ---- which occur -------------------------------------------------------------------------------

---The table of some names, and which name each of its forms is of.
local function table_of(corpus, names, stages)
  local ids, lengths, of_form, owners = {}, {}, {}, {}
  local forms_of = forms.of(corpus:tokenizer())
  for i, name in ipairs(names) do
    for _, form in ipairs(forms_of(name)) do
      table.move(form, 1, #form, #ids + 1, ids)
      lengths[#lengths + 1], of_form[#of_form + 1], owners[#owners + 1] = #form, stages[i], i
    end
  end
  return failure.must(core.concepts(corpus.core, ids, lengths, of_form)), owners
end

---How often each name occurs in the training text.
local function times_of(corpus, names, stages)
  local made, owners = table_of(corpus, names, stages)
  local times = {}
  for i = 1, #names do times[i] = 0 end
  for form, count in ipairs(failure.must(made:counts(corpus.core, "train"))) do
    times[owners[form]] = times[owners[form]] + count
  end
  return times
end

---Those that occur, with their table.
local function of_names(corpus, names, stages, count)
  local self = setmetatable({ names = {}, stages = {}, times = {}, count = count }, Concepts)
  for i, times in ipairs(times_of(corpus, names, stages)) do
    if times > 0 then
      local n = #self.names + 1
      self.names[n], self.stages[n], self.times[n] = names[i], stages[i], times
    end
  end
  self.table = table_of(corpus, self.names, self.stages)
  return self
end

-- ---- files -------------------------------------------------------------------------------------

---Names and stages of a text: a line each, NAME TAB STAGE.
local function parse(content, path, count)
  local names, stages, known, number = {}, {}, {}, 0
  for line in (content .. "\n"):gmatch("([^\n]*)\n") do
    number = number + 1
    line = line:gsub("\r$", "")
    local name, word = line:match("^%s*([^\t]-)%s*\t%s*(.-)%s*$")
    local stage = word and math.tointeger(tonumber(word))
    if line:find("%S") and not line:find("^%s*#") then
      if not stage or stage < 1 or name == "" then
        failure.raise("data", "%s:%d: '%s' is not a concept; a line has the words, a tab and the stage, from 1", path,
          number, line:sub(1, 60))
      end
      if stage > count then
        failure.raise("data", "%s:%d: stage %d of '%s', but concept.stages has %d stages; add to it", path,
          number, stage, name, count)
      end
      if known[name] then
        failure.raise("data", "%s:%d: '%s' is on line %d already; a concept has one stage", path, number, name,
          known[name])
      end
      known[name], names[#names + 1], stages[#stages + 1] = number, name, stage
    end
  end
  return names, stages
end

local function none_occurs(corpus, count, path)
  failure.raise("data", "%s: none of its %d concepts occurs in the training text of %s; are they of another language, "
    .. "or of another spelling?", path, count, corpus:info().path)
end

---The concepts of a file.
---@param corpus seqrun.Corpus
---@param path string
---@param count integer stages
---@return seqrun.Concepts
function Concepts.of_file(corpus, path, count)
  local content, message, code = sys.read_file(path, MOST)
  if not content then failure.raise(code or "missing", "concept.file: %s", message) end
  local names, stages = parse(content, path, count)
  if #names == 0 then failure.raise("data", "%s has no concepts; a line has the words, a tab and the stage", path) end
  local self = of_names(corpus, names, stages, count)
  if #self.names == 0 then none_occurs(corpus, #names, path) end
  return self
end

---Those of a checkpoint.
---@param corpus seqrun.Corpus
---@param content string of its file
---@param count integer stages
---@return seqrun.Concepts
function Concepts.of_checkpoint(corpus, content, count)
  local names, stages = parse(content, FILE, count)
  return of_names(corpus, names, stages, count)
end

---The text of such a file.
---@return string
function Concepts:pack()
  local lines = {}
  for i, name in ipairs(self.names) do lines[i] = ("%s\t%d\n"):format(name, self.stages[i]) end
  return table.concat(lines)
end

-- ---- WordNet -----------------------------------------------------------------------------------

---The nouns with the most relations among those that occur so often.
local function seeds_of(net, times, t)
  local list = {}
  for number, count in ipairs(times) do
    if count >= t.least then list[#list + 1] = { number = number, relations = net:relations(number) } end
  end
  table.sort(list, function(a, b)
    if a.relations ~= b.relations then return a.relations > b.relations end
    return a.number < b.number
  end)
  local seeds = {}
  for i = 1, math.min(t.seeds, #list) do seeds[i] = list[i].number end
  return seeds
end

---The numbers of nouns that are named.
local function named(net, names)
  local numbers, seeds = {}, {}
  for number, name in ipairs(net.names) do numbers[name] = number end
  for i, name in ipairs(names) do
    seeds[i] = numbers[name]
    if not seeds[i] then
      failure.raise("config", "concept.named: WordNet has no noun '%s'%s", name,
        require("seqrun.base.guess").hint(name, net.names))
    end
  end
  return seeds
end

---The nouns of WordNet that occur: seeds have stage 1, others one more for each `hops` relations, the last stage all
---that are left.
---@param corpus seqrun.Corpus
---@param t { folder: string, count: integer, seeds: integer, named?: string[], least: integer, hops: integer }
---@return seqrun.Concepts
function Concepts.of_wordnet(corpus, t)
  local net, ones = WordNet.open(t.folder, corpus:lowercase()), {}
  for i = 1, #net.names do ones[i] = 1 end
  local times = times_of(corpus, net.names, ones)
  local seeds = t.named and named(net, t.named) or seeds_of(net, times, t)
  if #seeds == 0 then
    failure.raise("config", "no noun of WordNet occurs %d times in the training text of %s; lower concept.least, or "
      .. "give concept.file if the text is not English", t.least, corpus:info().path)
  end
  local distances, names, stages = net:distances(seeds), {}, {}
  for number, count in ipairs(times) do
    if count > 0 then
      local distance = distances[number] or math.huge
      names[#names + 1] = net.names[number]
      stages[#stages + 1] = math.tointeger(math.min(t.count, 1 + math.ceil(distance / t.hops)))
    end
  end
  return of_names(corpus, names, stages, t.count)
end

-- ---- what a run says of them -------------------------------------------------------------------

---Lines about them: how many each stage adds, and how often these occur.
---@return string[]
function Concepts:notes()
  local counts, times, parts = {}, {}, {}
  for stage = 1, self.count do counts[stage], times[stage] = 0, 0 end
  for i, stage in ipairs(self.stages) do
    counts[stage], times[stage] = counts[stage] + 1, times[stage] + self.times[i]
  end
  for stage, count in ipairs(counts) do
    parts[stage] = ("%s (%s times)"):format(text.commas(count), text.commas(times[stage]))
  end
  return { "concepts of the training text, by stage: " .. table.concat(parts, ", ") }
end

return Concepts
