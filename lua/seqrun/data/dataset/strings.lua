-- strings.lua - examples of text as examples of token ids, for data.write.
--
--     { text = "where is it", pair = "in the garden", label = "fact" }   instead of   { a = ids, b = ids, label = 0 }

local check = require("seqrun.base.check")
local guess = require("seqrun.base.guess")

local strings = {}

local function bad(number, format, ...) check.fail("data.write: example %d: " .. format, number, ...) end

---The ids of a text, and which begin a word.
local function encode(tokenizer, name, text, number)
  if type(text) ~= "string" then bad(number, "'%s' must be a string, got %s", name, check.show(text)) end
  local ids, starts = tokenizer:starts(text)
  if #ids == 0 then bad(number, "'%s' has no tokens: %s", name, check.show(text)) end
  return ids, starts
end

---The label of what is not to be predicted.
local IGNORED = -100

---The number of a class.
local function number_of(classes, names, label, number)
  if math.type(label) == "integer" then
    if label == IGNORED or label >= 0 and label < #names then return label end
    bad(number, "label %d is no class: %s are numbered from 0 to %d, and %d is no label", label,
      table.concat(names, ", "), #names - 1, IGNORED)
  end
  local id = classes[label]
  if not id then
    bad(number, "unknown label %s%s; the labels are %s", check.show(label), guess.hint(tostring(label), names),
      table.concat(names, ", "))
  end
  return id
end

---Whether an example is of strings.
---@param example table
---@return boolean
function strings.is_text(example) return type(example) == "table" and example.text ~= nil and example.a == nil end

---The columns of the texts, which are kept beside their ids, unless `columns` has them.
---@param columns? table<string, seqrun.ColumnOptions>
---@param first table the first example
---@return table<string, seqrun.ColumnOptions>?
function strings.columns(columns, first)
  if not strings.is_text(first) then return columns end
  local all = { text = { type = "bytes" }, pair = first.pair ~= nil and { type = "bytes" } or nil }
  if not columns and first.label ~= nil then all.label = { type = "i32" } end
  for name, column in pairs(columns or {}) do all[name] = column end
  return all
end

---A function that turns an example of strings into one of ids, and marks which of them begin a word, all of A and of B;
---others pass.
---@param options seqrun.WriteOptions
---@return fun(example: table, number: integer): table, { a: boolean[], b?: boolean[] }?
function strings.encoder(options)
  local classes, tokenizer = {}, options.vocab
  for i, name in ipairs(options.labels or {}) do classes[name] = i - 1 end
  return function(example, number)
    if type(example) ~= "table" then return example end
    local ids = example.a ~= nil or example.text == nil
    local named = options.labels and example.label ~= nil
    if ids and not named and (example.label == nil or math.type(example.label) == "integer") then return example end
    local made = {}
    for key, value in pairs(example) do made[key] = value end
    if named then
      made.label = number_of(classes, options.labels, example.label, number)
    end
    if not options.labels and not options.columns and type(example.label) == "string" then
      bad(number, "the label is '%s'; name the classes, labels = { '%s', ... }, or give their numbers", example.label,
        example.label)
    end
    if ids then return made end
    local starts = {}
    made.a, starts.a = encode(tokenizer, "text", example.text, number)
    if example.pair ~= nil then made.b, starts.b = encode(tokenizer, "pair", example.pair, number) end
    return made, starts
  end
end

return strings
