-- metric.lua - one number for each sequence of a data set, and their order by it: what a curriculum draws by.
--
--     local rarity = sr.must(sr.data.metric("novels.rarity.metric", corpus))
--     rarity:value(17)            of the sequence with uid 17
--     rarity:percentile(50)       the median
--     rarity:upto(120.5)          how many sequences have at most this value
--
-- Uids are those of the examples of one epoch: the fixed examples of a data set, or the pairs that one epoch of
-- a text draws.

local check = require("seqrun.base.check")
local core = require("seqrun.core.metric")
local failure = require("seqrun.base.failure")

---@class seqrun.Metric
---@field core seqrun.core.metric.metric
---@field about table what core:info() says
local Metric = {}
Metric.__index = Metric
Metric.__name = "seqrun.Metric"

local function wrap(object) return setmetatable({ core = object, about = object:info() }, Metric) end

---Opens a metric file.  With `corpus`, a metric of another data set or vocabulary is rejected.
---@param path string
---@param corpus? seqrun.Corpus
---@param options? table the loader's options that choose the examples (part, max_len, nsp, seed, ...), checked too
---@return seqrun.Metric? metric
---@return string? message
---@return string? code
function Metric.open(path, corpus, options)
  local object, message, code = core.open(path)
  if not object then return nil, message, code end
  local metric = wrap(object)
  if corpus then
    local done
    done, message, code = metric:is_of(corpus, options)
    if not done then return nil, message, code end
  end
  return metric
end

---A metric in memory: values[uid + 1].
---@param values number[]
---@return seqrun.Metric
function Metric.new(values) return wrap(core.of(check.value("metric: values", values, "table"))) end

function Metric:__tostring()
  local a = self.about
  if a.accumulated then return ("metric %s: %d totals"):format(a.name, a.count) end
  local text = a.whole and "metric %s of %d sequences: %d to %d" or "metric %s of %d sequences: %.6g to %.6g"
  return text:format(a.name, a.count, self:least(), self:most())
end

---The number of sequences (of an accumulated metric: of totals).
---@return integer
function Metric:count() return self.about.count end

---@return string
function Metric:name() return self.about.name end

---The value of a sequence; of an accumulated metric the total of an index, such as a token id.
---@param uid integer from 0
---@return number
function Metric:value(uid) return failure.must(self.core:value(uid)) end

---Values of sequences `first`, `first` + 1, ...; all by default.
---@param first? integer from 0
---@param count? integer
---@return number[]
function Metric:values(first, count) return failure.must(self.core:values(first, count)) end

---Uids by ascending value, ties by uid: `count` of them from position `first` on, all by default.
---@param first? integer from 0
---@param count? integer
---@return integer[]
function Metric:order(first, count) return failure.must(self.core:order(first, count)) end

---The number of sequences whose value is at most `value`; they come first in the order.
---@param value number
---@return integer
function Metric:upto(value) return failure.must(self.core:upto(value)) end

---The lowest value.
---@return number
function Metric:least() return failure.must(self.core:at(0)) end

---The highest value.
---@return number
function Metric:most() return failure.must(self.core:at(self.about.count - 1)) end

---The value that p percent of the sequences do not exceed: percentile(50) is the median.
---@param p number 0..100
---@return number
function Metric:percentile(p)
  if type(p) ~= "number" or not (p >= 0 and p <= 100) then
    check.fail("metric:percentile: p must be a number from 0 to 100, got %s", check.show(p))
  end
  return failure.must(self.core:at(math.max(0, math.ceil(p / 100 * self.about.count) - 1)))
end

local CHOICES = { "part", "max_len", "nsp", "short_seq_prob", "short_seq_by", "seed", "epoch", "too_long" }

---Whether it is of this data set and, with options of a loader, of the examples that it draws.
---@param corpus seqrun.Corpus
---@param options? table of the loader
---@param examples? integer number of examples that the loader has
---@return true? done
---@return string? message what differs
---@return string? code
function Metric:is_of(corpus, options, examples)
  if not options then return self.core:check(corpus.core, nil, examples) end
  local o = {}
  for _, key in ipairs(CHOICES) do o[key] = options[key] end
  if o.nsp == nil then o.nsp = corpus:info().kind == "text" end
  return self.core:check(corpus.core, o, examples)
end

---Raises a failure unless the metric is of the examples of a loader.
---@param loader seqrun.Loader
---@param epoch? integer the first by default
---@return seqrun.Metric self
function Metric:check(loader, epoch)
  local options = setmetatable({ epoch = epoch }, { __index = loader.options })
  failure.must(self:is_of(loader.data, options, loader:examples(epoch)))
  return self
end

---Closes the file.
function Metric:close() self.core:close() end

Metric.__close = Metric.close

return Metric
