-- score - how probable a model finds lines of text, or which of two sentences it finds more probable.

local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local grid = require("seqrun.draw.grid")
local input = require("seqrun.predict.input")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local plain = require("seqrun.base.one_line")
local run_config = require("seqrun.predict.run_config")
local score = require("seqrun.predict.score")
local sys = require("seqrun.core.sys")
local tables = require("seqrun.predict.tables")
local text = require("seqrun.base.format")
local verb = require("seqrun.predict.verb")

local command = { summary = "log-likelihoods of lines, or which sentence of each pair is more probable" }

---Fields of BLiMP by which pairs are grouped: the first that a pair has.
local GROUPS = { "linguistics_term", "phenomenon", "UID" }

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory with a masked-LM head, or of a causal model")
  cmd:argument("files", "text, one per line; .jsonl: objects with `text`, or pairs with `sentence_good` and "
    .. "`sentence_bad`; .tsv, .csv: a good and a bad sentence; KEY=VALUE to name columns; - is standard "
    .. "input"):args("+")
  cmd:option("--input", "format of the input; default: by the name of the file, or lines"):argname("FORMAT")
    :choices { "lines", "tsv", "csv", "jsonl" }
  cmd:option("--by", "the field that groups pairs; default: linguistics_term, phenomenon or UID"):argname("FIELD")
  verb.define(cmd, { batch_tokens = "4096", long = "are errors", specials = false })
  formats.define(cmd, { json = "one JSON object per line of the input" })
  cmd:epilog([[A text's score is the sum of the log-probabilities of its tokens, each when it alone is masked
(pseudo-log-likelihood); for a causal model, each after the tokens before it (log-likelihood). Special tokens such as
[CLS] do not count, nor does the first token of a text if a causal model's tokenizer puts none before it. A text that
is too long is an error; it is not truncated. The sentence of a pair with the larger score is the model's choice; a tie
does not count as right.

examples:
  seqrun score runs/pretrain lines.txt
  seqrun score some/bert reviews.csv columns.text=review
  seqrun score some/bert pairs.csv columns.text=good columns.pair=bad
  seqrun score some/bert blimp/*.jsonl                  right answers for each phenomenon
  seqrun score some/bert blimp/*.jsonl --by UID --json > scores.jsonl]])
end

-- ---- lines ---------------------------------------------------------------------------------------

---Blank lines separate paragraphs; they are not scored.
local function is_blank(item) return item.text ~= nil and not item.text:find("%S") end

---"  -34.125   9  She was very happy."
local function print_line(found, item)
  if is_blank(item) then return true end
  local shown = plain(item.text or "", 1 << 20)
  local line = found.error and ("%11s %5s  %s  (%s)"):format("-", "-", shown, found.error)
    or ("%11.4f %5d  %s"):format(found.score, found.tokens, shown)
  return (io.stdout:write(live.fit_output(line), "\n"))
end

---What all texts have together.
local function tell_total(texts, tokens, sum, causal)
  if texts == 0 then return end
  verb.note("%s, %s: mean score %.4f a text, %.4f a token; %sperplexity %.4g", text.counted(texts, "text"),
    text.counted(tokens, "token"), sum / texts, sum / tokens, causal and "" or "pseudo-", math.exp(-sum / tokens))
end

-- ---- pairs ---------------------------------------------------------------------------------------

---The group of a pair, or nil.
local function group_of(item, by)
  for _, field in ipairs(by and { by } or GROUPS) do
    if item[field] then return item[field] end
  end
end

local function count_pair(groups, name, correct)
  local group = groups[name]
  if not group then
    group = { name = name, pairs = 0, right = 0, ties = 0 }
    groups[name], groups[#groups + 1] = group, group
  end
  group.pairs = group.pairs + 1
  if correct == nil then group.ties = group.ties + 1 end
  if correct then group.right = group.right + 1 end
end

local function row_of(group)
  return {
    group.name, ("%d"):format(group.pairs), ("%d"):format(group.right), ("%d"):format(group.ties),
    ("%.2f %%"):format(100 * group.right / group.pairs),
  }
end

---Groups for other programs and for pages.
local function write_groups(groups, format)
  table.sort(groups, function(a, b) return a.name < b.name end)
  for _, group in ipairs(groups) do group.accuracy = group.right / group.pairs end
  formats.write(formats.rows(groups, { "name", "pairs", "right", "ties", "accuracy" }, format), format)
end

---The table of groups, by name, and all pairs below; the mean over groups is the score that BLiMP reports.
local function print_groups(groups)
  table.sort(groups, function(a, b) return a.name < b.name end)
  local rows, all, mean = { { "pairs of", "pairs", "right", "ties", "accuracy" } }, {
    name = "all", pairs = 0, right = 0, ties = 0,
  }, 0
  for i, group in ipairs(groups) do
    rows[i + 1], mean = row_of(group), mean + group.right / group.pairs / #groups
    for _, key in ipairs { "pairs", "right", "ties" } do all[key] = all[key] + group[key] end
  end
  if #groups > 1 then
    rows[#rows + 1] = row_of(all)
    rows[#rows + 1] = { "mean", "", "", "", ("%.2f %%"):format(100 * mean) }
  end
  for _, line in ipairs(grid.lines(rows, { left = { true }, cut = { true } })) do
    if not io.stdout:write(line, "\n") then return end
  end
end

-- ---- the command ---------------------------------------------------------------------------------

local function print_json(found, item, group)
  local object = { line = item.line, id = item.id, file = item.file, error = found.error, phenomenon = group }
  if found.score then object.score, object.tokens = found.score, found.tokens end
  if found.good then
    object.good, object.bad, object.correct = found.good, found.bad, found.correct
    if found.correct == nil then object.correct = json.null end
  end
  return (io.stdout:write(json.encode(object), "\n"))
end

---What prints a scored text as CSV or Markdown.
local function row_writer(format)
  local put, begun = formats.writer(format), false
  return function(found, item)
    if is_blank(item) then return true end
    local row = { item.file, formats.cell(item.line, format), formats.cell(found.score, format),
      formats.cell(found.tokens, format), item.text }
    local good = begun or put { "file", "line", "score", "tokens", "text" }
    begun = true
    return good and put(row)
  end
end

---Fields that are read of each line.
local function fields_of(format, by)
  if format == "lines" then return { keys = { "text" } } end
  if format ~= "jsonl" then return { keys = { "sentence_good", "sentence_bad" } } end
  local keys, optional = { "text", "sentence_good", "sentence_bad" }, {}
  table.move(by and { by } or GROUPS, 1, by and 1 or #GROUPS, 4, keys)
  for _, key in ipairs(keys) do optional[key] = true end
  return { keys = keys, optional = optional }
end

---The texts and pairs of a table with named columns.
local function of_columns(records)
  return function()
    local item = records()
    if item and item.pair then
      item.sentence_good, item.sentence_bad, item.text, item.pair = item.text, item.pair, nil, nil
    end
    return item
  end
end

---The items of the input, and what is to be closed.
local function open_input(args, files, format, columns)
  if columns then
    local records, rows = tables.texts(files, format, columns)
    return of_columns(records), rows
  end
  local fields = fields_of(format, args.by)
  local items, message, code, rows = input.open {
    files = files, format = format, keys = fields.keys, optional = fields.optional,
    named = args.input ~= "lines" and "columns.text=NAME columns.pair=NAME" or nil, option = "--input",
  }
  return failure.must(items, message, code), rows
end

---Scores all items; returns how many could not be, and which was the first; nil if nobody reads any more.
local function write_all(scorer, items, args)
  local wrong, first, groups, texts, tokens, sum = 0, nil, {}, 0, 0, 0.0
  local text_line = args.format == "table" and print_line or args.format ~= "json" and row_writer(args.format)
  for found, item in scorer:each(items) do
    local group = group_of(item, args.by)
    if found.error and not is_blank(item) then
      wrong, first = wrong + 1, first or ("%s:%d: %s"):format(item.file, item.line, found.error)
    elseif found.good then
      count_pair(groups, group or item.file, found.correct)
    elseif found.score then
      texts, tokens, sum = texts + 1, tokens + found.tokens, sum + found.score
    end
    local good = true
    if args.json then good = print_json(found, item, group) elseif item.text then good = text_line(found, item) end
    if not good then
      verb.check_end()
      return nil
    end
  end
  verb.check_end()
  if #groups > 0 and args.format == "table" then
    print_groups(groups)
  elseif #groups > 0 and not args.json and texts == 0 then
    write_groups(groups, args.format)
  elseif #groups > 0 and not args.json then
    verb.note("the pairs of the input are not in the table of its texts; --json has both")
  end
  if args.format == "table" then tell_total(texts, tokens, sum, scorer.causal) end
  return wrong, first
end

function command.run(args)
  verb.use_device(args)
  verb.note_best(args)
  local files, arguments = run_config.split(args.files)
  if #files == 0 then return nil, "score: no files are given; - is standard input", "config" end
  local format = verb.format(args.input, files, nil, "--input")
  local columns = tables.named("score", format, arguments)
  if args.by and (format ~= "jsonl" or columns) then
    return nil, ("score: --by is a field of JSON lines, and %s is read %s"):format(files[1],
      columns and "by columns" or "as " .. format), "config"
  end
  files = verb.files(files)
  local scorer = failure.must(score.open(args.dir, {
    max_len = args.max_len, rows = args.batch_tokens, precision = args.precision, average = args.average,
  }))
  sys.signals("stream")
  local items, rows = open_input(args, files, format, columns)
  local guard <close> = rows -- luacheck: ignore 211
  local wrong, first = write_all(scorer, items, args)
  if wrong and wrong > 0 then verb.fail_wrong(wrong, first, nil, "scored") end
  return 0
end

return command
