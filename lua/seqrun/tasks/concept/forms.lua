-- forms.lua - how a tokenizer writes a word or phrase: alone, after a space, at the beginning of a sentence, and more
-- than one of it.

local function_words = require("seqrun.tasks.concept.function_words")

local forms = {}

---By the rules of English that WordNet undoes to find a noun; nil if it is not a word of letters.
local function ending(name)
  if not name:find("%l$") then return nil end
  if name:find("[sxz]$") or name:find("[cs]h$") then return name .. "es" end
  if name:find("[^aeiou]y$") then return name:sub(1, -2) .. "ies" end
  if name:find("man$") then return name:sub(1, -3) .. "en" end
  return name .. "s"
end

---More than one; nil where that is another word, such as `his` of `hi`.
local function plural(name)
  local word = ending(name)
  return word and not function_words[word:lower()] and word or nil
end

---The texts of a name for a tokenizer that distinguishes them.
---@param name string
---@param tells { case: boolean, space: boolean }
local function texts_of(name, tells)
  local list = {}
  local function add(text)
    list[#list + 1] = text
    if tells.space then list[#list + 1] = " " .. text end
  end
  for _, one in ipairs { name, plural(name) } do
    add(one)
    if tells.case and one:find("^%l") then add(one:sub(1, 1):upper() .. one:sub(2)) end
  end
  return list
end

---Special ids, the one of unknown words among them: what has one of these is not written by the tokenizer.
local function refused_by(tokenizer)
  local refused = {}
  for _, id in ipairs(tokenizer:specials()) do refused[id] = true end
  local unknown = tokenizer:special("unk")
  if unknown then refused[unknown] = true end
  return refused
end

local function is_written(ids, refused)
  for _, id in ipairs(ids) do
    if refused[id] then return false end
  end
  return #ids > 0
end

---A function that gives the ids of all forms of a name, each once.
---@param tokenizer seqrun.core.text.tokenizer
---@return fun(name: string): integer[][]
function forms.of(tokenizer)
  local refused = refused_by(tokenizer)
  local tells = {
    case = not tokenizer:lowercase(),
    space = table.concat(tokenizer:ids("a"), " ") ~= table.concat(tokenizer:ids(" a"), " "),
  }
  return function(name)
    local list, known = {}, {}
    for _, text in ipairs(texts_of(name, tells)) do
      local ids = tokenizer:ids(text)
      local key = table.concat(ids, " ")
      if not known[key] and is_written(ids, refused) then list[#list + 1] = ids end
      known[key] = true
    end
    return list
  end
end

return forms
