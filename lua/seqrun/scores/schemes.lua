-- schemes.lua - which tags may follow each other: the schemes IOB2, IOBES (BIOES), BILOU and BMES; the best valid tags.
--
-- Labels show a scheme by themselves where they mark the ends of spans (E-X, L-X) and spans of one word (S-X, U-X).
-- B-X and I-X alone may be of IOB1, in which I-X begins most spans, so sequences of tags decide.
--
-- Source: Viterbi 1967; schemes, Ratinov and Roth 2009.

local crf = require("seqrun.nn.heads.crf")
local decode = require("seqrun.scores.decode")
local failure = require("seqrun.base.failure")
local tensor = require("seqrun.tensor")

local schemes = {}

schemes.NAMES = { "iob2", "iobes", "bilou", "bmes" }

---The letters of a scheme by their roles: first word of a span, inside it, last word of several, a span of one word.
local LETTERS = { iob2 = "BI", iobes = "BIES", bilou = "BILU", bmes = "BMES" }
local FIRST, INSIDE, LAST, SINGLE = 1, 2, 3, 4

---Role and type of each label, neither outside of spans; nil with the first label that is not of the scheme.
local function parse(name, labels)
  local list, letters = {}, LETTERS[name]
  if not letters and name ~= "none" then return nil, labels[1] end
  for i, label in ipairs(labels) do
    local letter, kind = label:match("^(%u)%-(.+)$")
    letter, kind = letter or label:match("^%u$"), kind or ""
    local role = letters and label ~= "O" and letter and letters:find(letter, 1, true) or nil
    if letters and label ~= "O" and not role then return nil, label end
    list[i] = { role = role, kind = role and kind }
  end
  return list
end

---Whether a word continues the span of the word before, and whether such a word must follow.
local function continues(tag) return tag.role == INSIDE or tag.role == LAST end
local function is_open(tag) return tag.role == FIRST or tag.role == INSIDE end

---Whether tag b may follow tag a; the tag {} stands before the first word and after the last one.
local function may_follow(name, a, b)
  if continues(b) then return is_open(a) and a.kind == b.kind end
  return name == "iob2" or not is_open(a)
end

---The schemes whose letters the labels have, and none else.
local function candidates(labels)
  local list = {}
  for _, name in ipairs(schemes.NAMES) do
    local tags, roles = parse(name, labels), {}
    for _, tag in ipairs(tags or {}) do roles[tag.role or 0] = true end
    if roles[FIRST] then list[#list + 1] = { name = name, tags = tags, whole = roles[LAST] and roles[SINGLE] } end
  end
  return list
end

---What labels lack for a scheme: spans of several words must be able to end.
local function lacks_end(name, labels)
  local first
  for i, tag in ipairs(name ~= "iob2" and parse(name, labels) or {}) do
    if tag.role == LAST then return nil end
    first = first or is_open(tag) and labels[i]
  end
  return first
end

---The scheme that labels show by themselves; nil if they do not.
---@param labels string[]
---@return string|nil
function schemes.of_labels(labels)
  for _, one in ipairs(candidates(labels)) do
    if one.whole then return one.name end
  end
end

---The number of the first sequence of tags that does not follow a scheme; nil if all do.
local function first_bad(scheme, sequences)
  for i, sequence in ipairs(sequences) do
    for k = 0, #sequence do
      local tag, following = scheme.tags[(sequence[k] or -1) + 1], scheme.tags[(sequence[k + 1] or -1) + 1]
      if not may_follow(scheme.name, tag or {}, following or {}) then return i end
    end
  end
end

---The scheme that all sequences of tags follow; nil with the number of the first that does not.
---@param labels string[]
---@param sequences integer[][] of numbers of labels, from 0
---@return string|nil
---@return integer? # nil where no scheme has these labels
function schemes.of_sequences(labels, sequences)
  local wrong
  for _, one in ipairs(candidates(labels)) do
    local bad = first_bad(one, sequences)
    if not bad then return one.name end
    wrong = wrong or bad
  end
  return nil, wrong
end

---@class seqrun.TagChain
---@field first number[] score of a label as the first, which a CRF trains; -inf where it may not be
---@field last number[] and as the last
---@field before integer[][] the labels that may be before each; labels with the same ones share a list
---@field into? number[][] of a CRF: scores of the transitions to a label, from each

---The chain of a scheme, or of "none", in which any label may follow any; nil with the label that is not of the scheme.
---@param name string
---@param labels string[]
---@return seqrun.TagChain|nil
---@return string? label
function schemes.chain(name, labels)
  local tags, problem = parse(name, labels)
  if not tags then return nil, problem end
  local chain, lists = { first = {}, last = {}, before = {} }, {}
  local function score(a, b) return may_follow(name, a, b) and 0 or -math.huge end
  for j, tag in ipairs(tags) do
    local key = continues(tag) and tag.kind or false
    if not lists[key] then
      lists[key] = {}
      for i, other in ipairs(tags) do
        if may_follow(name, other, tag) then table.insert(lists[key], i) end
      end
    end
    chain.first[j], chain.last[j], chain.before[j] = score({}, tag), score(tag, {}), lists[key]
  end
  return chain
end

---Adds the scores of a CRF to a chain.
local function add_transitions(chain, head)
  local quiet <close> = tensor.no_grad()
  local transitions, first, last = crf.parameters(head)
  chain.into = transitions:transpose(1, 2):to("f32"):contiguous():totable()
  for name, added in pairs { first = first, last = last } do
    for j, x in ipairs(added:to("f32"):totable()) do chain[name][j] = chain[name][j] + x end
  end
  return chain
end

---What the tags of a head are decoded with; nil: each word alone.
---@param head seqrun.TaskHead
---@param wanted? string "valid", "greedy" or a scheme; default: head.decode, else the scheme of the head, or of its
---labels
---@param option? string that sets it, for messages
---@return seqrun.TagChain|nil
function schemes.of_head(head, wanted, option)
  wanted, option = wanted or head.decode, option or "--decode"
  local labels, name = decode.names(head), wanted ~= "valid" and wanted or head.scheme
  if name == "greedy" then return nil end
  if not name or name == "none" and wanted then name = schemes.of_labels(labels) end
  if not name and wanted and not head.crf then
    failure.raise("config", "%s valid: the scheme of the tags is not known: training found none, and the labels %s "
      .. "alone do not show it; name it, as in %s iob2, or leave this out", option, table.concat(labels, ", "), option)
  end
  name = name or "none"
  if name == "none" and not head.crf then return nil end
  local chain, label = schemes.chain(name, labels)
  if not chain then
    failure.raise("config", "%s%s: the label '%s' is not a tag of this scheme, whose letters are %s, as in B-PER",
      wanted and option .. " " or "scheme ", name, label, LETTERS[name] or "not known")
  end
  local open = wanted and lacks_end(name, labels)
  if open then
    failure.raise("config", "%s %s: no label ends a span that '%s' begins, so none could be predicted; the labels are "
      .. "%s", option, name, open, table.concat(labels, ", "))
  end
  return head.crf and add_transitions(chain, head) or chain
end

---The label of words inside a span that a label continues; nil where it begins one, or none is known.
---@param label integer
---@param chain seqrun.TagChain
---@return integer|nil
function schemes.inside(label, chain)
  local function continues_one(i) return chain.first[i] == -math.huge end
  for _, i in ipairs(continues_one(label) and chain.before[label] or {}) do
    if continues_one(i) then return i end
  end
end

---The label of a list with the largest value, and that value; the first of equal ones, 0 if all are -inf.
local function largest(values, list, added)
  local best, most = 0, -math.huge
  for _, i in ipairs(list) do
    local value = values[i] + (added and added[i] or 0)
    if value > most then best, most = i, value end
  end
  return best, most
end

---The valid labels, from 1, with the largest sum of logits, which is that of log-probabilities; nil if there are none.
---@param logits number[][] of each word
---@param chain seqrun.TagChain
---@return integer[]|nil
function schemes.viterbi(logits, chain)
  local sums, from = {}, {}
  for j, x in ipairs(logits[1] or {}) do sums[j] = x + chain.first[j] end
  for i = 2, #logits do
    local before, next_sums, known = {}, {}, {}
    for j, list in ipairs(chain.before) do
      local best = known[list]
      if not best then best = { largest(sums, list, chain.into and chain.into[j]) } end
      known[list] = not chain.into and best or nil
      before[j], next_sums[j] = best[1], best[2] + logits[i][j]
    end
    sums, from[i] = next_sums, before
  end
  for j, sum in ipairs(sums) do sums[j] = sum + chain.last[j] end
  local tags, last = {}, decode.argmax(sums)
  if #logits > 0 and not (sums[last] > -math.huge) then return nil end
  for i = #logits, 1, -1 do tags[i], last = last, from[i] and from[i][last] end
  return tags
end

---Products of the values of two lists, divided by their sum.
local function product(a, b)
  local list, sum = {}, 0
  for j = 1, #a do
    list[j] = a[j] * b[j]
    sum = sum + list[j]
  end
  for j = 1, #a do list[j] = list[j] / sum end
  return list
end

---The product of a matrix, or of its transpose, and a vector.
local function apply(matrix, vector, turned)
  local list = {}
  for j = 1, #vector do
    list[j] = 0
    for k, x in ipairs(vector) do list[j] = list[j] + (turned and matrix[k][j] or matrix[j][k]) * x end
  end
  return list
end

---The probabilities of the labels of each word among all valid sequences, by the forward-backward algorithm.
---@param logits number[][]
---@param chain seqrun.TagChain of a CRF
---@return number[][]
function schemes.marginals(logits, chain)
  local factors, first, after, p, from = {}, {}, {}, {}, {}
  for j, list in ipairs(chain.before) do
    first[j], after[j], factors[j] = math.exp(chain.first[j]), math.exp(chain.last[j]), {}
    for k = 1, #chain.before do factors[j][k] = 0 end
    for _, k in ipairs(list) do factors[j][k] = math.exp(chain.into[j][k]) end
  end
  for i, x in ipairs(logits) do
    p[i] = decode.softmax(x)
    from[i] = product(i == 1 and first or apply(factors, from[i - 1]), p[i])
  end
  for i = #logits, 1, -1 do
    local ahead = apply(factors, product(after, p[i]), true)
    p[i], after = product(from[i], after), ahead
  end
  return p
end

---The labels of words, from 1, and their probabilities: of a CRF in the sentence, else of each word alone.
---@param logits number[][]
---@param chain? seqrun.TagChain|false
---@return integer[] labels
---@return number[] probabilities
function schemes.decode(logits, chain)
  local best, p = chain and schemes.viterbi(logits, chain), {}
  local inside, tags = best and chain.into and schemes.marginals(logits, chain), best or {}
  for i, x in ipairs(logits) do
    tags[i] = tags[i] or decode.argmax(x)
    p[i] = (inside and inside[i] or decode.softmax(x))[tags[i]]
  end
  return tags, p
end

return schemes
