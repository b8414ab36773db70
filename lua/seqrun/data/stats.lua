-- stats.lua - what a data set holds: documents, vocabulary, repeats, and how long its examples are.

local array = require("seqrun.core.json").array
local bars = require("seqrun.draw.bars")
local kinds = require("seqrun.base.kinds")
local data = require("seqrun.data")
local draw = require("seqrun.pack.draw")
local failure = require("seqrun.base.failure")
local pack = require("seqrun.pack")
local shown = require("seqrun.base.one_line")
local text_of = require("seqrun.base.format")

local commas, counted = text_of.commas, text_of.counted

local stats = {}

---How many of the most frequent tokens make up each share of the text.
local function coverage(counts, total)
  local sorted = {}
  for _, count in ipairs(counts) do
    if count > 0 then sorted[#sorted + 1] = count end
  end
  table.sort(sorted, function(a, b) return a > b end)
  local shares, sum, next_share = {}, 0, 1
  local wanted = { 0.5, 0.9, 0.99 }
  for i, count in ipairs(sorted) do
    sum = sum + count
    while wanted[next_share] and sum >= wanted[next_share] * total do
      shares[next_share] = { share = wanted[next_share], tokens = i }
      next_share = next_share + 1
    end
  end
  return #sorted, shares
end

---Entropy of the unigram model, in nats per token.
local function entropy(counts, total)
  local sum = 0
  for _, count in ipairs(counts) do
    if count > 0 then sum = sum - count / total * math.log(count / total) end
  end
  return sum
end

local function token_stats(report, corpus)
  local counts = failure.must(corpus:counts("train"))
  if corpus:info().held.units > 0 then
    for i, count in ipairs(failure.must(corpus:counts("held"))) do counts[i] = counts[i] + count end
  end
  local total = report.tokens
  report.unknown = counts[(corpus:tokenizer():special("unk") or -1) + 1] or 0
  report.unknown_rate = report.unknown / total
  report.vocab_used, report.coverage = coverage(counts, total)
  report.vocab_coverage = report.vocab_used / report.vocab_size
  report.unigram_entropy = entropy(counts, total)
end

---Examples by length, in at most 16 classes.
local function classes(histogram, max_len)
  local width, list = math.ceil(max_len / 16), {}
  for first = 1, max_len, width do
    local sum, last = 0, math.min(max_len, first + width - 1)
    for length = first, last do sum = sum + histogram[length] end
    list[#list + 1] = { first = first, last = last, examples = sum }
  end
  return list
end

---Lengths of text unless another maximum is asked for; of examples, it is the longest.
local TEXT_LENGTH, MOST = 128, 65535

local function histogram_of(corpus, max_len, single)
  local text = corpus:info().kind == "text"
  local lengths = failure.must(corpus:lengths("train", 0, max_len or text and TEXT_LENGTH or MOST,
    { nsp = text and not single, too_long = "truncate" }))
  local longest = 1
  for _, length in ipairs(lengths) do longest = math.max(longest, length) end
  max_len = max_len or text and TEXT_LENGTH or longest
  return pack.lengths(lengths, { max_len = max_len, too_long = "truncate" })
end

---How full packs are by the most sequences in one, up to the depth that more do not improve.
local function depths_of(histogram)
  local list = {}
  for _, d in ipairs(draw.depths(histogram, pack, { solver = "optimal" })) do
    local best = list[#list]
    if d.name == "any" or not best or d.packs < best.packs then
      list[#list + 1] = { max_seqs = math.tointeger(d.name), packs = d.packs, efficiency = d.efficiency }
    end
  end
  return list
end

local function length_stats(report, corpus, max_len, single)
  local histogram = histogram_of(corpus, max_len, single)
  local facts = histogram:info()
  report.pairs = corpus:info().kind == "text" and not single
  report.max_len, report.train_examples, report.train_tokens = facts.max_len, facts.sequences, facts.tokens
  report.mean_length = facts.tokens / math.max(1, facts.sequences)
  report.filled_when_padded = facts.tokens / math.max(1, facts.sequences * facts.max_len)
  report.lengths = classes(histogram:counts(), facts.max_len)
  report.depths = array(facts.sequences > 0 and depths_of(histogram) or {})
  if report.pairs and facts.sequences > 0 then
    report.used_share = failure.must(data.loader {
      data = corpus, nsp = true, by = "sequences", sequences = 1, max_len = facts.max_len, too_long = "truncate",
    }):used_share()
  end
end

---The columns of values as words: "score (f32)", "tags (i32 per token)".
local function column_names(corpus)
  local names = {}
  for _, c in ipairs(corpus:columns()) do
    local many = c.size == 0 and c.type ~= "bytes" and ", lists" or c.size and c.size > 1 and " x " .. c.size or ""
    local per = c.per == "token" and " per token" or ""
    if c.per then names[#names + 1] = ("%s (%s%s%s)"):format(c.name, c.type, many, per) end
  end
  return names
end

---Examples whose classes are counted; more take too long to look at one by one.
local MOST_COUNTED = 1000000

---How many examples have each class.
local function add_classes(report, corpus)
  local names = corpus:labels()
  local kind = kinds.get(corpus:meta().task)
  local has_classes = kind and kind.classes and kind.column == "label"
  if not has_classes or not names or report.examples > MOST_COUNTED then return end
  report.classes = {}
  for i, name in ipairs(names) do report.classes[i] = { name = name, examples = 0 } end
  for i = 1, report.examples do
    local class = report.classes[failure.must(corpus:column("label", i)) + 1]
    if class then class.examples = class.examples + 1 end
  end
end

local function examine(path, max_len, single)
  local corpus = failure.must(data.open(path))
  local report = corpus:info()
  report.columns = array(column_names(corpus))
  token_stats(report, corpus)
  length_stats(report, corpus, max_len, single)
  report.repeated_sentences, report.repeated_documents = failure.must(corpus.core:repeats())
  add_classes(report, corpus)
  return report
end

---Figures of a data set.
---@param path string
---@param max_len? integer of the examples whose lengths are counted; default: 128 for text, else the longest
---@param single? boolean single texts instead of sentence pairs
---@return table? report
---@return string? message
---@return string? code
function stats.examine(path, max_len, single) return failure.returned(examine, path, max_len, single) end

---The lengths, drawn.
local function add_lengths(say, r)
  local most, room = 0, bars.room(27)
  for _, class in ipairs(r.lengths) do most = math.max(most, class.examples) end
  for _, class in ipairs(r.lengths) do
    local bar = bars.bar(class.examples / math.max(1, most), room)
    say("  %5d..%-5d %11s  %s", class.first, class.last, commas(class.examples), bar)
  end
end

---How full packs are, drawn.
local function add_depths(say, r)
  if #r.depths == 0 then return end
  local room = bars.room(27)
  say("  packed      slots with real tokens, by the maximum of sequences per pack")
  for _, d in ipairs(r.depths) do
    local name = d.max_seqs == 1 and "1 (padded)" or d.max_seqs or "any number"
    say("  %12s %10.2f %%  %s", name, 100 * d.efficiency, bars.bar(d.efficiency, room))
  end
end

---The figures as lines for a person.
---@param r table
---@return string
function stats.text(r)
  local lines = {}
  local function say(...) lines[#lines + 1] = string.format(...):gsub(" +$", "") end
  local text = r.kind == "text"
  say("%s: %s, %s bytes, digest %s", r.path, r.kind, commas(r.bytes), r.digest)
  if text then
    say("  documents   %s, %s of them repeated", commas(r.documents), commas(r.repeated_documents))
    say("  sentences   %s, %s of them repeated", commas(r.sentences), commas(r.repeated_sentences))
  else
    say("  examples    %s, %s of them repeated", commas(r.examples), commas(r.repeated_documents))
  end
  if #r.columns > 0 then say("  columns     %s", table.concat(r.columns, ", ")) end
  say("  tokens      %s, %.3f %% unknown, unigram entropy %.2f nats", commas(r.tokens), 100 * r.unknown_rate,
    r.unigram_entropy)
  say("  vocabulary  %s, %s of %s tokens occur (%.1f %%)", r.lowercase and "uncased" or "cased", commas(r.vocab_used),
    commas(r.vocab_size), 100 * r.vocab_coverage)
  local shares = {}
  for i, c in ipairs(r.coverage) do shares[i] = ("%g %% by %s tokens"):format(100 * c.share, commas(c.tokens)) end
  say("  covered     %s", table.concat(shares, ", "))
  local held = r.cut and "the end of the one document" or counted(r.held.units, text and "document" or "example")
  if r.classes then
    local parts = {}
    for i, c in ipairs(r.classes) do parts[i] = ("%s %s"):format(shown(c.name, 30), commas(c.examples)) end
    say("  classes     %s", table.concat(parts, ", ", 1, math.min(#parts, 12)) .. (#parts > 12 and ", ..." or ""))
  end
  say("  held-out    %s, %s", held, counted(r.held.tokens, "token"))
  say("  at max_len %d: %s, mean length %.1f, %.1f %% full if padded", r.max_len,
    counted(r.train_examples, r.pairs and "sentence pair" or "example"), r.mean_length, 100 * r.filled_when_padded)
  if r.used_share then say("  of the text, %.0f %% of the tokens stand in a pair", 100 * r.used_share) end
  add_lengths(say, r)
  add_depths(say, r)
  return table.concat(lines, "\n")
end

return stats
