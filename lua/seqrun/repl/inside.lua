-- inside.lua - a look inside at the prompt: the spread of numbers, what a head attends to, and a batch as text.

local ansi = require("seqrun.draw.ansi")
local bars = require("seqrun.draw.bars")
local batches = require("seqrun.predict.batches")
local canvas = require("seqrun.draw.canvas")
local check = require("seqrun.base.check")
local checkpoint = require("seqrun.checkpoint")
local counted = require("seqrun.base.format").counted
local dense = require("seqrun.nn.dense")
local failure = require("seqrun.base.failure")
local grid = require("seqrun.draw.grid")
local ops = require("seqrun.tensor.ops")
local pretrained = require("seqrun.checkpoint.bert")
local svg = require("seqrun.draw.svg")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")
local tokenizers = require("seqrun.checkpoint.tokenizer")

local inside = {}

-- ---- numbers -------------------------------------------------------------------------------------

local BINS = 16

---The finite numbers of a list or a tensor, and how many are NaN or infinite.
local function finite_of(values)
  local list = values
  if type(values) == "userdata" then list = values:detach():to("f32"):reshape(-1):totable() end
  if type(list) ~= "table" then
    check.fail("histogram: expected numbers or a tensor, got %s", check.show(values))
  end
  local good, bad = {}, 0
  for i, x in ipairs(list) do
    if type(x) ~= "number" then check.fail("histogram: element %d must be a number, got %s", i, check.show(x)) end
    if x - x == 0 then good[#good + 1] = x else bad = bad + 1 end
  end
  if #good == 0 then check.fail("histogram: no finite number among %d", bad) end
  return good, bad
end

---How many numbers lie in each of `bins` equal ranges, and mean, deviation, minimum and maximum.
local function spread(list, bins)
  local sum, squares, low, high = 0, 0, math.huge, -math.huge
  for _, x in ipairs(list) do
    sum, low, high = sum + x, math.min(low, x), math.max(high, x)
  end
  local mean, counts = sum / #list, {}
  for i = 1, bins do counts[i] = 0 end
  local width = high > low and (high - low) / bins or 1
  for _, x in ipairs(list) do
    squares = squares + (x - mean) ^ 2
    local i = math.min(bins, math.floor((x - low) / width) + 1)
    counts[i] = counts[i] + 1
  end
  return counts, { mean = mean, deviation = math.sqrt(squares / #list), low = low, high = high, width = width }
end

---How numbers are spread, as bars.
---@param values seqrun.Tensor|number[]
---@param options? { bins?: integer } 16
---@return string
function inside.histogram(values, options)
  options = check.options("histogram", options, { bins = true })
  local bins = check.integer("histogram: bins", options.bins or BINS, 1, 1000)
  local list, bad = finite_of(values)
  local counts, facts = spread(list, bins)
  local lines = { ("%s: mean %s, deviation %s, %s to %s%s"):format(counted(#list, "number"), canvas.number(facts.mean),
    canvas.number(facts.deviation), canvas.number(facts.low), canvas.number(facts.high),
    bad > 0 and (", and %d NaN or infinite"):format(bad) or "") }
  local most, room = math.max(table.unpack(counts)), bars.room(24)
  for i, count in ipairs(counts) do
    lines[#lines + 1] = ("%12s %9d %s"):format(canvas.number(facts.low + (i - 1) * facts.width), count,
      bars.bar(count / most, room))
  end
  return table.concat(lines, "\n")
end

-- ---- attention -----------------------------------------------------------------------------------

local SHADES, PLAIN = { " ", "░", "▒", "▓", "█" }, { " ", ".", "+", "*", "#" }
local LABEL = 14 -- columns of a token
local CELL, MARGIN = 14, 90 -- pixels

---The tokens of a text, and the probabilities (heads, T, T) with which they attend in a layer.
local function probabilities(model, text, layer)
  local encoder, facts = failure.must(pretrained(model, { heads = {} }))
  encoder = encoder.encoder
  local last = encoder.design.layers - 1
  layer = check.integer("attention: the layer", layer or last, 0, last)
  local tokenizer = failure.must(tokenizers.open(facts, true))
  local batch = batches.make({ { a = tokenizer:ids(text) } }, tokenizer)
  if batch.tokens > encoder.design.longest then
    check.fail("attention: %d tokens, but the model reads at most %d", batch.tokens, encoder.design.longest)
  end
  local found
  encoder.training = false
  encoder.attention = function(qkv, layout, options)
    if options.layer == layer then found = dense.probabilities(qkv, layout, options) end
    return ops.attention(qkv, layout, options)
  end
  encoder:encode(batch)
  local tokens = {}
  for i, id in ipairs(batch.ids:totable()) do
    if i <= batch.tokens then tokens[i] = tokenizer:token(id) end
  end
  return tokens, found:select(1, 1):to("f32"):totable(), layer
end

---The probabilities of one head, or their mean over all.
local function of_head(heads, head, count)
  if head then return heads[check.integer("attention: the head", head, 0, #heads - 1) + 1] end
  local mean = {}
  for i = 1, count do
    mean[i] = {}
    for j = 1, count do
      local sum = 0
      for _, one in ipairs(heads) do sum = sum + one[i][j] end
      mean[i][j] = sum / #heads
    end
  end
  return mean
end

---A shade for a part of the largest probability of a picture.
local function shade(part)
  local i = math.ceil(math.sqrt(part) * #SHADES - 1e-9)
  return (ansi.is_dumb() and PLAIN or SHADES)[math.max(1, i)]
end

---A row a token: what it attends to, and the token that it attends to most.
local function picture(tokens, rows)
  local shown = math.max(0, math.min(#tokens, (sys.columns(1) - 2 * LABEL - 6) // 2))
  local lines, largest = {}, 0
  for _, row in ipairs(rows) do largest = math.max(largest, table.unpack(row)) end
  for i, token in ipairs(tokens) do
    local cells, most = {}, 1
    for j = 1, #tokens do
      if rows[i][j] > rows[i][most] then most = j end
      if j <= shown then cells[j] = shade(rows[i][j] / largest):rep(2) end
    end
    local label = grid.cut(token, LABEL)
    lines[i] = ("%s%s %s %.2f %s"):format((" "):rep(LABEL - grid.width(label)), label, table.concat(cells),
      rows[i][most], grid.cut(tokens[most], LABEL))
  end
  if shown < #tokens then
    lines[#lines + 1] = ("%d of %d columns fit here; { svg = FILE } draws all"):format(shown, #tokens)
  end
  return table.concat(lines, "\n")
end

---The same as a file: a square a pair of tokens, as dark as the probability.
local function drawing(tokens, rows, title)
  local parts, left, top = {}, MARGIN, MARGIN + 24
  local function text(x, y, content, turn)
    parts[#parts + 1] = svg.element("text", { class = turn and "name" or "name end", x = x, y = y,
      transform = turn and ("rotate(-60 %d %d)"):format(x, y) or nil }, svg.escape(grid.cut(content, LABEL)))
  end
  parts[1] = svg.element("text", { class = "head", x = 0, y = 10 }, svg.escape(title))
  for i, token in ipairs(tokens) do
    text(left - 4, top + i * CELL - 4, token)
    text(left + i * CELL - 4, top - 4, token, true)
    for j, p in ipairs(rows[i]) do
      if p >= 0.005 then
        parts[#parts + 1] = svg.element("rect", { class = "fill s1", opacity = ("%.2f"):format(p),
          x = left + (j - 1) * CELL, y = top + (i - 1) * CELL, width = CELL - 1, height = CELL - 1 })
      end
    end
  end
  local width, height = math.max(left + #tokens * CELL + MARGIN, 8 * #title), top + #tokens * CELL
  local chart = svg.element("svg", { class = "chart", width = width, height = height }, table.concat(parts, "\n"))
  return svg.page(width, height, { chart }, title)
end

---What each token of a text attends to, in one layer: the darker, the more; beside it the token with the most.
---@param model string a run, a checkpoint or a Hugging Face directory
---@param text string
---@param layer? integer from 0, as in the names of parameters; the last by default
---@param head? integer from 0; the mean of all heads by default
---@param options? { svg?: string } svg: a file that gets the picture
---@return string
function inside.attention(model, text, layer, head, options)
  options = check.options("attention", options, { svg = true })
  check.value("attention: the model, a directory,", model, "string")
  check.value("attention: the text", text, "string")
  local scope <close> = tensor.scope()
  local quiet <close> = tensor.no_grad()
  local tokens, heads, at = probabilities(model, text, layer)
  local rows = of_head(heads, head, #tokens)
  local title = ("%s, layer %d, %s: row attends to column"):format(checkpoint.resolve(model), at,
    head and ("head %d"):format(head) or "mean of all heads")
  if options.svg then failure.must(sys.write_file(options.svg, drawing(tokens, rows, title))) end
  return title .. "\n" .. picture(tokens, rows)
end

-- ---- batches -------------------------------------------------------------------------------------

---The labels of masked rows, by row.
local function masked_labels(batch)
  local labels, target = {}, batch.targets.mlm
  if not target then return labels end
  local ids = target.labels:totable()
  for i, row in ipairs(batch:host_rows("mlm")) do labels[row] = ids[i] end
  return labels
end

---The sequences of a batch as text, a line each; a masked token is followed by what it was: "[MASK](cat)".
---@param batch seqrun.Batch
---@param data seqrun.Corpus the data set that it is of
---@return string
function inside.batch(batch, data)
  local tokenizer = type(data) == "table" and data.tokenizer and data:tokenizer()
  if not tokenizer then
    check.fail("show_batch: the second argument must be the data set of the batch, such as loader.data, got %s",
      check.show(data))
  end
  local ids, labels, lines = batch:host("ids"), masked_labels(batch), {}
  local starts, lengths = batch.layout:starts(), batch.layout:lengths()
  for i, start in ipairs(starts) do
    local words = {}
    for row = start, start + lengths[i] - 1 do
      local token, was = tokenizer:token(ids[row + 1]), labels[row]
      words[#words + 1] = was and ("%s(%s)"):format(token, tokenizer:token(was)) or token
    end
    lines[i] = ("%4d  %s"):format(i, table.concat(words, " "))
  end
  return tostring(batch) .. "\n" .. table.concat(lines, "\n")
end

return inside
