-- prepare.lua - raw text to a data set: a vocabulary when none is given, then tokens, streamed.

local check_options = require("seqrun.data.options")
local core = require("seqrun.core.data")
local sys = require("seqrun.core.sys")
local text = require("seqrun.core.text")

---@class seqrun.PrepareOptions
---@field inputs string|string[] files, folders, .gz, "-"
---@field out string the .sqr file
---@field vocab string|seqrun.core.text.vocab|table a path, a vocabulary, or { size =, min_frequency = } to train one
---@field vocab_out? string where a trained vocabulary goes; OUT with .vocab.txt for .sqr by default
---@field lowercase? boolean true
---@field keep_accents? boolean
---@field format? "prose"|"lines"
---@field document_start? string a paragraph that begins so starts a document; blank lines then do not
---@field threads? integer
---@field progress? fun(line: string) takes a line now and then

local OPTIONS = {
  inputs = true, out = true, vocab = true, vocab_out = true, lowercase = true, keep_accents = true, format = true,
  document_start = true, threads = true, progress = true,
}

---Seconds between two lines of progress.
local EVERY = 2

local function commas(n)
  local digits = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (digits:gsub("^,", ""))
end

local function say(options, format, ...)
  if options.progress then options.progress(format:format(...)) end
end

---The vocabulary to use; a trained one is written beside the data set.
local function vocabulary(options, inputs)
  local vocab = options.vocab
  if type(vocab) == "userdata" then return vocab end
  if type(vocab) == "string" then return text.vocab(vocab) end
  for _, path in ipairs(inputs) do
    if path == "-" then
      return nil, "prepare: standard input is read once; give a vocabulary (vocab: FILE), or files to train one from",
        "config"
    end
  end
  say(options, "vocabulary: training %s tokens", commas(vocab.size))
  local trained, counts, code = text.train(inputs, {
    size = vocab.size, min_frequency = vocab.min_frequency, lowercase = options.lowercase ~= false,
    keep_accents = options.keep_accents, threads = options.threads,
  })
  if not trained then return nil, counts, code end
  local path = options.vocab_out or options.out:gsub("%.sqr$", "") .. ".vocab.txt"
  local saved, message, failed = trained:save(path)
  if not saved then return nil, message, failed end
  say(options, "vocabulary: %s tokens from %s words (%s distinct), in %s", commas(#trained), commas(counts.words),
    commas(counts.distinct), path)
  return trained
end

local function tell_progress(options, counts, began)
  local seconds = math.max(1e-3, sys.now() - began)
  local share = counts.total > 0 and (" (%.0f %%)"):format(100 * counts.bytes_read / counts.total) or ""
  say(options, "tokens: %s from %.1f MB%s, %.1f MB/s", commas(counts.tokens), counts.bytes / 1e6, share,
    counts.bytes / 1e6 / seconds)
end

---Works through the text; the counts at its end.
local function work(ingest, options)
  local began, told = sys.now(), sys.now()
  while true do
    local done, message, code = ingest:step()
    if done == nil then return nil, message, code end
    if done then break end
    if sys.caught() then return nil, "prepare: stopped; no data set was written", "stopped" end
    if sys.now() - told > EVERY then
      told = sys.now()
      tell_progress(options, ingest:counts(), began)
    end
  end
  local counts = ingest:counts()
  counts.seconds = sys.now() - began
  return counts
end

local function close_report(options, counts)
  say(options, "%s: %s tokens (%.2f %% [UNK]) in %s sentences of %s documents, %.1f s", options.out,
    commas(counts.tokens), 100 * counts.unknown / math.max(1, counts.tokens), commas(counts.stored),
    commas(counts.documents), counts.seconds)
  say(options, "%s sentences in = %s stored + %s without a token - %s more by cutting long ones",
    commas(counts.sentences), commas(counts.stored), commas(counts.empty), commas(counts.pieces))
  if options.document_start and counts.documents == 1 then
    say(options, "no paragraph begins with '%s' after the first: all is one document", options.document_start)
  end
  if counts.invalid > 0 then
    say(options, "%s invalid UTF-8 sequences were dropped", commas(counts.invalid))
  end
  if counts.long_cut > 0 then say(options, "%s places were cut since a line was too long", commas(counts.long_cut)) end
end

---Makes a data set from text; the counts of what was read, stored and dropped.
---@param options seqrun.PrepareOptions
---@return table<string, number>? counts
---@return string? message
---@return string? code
return function(options)
  check_options("data.prepare", options, OPTIONS)
  if not options.inputs or not options.out or not options.vocab then
    error("data.prepare: give inputs, out and vocab (a path, or { size = N } to train one)", 2)
  end
  local inputs = type(options.inputs) == "table" and options.inputs or { options.inputs }
  local folder = options.out:match("^(.+)/[^/]*$")
  local message, code, vocab, ingest, counts, done
  if folder then
    done, message, code = sys.make_dirs(folder)
    if not done then return nil, message, code end
  end
  vocab, message, code = vocabulary(options, inputs)
  if not vocab then return nil, message, code end
  local lowercase = options.lowercase ~= false
  local tokenizer = text.tokenizer(vocab, {
    lowercase = lowercase, keep_accents = options.keep_accents, specials = false,
  })
  ingest, message, code = core.ingest(options.out, inputs, tokenizer, {
    lowercase = lowercase, format = options.format, document_start = options.document_start, threads = options.threads,
    source = table.concat(inputs, " "):sub(1, 4096),
  })
  if not ingest then return nil, message, code end
  local guard <close> = ingest
  counts, message, code = work(ingest, options)
  if not counts then return nil, message, code end
  done, message, code = ingest:commit()
  if not done then return nil, message, code end
  close_report(options, counts)
  return counts
end
