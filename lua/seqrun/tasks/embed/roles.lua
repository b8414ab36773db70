-- roles.lua - which columns of a file are the anchor, the positive, the negatives and the score.
--
-- Without columns.*, by the names that sets of pairs are published with: `anchor, positive[, negative...]`, or
-- `sentence1, sentence2[, score]`, or `text` alone.

local failure = require("seqrun.base.failure")
local formats = require("seqrun.data.readers.formats")
local json = require("seqrun.core.json")
local one_line = require("seqrun.base.one_line")
local sorted = require("seqrun.base.sorted")
local text = require("seqrun.core.text")

local roles = {}

---Names of a first text, each with that of the second.
local PAIRS = { { "anchor", "positive" }, { "sentence1", "sentence2" }, { "text" } }

---Rows of JSON lines that are looked at for the names of their keys.
local LOOKED_AT = 1000

---The keys of the first objects.
local function keys_of(rows, cells)
  local seen, count = {}, 1
  for _ = 1, LOOKED_AT do
    local object = count > 0 and json.decode(cells[1])
    for name in pairs(type(object) == "table" and object or {}) do seen[tostring(name)] = true end
    count = rows:next(cells)
    if not count then break end
  end
  return sorted(seen)
end

---The names that a file has: cells of the first row of a table, keys of objects.
local function names_of(path, options)
  local format = formats.of(path, options.reader, options.format)
  local rows <close> = failure.must(text.rows(path, formats.rows(format, options)))
  local cells = {}
  local count, why, code
  repeat count, why, code = rows:next(cells) until count ~= 0
  if not count and why then failure.raise(code, "%s", why) end
  if not count then failure.raise("data", "%s: the file is empty", path) end
  return format == "jsonl" and keys_of(rows, cells) or table.move(cells, 1, count, 1, {})
end

---Those of negatives: negative, negatives, negative_1, negative2 ...
local function negatives_of(names)
  local list = {}
  for _, name in ipairs(names) do
    if name:find("^negatives?$") or name:find("^negative_?%d+$") then list[#list + 1] = name end
  end
  return #list > 0 and list or nil
end

---The usual columns of a file; fails if it has none of them.
---@param path string
---@param options table of the reader
---@return table columns { text =, pair =, label =, choices = }
function roles.usual(path, options)
  local names, has = names_of(path, options), {}
  for _, name in ipairs(names) do has[name] = true end
  for _, pair in ipairs(PAIRS) do
    if has[pair[1]] and (not pair[2] or has[pair[2]]) then
      return {
        text = pair[1], pair = pair[2], choices = pair[1] == "anchor" and negatives_of(names) or nil,
        label = pair[1] == "sentence1" and has.score and "score" or nil,
      }
    end
  end
  failure.raise("data", "%s: expected columns anchor, positive[, negative...] or sentence1, sentence2[, score]; the "
    .. "first row has: %s; name yours with columns.text, columns.pair, columns.choices (negatives) and columns.label "
    .. "(score), as names or as numbers from 1", path, one_line(table.concat(names, ", "), 300))
end

---Whether a name is that of negatives, of a score or of a label.
local function is_negative(name) return name:lower():find("negative", 1, true) ~= nil end

local function is_score(name)
  local plain = name:lower()
  return plain:find("score", 1, true) ~= nil or plain:find("^similarity") ~= nil or plain:find("label", 1, true) ~= nil
end

---Fails if a file of pairs has negatives or scores that would not be used: not all of its pairs may belong together.
---@param path string
---@param options table of the reader
---@param columns table of usual()
function roles.check(path, options, columns)
  if not columns.pair then return end
  local used = {}
  for _, name in ipairs(columns.choices or {}) do used[name] = true end
  for _, name in ipairs(names_of(path, options)) do
    local role = is_negative(name) and not used[name] and ("columns.choices=[%s]"):format(name)
      or not columns.label and is_score(name) and "columns.label=" .. name
    if role then
      local pair = ("columns.text=%s columns.pair=%s"):format(columns.text, columns.pair)
      failure.raise("config", "%s has a column '%s', which would not be used; add it with %s %s, or write %s alone, if "
        .. "all pairs belong together", path, name, pair, role, pair)
    end
  end
end

---Whether the user has named any.
---@param columns table
---@return boolean
function roles.given(columns)
  return columns.text ~= nil or columns.pair ~= nil or columns.choices ~= nil or columns.label ~= nil
end

return roles
