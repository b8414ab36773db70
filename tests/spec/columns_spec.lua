-- Columns of a data set, and the targets that loaders make of them.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local sr = require "seqrun"
local sys = require "seqrun.core.sys"

local folder = program.folder()
local with = require("tests.support.with")

local WORDS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
local EXAMPLES = 60

local vocab, examples = folder .. "/vocab.txt", {}
local corpus

---Example i: tokens that name it, and columns from which both follow.
local function example(i)
  local a, b = {}, {}
  for k = 1, 3 + i * 7 % 30 do a[k] = 5 + (i * 31 + k) % 90 end
  for k = 1, i % 3 * 4 do b[k] = 5 + (i * 17 + k) % 90 end
  local tags, boxes, tokens = {}, {}, #a + #b
  for k = 1, tokens do
    local id = k <= #a and a[k] or b[k - #a]
    tags[k] = k % 4 == 0 and -100 or id * 1000 + i -- identifies its token and its example
    boxes[2 * k - 1], boxes[2 * k] = id, i + 0.5
  end
  local list = {}
  for k = 1, i % 4 do list[k] = i * 10 + k end
  return {
    a = a, b = b, label = i, score = i % 5 == 0 and 0 / 0 or i / 8, pair = { i, -i }, tags = tags, boxes = boxes,
    big = (1 << 40) + i, list = list, text = ("exämple %d"):format(i),
    answer = i % 6 == 0 and { -1, -1 } or { i % tokens, math.min(tokens - 1, i % tokens + 2) },
    source = i // 4, offset = i % 4 * 10,
  }
end

local COLUMNS = {
  label = { type = "i32" }, score = { type = "f32", unlabelled = true }, pair = { type = "i32", size = 2 },
  tags = { type = "i32", per = "token" }, boxes = { type = "f32", per = "token", size = 2 }, big = { type = "i64" },
  list = { type = "i64", size = "ragged" }, text = { type = "bytes" }, answer = { type = "i32", size = 2 },
  source = { type = "i64" }, offset = { type = "i32" },
}

setup(function()
  local words = {}
  for i = 5, 99 do words[#words + 1] = "w" .. i end
  assert(sys.write_file(vocab, WORDS .. table.concat(words, "\n") .. "\n"))
  for i = 1, EXAMPLES do examples[i] = example(i) end
  assert(sr.data.write { out = folder .. "/x.sqr", vocab = vocab, columns = COLUMNS, examples = examples })
  corpus = assert(sr.data.open(folder .. "/x.sqr", { held = 0.2, split = "keyed" }))
end)

local function same(a, b)
  if type(a) ~= "table" then return a == b or (a ~= a and b ~= b) end
  if #a ~= #b then return false end
  for i, x in ipairs(a) do
    if not same(x, b[i]) then return false end
  end
  return true
end

local function open(options)
  local given = { data = corpus, max_len = 32, packs = 4, micro_packs = 2, seed = 3, too_long = "truncate" }
  return assert(sr.data.loader(with(given, options)))
end

describe("columns", function()
  it("come back as they were written", function()
    for i, want in ipairs(examples) do
      for name in pairs(COLUMNS) do assert.is_true(same(want[name], corpus:column(name, i)), name .. " of " .. i) end
    end
  end)

  it("are listed with their shapes", function()
    local found = {}
    for _, column in ipairs(corpus:columns()) do found[column.name] = column end
    assert.same({ "example", 1 }, { found.score.per, found.score.size })
    assert.same({ "token", 2 }, { found.boxes.per, found.boxes.size })
    assert.same({ "example", 0 }, { found.list.per, found.list.size })
    assert.is_nil(found.ids.per)
  end)

  it("change the digest of the data set with their types and shapes", function()
    local function digest(columns, values)
      local path = folder .. "/digest.sqr"
      local list = {}
      for i = 1, 4 do list[i] = { a = { 5, 6, 7, 8 } } end
      for name, value in pairs(values) do for _, one in ipairs(list) do one[name] = value end end
      assert(sr.data.write { out = path, vocab = vocab, columns = columns, examples = list })
      return assert(sr.data.open(path)):info().digest
    end
    local zeros = { 0, 0, 0, 0 }
    local seen = {}
    for _, case in ipairs {
      { { type = "i32", size = 4 }, zeros }, { { type = "f32", size = 4 }, zeros },
      { { type = "i32", per = "token" }, zeros }, { { type = "i32", size = 2 }, { 0, 0 } },
      { { type = "i64", size = 2 }, { 0, 0 } }, { { type = "i32", size = "ragged" }, zeros },
    } do
      local got = digest({ x = case[1] }, { x = case[2] })
      assert.is_nil(seen[got])
      seen[got] = true
      assert.equal(got, digest({ x = case[1] }, { x = case[2] }))
    end
  end)

  it("are named by stats", function()
    local stats = require("seqrun.data.stats")
    local text = stats.text(assert(stats.examine(folder .. "/x.sqr", 64)))
    assert.truthy(text:find("boxes (f32 x 2 per token)", 1, true), text)
    assert.truthy(text:find("list (i64, lists)", 1, true), text)
    assert.truthy(text:find("text (bytes)", 1, true), text)
  end)

  it("are checked as they are written", function()
    local cases = {
      { { s = { type = "f32" } }, { s = "3" }, "example 1: value 1 of 's' is 3; expected a number that fits into f32" },
      { { s = { type = "f32" } }, { s = 1e300 }, "expected a number that fits into f32" },
      { { s = { type = "i32" } }, { s = 0 / 0 }, "value 1 of 's' is " },
      { { s = { type = "i32" } }, { s = 1 << 31 }, "expected an integer from -2147483648 to 2147483647" },
      { { s = { type = "i32" } }, { s = 1.5 }, "value 1 of 's' is 1.5" },
      { { s = { type = "i32" } }, {}, "example 1: 's' is missing" },
      { { s = { type = "i32", size = 3 } }, { s = { 1, 2 } }, "'s' has 2 values, but needs 3" },
      { { s = { type = "i32", per = "token" } }, { s = { 1, 2 } }, "needs 4 for its 4 tokens (A, then B)" },
      { { s = { type = "i32", per = "token" } }, { s = 1 }, "'s' must be a list, got a number" },
      { { s = { type = "bytes" } }, { s = "\xff" }, "'s' must be a string of UTF-8, got invalid bytes" },
      { { s = { type = "f64" } }, { s = 1 }, "column type is f64; use one of" },
      { { source = { type = "bytes" } }, { source = "x" }, "column 'source' names the text of a window and must be" },
      { { source = { type = "i32", per = "token" } }, { source = {} }, "must be one i32 or i64 per example" },
      { { offset = { type = "i32" } }, { offset = 1 }, "column 'offset' needs a column 'source'" },
      { {}, { a = { 2, 5, 6 } }, "example 1: a begins with [CLS]; give segments without special tokens" },
      { {}, { b = { 5, 6, 3 } }, "example 1: b ends with [SEP]" },
      { { s = { type = "i32", size = 0 } }, { s = 1 }, "size must be a positive integer or 'ragged', got 0" },
      { { s = { type = "i32", per = "token", size = "ragged" } }, { s = 1 }, "lists per token are not supported" },
      { { ids = { type = "i32" } }, { ids = 1 }, "column 'ids': use another name" },
      { { ["x.counts"] = { type = "i32" } }, { ["x.counts"] = 1 }, "use another name" },
      { { s = { type = "i32", sise = 2 } }, { s = 1 }, "did you mean 'size'" },
      { { score = { type = "i32" } }, { score = 1, scor = 1 }, "example 1: unknown key 'scor'; did you mean 'score'?" },
    }
    for _, case in ipairs(cases) do
      local one = with({ a = { 5, 6, 7 }, b = { 8 } }, case[2])
      fails.raising(case[3], sr.data.write, {
        out = folder .. "/bad.sqr", vocab = vocab, columns = case[1], examples = { one },
      })
      assert.is_false(sys.exists(folder .. "/bad.sqr"))
    end
    fails.raising("example 1: value 2 of 'a' is 1000; expected an integer from 0 to %d+", sr.data.write,
      { out = folder .. "/bad.sqr", vocab = vocab, examples = { { a = { 5, 1000 } } } })
  end)
end)

describe("examples of strings", function()
  local path = folder .. "/strings.sqr"
  local function write(list, options)
    return sr.data.write(with({ out = path, vocab = vocab, examples = list }, options))
  end

  it("are stored as their ids, with their texts and the numbers of their classes", function()
    assert.equal(2, write({
      { text = "w5 w6", pair = "W7", label = "yes" }, { text = "w8 w9", pair = "w5", label = 0 },
    }, { labels = { "no", "yes" } }))
    local given = assert(sr.data.open(path))
    assert.same({ "no", "yes" }, given:labels())
    assert.same({ 1, 0 }, { given:column("label", 1), given:column("label", 2) })
    assert.same({ "w5 w6", "W7" }, { given:column("text", 1), given:column("pair", 1) })
    local other = folder .. "/ids.sqr"
    local tokenizer = assert(sr.text.tokenizer { vocab = vocab })
    assert(sr.data.write { out = other, vocab = vocab, examples = {
      { a = tokenizer:encode "w5 w6", b = tokenizer:encode "w7" },
      { a = tokenizer:encode "w8 w9", b = tokenizer:encode "w5" },
    } })
    assert.same(assert(sr.data.open(other)):decode(1), given:decode(1))
  end)

  it("keep other columns, and need none", function()
    assert.equal(1, write({ { text = "w5", score = 2.5 } }, { columns = { score = { type = "f32" } } }))
    assert.equal(2.5, assert(sr.data.open(path)):column("score", 1))
    assert.equal(1, write { { text = "w5" } })
  end)

  it("that make no sense are refused", function()
    for wanted, list in pairs {
      ["example 2: unknown label 'nay'; the labels are no, yes"] = {
        { text = "w5", label = "no" }, { text = "w6", label = "nay" } },
      ["example 1: 'text' has no tokens"] = { { text = " " } },
      ["example 1: 'pair' must be a string, got 7"] = { { text = "w5", pair = 7 } },
    } do
      fails.raising(wanted, write, list, { labels = { "no", "yes" } })
    end
    fails.raising("data.write: example 1: the label is 'no'; name the classes, labels = { 'no', ", write,
      { { text = "w5", label = "no" } })
  end)

  it("that have labels beyond the classes are refused, of strings and of ids", function()
    local words = "example 2: label 2 is no class: no, yes are numbered from 0 to 1, and %-100 is no label"
    local classes = { labels = { "no", "yes" } }
    fails.raising(words, write, { { text = "w5", label = -100 }, { text = "w6", label = 2 } }, classes)
    fails.raising(words, write, { { a = { 5 }, label = 1 }, { a = { 6 }, label = 2 } }, classes)
  end)

  it("in a list with holes are refused, since the list ends at the first", function()
    fails.raising("example 2 is nil, but there is an example 3: a list has no holes", write,
      { { text = "w5" }, [3] = { text = "w6" } })
  end)

  it("that have NaN for a label are counted, unless their column says that it is meant", function()
    local code = [[local sr = require "seqrun"
      local examples = { { a = { 7 }, score = 0 / 0 }, { a = { 7 }, score = 0.5 } }
      sr.must(sr.data.write { out = %q, vocab = %q, examples = examples, columns = { score = { type = "f32"%s } } })]]
    local function err_of(more)
      local file = program.write(folder, "nan.lua", code:format(folder .. "/nan.sqr", folder .. "/vocab.txt", more))
      return select(2, program.ok { file })
    end
    assert.matches("warning: data.write: 'score' is NaN, which means no label, 1 time: .* unlabelled = true",
      err_of "")
    assert.equal("", err_of ", unlabelled = true")
  end)
end)

---Where token k (from 1) of a batch's sequence comes from: its example, from 1.
local function by_row(update, visit)
  for batch in update:batches() do
    local scope <close> = sr.scope()
    local starts, lengths = batch.layout:starts(), batch.layout:lengths()
    for s, start in ipairs(starts) do visit(batch, s, start, lengths[s]) end
  end
end

---The items of a target by row: labels and weights.
local function items(target)
  local rows, labels, found = target.rows:totable(), target.labels:totable(), {}
  for i, row in ipairs(rows) do found[row] = labels[i] end
  return found, #rows
end

for _, arrange in ipairs { "packed", "padded", "single" } do
  describe("targets of columns, " .. arrange, function()
    it("stand on their example and follow their token, cut or not, epoch after epoch #slow", function()
      for _, max_len in ipairs { 16, 64 } do
        local loader = open {
          arrange = arrange, max_len = max_len, epochs = 3,
          targets = { "label", "pair", "score", { name = "tag", column = "tags" }, "boxes" },
        }
        local seen, scores, tags = 0, 0, 0
        for update in function() return loader:next() end do
          local ids, example_of
          by_row(update, function(batch, s, start, length)
            if s == 1 then
              assert.same({ "label", "pair", "score", "tag", "boxes" }, batch.target_names)
              assert.equal(0, batch.masked)
              assert.equal("f32", batch.targets.score.labels:dtype())
              assert.same({ batch.sequences, 2 }, batch.targets.pair.labels:shape())
              ids, example_of = batch.ids:totable(), items(batch.targets.label)
            end
            local t = batch.targets
            local i = example_of[start]
            local want = examples[i]
            assert.same({ i, -i }, items(t.pair)[start])
            local score = items(t.score)[start]
            assert.is_true(want.score ~= want.score and score == nil or score == want.score)
            local tag, box = items(t.tag), items(t.boxes)
            for row = start, start + length - 1 do
              local id = ids[row + 1]
              if id > 4 then
                assert.same({ id, i + 0.5 }, box[row])
                assert.is_true(tag[row] == nil or tag[row] == id * 1000 + i)
              else
                assert.is_nil(box[row])
                assert.is_nil(tag[row])
              end
              tags = tags + (tag[row] and 1 or 0)
            end
            seen, scores = seen + 1, scores + (score and 1 or 0)
          end)
        end
        assert.equal(3 * corpus:info().train.units, seen)
        assert.is_true(scores < seen and scores > seen / 2 and tags > seen)
      end
    end)

    it("point at the ends of spans, or at [CLS] when there is none", function()
      for _, outside in ipairs { "cls", "ignore" } do
        local loader = open {
          arrange = arrange, max_len = 16, packs = 100, micro_packs = 20, epochs = 1,
          targets = { "label", { name = "answer", reads = "spans", outside = outside } },
        }
        local update, found, none, count = loader:next(), 0, 0, 0
        by_row(update, function(batch, s, start)
          local target = batch.targets.answer
          if s == 1 then
            count = count + target.count
            assert.same({ target.count, 2 }, target.rows:shape())
            local ids, example_of = batch.ids:totable(), items(batch.targets.label)
            local rows, labels, places = target.rows:totable(), target.labels:totable(), target.places:totable()
            local last = batch.last.rows:totable()
            for k, row in ipairs(rows) do
              assert.equal(row[1] - labels[k][1], row[2] - labels[k][2])
              assert.same(row, { last[places[k][1] + 1], last[places[k][2] + 1] })
              local want = examples[example_of[row[1] - labels[k][1]]]
              if labels[k][1] > 0 then
                found = found + 1
                for e = 1, 2 do
                  local at = want.answer[e] + 1
                  assert.equal(at <= #want.a and want.a[at] or want.b[at - #want.a], ids[row[e] + 1])
                end
              else
                none = none + 1
                assert.same({ 0, 0 }, labels[k])
              end
            end
          end
          assert.is_true(start >= 0)
        end)
        assert.is_true(found > 0 and none > 0)
        assert.equal(outside == "cls" and update.sequences or count, count)
        assert.is_true(outside == "cls" or count < update.sequences)
      end
    end)
  end)
end

describe("targets", function()
  it("divide by what the whole update has, by items or by sequences", function()
    for _, mean in ipairs { "token", "sequence" } do
      for _, micro in ipairs { 1, 3, 100 } do
        local update = open({
          packs = 6, micro_packs = micro, loss = mean, targets = { "tags", { name = "score", mean = "sequence" } },
        }):next()
        local sums, counts, denominator = { tags = 0, score = 0 }, { tags = 0, score = 0 }, {}
        for batch in update:batches() do
          local scope <close> = sr.scope()
          for name, target in pairs(batch.targets) do
            sums[name] = sums[name] + (target.count > 0 and target.weights:sum():item() or 0)
            counts[name], denominator[name] = counts[name] + target.count, target.denominator
          end
        end
        assert.near(1, sums.tags, 1e-5)
        assert.near(1, sums.score, 1e-5)
        assert.equal(mean == "token" and counts.tags or update.sequences, denominator.tags)
        assert.equal(counts.score, denominator.score)
      end
    end
  end)

  it("mask only when that is asked for", function()
    local function masked(options)
      options.epochs, options.max_len = 1, 64
      local batch = open(options):next():batch(1)
      return batch.masked > 0, batch.target_names
    end
    assert.same({ false, { "label" } }, { masked { targets = { "label" } } })
    assert.same({ true, { "mlm", "label" } }, { masked { targets = { "label" }, mask = {} } })
    assert.same({ true, { "label", "mlm" } }, { masked { targets = { "label", "mlm" }, mask = { prob = 0.2 } } })
    assert.same({ false, { "label" } }, { masked {} })
    assert.same({ true, { "mlm", "label" } }, { masked { mask = { prob = 0.3 } } })
    assert.same({ false, { "label" } }, { masked { mask = false } })
    assert.same({ false, {} }, { masked { targets = {} } })
  end)

  it("are sent again when the scope that they were sent in has closed", function()
    local batch, ids, scores = open { targets = { "mlm", "score" }, keep_ids = true }:next():batch(1)
    for _ = 1, 2 do
      local scope <close> = sr.scope()
      assert.is_true(rawequal(batch.ids, batch.ids)) -- once in a scope
      ids, scores = ids or batch.original_ids:totable(), scores or batch.targets.score.labels:totable()
      assert.same(ids, batch.original_ids:totable())
      assert.same(scores, batch.targets.score.labels:totable())
      assert.equal(batch.last.layout:rows(), batch.last.rows:size(1))
    end
  end)

  it("reject spans that are half missing", function()
    local path = folder .. "/half.sqr"
    assert(sr.data.write {
      out = path, vocab = vocab, columns = { answer = { type = "i32", size = 2 } },
      examples = { { a = { 5, 6, 7 }, answer = { -1, 2 } } },
    })
    local loader = open {
      data = assert(sr.data.open(path)), packs = 1, targets = { { name = "answer", reads = "spans" } },
    }
    assert.error_matches(function() loader:next() end, "has the span %-1%.%.2.*use %-1, %-1 for no span")
  end)

  it("leave out the ignored label", function()
    local update = open({ targets = { { name = "label", ignore = 7 }, "pair" }, packs = 100, max_len = 64 }):next()
    local rows = 0
    for batch in update:batches() do
      rows = rows + batch.targets.pair.count - batch.targets.label.count
      for _, label in ipairs(batch.targets.label.labels:totable()) do assert.not_equal(7, label) end
    end
    assert.is_true(rows >= 1)
  end)

  it("keep the ids before masking on request", function()
    local update = open({ keep_ids = true, targets = { "mlm" } }):next()
    for batch in update:batches() do
      local scope <close> = sr.scope()
      local original, ids, mlm = batch.original_ids:totable(), batch.ids:totable(), items(batch.targets.mlm)
      for row, id in ipairs(original) do assert.equal(mlm[row - 1] or ids[row], id) end
      assert.same(original, batch:host("original_ids"))
      assert.same(ids, batch:host("ids"))
    end
    assert.is_nil(open({ targets = { "mlm" } }):next():batch(1).original_ids)
  end)

  it("may be made by a function, called once per update", function()
    local calls = 0
    local loader = open {
      targets = {
        "mlm",
        { name = "length", type = "f32", make = function(update)
          local made = {}
          calls = calls + 1
          for batch in update:batches() do made[#made + 1] = { labels = batch.layout:lengths() } end
          return made
        end },
        { name = "ends", reads = "rows", columns = 2, mean = "sequence", make = function(update)
          local made = {}
          for batch in update:batches() do
            local rows, labels, lengths, ids = {}, {}, batch.layout:lengths(), batch:host("ids")
            for s, start in ipairs(batch.layout:starts()) do
              rows[#rows + 1], rows[#rows + 2] = start, start + lengths[s] - 1
              for k = 0, 1 do
                labels[#labels + 1], labels[#labels + 2] = ids[rows[#rows - 1 + k] + 1], s
              end
            end
            made[#made + 1] = { rows = rows, labels = labels }
          end
          return made
        end },
      },
    }
    local update, sum = loader:next(), { length = 0, ends = 0 }
    for batch in update:batches() do
      local scope <close> = sr.scope()
      local t = batch.targets
      assert.same(batch.layout:starts(), t.length.rows:totable())
      assert.same(batch.layout:lengths(), t.length.labels:totable())
      assert.equal(update.sequences, t.length.denominator)
      assert.equal(update.sequences, t.ends.denominator)
      local last = batch.last.rows:totable()
      for k, place in ipairs(t.ends.places:totable()) do assert.equal(t.ends.rows:totable()[k], last[place + 1]) end
      for k, label in ipairs(t.ends.labels:totable()) do assert.equal(k % 2 == 1 and 2 or 3, label[1]) end
      for name in pairs(sum) do sum[name] = sum[name] + t[name].weights:sum():item() end
    end
    assert.near(1, sum.length, 1e-5)
    assert.near(1, sum.ends, 1e-5)
    assert.equal(1, calls)
    loader:batch_of({ 0, 1 })
    assert.equal(2, calls)
  end)

  it("say what is wrong with them", function()
    local function make() return {} end
    local cases = {
      { { "scor" }, "has no column 'scor'" },
      { { "label", "label" }, "duplicate target 'label'" },
      { { "mlm", { name = "again", kind = "mlm" } }, "targets 'mlm' and 'again' both mask tokens" },
      { { "nsp" }, "pairs require text; .* has fixed examples" },
      { { "list" }, "column 'list' of .* has lists" },
      { { "text" }, "has lists" },
      { { { name = "tags", reads = "sequences" } }, "has values per token; use reads: rows" },
      { { { name = "label", reads = "rows" } }, "has values per example; use reads: sequences or spans" },
      { { { name = "label", reads = "spans" } }, "a span is two integers" },
      { { { name = "label", reads = "words" } }, "reads 'words' must be rows, sequences or spans" },
      { { { name = "label", kind = "clm" } }, "unknown kind 'clm'; choose mlm, causal, tokens, nsp or column" },
      { { { name = "label", colum = "x" } }, "did you mean 'column'" },
      { { { column = "label" } }, "targets%[1%] needs a name" },
      { { name = "label" }, "put the table of one target in braces" },
      { { 3 }, "targets%[1%] is a number" },
      { "label", "targets is a string; it is a list" },
      { { { name = "x", make = 3 } }, "make must be a function" },
      { { { name = "x", make = make, reads = "spans" } }, "spans come from a column" },
      { { { name = "label", type = "f32" } }, "type and columns go with make" },
    }
    for _, case in ipairs(cases) do
      fails.raising(case[2], open, { targets = case[1] })
    end
    assert.error_matches(function() open { targets = { "mlm" }, mask = false } end, "but mask is false")
    for _, case in ipairs {
      { function() return {} end, "columns_spec.lua:%d+%) must return a table for each of the" },
      { function(u)
        local made = {}
        for i = 1, u.count do made[i] = { rows = { 0 }, labels = {} } end
        return made
      end, "1 rows need 1 labels, got 0" },
      { function(u)
        local made = {}
        for i = 1, u.count do made[i] = { rows = { u:batch(i).slots - 1 }, labels = { 1 } } end
        return made
      end, "is in no sequence" },
      { function(u)
        local made = {}
        for i = 1, u.count do made[i] = { rows = { 0 }, labels = { "x" } } end
        return made
      end, "target 'x': labels%[1%] must be an integer" },
    } do
      local loader = open { max_len = 64, targets = { { name = "x", reads = "rows", make = case[1] } } }
      assert.error_matches(function() loader:next() end, case[2])
    end
  end)

  it("keep values with their tokens in pieces of split examples", function()
    local single = {}
    for i = 1, 20 do
      local a, tags = {}, {}
      for k = 1, 10 + i * 5 do a[k], tags[k] = 5 + (k * 7 + i) % 90, k * 100 + i end
      single[i] = { a = a, tags = tags, source = i, offset = 3 * i }
    end
    local path = folder .. "/split.sqr"
    assert(sr.data.write {
      out = path, vocab = vocab, examples = single,
      columns = { tags = { type = "i32", per = "token" }, source = { type = "i32" }, offset = { type = "i64" } },
    })
    local ds = assert(sr.data.open(path))
    local loader = assert(sr.data.loader {
      data = ds, max_len = 24, packs = 1000, too_long = "split", epochs = 1, targets = { "tags", "source" },
    })
    local seen = {}
    by_row(loader:next(), function(batch, s, start, length)
      local i, tags, ids = items(batch.targets.source)[start], items(batch.targets.tags), batch.ids:totable()
      local origin = loader:origin(batch.layout:uids()[s])
      assert.same({ i, i, 3 * i + origin.first }, { origin.example, origin.source, origin.offset })
      assert.equal(origin.first, tags[start + 1] // 100 - 1)
      for row = start + 1, start + length - 2 do
        local k = tags[row] // 100
        assert.equal(i, tags[row] % 100)
        assert.equal(single[i].a[k], ids[row + 1])
        assert.is_nil(seen[tags[row]])
        seen[tags[row]] = true
      end
    end)
    for i, one in ipairs(single) do
      for k = 1, #one.a do assert.is_true(seen[k * 100 + i]) end
    end
  end)
end)
