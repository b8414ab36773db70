-- write.lua - writes a data set of fixed examples: segments of token ids and columns of values.
--
--     sr.must(sr.data.write {
--       out = "runs/data/reviews.sqr", vocab = "vocab.txt",
--       columns = { score = { type = "f32" }, tags = { type = "i32", per = "token" } },
--       examples = { { a = { 7, 12, 9 }, score = 4.5, tags = { 0, 1, -100 } } },
--     })
--
-- Targets ignore labels of -100 (NaN in f32).  Examples that are overlapping windows of one text have
-- the integer columns `source`, its number, and `offset`, the position of their first token.

local check = require("seqrun.base.check")
local core = require("seqrun.core.data")
local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local new_starts = require("seqrun.data.dataset.starts")
local output = require("seqrun.base.output")
local replace = require("seqrun.data.dataset.replace")
local sorted = require("seqrun.base.sorted")
local stored = require("seqrun.text.stored")
local strings = require("seqrun.data.dataset.strings")

local must = failure.must

---@class seqrun.ColumnOptions
---@field type "i32"|"i64"|"f32"|"bytes" bytes: UTF-8 text
---@field per? "example"|"token" "example"
---@field size? integer|"ragged" values of each, 1; "ragged": a list of any length per example
---@field unlabelled? boolean of f32: NaN, which means no label, is no mistake

---@class seqrun.WriteOptions
---@field out string the .sqr file
---@field vocab string|seqrun.core.text.vocab|seqrun.core.text.tokenizer a directory, a tokenizer.json, a vocab.txt, or
---  what was read from one
---@field examples table|fun(): table?, string?, string? a list or an iterator of { a = ids, b = ids, NAME = value };
---ids is a list, or a string of tokenizer:packed(); or of { text = string, pair = string, NAME = value }.  An iterator
---that returns nil, message, code ends the work, and nothing is written
---@field labels? string[] names of classes: `label` may be such a name; else it is its number, from 0
---@field columns? table<string, seqrun.ColumnOptions> what examples have but a and b; by default label, an i32, if
---the first example has one
---@field lowercase? boolean of a vocabulary, true
---@field keep_accents? boolean of a vocabulary
---@field source? string where the examples come from, for the metadata
---@field meta? table<string, string>|fun(): table<string, string> more metadata; a function is called after the last
---example

local OPTIONS = {
  out = true, vocab = true, examples = true, columns = true, lowercase = true, keep_accents = true, source = true,
  meta = true, labels = true,
}
local COLUMN = { type = true, per = true, size = true, unlabelled = true }

-- ---- columns ---------------------------------------------------------------------------------

---Number of values written at a time, of columns with one value per example.
local TOGETHER = 1024

local function new_queue(column, name) return { column = column, name = name, list = {}, count = 0 } end

---Writes what has gathered.
local function flush(writer, queue)
  if queue.count == 0 then return end
  local list = queue.list
  queue.list, queue.count = {}, 0
  must(writer:values(queue.column, list, queue.name, queue.first, nil, true))
end

---Adds the value of an example.
local function put(writer, queue, value, number)
  local count = queue.count + 1
  if count == 1 then queue.first = number end
  queue.list[count], queue.count = value, count
  if count == TOGETHER then flush(writer, queue) end
end

---One column as it is written: numbers of its columns in the file, and how many values an example must have.
local function add_column(writer, name, given)
  check.options(("data.write: column '%s'"):format(name), given, COLUMN)
  local ragged = given.size == "ragged" or given.type == "bytes"
  local size = ragged and 0 or given.size or 1
  if math.type(size) ~= "integer" or size < 0 or (size == 0 and not ragged) then
    check.fail("data.write: column '%s': size must be a positive integer or 'ragged', got %s", name,
      check.show(given.size))
  end
  local per = given.per or "example"
  local column = { name = name, size = size, per_token = per == "token", text = given.type == "bytes" }
  local lengths
  column.values, lengths = writer:field(name, given.type, per, size)
  column.lengths = lengths and new_queue(lengths, name)
  column.lacking = given.type == "f32" and not given.unlabelled and 0 or nil
  column.queue = size == 1 and per ~= "token" and new_queue(column.values, name) or nil
  return column
end

---`source` and `offset` have a meaning of their own, see above.
local function check_windows(given)
  for _, name in ipairs { "source", "offset" } do
    local one = given[name]
    local whole = type(one) == "table" and (one.type == "i32" or one.type == "i64")
    if one and not (whole and one.per ~= "token" and (one.size or 1) == 1) then
      check.fail("data.write: column '%s' names the text of a window and must be one i32 or i64 per example; use "
        .. "another name for other values", name)
    end
  end
  if given.offset and not given.source then
    check.fail("data.write: column 'offset' needs a column 'source', the text that it is an offset in")
  end
end

local function add_columns(writer, options, first)
  local narrow = #options.vocab <= 65536
  local columns = { width = narrow and 2 or 4, last_id = #options.vocab - 1, known = { a = true, b = true } }
  columns.ids = writer:column("ids", narrow and "u16" or "u32")
  columns.cls, columns.sep = options.vocab:special("cls"), options.vocab:special("sep")
  columns.cls_text = columns.cls and options.vocab:token(columns.cls)
  columns.sep_text = columns.sep and options.vocab:token(columns.sep)
  columns.a = new_queue(writer:column("a_tokens", "u32"), "a")
  columns.b = new_queue(writer:column("b_tokens", "u32"), "b")
  if strings.is_text(first) and not options.vocab:vocab() then columns.starts = new_starts(writer) end
  local given = strings.columns(options.columns, first)
    or { label = type(first) == "table" and first.label ~= nil and { type = "i32" } or nil }
  check_windows(given)
  for i, name in ipairs(sorted(given)) do -- the same file every time
    columns[i] = add_column(writer, name, given[name])
    columns.known[name] = true
  end
  return columns
end

-- ---- examples --------------------------------------------------------------------------------

---How many values an example must have in a column; nil for any number.
local function wanted(column, tokens)
  if column.size == 0 then return nil end
  return column.per_token and column.size * tokens or column.size
end

local function bad(number, format, ...) check.fail("data.write: example %d: " .. format, number, ...) end

---Counts the values that are NaN.
local function count_lacking(column, value)
  for _, one in ipairs(type(value) == "table" and value or { value }) do
    if one ~= one then column.lacking = column.lacking + 1 end
  end
end

---Says how many values have been taken for no label, unless their column says that it is meant.
local function tell_lacking(columns)
  for _, column in ipairs(columns) do
    if column.lacking and column.lacking > 0 then
      output.note("warning: data.write: '%s' is NaN, which means no label, %s: nothing is learned from these; "
        .. "columns = { %s = { type = 'f32', unlabelled = true } } says that it is meant", column.name,
        counted(column.lacking, "time"), column.name)
    end
  end
end

local function append_text(writer, column, value, number)
  if type(value) ~= "string" or not utf8.len(value) then
    bad(number, "'%s' must be a string of UTF-8, got %s", column.name,
      type(value) == "string" and "invalid bytes" or type(value))
  end
  must(writer:append(column.values, value))
  put(writer, column.lengths, #value, number)
end

---Appends the value of one column.
local function append_value(writer, column, value, tokens, number)
  if value == nil then bad(number, "'%s' is missing", column.name) end
  if column.lacking then count_lacking(column, value) end
  if column.queue then return put(writer, column.queue, value, number) end
  if column.text then return append_text(writer, column, value, number) end
  if type(value) ~= "table" then bad(number, "'%s' must be a list, got a %s", column.name, type(value)) end
  local count = wanted(column, tokens)
  if count and #value ~= count then
    local what = column.per_token and (" for its %d tokens (A, then B)"):format(tokens) or ""
    bad(number, "'%s' has %d values, but needs %d%s", column.name, #value, count, what)
  end
  must(writer:values(column.values, value, column.name, number))
  if column.lengths then put(writer, column.lengths, #value, number) end
end

local function check_segment(columns, name, ids, number)
  if type(ids) ~= "table" then bad(number, "%s must be a list of token ids, got a %s", name, type(ids)) end
  if #ids > 0 and (ids[1] == columns.cls or ids[#ids] == columns.sep) then
    bad(number, "%s %s; give segments without special tokens, batches add them", name,
      ids[1] == columns.cls and "begins with " .. columns.cls_text or "ends with " .. columns.sep_text)
  end
end

local function check_keys(columns, example, number)
  for key in pairs(example) do
    if not columns.known[key] then
      local hint = guess.hint(tostring(key), sorted(columns.known))
      bad(number, "unknown key '%s'%s; add it to columns", tostring(key), hint)
    end
  end
end

---Appends the ids of a segment; how many there are.
local function append_segment(writer, columns, name, ids, number)
  if type(ids) == "string" then -- from tokenizer:packed()
    must(writer:append(columns.ids, ids))
    return #ids // columns.width
  end
  check_segment(columns, name, ids, number)
  must(writer:values(columns.ids, ids, name, number, columns.last_id))
  return #ids
end

---Appends one example: A, then B, then the columns.
local function append(writer, columns, example, number)
  if type(example) ~= "table" or example.a == nil or #example.a == 0 then
    bad(number, "give { a = ids }, a list of at least one token id, or { text = string }")
  end
  check_keys(columns, example, number)
  local a = append_segment(writer, columns, "a", example.a, number)
  local b = example.b ~= nil and append_segment(writer, columns, "b", example.b, number) or 0
  put(writer, columns.a, a, number)
  put(writer, columns.b, b, number)
  for _, column in ipairs(columns) do append_value(writer, column, example[column.name], a + b, number) end
end

---Appends which tokens of an example begin a word, where ids do not show it.
local function append_starts(columns, starts, number)
  if not columns.starts then return end
  if not starts then bad(number, "give { text = string }, as the first example does, or ids for all") end
  columns.starts:add(starts.a)
  if starts.b then columns.starts:add(starts.b) end
end

---Writes what has gathered in all columns.
local function flush_all(writer, columns)
  flush(writer, columns.a)
  flush(writer, columns.b)
  for _, column in ipairs(columns) do
    if column.queue then flush(writer, column.queue) end
    if column.lengths then flush(writer, column.lengths) end
  end
end

local function finish(writer, options)
  local labels = options.labels and require("seqrun.core.json").encode(options.labels)
  must(writer:meta("kind", "examples"))
  must(writer:tokenizer(options.vocab))
  if options.source then must(writer:meta("source", options.source)) end
  if labels then must(writer:meta("labels.label", labels)) end
  local meta = options.meta or {}
  if type(meta) == "function" then meta = meta() end
  for _, key in ipairs(sorted(meta)) do must(writer:meta(key, meta[key])) end -- the same file every time
  must(writer:commit())
end

---Fails if a list of examples goes on after its first nil.
local function check_holes(list, count)
  for key in pairs(list) do
    if math.type(key) == "integer" and key > count then
      check.fail("data.write: example %d is nil, but there is an example %d: a list has no holes; append to it with "
        .. "list[#list + 1]", count + 1, key)
    end
  end
end

---Goes through an iterator of examples (or a list) and writes them.
local function write_all(writer, options)
  local next_example, encode, columns, count = options.examples, strings.encoder(options), nil, 0
  if type(next_example) == "table" then
    local list, i = next_example, 0
    next_example = function()
      i = i + 1
      return list[i]
    end
  end
  while true do
    local example, message, code = next_example()
    if message then failure.raise(code, "%s", message) end
    if not example then break end
    columns = columns or add_columns(writer, options, example)
    local made, starts = encode(example, count + 1)
    append(writer, columns, made, count + 1)
    append_starts(columns, starts, count + 1)
    count = count + 1
  end
  if type(options.examples) == "table" then check_holes(options.examples, count) end
  if count == 0 then failure.raise("data", "data.write: no examples; nothing was written") end
  flush_all(writer, columns)
  if columns.starts then columns.starts:finish() end
  tell_lacking(columns)
  return count
end

local function write(options)
  check.options("data.write", options, OPTIONS)
  if not options.out or not options.vocab or not options.examples then
    check.fail("data.write: give out, vocab and examples, a list or an iterator of { a =, b =, label = }")
  end
  local o = {}
  for key, value in pairs(options) do o[key] = value end
  o.vocab = stored.literal(options)
  replace.make_place(o.out)
  local writer <close> = must(core.writer(o.out))
  local count = write_all(writer, o)
  finish(writer, o)
  return count
end

---Writes examples: token ids of A (and B) without [CLS] and [SEP].
---@param options seqrun.WriteOptions
---@return integer? count
---@return string? message
---@return string? code
return function(options) return failure.returned(write, options) end
