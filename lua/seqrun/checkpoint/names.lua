-- names.lua - maps tensor names in checkpoints of other programs to parameters, and reports what was loaded.

local names = {}

---Names of an encoder's parameters outside of its layers, and the layers.
local NAMES = {
  words = 1, positions = 1, types = 1, embedding_norm = 1, project = 1, layer = 1, final_norm = 1, pooler = 1,
}

---Buffers in files that are not parameters, by patterns of their names.
local BUFFERS = {
  { "%f[%w_]position_ids$", "position ids are implicit" },
  { "%f[%w_]token_type_ids$", "token types are implicit" },
  { "%f[%w_]inv_freq$", "rotary frequencies are computed" },
  { "%f[%w_]attn%.bias$", "the causal mask is computed" },
  { "%f[%w_]attn%.masked_bias$", "the causal mask is computed" },
}

---A name in today's convention: without `module.`, and with weight and bias instead of gamma and beta.
local function modern(name)
  return (name:gsub("^module%.", ""):gsub("%.gamma$", ".weight"):gsub("%.beta$", ".bias"))
end

---The first parts of the names of a family's encoder, which files of encoders alone begin with.
local function first_parts(family)
  local parts = {}
  for key in pairs(NAMES) do
    for _, name in ipairs(type(family.names[key]) == "table" and {} or { family.names[key] or nil }) do
      parts[name:match("^[%w_]+")] = true
    end
  end
  return parts
end

---The name under which a checkpoint of ours has a tensor of somebody's model.
---@param name string
---@param family seqrun.Family
---@return string
function names.canonical(name, family)
  name = family.rename_tensor(modern(name))
  return first_parts(family)[name:match("^[%w_]+%f[.]")] and family.prefix .. name or name
end

---Further names of parameters in files of a family: what they repeat.
---@param family seqrun.Family
---@param heads seqrun.FamilyHeads
---@return table<string, string>
function names.repeated(family, heads)
  local mlm = heads.mlm
  if not mlm or not mlm.repeats then return {} end
  return {
    [mlm.repeats .. ".weight"] = not mlm.weight and family.prefix .. family.names.words .. ".weight" or nil,
    [mlm.repeats .. ".bias"] = mlm.bias ~= mlm.repeats .. ".bias" and mlm.bias or nil,
  }
end

---The first parts of the names of some parameters ("bert."), which files of one part omit.
local function prefixes_of(params)
  local seen, list = {}, {}
  for _, name in ipairs(params:names()) do
    local prefix = name:match("^[%w_]+%.")
    if prefix and not seen[prefix] then
      seen[prefix] = true
      list[#list + 1] = prefix
    end
  end
  return list
end

---A function from a tensor's name in a file to the model's name for it; a name that the model does not have is
---returned in today's convention.
---@param params seqrun.Params
---@return fun(name: string): string
function names.matcher(params)
  local prefixes = prefixes_of(params)
  return function(name)
    if params:has(name) then return name end
    name = modern(name)
    if params.rename then name = params.rename(name) end
    for _, prefix in ipairs(params:has(name) and {} or prefixes) do
      if params:has(prefix .. name) then return prefix .. name end
    end
    return name
  end
end

---Parameters by the further names under which files repeat them (`tied` of a spec).
---@param params seqrun.Params
---@return table<string, string>
function names.tied(params)
  local owners = {}
  for _, param in ipairs(params.list) do
    for _, other in ipairs(param.tied or {}) do owners[other] = param.name end
  end
  return owners
end

---Why a tensor of a file may be ignored; nil if it should not be.
---@param name string
---@param tied table<string, string> of names.tied
---@return string|nil
function names.why_ignored(name, tied)
  if tied[name] then return "tied to " .. tied[name] end
  for _, rule in ipairs(BUFFERS) do
    if name:find(rule[1]) then return rule[2] end
  end
end

---@class seqrun.LoadReport
---@field loaded { name: string, from: string, note?: string }[]
---@field missing { name: string, reason: string }[] in the model, not in the file; reason: their values now
---@field ignored { name: string, reason: string, known: boolean }[] not in the model; known: safe to ignore
local Report = {}
Report.__index = Report

---@return seqrun.LoadReport
function names.report()
  return setmetatable({ loaded = {}, missing = {}, ignored = {} }, Report)
end

---Splits a name at the number of its layer: "bert.encoder.layer.*", 3, "output.dense.bias".
---@param name string
---@return string|nil module
---@return integer? layer from 0
---@return string? rest
function names.at_layer(name)
  for _, word in ipairs { "layers?", "h" } do
    local module, layer, rest = name:match("^(.-%f[%w_]" .. word .. "%.)(%d+)%.(.+)$")
    if module then return module .. "*", math.tointeger(layer), rest end
  end
end

---The part of a name that groups lines: the layer, or the head.
local function module_of(name)
  local layers = names.at_layer(name)
  return layers or name:match("^([%w_]+%.[%w_]+)%.") or name:match("^([%w_]+)%.") or name
end

local function insert_once(list, seen, value)
  if not seen[value] then list[#list + 1], seen[value] = value, true end
end

---The names of a group; of layers that all have the same names, each once.
local function names_of(group)
  local layers, rests, seen = {}, {}, {}
  for _, name in ipairs(group.names) do
    local _, layer, rest = names.at_layer(name)
    if layer then
      insert_once(layers, seen, layer)
      insert_once(rests, seen, rest)
    end
  end
  if #layers < 2 or #layers * #rests ~= #group.names then return group.names, "" end
  table.sort(layers)
  return rests, ("layers %s: "):format(table.concat(layers, ", "))
end

---Words after an indentation, in lines of at most 100 characters.
local function wrap(lines, first, list)
  local indent = (" "):rep(18)
  local line = indent .. first
  for i, word in ipairs(list) do
    word = i < #list and word .. ", " or word
    if #line + #word > 100 and #line > #indent then
      lines[#lines + 1] = line:gsub("%s+$", "")
      line = indent
    end
    line = line .. word
  end
  lines[#lines + 1] = line
end

local function add_lines(lines, title, list, reason_of, named)
  local groups, order = {}, {}
  for _, item in ipairs(list) do
    local key = module_of(item.name) .. "\0" .. (reason_of(item) or "")
    if not groups[key] then
      groups[key] = { module = module_of(item.name), reason = reason_of(item), names = {} }
      order[#order + 1] = key
    end
    table.insert(groups[key].names, item.name)
  end
  for _, key in ipairs(order) do
    local g = groups[key]
    local line = ("%-12s %4d  %-34s %s"):format(title, #g.names, g.module, g.reason or "")
    lines[#lines + 1] = line:gsub("%s+$", "")
    if named then
      local shown, first = names_of(g)
      wrap(lines, first, shown)
    end
  end
end

---One table, a line for each module and reason; what is missing or ignored is named.
function Report:__tostring()
  local lines = {}
  add_lines(lines, "loaded", self.loaded, function(item) return item.note end)
  add_lines(lines, "missing", self.missing, function(item) return item.reason end, true)
  add_lines(lines, "ignored", self.ignored, function(item) return item.reason end, true)
  return table.concat(lines, "\n")
end

return names
