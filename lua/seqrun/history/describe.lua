-- describe.lua - what is at a path: a run, a checkpoint, weights, a data set, a tokenizer, a plan, metrics.
-- Recognised by content, never by name; invalid files are reported, never a crash.

local exact = require("seqrun.base.exact")
local failure = require("seqrun.base.failure")
local guess = require("seqrun.base.guess")
local json = require("seqrun.core.json")
local json_file = require("seqrun.base.json_file")
local line_file = require("seqrun.base.line_file")
local metrics = require("seqrun.history.metrics")
local stored = require("seqrun.text.stored")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")


---The first bytes of a file, and how many it has.
local function head_of(path, bytes)
  local file <close> = failure.must(io.open(path, "rb"))
  return line_file.read(file, path, bytes) or "", line_file.seek(file, path, "end", 0)
end

-- ---- files -----------------------------------------------------------------------------------

local function describe_safetensors(path)
  local file <close> = failure.must(train.safetensors(path))
  local facts = { kind = "safetensors", tensors = {}, elements = 0, bytes = 0, metadata = file:metadata() }
  local dtypes = {}
  for i, entry in ipairs(file:entries()) do
    facts.tensors[i] = { name = entry.name, dtype = entry.dtype, shape = json.array(entry.shape) }
    facts.elements, facts.bytes = facts.elements + entry.count, facts.bytes + entry.bytes
    dtypes[entry.dtype] = (dtypes[entry.dtype] or 0) + entry.count
  end
  facts.dtypes = dtypes
  json.array(facts.tensors)
  return facts
end

local function describe_metrics(path)
  local lines, damaged = failure.must(metrics.read(path))
  local facts = { kind = "metrics", lines = #lines, damaged = damaged }
  for _, line in ipairs(lines) do
    if line.type == "train" then
      facts.first = facts.first or line
      facts.last = line
    elseif line.type == "eval" then
      facts.last_eval = line
    end
  end
  return facts
end

local function describe_plan(path)
  local facts = failure.must(require("seqrun.pack").load(path)):json()
  facts.kind = "plan"
  return facts
end

---A metric of a data set is in the same kind of file.
local function describe_metric(path)
  local metric <close> = failure.valid(require("seqrun.data.metric").open(path)) or nil
  if not metric then return nil end
  local facts = require("seqrun.analysis.show").figures(metric)
  facts.kind = "metric"
  return facts
end

local function describe_dataset(path)
  local set = failure.must(require("seqrun.data").open(path))
  local facts = set:info()
  facts.kind, facts.holds = "dataset", facts.kind
  facts.task, facts.labels = set:meta().task, set:labels()
  return facts
end

---A vocabulary is text whose lines are tokens, including the special tokens.
local function describe_vocab(path)
  local text = failure.valid(sys.read_file(path, 1 << 26))
  if not text or text:find("\0", 1, true) or not utf8.len(text) then return nil end
  local facts = { kind = "vocabulary", tokens = 0, longest = 0, continuations = 0, specials = json.array() }
  for token in text:gmatch("([^\n]*)\n?") do
    if token ~= "" then
      facts.tokens = facts.tokens + 1
      facts.longest = math.max(facts.longest, #token)
      if token:find("^##") then facts.continuations = facts.continuations + 1 end
      if token:find("^%[[A-Z]+%]$") then facts.specials[#facts.specials + 1] = token end
    end
  end
  if #facts.specials == 0 then return nil end
  return facts
end

---What a tokenizer is, in a few values.
local function tokenizer_facts(tokenizer)
  local facts = {
    model = tokenizer:kind(), tokens = #tokenizer, lowercase = tokenizer:lowercase(),
    fingerprint = tokenizer:fingerprint(), special_tokens = #tokenizer:specials(),
    pair = require("seqrun.text.frames").shown(tokenizer, true),
  }
  for _, role in ipairs { "pad", "unk", "cls", "sep", "mask" } do
    local id = tokenizer:special(role)
    facts[role] = id and tokenizer:token(id)
  end
  return facts
end

---The tokenizer of a directory or of a tokenizer.json.
local function describe_tokenizer(path)
  local facts = tokenizer_facts(failure.must(stored.tokenizer(path, { literal = true })))
  facts.kind = "tokenizer"
  return facts
end

local SQR = "\x89SQR\r\n\x1a\n"

local function describe_file(path)
  local head, size = head_of(path, 64)
  local facts, message, code
  if head:sub(1, 8) == SQR then
    facts = describe_metric(path) or describe_dataset(path)
  elseif head:find("^seqrun plan ") then
    facts = describe_plan(path)
  elseif head:find('^{') then
    if path:find("%.json$") then facts, message, code = failure.valid(failure.returned(describe_tokenizer, path)) end
    if not facts then
      facts = failure.attempt(describe_metrics, path)
      if facts and facts.first == nil and facts.last_eval == nil then facts = nil end
    end
  elseif #head >= 10 and head:sub(9, 9) == "{" then
    facts = describe_safetensors(path)
  else
    facts = describe_vocab(path)
  end
  if not facts then
    local known = "a data set, vocabulary, tokenizer, plan, safetensors or metrics file, a run or a checkpoint"
    failure.raise(code or "data", "%s", message or ("%s: not %s"):format(path, known))
  end
  facts.file_bytes = size
  return facts
end

-- ---- directories ---------------------------------------------------------------------------------

---Keys of config.json, with those that some families have instead or in addition.
local SHAPE = {
  "model_type", "hidden_size", "dim", "n_layers", "n_heads", "hidden_dim", "embedding_size", "num_key_value_heads",
  "local_attention", "hidden_activation", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
  "max_position_embeddings", "hidden_act", "experts", "experts_chosen",
}

---A value, or the values of a list, such as the experts of each layer.
local function in_a_line(value)
  if type(value) ~= "table" then return value end
  local list = {}
  for i, one in ipairs(value) do list[i] = tostring(one) end
  return table.concat(list, " ")
end

---The task of its head and the names of the classes.
local function add_task(facts, config)
  local known = require("seqrun.checkpoint.pretrained").task(config)
  if not known or not known.kind then return end
  facts.task, facts.labels = known.kind, known.labels and json.array(known.labels)
end

---What a part of a checkpoint is; why it cannot be read, unless that is the machine's fault, becomes a problem of it.
local function take(facts, ...)
  local part, message = failure.valid(...)
  if message then table.insert(facts.problems, message) end
  return part
end

local function describe_checkpoint(path)
  local facts = { kind = "checkpoint", config = {}, problems = json.array() }
  local config = failure.there(json_file.read(path .. "/config.json")) or {}
  for _, key in ipairs(SHAPE) do facts.config[key] = in_a_line(config[key]) end
  add_task(facts, config)
  local kept = take(facts, stored.read(path))
  local tokenizer = kept and take(facts, kept:open { literal = true })
  facts.tokenizer = tokenizer and tokenizer_facts(tokenizer)
  local at = path .. "/model.safetensors"
  local weights = sys.exists(at) and take(facts, failure.returned(describe_safetensors, at))
  if weights then
    facts.tensors, facts.parameters, facts.dtypes = #weights.tensors, weights.elements, weights.dtypes
  end
  facts.manifest = sys.exists(path .. "/MANIFEST")
  if facts.manifest then
    local step, message = failure.valid(train.checkpoint_verify(path))
    facts.verified, facts.step, facts.damage = step ~= nil, step, message
  end
  local at_state = path .. "/trainer/state.json"
  local text = sys.exists(at_state) and take(facts, sys.read_file(at_state, 1 << 28))
  local state = text and exact.decode(text)
  if type(state) == "table" and type(state.optimizer) == "table" then facts.optimizer = state.optimizer.kind end
  return facts
end

local function describe_run(path, steps)
  local facts = { kind = "run", checkpoints = json.array() }
  for i, step in ipairs(steps) do
    local at = train.checkpoint_path(path, step)
    local found, message = failure.valid(train.checkpoint_verify(at))
    facts.checkpoints[i] = { step = step, path = at, verified = found == step, damage = message }
    if found == step then facts.newest = at end
  end
  if facts.newest then facts.newest_checkpoint = describe_checkpoint(facts.newest) end
  local at = path .. "/metrics.jsonl"
  if sys.exists(at) then facts.metrics = describe_metrics(at) end
  return facts
end

local function describe_folder(path)
  for _, name in ipairs { "/MANIFEST", "/model.safetensors", "/config.json", "/model.safetensors.index.json" } do
    if sys.exists(path .. name) then return describe_checkpoint(path) end
  end
  local steps = failure.there(train.checkpoint_list(path))
  if steps and (#steps > 0 or sys.exists(path .. "/metrics.jsonl")) then return describe_run(path, steps) end
  if sys.exists(path .. "/tokenizer.json") then return describe_tokenizer(path) end
  failure.raise("data", "%s: neither a run nor a checkpoint", path)
end

---What is at a path: a table with `kind` ("run", "checkpoint", "safetensors", "dataset", "metric",
---"vocabulary", "tokenizer", "plan", "metrics") and facts of that kind.
---@param path string
---@return table|nil
---@return string? message
---@return string? code
local function describe(path)
  if not sys.exists(path) then
    return nil, ("%s: no such file or directory%s"):format(path, guess.file_hint(path)), "missing"
  end
  local folder = sys.is_dir(path)
  local ok, facts = pcall(folder and describe_folder or describe_file, path)
  local why = not ok and failure.of(facts)
  if why then return nil, why.message, why.code end
  if not ok and tostring(facts):find("not enough memory", 1, true) then error(facts, 0) end
  if not ok then return nil, ("%s: %s"):format(path, tostring(facts)), "data" end
  facts.path = path
  return facts
end

return describe
