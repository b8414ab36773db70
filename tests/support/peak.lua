-- peak.lua - how much memory it takes to read a file, as a recipe: seqrun tests/support/peak.lua KIND PATH FIRST
--
-- Prints the bytes of the process that were not there before, at the highest, the processor time and what reading
-- gave, as JSON.  What the reader needs whatever the file is has been loaded before, for the file FIRST; the memory of
-- libraries counts too.

local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local schema, rules = sr.run.schema(sr.tasks.pretraining)
local folder = sys.real_path(arg[2]):match("^(.*)/")

local READ = {
  config = function(path) return sr.config.load { schema = schema, rules = rules, file = path } end,
  yaml = function(path) return require("seqrun.core.yaml").parse(sys.read_file(path, 1 << 21)) end,
  json = function(path) return json.decode(sys.read_file(path, 1 << 26)) end,
  tokenizer = function(path) return sr.text.tokenizer { path = path } end,
  vocab = function(path) return sr.text.vocab(path) end,
  tensors = function(path) return require("seqrun.core.train").safetensors(path) end,
  model = function(path) return sr.encode.open(path:match("^(.*)/")) end,
  data = function(path) return sr.data.open(path) end,
  metric = function(path) return sr.data.metric(path) end,
  plan = function(path) return sr.pack.load(path) end,
  metrics = function(path) return sr.metrics.read(path:match("^(.*)/")) end,
  checkpoint = function(path) return sr.checkpoint.verify(path:match("^(.*)/")) end,
  sentences = function(path)
    local next_sentence, message, code = sr.text.sentences { files = path }
    if not next_sentence then return nil, message, code end
    local count = 0
    for _ in next_sentence do count = count + 1 end
    return count
  end,
  squad = function(path)
    return sr.data.read { task = "squad", files = { path }, out = folder .. "/squad.sqr",
      vocab = "tests/data/model/tiny/vocab.txt" }
  end,
  ids = function(path)
    local out = os.tmpname()
    local vocab = "tests/data/inputs/vocab.txt"
    local made = table.pack(sr.data.prepare { inputs = path, out = out .. ".sqr", vocab = vocab })
    for _, ending in ipairs { "", ".sqr" } do os.remove(out .. ending) end
    return table.unpack(made, 1, made.n)
  end,
  rows = function(path)
    return sr.data.read { task = "classify", files = { path }, out = folder .. "/rows.sqr",
      vocab = "tests/data/model/tiny/vocab.txt", max_len = 64 }
  end,
}

---Bytes of a line of /proc/self/status.
local function memory(name)
  return math.tointeger(sys.read_file("/proc/self/status"):match(name .. ":%s*(%d+)")) << 10
end

local function reset_peak()
  local file = assert(io.open("/proc/self/clear_refs", "w"))
  file:write("5")
  file:close()
end

local read = assert(READ[arg[1]], "unknown kind")
for i = 1, 2 do -- the first time on a file of nothing, which loads modules
  local path = i == 1 and arg[3] or arg[2]
  collectgarbage()
  local before = memory("VmRSS")
  reset_peak()
  local began = os.clock()
  local good, value, message, code = pcall(read, path)
  if i == 2 then
    print(json.encode {
      bytes = memory("VmHWM") - before, seconds = os.clock() - began,
      good = good and value ~= nil, code = code,
      message = not good and tostring(value) or message and tostring(message) or nil,
    })
  end
end
