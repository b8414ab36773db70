-- files.lua - the data sets of a run, straight from labelled files.
--
--     local sets = sr.must(sr.data.files { task = "classify", train = "train.csv", dev = "dev.csv", vocab = vocab })
--     sets.train, sets.dev, sets.labels, sets.notes
--
-- A file becomes FOLDER/NAME-HASH.sqr, once: the hash is that of the bytes of the files, the options and the
-- vocabulary, so the data set is found again until one of them changes.  A dry run does not keep it.

local check = require("seqrun.base.check")
local commas = require("seqrun.base.format").commas
local core_batch = require("seqrun.core.batch")
local corpus = require("seqrun.data.dataset.corpus")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local packed = require("seqrun.base.packed")
local readers = require("seqrun.data.readers")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")
local training = require("seqrun.tensor.training")

---Raised when the same files and options give another data set.
local VERSION = 3

---@class seqrun.FilesOptions
---@field task string
---@field train string|string[] labelled files, or data sets (.sqr)
---@field dev? string|string[]
---@field held? number of train, where there is no dev; 0
---@field folds? integer instead of held: the number of folds of train, of which one is held out
---@field fold? integer that one, from 1; 1
---@field seed? integer of the choice of what is held out
---@field vocab string|seqrun.core.text.vocab|seqrun.core.text.tokenizer another tokenizer in a .sqr is refused
---@field labels? string[] of the checkpoint
---@field max_len? integer 128, squad: 384
---@field too_long? "truncate"|"error"|"windows" windows: sentences of tokens
---@field windows? string texts longer than max_len are read in windows
---@field folder? string runs/data
---@field weights? number[] of the files of train: with them, or temperature, each is a data set of its own, a source
---@field temperature? number
---@field columns? table
---@field progress? fun(line: string)
---@field scoring? boolean no notes on training

local OPTIONS = {
  task = true, train = true, dev = true, held = true, seed = true, vocab = true, labels = true, max_len = true,
  too_long = true, folder = true, stride = true, query = true, folds = true, fold = true, scoring = true,
  weights = true, temperature = true, windows = true,
}

---Options that go to data.read as they are.
local PASSED = {
  "lowercase", "keep_accents", "columns", "format", "delimiter", "quotes", "limit", "bad", "separator", "keep_text",
  "unlabelled", "progress", "specials", "prompts",
}
for _, key in ipairs(PASSED) do OPTIONS[key] = true end

local function list_of(files) return type(files) == "table" and files or { files } end

-- ---- existing data sets --------------------------------------------------------------------------

local function read_options(options, files, labels)
  local given = { task = options.task, files = files, vocab = options.vocab, labels = labels }
  for _, key in ipairs(PASSED) do given[key] = options[key] end
  given.windows = options.windows and true
  given.too_long = options.too_long == "windows" and options.too_long or nil
  given.query = options.reader.windows and options.query or nil
  if options.reader.windows or given.windows or given.too_long then
    given.max_len, given.stride = options.max_len, options.stride
  end
  return given
end

---The digest of a file; if it is missing, a similar name in its directory is suggested.
local function digest_of(path)
  local digest, message, code = sys.hash_file(path)
  if code == "missing" then
    local folder, name = path:match("^(.*/)([^/]*)$")
    local hint = guess.nearest(name or path, sys.list(folder or ".") or {})
    message = message .. (hint and ("; did you mean '%s%s'?"):format(folder or "", hint) or "")
  end
  return failure.must(digest, message, code)
end

---What identifies a tokenizer.
local function add_tokenizer(key, tokenizer)
  local vocab, lowercase, keep_accents = tokenizer:plain()
  key.vocab = vocab and tokenizer:vocab():fingerprint() or tokenizer:fingerprint()
  key.lowercase, key.keep_accents = lowercase, keep_accents
end

---Where the data set of these files is, or will be.
local function path_of(options, given)
  local key = { version = VERSION, files = {} }
  for name, value in pairs(given) do
    if name ~= "files" and name ~= "vocab" and name ~= "progress" then key[name] = value end
  end
  add_tokenizer(key, options.vocab)
  for i, path in ipairs(given.files) do key.files[i] = { path, digest_of(path) } end
  local name = packed.bare(given.files[1]:match("([^/]*)$")):gsub("%.%w+$", ""):gsub("[^%w_.-]", "_")
  return ("%s/%s-%s.sqr"):format(options.folder or "runs/data", name, sys.hash(json.encode(key)):sub(1, 12))
end

---The path of the data set of these files, which is made if it is not there.
local function from_files(options, files, labels)
  local given = read_options(options, files, labels)
  local path = path_of(options, given)
  if sys.exists(path) then
    local found = failure.valid(corpus.open(path, { held = 0, vocab = options.vocab }))
    if found then return path end -- else it is damaged, and made again
  end
  given.out = options.scratch and ("%s/%s"):format(options.scratch.path, path:match("[^/]+$")) or path
  failure.must(readers.read(given))
  return given.out
end

---The data sets of some files: of all together, or of each where it is a source.
local function made_of(options, files, labels)
  local paths, apart = {}, files == options.train and (options.weights or options.temperature)
  for i, list in ipairs(apart and files or { files }) do paths[i] = from_files(options, list_of(list), labels) end
  return paths
end

-- ---- labels ----------------------------------------------------------------------------------

---Why the labels of a data set are not the ones that are wanted.
local function check_labels(set, wanted)
  local names = set:labels()
  if not wanted or not names then return nil end
  for i = 1, math.max(#names, #wanted) do
    if names[i] ~= wanted[i] then
      return ("%s: label %d is '%s', but '%s' in the model; the label maps must be the same"):format(
        set:info().path, i - 1, tostring(names[i]), tostring(wanted[i]))
    end
  end
end

---Whether a data set of another task holds what this one reads: the tasks share their reader.
local function is_alike(task, options)
  local other = kinds.get(task)
  return task == options.task or other and other.reader.new == options.reader.new
end

---Why the columns of a data set that does not say its task are not those of this one.
local function check_columns(set, options)
  local kind = kinds.get(options.task)
  local known = kind and kind.column and set:known(kind.column)
  if known and known.type ~= (kind.classes and "i32" or "f32") then
    return ("%s: its column '%s' has values of type %s, but task=%s reads %s; write it with the columns of "
      .. "that task, or choose the task that it was made for"):format(set:info().path, known.name, known.type,
      options.task, kind.classes and "classes (i32)" or "numbers (f32)")
  end
end

---Columns that examples of a task have, beside that of its labels.
local NEEDED = { choice = "group", squad = "span" }

---Why a data set that does not say its task lacks the column of this one.
local function check_needed(set, options)
  local wanted = NEEDED[options.task] or (kinds.get(options.task) or {}).column
  return wanted and not set:known(wanted) and ("%s: it has no column '%s', which task=%s reads; write it with the "
    .. "columns of that task, or choose the task that it was made for"):format(set:info().path, wanted, options.task)
end

---Why a data set cannot be read as examples of a task.
local function check_examples(set, options)
  local path, task = set:info().path, set:meta().task
  if not set:info().examples then
    return ("%s is a data set of text, without examples and labels; give labelled files, or a data set of "
      .. "prepare_labelled.lua or sr.data.write"):format(path)
  end
  if not task then return check_columns(set, options) or check_needed(set, options) end
  if is_alike(task, options) then return nil end
  return ("%s was made for task=%s, not for task=%s, whose examples are others; make it again from its files with "
    .. "task=%s"):format(path, task, options.task, options.task)
end

---Why a data set has windows of texts that are not wanted, or none that are.
local function check_windows(set, options)
  local cut = set:known("window_share") ~= nil
  if cut == (options.windows ~= nil) then return nil end
  return ("%s: %s"):format(set:info().path, cut and "its texts are cut in windows; say how they count together, with "
    .. "data.windows=mean, max or first" or "its texts are not cut in windows; leave out data.windows, or make it "
    .. "again from its files with windows=mean")
end

---Opens the data set of some files, or a .sqr.
local function open_set(options, files, labels)
  local list = list_of(files)
  local ready = list[1]:find("%.sqr$")
  for _, path in ipairs(list) do
    if (path:find("%.sqr$") == nil) ~= (ready == nil) then
      failure.raise("config", "%s and %s: give data sets (.sqr), or text files", list[1], path)
    end
  end
  if not ready then list = made_of(options, list, labels) end
  local set, message, code = corpus.open(list, { held = 0, vocab = options.vocab })
  if not set and message:find("alike: labels.", 1, true) then
    message = ready and message .. " (data.labels)" or message:gsub("; prepare .*", "; list all labels in data.labels")
  end
  failure.must(set, message, code)
  local wrong = ready and (check_examples(set, options) or check_labels(set, labels) or check_windows(set, options))
  if wrong then failure.raise("data", "%s", wrong) end
  return set
end

-- ---- what there is to say about them -------------------------------------------------------------

local function say(notes, format, ...) notes[#notes + 1] = format:format(...) end

local function tell_set(notes, set, name, options)
  for i, source in ipairs(set:sources() or {}) do
    tell_set(notes, failure.must(corpus.open(set.files[i], { held = 0 })), ("%s, %s"):format(name, source), options)
  end
  if #set.files > 1 then return end
  local meta = set:meta()
  say(notes, "%s: %s examples, %s tokens, from %s", name, commas(set:info().examples), commas(set:info().tokens),
    meta.source or set:info().path)
  if meta.classes then say(notes, "%s: labels %s", name, meta.classes) end
  local lines, advice = json.decode(meta.notes or "[]"), not options.scoring and json.decode(meta.advice or "[]") or {}
  for _, line in ipairs(table.move(advice, 1, #advice, #lines + 1, lines)) do
    local warning, rest = line:match("^(warning: )(.*)$")
    say(notes, "%s%s: %s", warning or "", name, rest or line)
  end
end

---Counts sequences that will be truncated, or refuses them.
local function check_length(notes, set, name, options)
  local max_len = options.max_len
  local count, first, longest = set.core:longer(max_len)
  if count == 0 then return end
  if options.too_long == "error" then
    failure.raise("data", "%s: longer than data.max_len, %d tokens with special ones (%s of %s examples of %s are, up "
      .. "to %s tokens); raise data.max_len, or set data.too_long=truncate", set:place(first), max_len, commas(count),
      commas(set:info().examples), name, commas(longest))
  end
  say(notes, "%s%s: %s of %s examples are longer than %d tokens and are truncated; the first is %s, the longest has %s",
    count > set:info().examples / 2 and "warning: " or "", name, commas(count), commas(set:info().examples), max_len,
    set:place(first), commas(longest))
end

local function tell_overlap(notes, train, dev)
  local count, first, twin = failure.must(train.core:overlap(dev.core))
  if count > 0 then
    say(notes, "warning: %s of %s dev examples are in train too, the first at %s (as %s): scores will be too high",
      commas(count), commas(dev:info().examples), dev:place(first), train:place(twin))
  end
end

---Warns of texts that are in both parts of a set.
local function tell_repeats(notes, set)
  local count = math.tointeger(tonumber(set:meta().repeats))
  if not count then return end
  say(notes, "warning: %s of %s rows of train repeat an earlier text, so some held-out texts are also trained on and "
    .. "scores will be too high; remove them, or set data.dev", commas(count), commas(set:info().examples))
end

-- ---- both ------------------------------------------------------------------------------------

---What decides which examples belong together: the windows of a context, the choices of a question, the texts of a row.
local function group_column(set, reader)
  local cut = reader.windows or reader.cuts or reader.documents
  for _, name in ipairs { cut and "text" or "group", "group", "source" } do
    if set:known(name) then return name end
  end
end

---Whether examples are windows of sentences or of texts.
local function is_cut(options, set)
  return options.reader.cuts and set:known("offset") or set:known("window_share")
end

---The examples of a share of the groups, from one fraction of them to another, in an order drawn by the seed.
local function whole_groups(options, set, from, to)
  local column, groups, of = group_column(set, options.reader), {}, {}
  for i = 1, set:info().examples do
    local value = column and failure.must(set:column(column, i)) or i
    local key = type(value) == "string" and sys.key(value) or value
    if not of[key] then
      of[key] = {}
      groups[#groups + 1] = of[key]
    end
    table.insert(of[key], i)
  end
  local list = {}
  for k = math.floor(from * #groups + 0.5), math.floor(to * #groups + 0.5) - 1 do
    for _, i in ipairs(groups[core_batch.permuted(k, #groups, options.seed or 0, 0) + 1]) do list[#list + 1] = i end
  end
  return list
end

---Holds out a part of train, where there is no dev.
local function hold_out(options, train)
  local whole = options.reader.whole or is_cut(options, train)
  local hold = whole and whole_groups(options, train, 0, options.held) or nil
  local set = failure.must(corpus.open(train.files, {
    held = options.held, split = "keyed", seed = options.seed, hold = hold,
  }))
  if set:info().held.units > 0 and set:info().train.units > 0 then return set end
  failure.raise("data", "%s: data.held=%g of %d examples is too little to evaluate on; give data.dev, or raise "
    .. "data.held", train:meta().source or train:info().path, options.held, train:info().examples)
end

---Holds out a fold of train, and says how large it is.
local function fold_out(options, sets)
  local path, fold = sets.train:info().path, options.fold or 1
  if options.reader.whole or options.reader.windows then
    failure.raise("config", "%s: its examples belong together, so they cannot be in folds; leave out data.folds", path)
  end
  local split = is_cut(options, sets.train) and { -- the windows of a sentence are in one fold, too
    split = "keyed", hold = whole_groups(options, sets.train, (fold - 1) / options.folds, fold / options.folds),
  } or { folds = options.folds, fold = fold, seed = options.seed }
  local set = failure.must(corpus.open(sets.train.files, split))
  local held, left = set:info().held.units, set:info().train.units
  if held == 0 or left == 0 then
    failure.raise("data", "%s: data.folds=%d of %d examples leaves fold %d %s; use fewer folds", path, options.folds,
      set:info().examples, fold, held == 0 and "empty" or "with all of them")
  end
  sets.train, sets.dev, sets.dev_part = set, set, "held"
  say(sets.notes, "dev: %s of them, fold %d of %d of train; equal texts are in one fold", commas(held), fold,
    options.folds)
end

---Warns of a file that is read twice.
local function tell_twice(notes, name, files)
  local seen = {}
  for _, path in ipairs(files) do
    if seen[path] then say(notes, "warning: %s: %s is listed twice, so each of its rows counts twice", name, path) end
    seen[path] = true
  end
end

---Opens one of the sets, checks it and reports on it.
local function add_set(sets, name, options, labels)
  local set = open_set(options, options[name], labels)
  tell_set(sets.notes, set, name, options)
  tell_twice(sets.notes, name, list_of(options[name]))
  check_length(sets.notes, set, name, options)
  sets[name] = set
end

---The options with the tokenizer as an object.
local function complete(given)
  check.options("data.files", given, OPTIONS)
  if not given.train or not given.vocab or not given.task then check.fail("data.files: give task, train and vocab") end
  local reader, problem = readers.of(given.task)
  if not reader then check.fail("data.files: %s", problem) end
  local options = { max_len = reader.windows and 384 or 128, reader = reader }
  for key, value in pairs(given) do options[key] = value end
  options.vocab = stored.literal(given)
  return options
end

local function data_sets(given)
  local options, sets = complete(given), { notes = {} }
  local scratch <close> = training.scratch()
  options.scratch = scratch
  add_set(sets, "train", options, options.labels)
  sets.labels = sets.train:labels()
  if options.folds then
    fold_out(options, sets)
  elseif options.dev then
    add_set(sets, "dev", options, sets.labels)
    sets.dev_part = "train"
    tell_overlap(sets.notes, sets.train, sets.dev)
  elseif (options.held or 0) > 0 then
    sets.train = hold_out(options, sets.train)
    sets.dev, sets.dev_part = sets.train, "held"
    say(sets.notes, "dev: %s of them, held out of train (data.held=%g, as data.dev is not set)",
      commas(sets.train:info().held.units), options.held)
    tell_repeats(sets.notes, sets.train)
  end
  return sets
end

---The data sets of a run.  `dev` may be the held-out part of `train`: then `dev_part` is "held".
---@param given seqrun.FilesOptions
---@return { train: seqrun.Corpus, dev?: seqrun.Corpus, dev_part?: "train"|"held", labels?: string[], notes: string[] }?
---@return string? message
---@return string? code
return function(given) return failure.returned(data_sets, given) end
