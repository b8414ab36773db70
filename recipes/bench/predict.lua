-- predict.lua - vectors (or classes) of lines of text, beside Transformers.
--
--   build/seqrun recipes/bench/predict.lua input=FILE init=DIR [verb=encode|predict] [lines=1000] [turns=3]
--       [max_len=128] [rows=2048] [batch=32] [threads=2] [precision=f32|bf16] [peer=true] [python=python3]
--
-- FILE has a text on each line.  encode: the mean of the last hidden state, normalised; predict: two classes, from a
-- head with random weights.  Tokenizing is part of the time.  The systems take turns, with the next `lines` lines in
-- each turn.
--
-- packed    seqrun: sequences laid end to end, in the order of the lines
-- sorted    Transformers: lines sorted by length, batches of `batch`, padded to the longest of the batch
-- unsorted  the same, in the order of the lines
--
-- Prints real tokens per second and how many times as fast packed is: medians over the turns.
-- recipes/bench/peers/predict.py is the other side; it needs torch and transformers.

local sr = require("seqrun")
local common = require("common")
local encoding = require("seqrun.predict.encoding")
local peer = require("peer")
local sys = require("seqrun.core.sys")
local verb = require("seqrun.predict.verb")

local options = common.options({
  input = "", init = "", verb = "encode", lines = 1000, turns = 3, max_len = 128, rows = 2048, batch = 32, threads = 2,
  precision = "f32", peer = true, python = "python3",
}, arg)
if options.input == "" or options.init == "" then
  print("nothing to measure: give input=FILE, a text on each line, and init=DIR, a Hugging Face BERT")
  return
end
sr.use("cpu", { threads = options.threads })

---The lines of a turn, from 1.
local function lines_of(file, turn)
  local list = {}
  for i = 1, options.lines do
    list[i] = file:read("l") or error(("bench: %s has fewer than %d lines; lower lines or turns"):format(
      options.input, turn * options.lines), 0)
  end
  return list
end

local file <close> = assert(io.open(options.input))
local turns = {}
for turn = 1, options.turns do turns[turn] = lines_of(file, turn) end

-- ---- our side ------------------------------------------------------------------------------------

local heads = options.verb == "predict" and { sr.nn.heads.classify { labels = { "no", "yes" } } } or {}
local bert, facts = sr.must(sr.nn.pretrained(options.init, { heads = heads, precision = options.precision }))
local tokenizer = verb.tokenizer(facts)

---Vectors or classes of lines; returns the number of tokens.
local function work(lines)
  local at, tokens = 0, 0
  local function items()
    at = at + 1
    return lines[at] and { text = lines[at] }
  end
  local each
  if options.verb == "predict" then
    each = sr.predict.new(bert, { tokenizer = tokenizer, max_len = options.max_len, rows = options.rows }):each(items)
  else
    each = encoding.each(items, {
      model = bert, tokenizer = tokenizer, max_len = options.max_len, rows = options.rows, pool = "mean",
      normalise = true, bytes = true,
    })
  end
  for first, second in each do
    for _, sequence in ipairs((second or first).sequences) do tokens = tokens + #sequence.a + 2 end
  end
  return tokens
end

-- ---- the comparison ------------------------------------------------------------------------------

local other = options.peer and peer.start(options.python, common.folder .. "/peers/predict.py", {
  options.input, options.init, options.verb, options.max_len, options.batch, options.threads, options.precision,
})
print(("%s with %s in %s, %d lines per turn, %s"):format(options.verb, facts.path, options.precision, options.lines,
  common.machine()))
if other then print(other.about) end

work(table.move(turns[1], 1, 100, 1, {}))
local tokens = {}
local arms = peer.in_turns(options.turns, function(turn)
  local began = sys.now()
  tokens[turn] = work(turns[turn])
  return sys.now() - began
end, options.lines, { "sorted", "unsorted" }, other)

local count = options.turns * options.lines
common.versus({ "packed", "sorted", "unsorted" }, arms, tokens, "lines", options.lines)
print(("%.1f tokens per line"):format(common.sum(tokens) / count))
if other then other:stop() end
