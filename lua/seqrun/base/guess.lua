-- guess.lua - the nearest of some names, for "did you mean".

local guess = {}

---Restricted Damerau-Levenshtein distance: insertions, deletions, substitutions, transpositions.
---@param a string
---@param b string
---@return integer
function guess.distance(a, b)
  local before, above = {}, {}
  for j = 0, #b do above[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local change = a:byte(i) == b:byte(j) and 0 or 1
      row[j] = math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + change)
      local swapped = i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j)
      if swapped then row[j] = math.min(row[j], before[j - 2] + 1) end
    end
    before, above = above, row
  end
  return above[#b]
end

---The name nearest to `word`, if it is at most two edits away and shares more than half of the word.
---@param word string
---@param names string[]
---@return string|nil
function guess.nearest(word, names)
  local best, least = nil, 3
  for _, name in ipairs(names) do
    local near = math.abs(#word - #name) < least -- else there is no need to compare, which takes #word x #name
    local slips = near and guess.distance(word:lower(), name:lower()) or least
    if slips < least and slips < math.max(#word, #name) / 2 then best, least = name, slips end
  end
  return best
end

---"; did you mean 'NAME'?" or "".
---@param word string
---@param names string[]
---@return string
function guess.hint(word, names)
  local name = guess.nearest(word, names)
  return name and ("; did you mean '%s'?"):format(name) or ""
end

---The same for a path that does not exist: a similar name in its directory, or the same with another ending.
---@param path string
---@return string
function guess.file_hint(path)
  local folder, name = path:match("^(.-)([^/]+)/*$")
  if not name then return "" end
  local names = require("seqrun.core.sys").list(folder == "" and "." or folder) or {}
  local stem = name:match("^(.-)%.?[^.]*$")
  local nearest = guess.nearest(name, names)
  for _, other in ipairs(names) do
    if not nearest and (other:match("^(.+)%.[^.]+$") == name or stem ~= "" and other == stem) then nearest = other end
  end
  return nearest and ("; did you mean '%s%s'?"):format(folder, nearest) or ""
end

return guess
