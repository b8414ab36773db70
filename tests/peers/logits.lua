-- logits.lua - the logits of a checkpoint for one sequence, for transformers_roundtrip.py.
--
--     seqrun tests/peers/logits.lua request=FILE
--
-- The request is JSON: checkpoint, ids, types, answer (a path to write), resave (a run directory to save
-- the same weights in, or null).

local json = require("seqrun.core.json")
local sys = require("seqrun.core.sys")
local sr = require("seqrun")

local path = assert(arg[1] and arg[1]:match("^request=(.*)"), "request=FILE is missing")
local request = assert(json.decode(assert(sys.read_file(path))))

local bert = sr.nn.bert(assert(sr.checkpoint.config(request.checkpoint)))
bert.training = false
local loaded = assert(sr.checkpoint.load(request.checkpoint, { model = bert.params }))
print(loaded.report)

local quiet <close> = sr.no_grad()
local rows = {}
for i = 1, #request.ids do rows[i] = i - 1 end
local hidden = bert:encode {
  ids = sr.tensor(request.ids, { dtype = "i32" }),
  types = sr.tensor(request.types, { dtype = "i32" }),
  layout = sr.layout { lens = { #request.ids } },
}
local all = sr.tensor(rows, { dtype = "i32" })
local first = sr.tensor({ 0 }, { dtype = "i32" })
local function logits(name, at) return bert:head(name):logits(sr.ops.gather_rows(hidden, at)):totable() end
local answer = { mlm = logits("mlm", all), nsp = logits("nsp", first)[1] }
assert(sys.write_file(request.answer, json.encode(answer)))

if type(request.resave) == "string" then
  local lock = assert(sr.checkpoint.lock(request.resave))
  local vocab = request.checkpoint .. "/vocab.txt"
  local parts = { step = 0, model = bert.params, config = bert:hf_config(), vocab = vocab }
  assert(sr.checkpoint.save(request.resave, parts))
  lock:close()
end
