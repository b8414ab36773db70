-- prepare.lua - raw text to a data set: a vocabulary when none is given, then tokens, streamed.

local check = require("seqrun.base.check")
local format = require("seqrun.base.format")
local core = require("seqrun.core.data")
local failure = require("seqrun.base.failure")
local import_ids = require("seqrun.data.dataset.import_ids")
local inputs = require("seqrun.text.inputs")
local replace = require("seqrun.data.dataset.replace")
local live = require("seqrun.draw.live")
local same_file = require("seqrun.base.same_file")
local sys = require("seqrun.core.sys")
local stored = require("seqrun.text.stored")
local text = require("seqrun.core.text")

local commas, must = format.commas, failure.must

---@class seqrun.PrepareOptions
---@field inputs string|string[] files, directories, patterns such as "texts/*.txt", "-"; .gz and .zst too
---@field out string the .sqr file
---@field vocab string|seqrun.core.text.vocab|seqrun.core.text.tokenizer|table a directory, a tokenizer.json, a
---vocab.txt, what was read from one, or { size =, min_frequency =, tokens = } to train a vocabulary, of 30,522 tokens
---by default; tokens: a list of further ones, which match no text, such as those of fill-in-the-middle
---@field vocab_out? string where a trained vocabulary goes; OUT with .vocab.txt for .sqr by default
---@field lowercase? boolean of a vocabulary; true
---@field keep_accents? boolean of a vocabulary
---@field format? "prose"|"lines"|"documents"|"jsonl" jsonl: every input has records, whatever its name; their texts
---  are prose
---@field columns? { text?: string } of JSONL: the member that has the text, "text"; meta.body is body inside meta
---@field where? string of JSONL: the records that are wanted, such as "lang == 'en' and score > 0.5"
---@field document_start? string a paragraph that begins so starts a document; blank lines then do not
---@field threads? integer
---@field overwrite? boolean replace a data set of another text
---@field progress? fun(line: string) takes a line now and then

local OPTIONS = {
  inputs = true, out = true, vocab = true, vocab_out = true, lowercase = true, keep_accents = true, format = true,
  document_start = true, threads = true, overwrite = true, progress = true, columns = true, where = true,
}
local COLUMNS = { text = true }

local TRAIN = { size = true, min_frequency = true, tokens = true }

local function say(options, words, ...)
  if options.progress then options.progress(live.fit_output(words:format(...))) end
end

---Whether this says how to train a vocabulary.
local function is_recipe(vocab) return type(vocab) == "table" and getmetatable(vocab) == nil end

---A vocabulary with further tokens at its end.
local function with_tokens(trained, tokens)
  local lines = {}
  for id = 0, #trained - 1 do lines[id + 1] = trained:token(id) end
  for _, token in ipairs(tokens) do
    local good = type(token) == "string" and token:find("^%S+$")
    local wrong = not good and "is not a token: it needs characters, and no spaces"
      or trained:id(token) and "is in the trained vocabulary already"
    if wrong then failure.raise("config", "prepare: vocab.tokens: '%s' %s", tostring(token), wrong) end
    lines[#lines + 1] = token
  end
  return must(text.parse_vocab(table.concat(lines, "\n") .. "\n", "the trained vocabulary"))
end

---Trains a vocabulary on the text.
local function train(options, given, records)
  for _, path in ipairs(given) do
    if path == "-" then
      failure.raise("config", "prepare: standard input is read once; give a vocabulary (vocab: FILE), or files to "
        .. "train one from")
    end
  end
  local size = options.vocab.size or 30522
  say(options, "vocabulary: training %s tokens", commas(size))
  local trained, counts = must(text.train(given, {
    size = size, min_frequency = options.vocab.min_frequency, lowercase = options.lowercase ~= false,
    keep_accents = options.keep_accents, threads = options.threads, records = records,
  }))
  say(options, "vocabulary: %s tokens from %s words (%s distinct)", commas(#trained), commas(counts.words),
    commas(counts.distinct))
  if #(options.vocab.tokens or {}) > 0 then return with_tokens(trained, options.vocab.tokens) end
  return trained
end

---The tokenizer to use, and the vocabulary if it was trained.
local function tokenizer_of(options, given, records)
  local trained = is_recipe(options.vocab) and train(options, given, records) or nil
  local tokenizer = stored.literal {
    vocab = trained or options.vocab, lowercase = options.lowercase, keep_accents = options.keep_accents,
  }
  return tokenizer, trained
end

---Tells how many bytes of the files were read; the number of tokens and the speed beside it.
local function tell_progress(progress, counts, began)
  local seconds = math.max(1e-3, sys.now() - began)
  progress.total = counts.total > 0 and counts.total or nil
  progress:at(counts.bytes_read, ("%s tokens, %.1f MB/s"):format(commas(counts.tokens), counts.bytes / 1e6 / seconds))
end

---Works through the text; the counts at its end.
local function work(ingest, options)
  local began = sys.now()
  local progress <close> = live.work("tokenizing", {
    unit = "bytes", print = options.progress, quiet = not options.progress,
  })
  while not must(ingest:step()) do
    if progress:due() then tell_progress(progress, ingest:counts(), began) end
  end
  local counts = ingest:counts()
  counts.seconds = sys.now() - began
  return counts
end

local function close_report(options, counts)
  say(options, "read %s of text in %s: %s words%s", format.bytes(counts.bytes), format.counted(counts.files, "file"),
    commas(counts.words), counts.records == 0 and "" or (", %s%s"):format(format.counted(counts.records, "record"),
    options.where and (", %s of them left out by where"):format(commas(counts.left_out)) or ""))
  say(options, "%s: %s tokens (%.2f %% unknown) in %s sentences of %s documents, %.1f s", options.out,
    commas(counts.tokens), 100 * counts.unknown / math.max(1, counts.tokens), commas(counts.stored),
    commas(counts.documents), counts.seconds)
  say(options, "%s sentences in = %s stored + %s without a token - %s more by cutting long ones",
    commas(counts.sentences), commas(counts.stored), commas(counts.empty), commas(counts.pieces))
  if options.document_start and counts.documents == 1 then
    say(options, "no paragraph begins with '%s' after the first, so it is one document", options.document_start)
  elseif options.format ~= "records" and counts.records == 0 and counts.documents == 1 and counts.stored > 1 then
    say(options, "note: the whole text is one document: it has no empty line, which ends a document; if each line "
      .. "is one, set text.format=documents")
  end
  if counts.invalid > 0 then
    say(options, "%s invalid UTF-8 sequences were dropped", commas(counts.invalid))
  end
  if counts.long_cut > 0 then say(options, "%s cuts in lines that were too long", commas(counts.long_cut)) end
end

---Names the large temporary files that killed calls have left beside `out`.
local function tell_leftovers(options)
  local folder, name = options.out:match("^(.*/)([^/]*)$")
  folder, name = folder or "./", name or options.out
  for _, found in ipairs(sys.list(folder) or {}) do
    local rest = found:sub(1, #name + 1) == "." .. name and found:sub(#name + 2)
    if rest and rest:find("^%.tmp%-%x%x%x%x%x%x%x%x$") then
      say(options, "%s%s is left over from a killed prepare; remove it, unless one is running", folder, found)
    end
  end
end

---Where a vocabulary goes that is trained.
local function vocab_path(options) return options.vocab_out or options.out:gsub("%.sqr$", "") .. ".vocab.txt" end

---What the lines of a text are.
local function lines_of(options)
  local given = options.format
  return (given == "lines" or given == "documents") and given or "prose"
end

---The metadata of how a data set was made.
local function settings_of(options, source)
  return {
    source = source, format = lines_of(options), kind = "text",
    document_start = options.document_start or "none",
  }
end

---The metadata of its tokenizer.
local function tokenizer_settings(tokenizer)
  local vocab, _, keep = tokenizer:plain()
  local lowercase = tostring(tokenizer:lowercase())
  if not vocab then return { lowercase = lowercase, tokenizer_fingerprint = tokenizer:fingerprint() } end
  local fingerprint = tokenizer:vocab():fingerprint()
  return { lowercase = lowercase, keep_accents = keep and "true" or "none", vocab_fingerprint = fingerprint }
end

---The tokenizer, the vocabulary if it was trained, and the existing data set at `out`, if any, which looks like the new
---one.
local function begin(options, given, source, records)
  replace.make_place(options.out)
  tell_leftovers(options)
  local before = replace.before(options.out, options.overwrite)
  if before then replace.check_settings(before, options.out, settings_of(options, source)) end
  if is_recipe(options.vocab) and not before and not options.overwrite and sys.exists(vocab_path(options)) then
    failure.raise("config", "prepare: %s exists; take it with vocab=%s, or replace it with overwrite=true",
      vocab_path(options), vocab_path(options))
  end
  local tokenizer, trained = tokenizer_of(options, given, records)
  if before then replace.check_settings(before, options.out, tokenizer_settings(tokenizer)) end
  return tokenizer, trained, before
end

---Makes the data set of text.
local function prepare(options, given, records)
  local source = table.concat(given, " ") .. (options.where and " where " .. options.where or "")
  source = source:sub(1, 4096)
  local tokenizer, trained, before = begin(options, given, source, records)
  local ingest <close> = must(core.ingest(options.out, given, tokenizer, {
    format = lines_of(options), records = records,
    document_start = options.document_start, threads = options.threads, source = source,
  }))
  local counts = work(ingest, options)
  if counts.records > 0 and counts.left_out >= counts.records then
    failure.raise("data", "prepare: where leaves out all of the %s records; no data set was written",
      commas(counts.records))
  end
  if before then replace.check_text(before, options.out, ingest) end
  if trained then must(trained:save(vocab_path(options))) end
  must(ingest:commit())
  return counts
end

---Looks at what the inputs are, and makes the data set.
local function prepare_inputs(options, given)
  if #given == 0 then
    failure.raise("config", "prepare: inputs is empty; give files or directories, or - for stdin")
  end
  local found = inputs.find(given)
  if found.kind ~= "text" then return import_ids(options, found, table.concat(given, " "):sub(1, 4096)) end
  return prepare(options, given, inputs.records(found, options, "prepare"))
end

---Makes a data set from text; the counts of what was read, stored and dropped.
---@param options seqrun.PrepareOptions
---@return table<string, number>? counts
---@return string? message
---@return string? code
return function(options)
  check.options("data.prepare", options, OPTIONS)
  if not options.inputs or not options.out or not options.vocab then
    check.fail("data.prepare: give inputs, out and vocab (a directory, a file, or { size = N } to train one)")
  end
  if is_recipe(options.vocab) then check.options("data.prepare: vocab", options.vocab, TRAIN) end
  check.options("data.prepare: columns", options.columns, COLUMNS)
  local given = type(options.inputs) == "table" and options.inputs or { options.inputs }
  local own, problem = same_file(options.out, given, "out")
  if not own then return nil, "prepare: " .. problem, "config" end
  local counts, message, code = failure.returned(prepare_inputs, options, given)
  if code == "stopped" then message = "prepare: stopped on request; no data set was written" end
  if not counts then return nil, message, code end
  if counts.stored then close_report(options, counts) end
  return counts
end
