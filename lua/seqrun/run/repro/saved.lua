-- saved.lua - compares two checkpoints of a step: weights as files, moments tensor by tensor, into however many files
-- the ranks have cut them.

local failure = require("seqrun.base.failure")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")
require("seqrun.tensor") -- methods of tensors

---The pieces of each moment: by name, in order.
local function pieces_of(path, open)
  local found = {}
  for _, file in ipairs(failure.there(sys.list(path .. "/trainer")) or {}) do
    if file:find("^optim.*%.safetensors$") then
      local tensors = failure.must(train.safetensors(path .. "/trainer/" .. file))
      open[#open + 1] = tensors
      for _, entry in ipairs(tensors:entries()) do
        local name, first = entry.name:match("^(.*)%[(%d+):%d+%]$")
        name = name or entry.name
        found[name] = found[name] or {}
        table.insert(found[name], { first = math.tointeger(tonumber(first)) or 0, file = tensors, name = entry.name })
      end
    end
  end
  for _, list in pairs(found) do table.sort(list, function(a, b) return a.first < b.first end) end
  return found
end

local function bytes_of(list)
  local parts = {}
  for i, piece in ipairs(list or {}) do
    parts[i] = failure.must(piece.file:read(piece.name)):tostring_bytes()
  end
  return table.concat(parts)
end

---The first moment that differs; nil if none does.
local function difference(first, second)
  local open <close> = setmetatable({}, { __close = function(list)
    for _, file in ipairs(list) do file:close() end
  end })
  local a, b = pieces_of(first, open), pieces_of(second, open)
  for name in pairs(b) do a[name] = a[name] or {} end
  for _, name in ipairs(sorted(a)) do
    if bytes_of(a[name]) ~= bytes_of(b[name]) then return name end
  end
end

---Files of trainer/ that are compared in another way, or that say how a run was made.
local OTHERS = { ["state.json"] = true, ["config.yaml"] = true, ["choices.txt"] = true }

local function is_kept(name)
  return not (OTHERS[name] or name:find("^plan.*%.txt$") or name:find("%.safetensors$"))
end

---The first file that a task keeps beside its moments, such as predictions, and that differs; nil if none does.
local function difference_of_files(first, second)
  local function hash(path, name)
    local file = path .. "/trainer/" .. name
    return sys.exists(file) and failure.must(sys.hash_file(file)) or nil
  end
  for _, path in ipairs { first, second } do
    for _, name in ipairs(failure.must(sys.list(path .. "/trainer"))) do
      if is_kept(name) and hash(first, name) ~= hash(second, name) then return name end
    end
  end
end

---What differs between two checkpoints: the file of the weights, the name of a moment, or a file that the task keeps;
---nil if nothing does.
---@param first string
---@param second string
---@return string|nil
return function(first, second)
  local weights = "model.safetensors"
  local function hash(path) return failure.must(sys.hash_file(path .. "/" .. weights)) end
  if hash(first) ~= hash(second) then return weights end
  return difference(first, second) or difference_of_files(first, second)
end
