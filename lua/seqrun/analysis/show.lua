-- show.lua - a metric as figures, and as a picture in the terminal: percentiles and a histogram.

local show = {}

local PERCENTILES = { 1, 5, 10, 25, 50, 75, 90, 95, 99 }
local CLASSES, BAR = 16, 40

---Number of values read at a time.
local SPAN = 1 << 16

local function mean_of(metric)
  local sum, count = 0.0, metric:count()
  for first = 0, count - 1, SPAN do
    local part = 0.0
    for _, value in ipairs(metric:values(first, math.min(SPAN, count - first))) do part = part + value end
    sum = sum + part
  end
  return sum / count
end

---The sequences between two values, in at most 16 classes of equal width.
local function histogram_of(metric, least, most)
  local whole = metric.about.whole
  local width = (most - least) / CLASSES
  if whole then width = math.max(1, math.ceil((most - least + 1) / CLASSES)) end
  if not (width > 0) then return { { first = least, last = most, sequences = metric:count() } } end
  local list, before, from = {}, 0, least
  while from <= most and #list < CLASSES do
    local last = whole and math.min(most, from + width - 1) or least + width * (#list + 1)
    if #list + 1 == CLASSES then last = most end
    local upto = metric:upto(last)
    list[#list + 1] = { first = from, last = last, sequences = upto - before }
    before, from = upto, whole and last + 1 or last
  end
  return list
end

---The figures of a metric.
---@param metric seqrun.Metric
---@return table
function show.figures(metric)
  local a = metric.about
  local r = {
    name = a.name, path = a.path, bytes = a.bytes, data = a.data, vocab = a.vocab, examples = a.examples,
    options = a.options, accumulated = a.accumulated, whole = a.whole, count = a.count,
  }
  if a.accumulated then
    r.sum, r.nonzero = 0, 0
    for _, total in ipairs(metric:values()) do
      r.sum, r.nonzero = r.sum + total, r.nonzero + (total ~= 0 and 1 or 0)
    end
    return r
  end
  r.min, r.max, r.mean, r.distinct = metric:least(), metric:most(), mean_of(metric), tonumber(a.distinct)
  r.percentiles = {}
  for i, p in ipairs(PERCENTILES) do r.percentiles[i] = { percent = p, value = metric:percentile(p) } end
  r.histogram = histogram_of(metric, r.min, r.max)
  return r
end

local function number(x) return (math.type(x) == "integer" and "%d" or "%.6g"):format(x) end

---The figures as lines for a person.
---@param r table
---@return string
function show.text(r)
  local lines = {}
  local function say(...) lines[#lines + 1] = string.format(...):gsub(" +$", "") end
  if r.accumulated then
    say("%s: %d totals, %d of them not 0, sum %s  (%s)", r.name, r.count, r.nonzero, number(r.sum), r.path)
    return lines[1]
  end
  say("%s of %d sequences (%s)", r.name, r.count, r.path)
  say("  of      %s", r.examples)
  local distinct = r.distinct and (", %d distinct values"):format(r.distinct) or ""
  say("  range   %s to %s, mean %s%s", number(r.min), number(r.max), number(r.mean), distinct)
  local percents, values = {}, {}
  for i, item in ipairs(r.percentiles) do
    percents[i], values[i] = ("%8s"):format(item.percent .. " %"), ("%8s"):format(number(item.value))
    local width = math.max(#percents[i], #values[i])
    percents[i], values[i] = ("%" .. width .. "s"):format(percents[i]), ("%" .. width .. "s"):format(values[i])
  end
  say("  %s", table.concat(percents, " "))
  say("  %s", table.concat(values, " "))
  local most = 1
  for _, class in ipairs(r.histogram) do most = math.max(most, class.sequences) end
  for _, class in ipairs(r.histogram) do
    say("  %10s .. %-10s %10d  %s", number(class.first), number(class.last), class.sequences,
      ("#"):rep(math.ceil(BAR * class.sequences / most)))
  end
  return table.concat(lines, "\n")
end

return show
