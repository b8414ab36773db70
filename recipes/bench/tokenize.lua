-- tokenize.lua - throughput of the tokenizer:
--
--     seqrun recipes/bench/tokenize.lua [FILE...] [times=20] [threads=1,2] [vocab=FILE]
--
-- Prints MB/s of text, the best of five runs, for each number of threads: ids only, with offsets, and
-- with printed ids as in `seqrun tokenize`.  Every line of the input is one paragraph.  If PYTHON names an
-- interpreter with the package tokenizers, that is measured on the same lines and threads:
--
--     PYTHON=venv/bin/python seqrun recipes/bench/tokenize.lua
--
-- `vocab=FILE` is another vocab.txt, or the tokenizer.json of any tokenizer.

local sr = require("seqrun")
local common = require("common")
local core = require("seqrun.core.text")
local sys = require("seqrun.core.sys")

local NOVELS = { "recipes/data/emma.txt", "recipes/data/mansfieldpark.txt" }
local RUNS = 5

local files, words = {}, {}
for _, word in ipairs(arg) do table.insert((word:find("^%l+=") or word:find("^%-")) and words or files, word) end
if #files == 0 then files = NOVELS end
local options = common.options({ times = 20, threads = "1,2", vocab = "tests/data/tokenizer/vocab.txt" }, words)

---Writes a file with one paragraph per line; returns its path and size.
local function paragraphs(times)
  local lines, path = {}, os.tmpname()
  for _, file in ipairs(files) do
    local text = sr.must(sys.read_file(file)):gsub("\r", "")
    for paragraph in (text .. "\n\n"):gmatch("%s*(.-)\n%s*\n") do lines[#lines + 1] = paragraph:gsub("\n", " ") end
  end
  local text = table.concat(lines, "\n") .. "\n"
  sr.must(sys.write_file(path, text:rep(times)))
  return path, #text * times
end

local path, bytes = paragraphs(options.times)
local tokenizer = sr.must(sr.text.tokenizer { vocab = options.vocab }).core
local program = sr.must(sys.real_path("/proc/self/exe"))
print(("%.1f MB of text, %d processors, best of %d"):format(bytes / 1e6, sys.machine().processors, RUNS))

for threads in options.threads:gmatch("%d+") do
  local function report(what, action)
    local rate = bytes / common.best(action, RUNS) / 1e6
    print(("seqrun      %s thread%s  %-22s %7.1f MB/s"):format(threads, threads == "1" and " " or "s", what, rate))
  end
  local function count(offsets)
    local how = { count_only = true, offsets = offsets, threads = math.tointeger(threads) }
    return function() sr.must(core.encode(tokenizer, path, how)) end
  end
  local command = ("%s tokenize --vocab %s --ids --threads %s %s >/dev/null"):format(program, options.vocab,
    threads, path)
  report("ids only", count(false))
  report("with offsets", count(true))
  report("command, printing ids", function() assert(os.execute(command)) end)
end

local python = os.getenv("PYTHON")
if python then
  io.stdout:flush()
  local threads = options.threads:gsub(",", " ")
  os.execute(("%s recipes/bench/peers/hf_tokenizers.py %s %s %s"):format(python, options.vocab, path, threads))
end
os.remove(path)
