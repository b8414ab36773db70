-- kinds.lua - the metrics that `seqrun analyze` knows, and how each is computed.
--
-- A kind is { name, options, run(analysis, next, tell, count) } or, if it is accumulated over all sequences, { name,
-- options, total(analysis, path, options) }; next and count are where an earlier call has stopped.  `options` is a
-- line that names what else the values depend on.

local check = require("seqrun.base.check")
local core_names = { "length", "rarity", "rarity_integer", "length_rarity", "compressibility", "tfidf" }
local data = require("seqrun.data")
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

local function stopped()
  return nil, "analyze: stopped; run it again to continue", "stopped"
end

-- ---- computed by the core --------------------------------------------------------------------------

---Runs the steps of the core.
local function run_core(self, tell)
  while true do
    local done, values, parts = self.analysis:step()
    if done == nil then return nil, values, parts end
    if done then return true end
    if sys.caught() then return stopped() end
    tell(values, parts)
  end
end

---The counts of all tokens, which several metrics share.
local function counts_of(self)
  if not self.counts then
    local counts, message, code = self.analysis:counts()
    if not counts then return nil, message, code end
    self.counts = counts
  end
  return self.counts
end

local function plain(name)
  return {
    name = name, options = "",
    run = function(self, _, tell)
      local done, message, code = self.analysis:measure(name)
      if not done then return nil, message, code end
      return run_core(self, tell)
    end,
  }
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
    return nil, ("analyze: %s: %d slots are fewer than the %d tokens of the vocabulary"):format(name, slots, size),
      "config"
  end
  local combined = name == "length_rarity" and (", sequences of at most %d tokens"):format(most) or ""
  return {
    name = name, options = ("%d slots%s"):format(slots, combined),
    run = function(_, _, tell)
      local counts, message, code = counts_of(self)
      if not counts then return nil, message, code end
      local done
      done, message, code = self.analysis:measure(name, { counts = counts, slots = slots, most = most })
      if not done then return nil, message, code end
      return run_core(self, tell)
    end,
  }
end

local function tfidf(self, spec)
  local other, message, code = spec.corpus, nil, nil
  if other == nil then return nil, "analyze: tfidf needs a corpus to compare with (--corpus FILE)", "config" end
  if type(other) == "string" then other, message, code = data.open(other) end
  if not other then return nil, message, code end
  return {
    name = spec.name or "tfidf", options = "corpus " .. other:info().digest,
    run = function(_, _, tell)
      local done
      done, message, code = self.analysis:measure("tfidf", { corpus = other.core })
      if not done then return nil, message, code end
      return run_core(self, tell)
    end,
  }
end

local function token_counts(self)
  return {
    name = "token_counts", options = "",
    total = function(_, path, options)
      local counts, message, code = counts_of(self)
      if not counts then return nil, message, code end
      return self.analysis:totals(path, "token_counts", options, counts)
    end,
  }
end

-- ---- functions -------------------------------------------------------------------------------------

---Calls take(sequence) for the examples of parts first, first + 1, ...; part_done(next) after each part.
local function each_sequence(self, first, uid, take, part_done)
  for part = first, self.analysis:parts() - 1 do
    local list, message, code = self.analysis:read(part)
    if not list then return nil, message, code end
    for _, sequence in ipairs(list) do
      sequence.uid, sequence.corpus = uid, self.corpus
      local done
      done, message = take(setmetatable(sequence, Sequence))
      if not done then return nil, message, "data" end
      uid = uid + 1
    end
    local done
    done, message, code = part_done(part + 1)
    if not done then return nil, message, code end
  end
  return true
end

---The value of a function for a sequence, or nil and what is wrong with it.
local function value_of(name, fn, sequence)
  local good, value = pcall(fn, sequence)
  local where = ("metric '%s', sequence %d: "):format(name, sequence.uid)
  if not good then return nil, where .. tostring(value) end
  if type(value) ~= "number" then
    return nil, ("%sthe function returned %s; it must return a finite number"):format(where, check.show(value))
  end
  if value ~= value or value == math.huge or value == -math.huge then
    local shown = value ~= value and "NaN" or tostring(value)
    return nil, ("%sthe function returned %s; it must return a finite number"):format(where, shown)
  end
  if math.type(value) == "integer" and (value > 1 << 53 or value < -(1 << 53)) then
    return nil, ("%sthe function returned %d; integers beyond 2^53 are not exact"):format(where, value)
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
      return each_sequence(self, first, uid, function(sequence)
        local value, message = value_of(name, fn, sequence)
        if not value then return nil, message end
        values[#values + 1] = value
        return true
      end, function(next)
        local done, message, code = self.analysis:append(values, next)
        if not done then return nil, message, code end
        uid, values = uid + #values, {}
        if sys.caught() then return stopped() end
        tell(uid, next)
        return true
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
      local done, message, code = each_sequence(self, 0, 0, function(sequence)
        local good, problem = pcall(spec.accumulate, totals, sequence)
        if good then return true end
        return nil, ("metric '%s', sequence %d: %s"):format(spec.name, sequence.uid, problem)
      end, function()
        if sys.caught() then return stopped() end
        return true
      end)
      if not done then return nil, message, code end
      for i = 1, math.max(size, #totals) do
        local total = totals[i]
        if i > size or type(total) ~= "number" or total - total ~= 0 then
          local text = "metric '%s': total %d is %s; expected %d finite numbers"
          return nil, text:format(spec.name, i, check.show(total), size), "data"
        end
      end
      return self.analysis:totals(path, spec.name, options, totals)
    end,
  }
end

-- ---- by name ---------------------------------------------------------------------------------------

local function names()
  local list = { "loss", "token_counts" }
  return table.move(core_names, 1, #core_names, 3, list)
end

---All names of metrics.
---@return string[]
function kinds.names()
  local list = names()
  table.sort(list)
  return list
end

---A metric of a Lua file: a function of a sequence, or the options of a metric.
local function from_file(path)
  local chunk, problem = loadfile(path, "t")
  if not chunk then return nil, "analyze: " .. problem, "config" end
  local good, value = pcall(chunk)
  if not good then return nil, ("analyze: %s"):format(value), "config" end
  local name = path:match("([^/]*)%.lua$")
  if type(value) == "function" then return { name = name, fn = value } end
  if type(value) ~= "table" then
    return nil, ("analyze: %s returned %s; it must return a function of a sequence"):format(path, check.show(value)),
      "config"
  end
  value.name = value.name or name
  good, problem = pcall(check.options, "analyze: " .. path, value, OPTIONS)
  if not good then return nil, problem, "config" end
  return value
end

---The kind of a metric.
---@param self table the analysis
---@param spec string|seqrun.MetricOptions
---@return table? kind
---@return string? message
---@return string? code
function kinds.read(self, spec)
  if type(spec) == "string" then
    local message, code
    if spec:find("%.lua$") then spec, message, code = from_file(spec) else spec = { name = spec } end
    if not spec then return nil, message, code end
  end
  check.options("analyze: metric", spec, OPTIONS)
  local name = spec.name
  if type(name) ~= "string" or not name:find("^[%w_.-]+$") or #name > 64 then
    local wanted = "analyze: a metric needs a name of letters, digits and _ - ., got %s"
    return nil, wanted:format(check.show(name)), "config"
  end
  if spec.fn then return own(spec) end
  if spec.accumulate then return accumulated(spec) end
  if spec.corpus or name == "tfidf" then return tfidf(self, spec) end
  if spec.checkpoint or name == "loss" then return require("seqrun.analysis.loss")(self, spec) end
  if name == "token_counts" then return token_counts(self) end
  if name == "length" or name == "compressibility" then return plain(name) end
  if name:find("rarity") then
    for _, known in ipairs(core_names) do
      if known == name then return rarity(self, name, spec) end
    end
  end
  local hint = require("seqrun.base.guess").hint(name, kinds.names())
  if hint == "" then hint = ("; use %s, or a .lua file"):format(table.concat(kinds.names(), ", ")) end
  return nil, ("analyze: unknown metric '%s'%s"):format(name, hint), "config"
end

return kinds
