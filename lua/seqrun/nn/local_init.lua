-- local_init.lua - initial weights with which half of the heads begin at a token beside their own.
--
-- Nothing in random weights says which tokens are neighbours, so for most of its training a small BERT on little text
-- is a bag of words.  Here position embeddings begin as sinusoids, whose inner products depend on distances only, and
-- queries and keys read them such that head 1, 2, 3, 4, ... of each layer scores the token before, the token after,
-- the second before, the second after, ... highest.  The other half is left to look at the whole sequence, for its
-- topic and for [CLS].  All of it is trained like other weights.
--
-- Source: sinusoids, Vaswani et al. 2017, arXiv:1706.03762; attention that begins with a structure, Trockman and
-- Kolter 2023, arXiv:2305.09828.

local check = require("seqrun.base.check")
local tensor = require("seqrun.tensor")

---Radians per token of the highest frequency, and its ratio to the lowest.
local TOP, RATIO = 2.5, 100
---Of the queries and keys.  The score of the token that a head begins at is then about 3 above those beside it.
local STRENGTH = 5

---Frequency j of n, from 0.
local function frequency(j, n) return TOP / RATIO ^ (j / n) end

---(positions, H): sines in the first half of the columns, cosines in the second.
local function sinusoids(positions, hidden, size)
  local rows, half = {}, hidden // 2
  for i = 1, positions do
    local row = {}
    for j = 1, hidden do row[j] = 0 end
    for j = 1, half do
      local angle = (i - 1) * frequency(j - 1, half)
      row[j], row[half + j] = size * math.sin(angle), size * math.cos(angle)
    end
    rows[i] = row
  end
  return tensor.tensor(rows)
end

---(H, H): each head of the first half takes some of the frequencies, turned by its offset in tokens.
local function readers(design, offset_of)
  local hidden, heads = design.hidden, design.heads
  local head_size, half = hidden // heads, hidden // 2
  local count, size, rows = head_size // 2, STRENGTH / head_size ^ 0.25, {}
  for i = 1, hidden do
    rows[i] = {}
    for j = 1, hidden do rows[i][j] = 0 end
  end
  for head = 0, (heads + 1) // 2 - 1 do
    for k = 1, count do
      local j = (k - 1) * half // count
      local angle = offset_of(head) * frequency(j, half)
      local sine, cosine = rows[head * head_size + k], rows[head * head_size + count + k]
      sine[j + 1], sine[half + j + 1] = size * math.cos(angle), size * math.sin(angle)
      cosine[j + 1], cosine[half + j + 1] = -size * math.sin(angle), size * math.cos(angle)
    end
  end
  return tensor.tensor(rows)
end

---The offset at which a head begins, from head 0: -1, 1, -2, 2, ...
local function beside(head) return (head % 2 == 0 and -1 or 1) * (head // 2 + 1) end

local function itself() return 0 end

local local_init = {}

---Fails for encoders that have no such initial weights.
---@param family seqrun.Family
---@param design seqrun.Design
function local_init.check(family, design)
  if design.position_rows and type(family.names.qkv) == "table" and design.embedding == design.hidden then return end
  check.fail("%s: initializer is 'local', which needs learned positions of the hidden size and separate queries and "
    .. "keys; choose normal", family.name)
end

---Changes the initial weights of an encoder.
---@param encoder seqrun.Encoder
function local_init.apply(encoder)
  local scope <close> = tensor.scope()
  local no_grad <close> = tensor.no_grad()
  local design, names, params = encoder.design, encoder.names, encoder.params
  local function value(name) return params:master(encoder.prefix .. name .. ".weight"):detach() end
  local size = design.std * math.sqrt(2) -- their standard deviation is that of the other embeddings
  value(names.positions):copy_(sinusoids(design.position_rows, design.hidden, size))
  local query, key = readers(design, beside), readers(design, itself)
  for i = 0, design.layers - 1 do
    value(names.layer:format(i) .. names.qkv[1]):add_(query)
    value(names.layer:format(i) .. names.qkv[2]):add_(key)
  end
  params:refresh()
end

return local_init
