-- stats.lua - what a data set holds: documents, vocabulary, repeats, and how long its examples are.

local data = require("seqrun.data")

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
  local counts, message, code = corpus:counts("train")
  if not counts then return nil, message, code end
  if corpus:info().held.units > 0 then
    local held
    held, message, code = corpus:counts("held")
    if not held then return nil, message, code end
    for i, count in ipairs(held) do counts[i] = counts[i] + count end
  end
  local total = report.tokens
  report.unknown = counts[corpus:vocab():special("unk") + 1]
  report.unknown_rate = report.unknown / total
  report.vocab_used, report.coverage = coverage(counts, total)
  report.vocab_coverage = report.vocab_used / report.vocab_size
  report.unigram_entropy = entropy(counts, total)
  return true
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

local function length_stats(report, corpus, max_len)
  local nsp = corpus:info().kind == "text"
  local histogram, message, code = corpus:histogram("train", 0, max_len, { nsp = nsp, too_long = "truncate" })
  if not histogram then return nil, message, code end
  local examples, tokens = 0, 0
  for length, count in ipairs(histogram) do
    examples, tokens = examples + count, tokens + length * count
  end
  report.max_len, report.train_examples, report.train_tokens = max_len, examples, tokens
  report.mean_length = tokens / math.max(1, examples)
  report.filled_when_padded = tokens / math.max(1, examples * max_len)
  report.lengths = classes(histogram, max_len)
  return true
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

---Figures of a data set.
---@param path string
---@param max_len integer of the examples that are drawn for the length histogram
---@return table? report
---@return string? message
---@return string? code
function stats.examine(path, max_len)
  local corpus, done, message, code, documents
  corpus, message, code = data.open(path)
  if not corpus then return nil, message, code end
  local report = corpus:info()
  report.columns = column_names(corpus)
  done, message, code = token_stats(report, corpus)
  if done then done, message, code = length_stats(report, corpus, max_len) end
  if not done then return nil, message, code end
  done, documents, code = corpus.core:repeats()
  if not done then return nil, documents, code end
  report.repeated_sentences, report.repeated_documents = done, documents
  return report
end

local function bar(count, most) return ("#"):rep(math.ceil(40 * count / math.max(1, most))) end

---The figures as lines for a person.
---@param r table
---@return string
function stats.text(r)
  local lines, most = {}, 0
  local function say(...) lines[#lines + 1] = string.format(...) end
  local text = r.kind == "text"
  say("%s: %s, vocabulary %d (%s), %d bytes, digest %s", r.path, r.kind, r.vocab_size,
    r.lowercase and "uncased" or "cased", r.bytes, r.digest)
  if text then
    say("  documents   %d, %d of them repeated", r.documents, r.repeated_documents)
    say("  sentences   %d, %d of them repeated", r.sentences, r.repeated_sentences)
  else
    say("  examples    %d, %d of them repeated", r.examples, r.repeated_documents)
  end
  if #r.columns > 0 then say("  columns     %s", table.concat(r.columns, ", ")) end
  say("  tokens      %d, %.3f %% [UNK], unigram entropy %.2f nats", r.tokens, 100 * r.unknown_rate, r.unigram_entropy)
  local shares = {}
  for i, c in ipairs(r.coverage) do shares[i] = ("%d tokens cover %g %%"):format(c.tokens, 100 * c.share) end
  say("  vocabulary  %d of %d tokens occur (%.1f %%); %s", r.vocab_used, r.vocab_size, 100 * r.vocab_coverage,
    table.concat(shares, ", "))
  local held = ("%d %s"):format(r.held.units, text and "documents" or "examples")
  if r.cut then held = "the end of the one document" end
  say("  held-out    %s, %d tokens", held, r.held.tokens)
  say("  at max_len %d: %d examples, mean length %.1f, %.1f %% of a padded batch is real", r.max_len, r.train_examples,
    r.mean_length, 100 * r.filled_when_padded)
  for _, class in ipairs(r.lengths) do most = math.max(most, class.examples) end
  for _, class in ipairs(r.lengths) do
    local line = ("    %4d..%-4d %8d  %s"):format(class.first, class.last, class.examples, bar(class.examples, most))
    say("%s", (line:gsub(" +$", "")))
  end
  return table.concat(lines, "\n")
end

return stats
