-- data.lua - throughput from text to data set, data set to epoch, and epoch to batches.
--
--     seqrun recipes/bench/data.lua [times=40] [max_len=128,512] [rows=100000]
--
-- The text is the two novels, repeated `times` times.  `prepare` reads, splits, tokenizes and writes on all threads;
-- `epoch` draws all next-sentence pairs and packs them (later epochs run on one background thread);
-- `batches` reads, masks and collates on one thread.  `csv` and `jsonl` read labelled files of `rows` rows, words of
-- the novels with one of three classes, into a data set.

local sr = require("seqrun")
local common = require("common")
local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")

local options = common.options({ times = 40, max_len = "128,512", rows = 100000 }, arg)

local folder, guard <close> = common.scratch()

local inputs, bytes = {}, 0
for i = 1, options.times do
  for _, name in ipairs { "emma", "mansfieldpark" } do
    local text = sr.must(sys.read_file(("recipes/data/%s.txt"):format(name)))
    inputs[#inputs + 1] = ("%s/%s-%d.txt"):format(folder, name, i)
    sr.must(sys.write_file(inputs[#inputs], text))
    bytes = bytes + #text
  end
end

local path, began = folder .. "/x.sqr", sys.now()
local vocab = sr.must(sr.text.train { files = { inputs[1], inputs[2] }, size = 4000 })
print(("vocabulary     4,000 tokens from 1.8 MB in %.2f s"):format(sys.now() - began))
local counts = sr.must(sr.data.prepare { inputs = inputs, out = path, vocab = vocab })
print(("prepare        %6.1f MB/s, %.1f MB to %.1f M tokens in %.2f s"):format(bytes / 1e6 / counts.seconds,
  bytes / 1e6, counts.tokens / 1e6, counts.seconds))

for max_len in options.max_len:gmatch("%d+") do
  local corpus = sr.must(sr.data.open(path, { held = 0 }))
  local loader <close> = sr.must(sr.data.loader {
    data = corpus, max_len = math.tointeger(max_len), packs = 256, micro_packs = 16, prefetch = 0, epochs = 1,
    mask = { max = 80 }, solver = "lpfhp",
  })
  local plan = loader:plan()
  print(("epoch at %4s  %6.2f M examples/s, %d examples in %.2f s, including %.0f ms for the plan"):format(max_len,
    plan.sequences / plan.seconds / 1e6, plan.sequences, plan.seconds, plan.milliseconds))
  local tokens, start = 0, sys.now()
  while sys.now() - start < 2 do
    local update = loader:next()
    if not update then break end
    tokens = tokens + update.tokens
  end
  print(("batches        %6.1f M real tokens/s"):format(tokens / (sys.now() - start) / 1e6))
end

-- ---- labelled files ----------------------------------------------------------------------------------

---Rows of 5 to 40 words of the novels, in a circle.
---@param row fun(text: string, label: string): string
local function write_rows(name, row)
  local words, at = {}, 0
  for word in sr.must(sys.read_file(inputs[1])):gmatch("%S+") do words[#words + 1] = word end
  local file = assert(io.open(name, "w"))
  for i = 1, options.rows do
    local count = 5 + i * 7919 % 36
    if at + count > #words then at = 0 end
    file:write(row(table.concat(words, " ", at + 1, at + count), ({ "good", "fair", "bad" })[i % 3 + 1]), "\n")
    at = at + count
  end
  assert(file:close())
  return #sr.must(sys.read_file(name))
end

local FORMATS = {
  { name = "csv", row = function(text, label) return ('"%s",%s'):format(text:gsub('"', '""'), label) end },
  { name = "jsonl", row = function(text, label) return json.encode { text = text, label = label } end },
}
for _, format in ipairs(FORMATS) do
  local name = folder .. "/rows." .. format.name
  local size = write_rows(name, format.row)
  local columns = format.name == "csv" and { header = false, text = 1, label = 2 } or nil
  local start = sys.now()
  local report = sr.must(sr.data.read {
    task = "classify", files = name, out = folder .. "/rows.sqr", vocab = vocab, columns = columns,
  })
  local seconds = sys.now() - start
  print(("%-14s %6.1f MB/s, %d rows of %.1f MB in %.2f s"):format(format.name, size / 1e6 / seconds, report.rows,
    size / 1e6, seconds))
end
