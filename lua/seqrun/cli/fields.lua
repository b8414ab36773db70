-- fields.lua - the fields of what commands print with --json: for --help, the manual page, and a test that compares
-- them with real output.
--
-- A line is a path, or several with commas, and what they are.  `a[].b` is b of each element of a, `a.{b, c}` is a.b
-- and a.c; `a.*` is all below a, which has names of its own; `b?` may be missing.

---Lines about a part that is below a path.
local function below(path, lines)
  return (lines:gsub("[^\n]+", function(line)
    local paths, rest = line:match("^(.-)(%s%s+.*)$")
    return path .. (paths or line):gsub(", ", ", " .. path) .. (rest or "")
  end))
end

local METRIC = [[
name, path                     the metric, and its file
data, vocab                    digest of the data set, fingerprint of its vocabulary
options, examples              its options, and the part of the data
count, distinct                sequences (or tokens, if accumulated) with a value, and different values
min, max, mean                 of the values
percentiles[].percent, percentiles[].value
histogram[].first, histogram[].last, histogram[].sequences
accumulated                    whether the values belong to tokens, not to sequences
whole                          whether the values are integers
bytes                          of the file
]]

local PLAN = [[
solver, max_seqs               max_seqs: limit of sequences per pack, or null
sequences, tokens              that were packed
packs, max_len                 packs, and tokens that each holds
efficiency                     tokens / (packs x max_len)
factor                         sequences / packs
padding_tokens                 slots without a token
strategies, deepest            different patterns, and most sequences in one
lower_bound, bound_kind        no packing needs fewer packs, and how this is known
gap_packs                      packs above the lower bound
longer, lost                   sequences longer than max_len, and tokens cut off
unfilled                       slots of patterns that got no sequence
milliseconds                   to solve
]]

local HEADS = [[
metrics.*                      losses (NAME_loss) and metrics, by name
heads?[].name, heads?[].kind   heads of tasks
heads?[].metrics.*             metrics of the head
heads?[].f1_class?             the class that f1 and average_precision are of, where there are two
heads?[].classes?[].{name, precision, recall, f1, count, predicted}
heads?[].confusion?[][]        rows are labels, columns predictions
heads?[].calibration?.*        bins (low, high, count, confidence, accuracy), and the expected error
heads?[].ranked?[].{name, positives, roc_auc?, average_precision?}   of each label against all others
heads?[].ranked?[].points?[][]  its curve: recall, precision, threshold
heads?[].decide?.*             temperature and thresholds of the head, and how they were fitted
heads?[].warnings?[]           where that fit is not to be trusted
heads?[].spans?.*, heads?[].answers?.*
heads?[].mistakes[].{place?, text?, label?, predicted?, badness?}
]]

local TENSORS = [[
parameters                     elements of all tensors
tensors[].name, tensors[].dtype, tensors[].shape[]
left_out[].name, left_out[].reason   tensors of the source that were left out
]]

---By command: forms of output, each with its fields.
local fields = {}

fields.advise = { { "", [[
model, parameters, seq, batch  the input: sequences of seq slots, batch of them per update
devices, device, device_memory_gib, kernel
considered, fitting            layouts, and those that fit into memory
layouts[].rank                 the fastest first
layouts[].data, layouts[].tensor, layouts[].pipeline   degrees of parallelism
layouts[].micro_batch, layouts[].zero, layouts[].recompute, layouts[].sequence_parallel
layouts[].interleave           pieces of the model on a stage
layouts[].selective            norms, activations and score matrices are computed again
layouts[].{fits, tight, memory_bytes, memory_gib}   of a device; tight: over 95 % of its memory
layouts[].bytes.*              the same by kind
layouts[].step_seconds         of an update
layouts[].seconds.*            the same by part
layouts[].tokens_per_s, layouts[].mfu
layouts[].why                  time breakdown of the fastest layout; where the others take longer
notes[]                        about the input and the results
]] }, { "--here", [[
model, seq, batch, cpu, threads, probe_seconds
error, regret                  of the predictions, and of the layout chosen by them
steps[].{threads, ranks, micro_batch, recompute, predicted_seconds, predicted_bytes, seconds.*, why}
steps[].{measured_seconds?, measured_bytes?, problem?}   bytes: activations that a forward keeps
]] }, { "--list", [[
models[], devices[]            known names
]] } }

fields.analyze = { { "", "data                           the data set\n" .. below("metrics[].", METRIC) } }

fields.compare = { { "", [[
runs[].{path, state, reason?, step, steps?, loss?, held?.*}
runs[].{real_tokens_per_s?, efficiency?, sequences?, real_tokens?}
runs[].{seconds, age?, checkpoint?, bytes}   as of `seqrun runs`
runs[].metrics?.*              numbers of the last evaluation
runs[].{raw_tokens?, effective_tokens?}   before anything was cut; mean over layers
runs[].beside_first?.*         the score minus that of the first run at equal effective_tokens, raw_tokens and step
differences[].key              a key of the config, or of the environment
differences[].values[]         for each run; null where it is missing
differences[].only_some        true: the runs that have the key agree
arms[].{name, runs[], metric, mean?, half?, count}   runs that differ in their seeds alone; half: of the 95 % interval;
                               count: how many have the score
arms[].less_first?.{mean, deviation?, half?, count}   the score minus that of the first arm, at equal seeds
notes[]                        why figures may not be comparable; runs that are left out
]] } }

fields.completion = { { "", [[
commands[].name, commands[].summary, commands[].usage, commands[].epilog?
commands[].options[].names[], commands[].options[].doc
commands[].options[].value?    its argument, such as FILE; missing: none
commands[].options[].choices?[]
commands[].arguments[].name, commands[].arguments[].doc, commands[].arguments[].choices?[]
commands[].arguments[].many    whether there may be several
run_options[].names[], run_options[].doc, run_options[].value?
run_options[].maybe?           whether the value may be left out
]] } }

fields.doctor = { { "", [[
ok                             whether all checks passed
findings[].name, findings[].ok, findings[].facts
findings[].command?            a command that helps
findings[].gpus?.*, findings[].gpus?[].*   GPUs
findings[].missing?            why none can be used
findings[].engines?[].name, findings[].engines?[].facts, findings[].launcher?   of ranks
]] } }

fields.encode = { { "--out", [[
out                            the file that was written
texts, truncated               vectors, and texts that were cut
size                           numbers of a vector
seconds                        it took
]] }, { "(without --out: JSON lines)", [[
line, file?                    of the input; file where there are several
embedding?[]                   the vector
error?                         why the line could not be used
]] } }

fields.eval = { { "", [[
checkpoint                     the scored checkpoint
part?                          for a model without a task head: all of the data, train or held
]] .. HEADS } }

fields.export = { { "", [[
from, path                     the checkpoint, and the directory that was written
architecture                   class of Transformers
dtype, bytes                   of the weights
files[]                        that were written
]] .. TENSORS } }

fields.fill = { { "(JSON lines)", [[
line, id?                      of the input; id of JSON lines that have one
text?                          the line with all [MASK] filled in
masks?[][].token, masks?[][].id, masks?[][].probability   candidates of each [MASK], the best first
error?                         why the line could not be used
]] }, { "--causal (JSON lines)", [[
line, id?                      of the input; id of JSON lines that have one
text?                          the line with its continuation
added?, ids?[]                 the continuation, and its tokens
score?                         sum of the natural logarithms of their probabilities
ended?                         whether the model ended the text
error?                         why the line could not be used
]] } }

fields.import = { { "", [[
from, path                     the directory, and the checkpoint that was made
task?, labels?[]               of its head
heads[]                        pretraining heads
missing[].name?, missing[].reason?   parameters that the model needs and the source lacks
extra[].name?, extra[].reason?, extra[].known?   tensors of the source that no head of the model reads; kept
]] .. TENSORS } }

fields.info = {
  { "of everything", [[
kind, path                     run, checkpoint, safetensors, dataset, metric, vocabulary, tokenizer, plan, metrics
file_bytes?                    of a file
]] },
  { "of a run", [[
checkpoints[].step, checkpoints[].path, checkpoints[].verified, checkpoints[].damage?
newest?, newest_checkpoint?.*  the newest intact one; as of a checkpoint
metrics?.*                     as of metrics
]] },
  { "of a checkpoint", [[
config.*                       shape of the model
tokenizer?.*                   as of a tokenizer
parameters?, tensors?, dtypes?.*   elements, number of tensors, elements by type
task?, labels?[]               of its head
manifest, verified?, step?, damage?   whether it has checksums, and whether they hold
problems[]                     files of the directory that cannot be read, and why
optimizer?                     of the run
]] },
  { "of safetensors", [[
tensors[].name, tensors[].dtype, tensors[].shape[]
elements, bytes, dtypes.*, metadata?.*
]] },
  { "of a data set", [[
holds                          text or examples
tokens, sentences?, documents?, examples?, vocab_size, lowercase, bytes, digest
tokenizer, fingerprint         WordPiece, BPE or Unigram; of the tokenizer inside
train.{tokens, units, words?}, held.{tokens, units, words?}   units: documents or examples
cut                            true: the held-out part is the end of the one document
labelled?, task?, labels?[]
]] },
  { "of a tokenizer", [[
model, tokens, lowercase, fingerprint   WordPiece, BPE or Unigram; largest id plus one
pad?, unk?, cls?, sep?, mask?  the tokens with these roles
pair                           how a pair is framed: [CLS] A [SEP] B [SEP]
special_tokens                 their number
]] },
  { "of a vocabulary", [[
tokens, continuations, longest   tokens, those that begin with ##, bytes of the longest
specials[]
]] },
  { "of metrics", [[
lines, damaged                 readable and unreadable lines
first?.*, last?.*, last_eval?.*   lines, see docs/reference/formats.md
]] },
  { "of a metric", METRIC },
  { "of a plan", PLAN },
}

fields.pack = {
  { "", PLAN },
  { "--compare", [[
lower_bound, max_seqs          no packing needs fewer packs; limit of sequences per pack, or null
rows[].name                    a solver, or a common baseline
rows[].{packs?, efficiency?, factor?, gap_percent?, deepest?, strategies?, max_seqs?, milliseconds?}
rows[].note?                   a description, or why it failed
]] },
  { "--check", [[
holds                          true; a proof that fails is exit code 3
lower_bound                    packs that are needed at least
max_len, max_seqs              of the packs; null: no limit
total_weight, max_weight_of_any_pack
]] },
}

fields.predict = { { "(JSON lines, by task)", [[
line, id?, file?               of the input; id of tables that have one, file where there are several
label?, probability?, probabilities?.*, probabilities?[]   of classes
labels?[]                      of multilabel
value?, values?[]              of regression
choice?                        of multiple choice, from 0
words?[], tags?[]              of tokens
spans?[].{type, start, end, text, score}   of tokens whose tags mark spans; start, end (exclusive): code points
answer?, first?, last?, score?, null_score?, nbest?[].*   of question answering; first, last: code points
text?, pair?, question?, context?, choices?[]   with --text
error?                         why the line could not be used
]] } }

fields.report = { { "", [[
runs[].dir, runs[].name, runs[].state, runs[].reason, runs[].step, runs[].seconds
runs[].heads[]                 losses by name
runs[].config.*, runs[].environment?.*
runs[].train?.*, runs[].eval?.*   the last lines of training and of evaluation
runs[].train_lines, runs[].damaged_lines, runs[].resumed_at[], runs[].events[].*
runs[].checkpoints[].{step, path, bytes, best?}
runs[].plans?[].*              as of `seqrun pack`, with depths and tokens of packs
runs[].samples?.{data?, step?, note?}   the data set and the checkpoint of words filled in, or why they are missing
runs[].samples?.items[].{before, word, after, rank?}   a sentence, and the place of its word among the candidates
runs[].samples?.items[].candidates[].{token, id, probability}
runs[].scores?.*               predictions, as of `seqrun eval`
differences[].key, differences[].values[]   of the configs, by run; -: no such key
notes[]                        why figures may not be comparable; runs that are left out
]] } }

fields.repro = { { "", [[
run, steps                     the run, and the step up to which it is repeated
equal                          whether all is equal; with --check, whether it can be repeated
checks[].{name, equal?, was?, now?, must}   equal: missing if not recorded; must: a difference changes results
again?                         directory of the second run; missing with --check
lines?                         of metrics that were compared
checkpoint?.{step, equal, what?}   of the last step; what: the file of the weights or the moment that differs
difference?.{step, type, field, was, now}   in a line of metrics, where the second run ended
]] } }

fields.runs = { { "", [[
runs[].path                    the directory
runs[].state, runs[].reason?   running, finished, stopped, failed or unreadable, and why
runs[].step, runs[].steps?     done, and planned as far as known
runs[].loss?                   of the last line of training
runs[].held?.name, runs[].held?.value   the most informative figure of the last evaluation
runs[].real_tokens_per_s?      median of the last lines
runs[].efficiency?             of the last line: real tokens / slots
runs[].sequences?, runs[].real_tokens?   so far
runs[].seconds                 of training, in all sessions
runs[].age?                    seconds since the last line
runs[].checkpoint?, runs[].bytes   step of the newest one, and bytes of all
]] } }

fields.score = { { "(JSON lines)", [[
file, line, id?                of the input; id of JSON lines that have one
score?, tokens?                of a text: sum of natural logarithms over its tokens, special tokens excluded
good?, bad?, correct?          of a pair: both scores, and whether the good one is larger; null on a tie
phenomenon?                    its group
error?                         why the line could not be scored
]] } }

fields.stats = { { "", [[
path, kind, bytes, digest      kind: text or examples
tokenizer, fingerprint         WordPiece, BPE or Unigram; of the tokenizer inside
tokens, unknown, unknown_rate, unigram_entropy   unknown: [UNK]; entropy in nats per token
documents?, sentences?, examples?, repeated_documents, repeated_sentences
vocab_size, vocab_used, vocab_coverage, lowercase   used: tokens that occur; coverage: their part
coverage[].share, coverage[].tokens   number of the most frequent tokens that make up this share of the text
columns[]                      of values
labelled, classes?[].name, classes?[].examples
train.{tokens, units, words?}, held.{tokens, units, words?}   units: documents or examples
cut                            true: the held-out part is the end of the one document
pairs                          whether its examples are sentence pairs
max_len, train_examples, train_tokens, mean_length   of the first epoch
filled_when_padded             part of the slots with real tokens, one sequence in each row
used_share?                    part of the text's tokens that stand in a sentence pair
lengths[].first, lengths[].last, lengths[].examples
depths[].{max_seqs?, packs, efficiency}   packs of at most max_seqs sequences; missing: any number
]] } }

fields.sweep = { { "", [[
metric, smaller_is_better      by which trials are compared, and its direction
seeds, complete                runs of each trial; whether all were run, or the budget ended
trials[].settings.*, trials[].folder   the values of the swept keys; the best trial first
trials[].values[]              of the metric, by seed
trials[].mean?, trials[].deviation?, trials[].half?   half of the 95 % interval of the mean
trials[].step, trials[].seconds   of the evaluations, and of training
trials[].state, trials[].reason?   done, dropped (by --halving), open or failed, and why
best?, alike                   directory of the best trial, and how many others its interval overlaps
picture                        an SVG file
]] } }

fields.tokenize = { { "(JSON lines)", [[
line                           of the input
ids?[], tokens?[], offsets?[][]   offsets: first and last code point
]] } }

fields.new = { { "", [[
task, files[]                  of the recipe, and the files that were written
]] } }

fields.verify = { { "", [[
run, checkpoint, equal         the run, the checkpoint it was computed from, whether all steps are equal
steps[].{step, equal, what?, tensor?}   in the order in which they were computed
difference?.{step, what, tensor?}   the first one: what: loss, gradient, weights or a moment
]] } }

fields.version = { { "", [[
version, git, compiler, cflags, instructions, sanitizers, cuda, plugins
lua, jansson, libyaml, utf8proc, unicode, zlib, zstd   versions
]] } }

fields.vocab = { { "", [[
out, size, fingerprint         the file, its tokens, and what identifies them
words, distinct, bytes, invalid   of the text; invalid: sequences that are not UTF-8
merges                         pieces that were joined
forgotten, out_of_reach, too_long   words left out: rare ones when memory was short, of rare characters, long
]] } }

---The paths of a line, and what they are; the meaning may be empty.
local function split(line)
  local paths, meaning = line:match("^(.-)%s%s+(.*)$")
  local list = {}
  for part in ((paths or line):gsub("%b{}", function(s) return (s:gsub("[ ,]+", ";")) end)):gmatch("[^,%s]+") do
    local prefix, names = part:match("^(.*){(.*)}$")
    for name in (names or part):gmatch("[^;]+") do list[#list + 1] = (prefix or "") .. name end
  end
  return list, meaning or ""
end

---@class seqrun.shell.JsonForm
---@field form string "", or the option that asks for it
---@field fields { paths: string[], meaning: string }[]

---What a command prints with --json, by form; nil if it does not.
---@param name string
---@return seqrun.shell.JsonForm[]|nil
local function forms(name)
  if not fields[name] then return nil end
  local list = {}
  for i, form in ipairs(fields[name]) do
    list[i] = { form = form[1], fields = {} }
    for line in form[2]:gmatch("[^\n]+") do
      local paths, meaning = split(line)
      table.insert(list[i].fields, { paths = paths, meaning = meaning })
    end
  end
  return list
end

local WIDTH, INDENT = 100, 30

---"a[].b, a[].c" as "a[].{b, c}".
local function grouped(paths)
  local list, at = {}, 1
  while at <= #paths do
    local prefix = paths[at]:match("^(.*%[%]%.)[^.]*$")
    local names, last = {}, at
    while prefix and paths[last] and paths[last]:match("^(.*%[%]%.)[^.]*$") == prefix do
      names[#names + 1], last = paths[last]:sub(#prefix + 1), last + 1
    end
    list[#list + 1] = #names > 1 and ("%s{%s}"):format(prefix, table.concat(names, ", ")) or paths[at]
    at = math.max(last, at + 1)
  end
  return table.concat(list, ", "):gsub("%?", "")
end

---Words in lines of at most WIDTH characters.
local function wrap(lines, first, rest, words)
  local line = first
  for word in words:gmatch("%S+") do
    if #line + #word + 1 > WIDTH then
      lines[#lines + 1], line = line, rest
    end
    line = line .. (line:find("%S%s?$") and not line:find("%s$") and " " or "") .. word
  end
  lines[#lines + 1] = line
end

---The same as text for --help and the manual page.
---@param name string
---@return string|nil
local function text(name)
  local list, lines = forms(name), {}
  if not list then return nil end
  for _, form in ipairs(list) do
    lines[#lines + 1] = ("fields of --json%s:"):format(form.form ~= "" and " " .. form.form or "")
    for _, field in ipairs(form.fields) do
      local paths = grouped(field.paths)
      if field.meaning == "" or #paths > INDENT - 4 then
        wrap(lines, "  ", "    ", paths)
        if field.meaning ~= "" then wrap(lines, (" "):rep(INDENT), (" "):rep(INDENT), field.meaning) end
      else
        wrap(lines, ("  %-" .. INDENT - 2 .. "s"):format(paths), (" "):rep(INDENT), field.meaning)
      end
    end
  end
  return table.concat(lines, "\n")
end

return { forms = forms, text = text }
