-- tiling.lua - the weights of a larger model from those of a smaller one.
--
-- Layer j of L takes layer round(j l / L) of l, halves to even.  A tensor is placed in the middle of the larger one and
-- repeated outwards from there, in both directions; the tensors of one product (q, k and v; the two halves of a gated
-- block) one by one, although they are stored as one.
--
-- Source: Warner et al. 2024, arXiv:2412.13663 (ModernBERT-large from base).

local check = require("seqrun.base.check")
local ops = require("seqrun.tensor.ops")
local tensor = require("seqrun.tensor")

local tiling = {}

---The layer of a model of `old` layers that layer j of one of `new` layers takes, both from 0.
---@param j integer
---@param old integer
---@param new integer
---@return integer
function tiling.layer(j, old, new)
  local x = j * old / new
  local i = math.floor(x)
  local rest = x - i
  if rest > 0.5 or rest == 0.5 and i % 2 == 1 then i = i + 1 end
  return math.min(i, old - 1)
end

---Where the elements of a dimension of `new` come from in one of `old`, from 0.
---@param old integer
---@param new integer
---@return integer[]
function tiling.places(old, new)
  local first, list = (new - old) // 2, {}
  for i = 0, new - 1 do list[i + 1] = (i - first) % old end
  return list
end

---One block along its rows.
local function spread(x, rows)
  if x:size(1) == rows then return x end
  return ops.gather_rows(x:contiguous(), tensor.tensor(tiling.places(x:size(1), rows), { dtype = "i32" }))
end

---A block of one or two dimensions in a larger shape.
local function tiled(x, shape)
  x = spread(x, shape[1])
  if #shape == 1 then return x end
  return spread(x:transpose(1, 2), shape[2]):transpose(1, 2):contiguous()
end

---A tensor of one or two dimensions in a larger shape, block by block of its rows.
---@param x seqrun.Tensor
---@param shape integer[]
---@param blocks? integer of equal rows; default 1
---@return seqrun.Tensor
function tiling.tile(x, shape, blocks)
  blocks = blocks or 1
  local have, wanted, parts = x:size(1) // blocks, shape[1] // blocks, {}
  for b = 1, blocks do
    parts[b] = tiled(x:narrow(1, (b - 1) * have + 1, have), { wanted, shape[2] })
  end
  return blocks == 1 and parts[1] or tensor.cat(parts, 1)
end

---The name of a parameter of a layer, with the number of another: nil if it belongs to none.
local function renumbered(encoder, name, map)
  local prefix = encoder.prefix .. encoder.names.layer
  local pattern = "^" .. prefix:gsub("%p", "%%%0"):gsub("%%%%d", "(%%d+)") .. "(.*)$"
  local layer, rest = name:match(pattern)
  if not layer then return nil end
  return prefix:format(map(math.tointeger(layer))) .. rest, rest
end

---Equal blocks of rows of a parameter: a product that one tensor holds has several.
local function blocks_of(encoder, rest)
  local names, d = encoder.names, encoder.design
  local function is(name) return type(name) == "string" and rest and rest:match("^(.*)%.%a+$") == name end
  if is(names.qkv) then
    if d.heads ~= d.kv_heads then
      check.fail("tile: %s has fewer key heads than query heads, which tiling does not support", encoder.family.name)
    end
    return 3
  end
  return is(names.up) and d.gate and 2 or 1
end

---What a parameter is made of.
---@param encoder seqrun.Encoder of the larger model
---@param layers integer of the smaller one
---@param name string
---@return string source the name of a parameter of the smaller model
---@return integer blocks
function tiling.source(encoder, layers, name)
  local source, rest = renumbered(encoder, name, function(j) return tiling.layer(j, layers, encoder.design.layers) end)
  return source or name, blocks_of(encoder, rest)
end

return tiling
