-- data.lua - throughput from text to data set, data set to epoch, and epoch to batches.
--
--     seqrun recipes/bench/data.lua [times=40] [max_len=128,512]
--
-- The text is the two novels, repeated `times` times.  `prepare` reads, splits, tokenizes and writes on all threads;
-- `epoch` draws all next-sentence pairs and packs them (later epochs run on one background thread);
-- `batches` reads, masks and collates on one thread.

local sr = require "seqrun"
package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local common = require "common"
local sys = require "seqrun.core.sys"

local options = common.options({ times = 40, max_len = "128,512" }, arg)

local folder = os.tmpname()
sr.must(sys.remove(folder))
sr.must(sys.make_dirs(folder))
local guard <close> = setmetatable({}, { __close = function() sys.remove(folder) end })

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
