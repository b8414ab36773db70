-- fill - fill in [MASK] in lines of text, or with a causal model continue with them.

local continue = require("seqrun.predict.continue")
local converters = require("seqrun.config.converters")
local failure = require("seqrun.base.failure")
local fill = require("seqrun.predict.fill")
local input = require("seqrun.predict.input")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local plain = require("seqrun.base.one_line")
local sys = require("seqrun.core.sys")
local verb = require("seqrun.predict.verb")

local command = { summary = "fill in [MASK] in lines of text, or continue them with --causal" }

local temperature = converters.number("%s is not a temperature; give a number of at least 0, such as 0.8", function(x)
  return x >= 0 and x < math.huge and x
end)

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("files", "text, one per line; .jsonl: objects with `text`; default: standard input"):args("*")
  cmd:option("-t --text", "a line to fill in, instead of files; may be repeated"):argname("TEXT"):count("*")
  cmd:option("-k --top", "candidates of each [MASK], 5 by default"):argname("K"):convert(converters.whole(1, 1000))
  cmd:mutex(
    cmd:flag("--whole-words", "only whole words are candidates (the default)"),
    cmd:flag("--all-tokens", "all tokens are candidates, also pieces of words (##ing) and punctuation"))
  cmd:flag("--causal", "continue each line, with a causal model")
  cmd:option("--tokens", "--causal: maximum number of tokens to add; default: 40"):argname("N")
    :convert(converters.whole(1, 65535))
  cmd:option("--temperature", "--causal: sample tokens at this temperature, from the --top most probable ones if "
    .. "--top is given; default: 0, the most probable token"):argname("T"):convert(temperature)
  cmd:option("--seed", "--causal: random seed of the sampling; default: 0"):argname("N")
    :convert(converters.whole(0, 1 << 32))
  cmd:option("--format", "format of the input; default: by the name of the file, or lines")
    :choices { "lines", "tsv", "csv", "jsonl" }
  verb.define(cmd, { specials = false })
  cmd:flag("--json", "one JSON object per line of the input")
  cmd:epilog([[Probabilities are among all tokens of the vocabulary. With several [MASK] in a line, each has its own
candidates; the line is filled one word at a time, the most probable first.

With --causal a line is continued until the model ends it, or by --tokens tokens. Sampling depends on the seed and the
number of the line, not on other lines.

examples:
  seqrun fill runs/demo/phase2 --text "She was very [MASK] to see him."
  seqrun fill runs/demo/phase2 -k 10 < lines.txt
  seqrun fill --causal runs/causal --text "She was very" --tokens 20 --temperature 0.8 --seed 1
  echo "The [MASK] and the [MASK]." | seqrun fill some/bert --json
                                     {"line":1,"masks":[[{"id":..,"probability":..,"token":".."},..],..],"text":".."}
  echo "She was" | seqrun fill --causal runs/causal --json
                                     {"added":"..","ended":false,"ids":[..],"line":1,"score":-12.5,"text":".."}]])
end

-- ---- output for a person --------------------------------------------------------------------------

---Columns that a string takes, if its characters are as wide as a letter.
local function width_of(s) return utf8.len(s) or #s end

---"31.2 %", "0.025 %": two digits or more, so that the candidates of a young model differ.
local function percent(p) return (p >= 0.00095 and "%.1f %%" or "%.2g %%"):format(100 * p) end

---"happy 31.2 %   glad 8.0 %", in lines of the width of the terminal.
local function rows_of(candidates, indent)
  local width, lines, line = math.max(24, sys.columns(1)), {}, indent
  for i, one in ipairs(candidates) do
    local cell = ("%s %s"):format(one.token, percent(one.probability))
    cell = cell .. (" "):rep(math.max(i < #candidates and 3 or 0, 15 - width_of(cell)))
    if width_of(line) + width_of((cell:gsub(" +$", ""))) > width and line ~= indent then
      lines[#lines + 1], line = line, (" "):rep(width_of(indent))
    end
    line = line .. cell
  end
  lines[#lines + 1] = line
  for i, one in ipairs(lines) do lines[i] = one:gsub(" +$", "") end
  return table.concat(lines, "\n")
end

---Blank lines separate paragraphs; nothing is filled in.
local function is_blank(item) return item.text ~= nil and not item.text:find("%S") end

---The candidates of a line, below the line itself unless a person has just typed it.
local function shown(found, item, typed)
  local lines = {}
  if not typed then lines[1] = live.fit_output(plain(item.text or "", 1 << 20)) end
  if found.error and not is_blank(item) then lines[#lines + 1] = "    " .. found.error end
  for m, candidates in ipairs(found.masks or {}) do
    lines[#lines + 1] = rows_of(candidates, #found.masks > 1 and ("%4d  "):format(m) or "    ")
  end
  if found.masks and #found.masks > 1 then
    lines[#lines + 1] = live.fit_output("      " .. plain(found.text, 1 << 20))
  end
  return table.concat(lines, "\n")
end

---A line with what was added to it.
local function continued(found, item, typed)
  if found.error then return shown(found, item, typed) end
  return plain(found.text, 1 << 20)
end

local function as_json(found, item)
  found.line, found.id = item.line, item.id
  if found.ids then json.array(found.ids) end
  if found.masks then
    json.array(found.masks)
    for _, list in ipairs(found.masks) do json.array(list) end
  end
  return json.encode(found)
end

-- ---- input ---------------------------------------------------------------------------------------

---Lines that a person types, each answered at once.
local function converse(filler, what, as_text)
  verb.note("write %s; Ctrl-D ends", what)
  sys.signals("default")
  for line in io.lines() do
    if line:find("%S") then
      for found, item in filler:each { line } do print(as_text(found, item, true)) end
    end
  end
end

local function texts_of(list)
  local items = {}
  for i, one in ipairs(list) do items[i] = { text = one, line = i, file = "--text" } end
  return items
end

local function open_input(args)
  if #args.text > 0 then
    if #args.files > 0 then failure.raise("config", "fill: give files or --text, not both") end
    return texts_of(args.text)
  end
  local next_item, message, code, rows = input.open {
    files = verb.files(args.files), format = verb.format(args.format, args.files), keys = { "text" },
  }
  return failure.must(next_item, message, code), rows
end

---Writes what is found; returns how many lines could not be used and which was the first, or nil if nobody reads any
---more.
local function write_all(filler, items, as_text)
  local wrong, first = 0, nil
  for found, item in filler:each(items) do
    if found.error and not is_blank(item) then
      wrong, first = wrong + 1, first or ("%s:%d: %s"):format(item.file, item.line, found.error)
    end
    if not io.stdout:write(as_text(found, item, false), "\n") then return nil end
  end
  verb.check_end()
  return wrong, first
end

---Options that only one of the two kinds of models has, by the name of the argument.
local ONLY = {
  causal = { tokens = "--tokens", temperature = "--temperature", seed = "--seed" },
  masked = { whole_words = "--whole-words", all_tokens = "--all-tokens" },
}

local function check_options(args)
  for name, option in pairs(ONLY[args.causal and "masked" or "causal"]) do
    if args[name] then
      failure.raise("config", args.causal and "fill: %s does not apply with --causal; leave one of them out"
        or "fill: %s needs --causal", option)
    end
  end
end

---The object that fills or continues lines, the hint for a person at the terminal, and how results are shown.
local function opened(args)
  local options = {
    top = args.top, max_len = args.max_len, rows = args.batch_tokens, precision = args.precision,
    average = args.average,
  }
  if not args.causal then
    options.words = not args.all_tokens
    local filler = failure.must(fill.open(args.dir, options))
    return filler, "lines with " .. filler.mask, shown
  end
  options.tokens, options.temperature, options.seed = args.tokens, args.temperature, args.seed
  return failure.must(continue.open(args.dir, options)), "lines to continue", continued
end

function command.run(args)
  check_options(args)
  verb.use_device(args)
  verb.note_best(args)
  local filler, what, as_text = opened(args)
  if #args.text + #args.files == 0 and sys.is_terminal(0) and not args.json then
    converse(filler, what, as_text)
    return 0
  end
  sys.signals("stream")
  local items, rows = open_input(args)
  local guard <close> = rows
  local wrong, first = write_all(filler, items, args.json and as_json or as_text)
  if wrong and wrong > 0 then verb.fail_wrong(wrong, first) end
  return 0
end

return command
