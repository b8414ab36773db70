-- wordnet.lua - the nouns of WordNet as a graph: which are related, and how far apart they are.
--
-- Two nouns are neighbours if a set of synonyms has both, or if their sets are related in any way: one is a kind, a
-- part, a member, an instance, an opposite ... of the other.  Needs Debian's package wordnet-base.
--
-- Source: the format of data.noun is described in wndb(5WN).

local failure = require("seqrun.base.failure")
local function_words = require("seqrun.tasks.concept.function_words")
local sys = require("seqrun.core.sys")

---@class seqrun.WordNet
---@field names string[] nouns, with spaces
---@field private sets integer[][] of each noun: the sets of synonyms that have it
---@field private members integer[][] of each set: its nouns
---@field private related integer[][] of each set: those that it is related to
local WordNet = {}
WordNet.__index = WordNet

---The fields of a line before its definition; nil for the lines of the licence.
local function fields_of(line)
  local head = line:match("^(%d%d%d%d%d%d%d%d .-) | ")
  if not head then return nil end
  local fields = {}
  for field in head:gmatch("%S+") do fields[#fields + 1] = field end
  return fields
end

local function number_of(self, name)
  local number = self.numbers[name]
  if not number then
    number = #self.names + 1
    self.names[number], self.numbers[name], self.sets[number] = name, number, {}
  end
  return number
end

---Adds a set of synonyms, with the places in the file of those that it is related to.
local function add_set(self, fields)
  local set, words = #self.members + 1, tonumber(fields[4], 16)
  if not words or #fields < 5 + 2 * words then return false end
  local members, related = {}, {}
  for i = 1, words do
    local name = fields[3 + 2 * i]:gsub("_", " ")
    if self.lowercase then name = name:lower() end
    if #name > 1 and not function_words[name:lower()] then
      local number = number_of(self, name)
      members[#members + 1] = number
      table.insert(self.sets[number], set)
    end
  end
  for at = 6 + 2 * words, #fields - 3, 4 do
    if fields[at + 2] == "n" then related[#related + 1] = fields[at + 1] end
  end
  self.members[set], self.related[set], self.places[fields[1]] = members, related, set
  return true
end

---Places in the file become numbers of sets.
local function resolve(self)
  for set, places in ipairs(self.related) do
    local related = {}
    for _, place in ipairs(places) do related[#related + 1] = self.places[place] end
    self.related[set] = related
  end
  self.places, self.numbers = nil, nil
end

---Reads the nouns in a directory of WordNet.
---@param folder string
---@param lowercase? boolean nouns that differ in case are the same
---@return seqrun.WordNet
function WordNet.open(folder, lowercase)
  local path = folder .. "/data.noun"
  if not sys.exists(path) then
    failure.raise("missing", "%s is missing; install it (apt-get install wordnet-base), set concept.wordnet to its "
      .. "directory, or give concepts of your own, concept.file", path)
  end
  local self = setmetatable({
    names = {}, numbers = {}, sets = {}, members = {}, related = {}, places = {}, lowercase = lowercase,
  }, WordNet)
  local number = 0
  for line in failure.must(sys.read_file(path)):gmatch("[^\n]+") do
    local fields = fields_of(line)
    number = number + 1
    if fields and not add_set(self, fields) then
      failure.raise("data", "%s:%d: not a line of WordNet: %s", path, number, line:sub(1, 60))
    end
  end
  if #self.members == 0 then failure.raise("data", "%s has no nouns; it is not WordNet's data.noun", path) end
  resolve(self)
  return self
end

---How many relations a noun has, those to its synonyms included.
---@param number integer
---@return integer
function WordNet:relations(number)
  local count = 0
  for _, set in ipairs(self.sets[number]) do count = count + #self.members[set] - 1 + #self.related[set] end
  return count
end

---Gives the members of a set, unless they have one, a distance, and adds those that are new to a list.
local function reach(self, found, list, set, distance)
  for _, number in ipairs(self.members[set]) do
    if not found[number] then
      found[number] = distance
      list[#list + 1] = number
    end
  end
end

---How far each noun is from the nearest of some: 0 for these, 1 for their neighbours; nil for those out of reach.
---@param seeds integer[]
---@return table<integer, integer>
function WordNet:distances(seeds)
  local found, left, list, distance = {}, {}, {}, 0
  for _, number in ipairs(seeds) do
    found[number] = 0
    list[#list + 1] = number
  end
  while #list > 0 do
    local more = {}
    distance = distance + 1
    for _, number in ipairs(list) do
      for _, set in ipairs(self.sets[number]) do
        if not left[set] then -- a set that was left before has nothing new
          left[set] = true
          reach(self, found, more, set, distance)
          for _, other in ipairs(self.related[set]) do reach(self, found, more, other, distance) end
        end
      end
    end
    list = more
  end
  return found
end

return WordNet
