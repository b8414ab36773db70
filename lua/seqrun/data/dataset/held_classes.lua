-- held_classes.lua - whether the end of a labelled data set, held out, lacks classes that are before it: a file sorted
-- by label.  Which examples are held out is part of a run's contract, so this only warns.

local LABEL = "label"
local SELDOM = 1e-3 -- how seldom a class may be absent by chance before it is named

---Whether the examples have one class each.
local function has_classes(corpus)
  local column = corpus:known(LABEL) or {}
  return column.type == "i32" and column.per == "example" and column.size == 1
end

---How many of the examples from `first` to `last` have each label; negative ones are ignored, as targets do.
---@return table<integer, integer>? counts nil if a block cannot be read, which is an error for its users
local function count(corpus, first, last)
  local counts = {}
  for i = first, last do
    local label = corpus:column(LABEL, i)
    if not label then return nil end
    if label >= 0 then counts[label] = (counts[label] or 0) + 1 end
  end
  return counts
end

local function name_of(corpus, label)
  local names = corpus:labels()
  return names and names[label + 1] and ("%d (%s)"):format(label, names[label + 1]) or tostring(label)
end

---The most frequent class of `train` that `held` lacks and would have, were it drawn by chance.
local function lacking(train, held, held_count, all)
  local found, most = nil, 0
  for label, n in pairs(train) do
    local chance = (1 - n / all) ^ held_count
    if not held[label] and chance < SELDOM and (n > most or n == most and label < found) then found, most = label, n end
  end
  return found
end

---A sentence about a held-out end that does not represent its data set; nil where nothing is wrong.
---@param corpus seqrun.Corpus whose last examples are held out
---@return string?
return function(corpus)
  local info = corpus:info()
  local rest, last = info.train.units, info.held.units
  if info.kind ~= "examples" or last < 2 or rest == 0 or not has_classes(corpus) then return nil end
  local train, held = count(corpus, 1, rest), count(corpus, rest + 1, rest + last)
  if not train or not held then return nil end
  local only = next(held)
  local one = only and next(train) and not next(held, only) and (next(train) ~= only or next(train, only))
  local missing = not one and lacking(train, held, last, rest + last)
  if not one and not missing then return nil end
  return ("%s: its last %d of %d examples, held out, have %s label %s, as if sorted by label: their scores do not "
    .. "represent the rest; set split=\"keyed\" to hold out random examples, or shuffle the file"):format(info.path,
    last, rest + last, one and "only the" or "no", name_of(corpus, one and only or missing))
end
