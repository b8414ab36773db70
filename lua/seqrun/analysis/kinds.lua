-- kinds.lua - the metrics that `seqrun analyze` knows, and how each is computed.
--
-- A kind is { name, options, run(analysis, next, tell, count) } or, if it is accumulated over all sequences, { name,
-- options, total(analysis, path, options) }; next and count are where an earlier call has stopped.  `options` is a
-- line that names what else the values depend on.

local check = require("seqrun.base.check")
local NAMES = {
  "compressibility", "length", "length_rarity", "loss", "rarity", "rarity_integer", "tfidf", "token_counts",
}
local RARITIES = { rarity = true, rarity_integer = true, length_rarity = true }
local data = require("seqrun.data")
local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")

---@class seqrun.MetricOptions
---@field name string of the file; letters, digits, _ - .
---@field path? string of the file, instead of DATA.NAME.metric
---@field fn? fun(sequence: seqrun.MeasuredSequence): number a metric of your own
---@field accumulate? fun(totals: number[], sequence: seqrun.MeasuredSequence) one of all sequences: adds to totals
---@field size? integer of totals, which start at 0
---@field version? string changes when the function means something else, so that values are not mixed
---@field corpus? seqrun.Corpus|string of tfidf: the data set to compare with
---@field slots? integer of rarity: entries of the table of counts; the size of the vocabulary plus 1
---@field checkpoint? string of loss: a run, a checkpoint or a Hugging Face directory
---@field loss? string of loss: its name; the first that the model has
---@field precision? "f32"|"bf16" of loss: f32 by default
---@field batch? integer of loss: sequences of a batch, 32

---@class seqrun.MeasuredSequence
---@field uid integer
---@field ids integer[] with [CLS] and [SEP]
---@field length integer of ids
---@field a_tokens integer
---@field b_tokens integer 0: a single segment
---@field corpus seqrun.Corpus
local Sequence = {}
Sequence.__index = Sequence

---The text of the sequence, without [CLS] and [SEP].
---@return string
function Sequence:text()
  local ids = table.move(self.ids, 2, self.a_tokens + 1, 1, {})
  table.move(self.ids, self.a_tokens + 3, self.a_tokens + self.b_tokens + 2, #ids + 1, ids)
  return (self.corpus:tokenizer():decode(ids))
end

local kinds = {}

local OPTIONS = {
  name = true, fn = true, accumulate = true, size = true, version = true, corpus = true, slots = true,
  checkpoint = true, loss = true, batch = true, index = true, path = true, precision = true,
}

local function stop_if_caught()
  if sys.caught() then failure.raise("stopped", "analyze: stopped; run it again to continue") end
end

-- ---- computed by the core --------------------------------------------------------------------------

---Runs the steps of a metric of the core; `more`: what it needs besides the examples.
local function measure(self, tell, name, more)
  failure.must(self.analysis:measure(name, more))
  while true do
    local done, values, parts = failure.must(self.analysis:step())
    if done then return end
    stop_if_caught()
    tell(values, parts)
  end
end

---The counts of all tokens, which several metrics share.
local function counts_of(self)
  self.counts = self.counts or failure.must(self.analysis:counts())
  return self.counts
end

local function plain(name)
  return { name = name, options = "", run = function(self, _, tell) measure(self, tell, name) end }
end

---The longest sequence that the examples can have, for the factor of length_rarity.
local function longest_of(self)
  if self.corpus:info().kind == "text" or self.examples.too_long == "split" then return self.examples.max_len or 128 end
  local _, _, longest = self.corpus.core:longer(0)
  return math.min(longest, self.examples.max_len)
end

local function rarity(self, name, spec)
  local size = self.corpus:vocab_size()
  local slots, most = spec.slots or size + 1, longest_of(self)
  if slots < size then
    failure.raise("config", "analyze: %s: %d slots are fewer than the %d tokens of the vocabulary", name, slots, size)
  end
  local combined = name == "length_rarity" and (", sequences of at most %d tokens"):format(most) or ""
  return {
    name = name, options = ("%d slots%s"):format(slots, combined),
    run = function(_, _, tell) measure(self, tell, name, { counts = counts_of(self), slots = slots, most = most }) end,
  }
end

local function tfidf(self, spec)
  local other = spec.corpus
  if other == nil then failure.raise("config", "analyze: tfidf needs a corpus to compare with (--corpus FILE)") end
  if type(other) == "string" then other = failure.must(data.open(other)) end
  return {
    name = spec.name or "tfidf", options = "corpus " .. other:info().digest,
    run = function(_, _, tell) measure(self, tell, "tfidf", { corpus = other.core }) end,
  }
end

local function token_counts(self)
  return {
    name = "token_counts", options = "",
    total = function(_, path, options)
      failure.must(self.analysis:totals(path, "token_counts", options, counts_of(self)))
    end,
  }
end

-- ---- functions -------------------------------------------------------------------------------------

---Calls take(sequence) for the examples of parts first, first + 1, ...; part_done(next) after each part.
local function each_sequence(self, first, uid, take, part_done)
  for part = first, self.analysis:parts() - 1 do
    for _, sequence in ipairs((failure.must(self.analysis:read(part)))) do
      sequence.uid, sequence.corpus = uid, self.corpus
      take(setmetatable(sequence, Sequence))
      uid = uid + 1
    end
    part_done(part + 1)
  end
end

---The value of a function for a sequence.
local function value_of(name, fn, sequence)
  local good, value = pcall(fn, sequence)
  local where = ("metric '%s', sequence %d: "):format(name, sequence.uid)
  if not good then failure.raise("data", "%s%s", where, tostring(value)) end
  if type(value) ~= "number" or value - value ~= 0 then
    failure.raise("data", "%sthe function returned %s; it must return a finite number", where, check.show(value))
  end
  if math.type(value) == "integer" and (value > 1 << 53 or value < -(1 << 53)) then
    failure.raise("data", "%sthe function returned %d; integers beyond 2^53 are not exact", where, value)
  end
  return value
end

---What the values of a function depend on, as far as known: its code and its version.
local function options_of(fn, version)
  return ("function %s, version %s"):format(sys.hash(string.dump(fn, true)):sub(1, 16), version or "none")
end

local function own(spec)
  local name, fn = spec.name, spec.fn
  return {
    name = name, options = options_of(fn, spec.version),
    run = function(self, first, tell, uid)
      local values = {}
      each_sequence(self, first, uid, function(sequence)
        values[#values + 1] = value_of(name, fn, sequence)
      end, function(next)
        failure.must(self.analysis:append(values, next))
        uid, values = uid + #values, {}
        stop_if_caught()
        tell(uid, next)
      end)
    end,
  }
end

local function accumulated(spec)
  local size = check.integer("analyze: size of " .. spec.name, spec.size, 1)
  return {
    name = spec.name, options = options_of(spec.accumulate, spec.version),
    total = function(self, path, options)
      local totals = {}
      for i = 1, size do totals[i] = 0 end
      each_sequence(self, 0, 0, function(sequence)
        local good, problem = pcall(spec.accumulate, totals, sequence)
        if not good then failure.raise("data", "metric '%s', sequence %d: %s", spec.name, sequence.uid, problem) end
      end, stop_if_caught)
      for i = 1, math.max(size, #totals) do
        local total = totals[i]
        if i > size or type(total) ~= "number" or total - total ~= 0 then
          failure.raise("data", "metric '%s': total %d is %s; expected %d finite numbers", spec.name, i,
            check.show(total), size)
        end
      end
      failure.must(self.analysis:totals(path, spec.name, options, totals))
    end,
  }
end

-- ---- by name ---------------------------------------------------------------------------------------

---All names of metrics.
---@return string[]
function kinds.names() return NAMES end

---A metric of a Lua file: a function of a sequence, or the options of a metric.
local function from_file(path)
  local chunk, problem = loadfile(path, "t")
  if not chunk then failure.raise("config", "analyze: %s", problem) end
  local good, value = pcall(chunk)
  if not good then failure.raise("config", "analyze: %s", value) end
  local name = path:match("([^/]*)%.lua$")
  if type(value) == "function" then return { name = name, fn = value } end
  if type(value) ~= "table" then
    failure.raise("config", "analyze: %s returned %s; it must return a function of a sequence", path,
      check.show(value))
  end
  value.name = value.name or name
  good, problem = pcall(check.options, "analyze: " .. path, value, OPTIONS)
  if not good then failure.raise("config", "%s", problem) end
  return value
end

---The kind of a metric.
---@param self table the analysis
---@param spec string|seqrun.MetricOptions
---@return table kind
function kinds.read(self, spec)
  if type(spec) == "string" then spec = { name = spec } end
  if type(spec.name) == "string" and spec.name:find("%.lua$") then spec = from_file(spec.name) end
  check.options("analyze: metric", spec, OPTIONS)
  local name = spec.name
  if type(name) ~= "string" or not name:find("^[%w_.-]+$") or #name > 64 then
    failure.raise("config", "analyze: a metric needs a name of letters, digits and _ - ., got %s", check.show(name))
  end
  if spec.fn then return own(spec) end
  if spec.accumulate then return accumulated(spec) end
  if spec.corpus or name == "tfidf" then return tfidf(self, spec) end
  if spec.checkpoint or name == "loss" then return require("seqrun.analysis.loss")(self, spec) end
  if name == "token_counts" then return token_counts(self) end
  if name == "length" or name == "compressibility" then return plain(name) end
  if RARITIES[name] then return rarity(self, name, spec) end
  local hint = require("seqrun.base.guess").hint(name, kinds.names())
  if hint == "" then hint = ("; use %s, or a .lua file"):format(table.concat(kinds.names(), ", ")) end
  failure.raise("config", "analyze: unknown metric '%s'%s", name, hint)
end

return kinds
