-- mistakes.lua - the worst mistakes of an evaluation, with their text.

local failure = require("seqrun.base.failure")
local items = require("seqrun.data.items")

local mistakes = {}

---How bad an item is; nil if it is not a mistake.  Wrong classes by their probability, values by their distance.
local function badness(item)
  if item.wrong == false then return nil end
  return item.error or item.p or 0
end

---A label as a person reads it; no label and no answer are "none".
local function shown(value, head, sets)
  if type(value) == "string" then return value ~= "" and value or "none" end
  if type(value) ~= "table" then
    return head.labels and head.labels[value + 1] or type(value) == "number" and ("%g"):format(value) or tostring(value)
  end
  local parts = {}
  for i, one in ipairs(value) do
    if sets then
      if one == 1 then parts[#parts + 1] = head.labels and head.labels[i] or tostring(i - 1) end
    else
      parts[#parts + 1] = type(one) == "number" and ("%.3g"):format(one) or tostring(one)
    end
  end
  return #parts > 0 and table.concat(parts, ", ") or "none"
end

---The text of an example: as in its file, or decoded.
local function text_of(corpus, example)
  local parts, has = {}, {}
  for _, column in ipairs(corpus:columns()) do has[column.name] = true end
  for _, name in ipairs { "text", "pair" } do
    local text = has[name] and failure.must(corpus:column(name, example)) or ""
    if text ~= "" then parts[#parts + 1] = text end
  end
  local whole = #parts > 0 and table.concat(parts, " | ") or corpus:decode(example) or ""
  return (whole:gsub("%s+", " "))
end

---The worst mistakes of a head, worst first.
---@param entry table of Scoring.heads
---@param loader seqrun.Loader
---@param most integer
---@return { place: string, label: string, predicted: string, badness: number, text: string }[]
function mistakes.worst(entry, loader, most)
  local head, found = entry.head, entry.items
  local kind = entry.kind or {} -- own heads may have none
  if kind.by_example then found = kind.by_example(found) end
  local bad = {}
  for _, item in ipairs(found) do
    if item.uid and badness(item) then bad[#bad + 1] = item end
  end
  table.sort(bad, function(a, b)
    if badness(a) ~= badness(b) then return badness(a) > badness(b) end
    return a.uid < b.uid
  end)
  local list, corpus = {}, loader.data
  for i = 1, math.min(most, #bad) do
    local item, example = bad[i], items.example(loader, bad[i].uid)
    local sets = kind.sets
    local label, predicted = shown(item.gold, head, sets), shown(item.guess, head, sets)
    if kind.described then label, predicted = kind.described(item, head, loader) end
    list[i] = {
      place = corpus.place and corpus:place(example) or ("example %d"):format(example),
      label = label, predicted = predicted, badness = badness(item),
      text = text_of(corpus, example),
    }
  end
  return list
end

return mistakes
