-- tables.lua - files that are given as text and are tables of records, whose keys and delimiters are no text.

local sys = require("seqrun.core.sys")

local ENDINGS = { jsonl = true, json = true, csv = true, tsv = true, parquet = true }

local function is_table(path)
  local ending = path:gsub("%.gz$", ""):match("%.(%w+)$")
  return ENDINGS[(ending or ""):lower()] or false
end

---The first table in a directory, among the files that the text would be read from: none that is hidden or behind a
---link to a directory.
local function first_in(folder)
  local real = sys.real_path(folder)
  for _, name in ipairs(sys.list(folder) or {}) do
    local path, found = folder .. "/" .. name, nil
    if name:sub(1, 1) == "." then
      found = nil
    elseif not sys.is_dir(path) then
      found = is_table(path) and path or nil
    elseif real and sys.real_path(path) == (real == "/" and "" or real) .. "/" .. name then
      found = first_in(path)
    end
    if found then return found end
  end
end

---Why a path is no text to pretrain on; nil if it may be.
---@param path string a file or a directory
---@return string?
return function(path)
  local inside = sys.is_dir(path) and first_in((path:gsub("(.)/+$", "%1")))
  local found = inside or not sys.is_dir(path) and is_table(path) and path
  if not found then return nil end
  return ("%s: a table of records, not text; %sextract its texts into a file with a blank line after each document, or "
    .. "fine-tune on it with recipes/finetune.lua data.train=%s"):format(found,
    inside and "move it out of the directory of texts, " or "", found)
end
