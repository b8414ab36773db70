-- write.lua - given examples to a data set: segments, and a label if they have one.

local check = require("seqrun.check")
local core = require("seqrun.core.data")
local sys = require("seqrun.core.sys")

---@class seqrun.WriteOptions
---@field out string the .sqr file
---@field vocab string|seqrun.core.text.vocab
---@field examples table|fun(): table? a list or an iterator of { a = ids, b = ids, label = integer }
---@field lowercase? boolean what the tokenizer did, true
---@field source? string

local OPTIONS = { out = true, vocab = true, examples = true, lowercase = true, source = true }

---Appends one example: A, then B, to the columns.
local function append(writer, columns, example, pack_ids)
  local a, b = example.a, example.b or {}
  if type(a) ~= "table" or #a == 0 then
    error("data.write: an example needs a, a list of at least one token id", 4)
  end
  for _, ids in ipairs { a, b } do
    for first = 1, #ids, 200 do
      local last = math.min(#ids, first + 199)
      local bytes = string.pack("<" .. pack_ids:rep(last - first + 1), table.unpack(ids, first, last))
      local done, message, code = writer:append(columns.ids, bytes)
      if not done then return nil, message, code end
    end
  end
  local done, message, code = writer:append(columns.a, string.pack("<I4", #a))
  if done then done, message, code = writer:append(columns.b, string.pack("<I4", #b)) end
  if done and columns.label then
    if math.type(example.label) ~= "integer" then
      error("data.write: the first example has a label, so all need an integer label", 4)
    end
    done, message, code = writer:append(columns.label, string.pack("<i4", example.label))
  end
  return done, message, code
end

local function add_columns(writer, narrow, labelled)
  local columns = { ids = writer:column("ids", narrow and "u16" or "u32") }
  columns.a, columns.b = writer:column("a_tokens", "u32"), writer:column("b_tokens", "u32")
  columns.label = labelled and writer:column("label", "i32") or nil
  return columns
end

local function finish(writer, vocab_text, options)
  local words = writer:column("vocab", "bytes")
  local done, message, code = writer:append(words, vocab_text)
  if not done then return nil, message, code end
  writer:meta("kind", "examples")
  writer:meta("lowercase", tostring(options.lowercase ~= false))
  writer:meta("vocab_size", tostring(#options.vocab))
  writer:meta("vocab_fingerprint", options.vocab:fingerprint())
  if options.source then writer:meta("source", options.source) end
  return writer:commit()
end

---Goes through an iterator of examples (or a list) and writes them.
local function write_all(writer, options)
  local next_example, columns, count = options.examples, nil, 0
  if type(next_example) == "table" then
    local list, i = next_example, 0
    next_example = function()
      i = i + 1
      return list[i]
    end
  end
  local narrow = #options.vocab <= 65536
  for example in next_example do
    columns = columns or add_columns(writer, narrow, example.label ~= nil)
    local done, message, code = append(writer, columns, example, narrow and "I2" or "I4")
    if not done then return nil, message, code end
    count = count + 1
  end
  if count == 0 then return nil, "data.write: there are no examples; nothing was written", "data" end
  return count
end

---Writes given examples: token ids of A (and B) without [CLS] and [SEP].
---@param options seqrun.WriteOptions
---@return integer? count
---@return string? message
---@return string? code
return function(options)
  check.options("data.write", options, OPTIONS)
  if not options.out or not options.vocab or not options.examples then
    error("data.write: give out, vocab and examples, a list or an iterator of { a =, b =, label = }", 2)
  end
  local count, done, message, code
  local o = {}
  for key, value in pairs(options) do o[key] = value end
  if type(o.vocab) == "string" then
    o.vocab, message, code = require("seqrun.core.text").vocab(options.vocab)
    if not o.vocab then return nil, message, code end
  end
  local folder = o.out:match("^(.+)/[^/]*$")
  if folder then
    done, message, code = sys.make_dirs(folder)
    if not done then return nil, message, code end
  end
  local writer
  writer, message, code = core.writer(o.out)
  if not writer then return nil, message, code end
  local guard <close> = writer
  count, message, code = write_all(writer, o)
  if not count then return nil, message, code end
  done, message, code = finish(writer, require("seqrun.data.words")(o.vocab), o)
  if not done then return nil, message, code end
  return count
end
