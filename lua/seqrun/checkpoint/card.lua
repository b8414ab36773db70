-- card.lua - the model card of an export: a README.md with the fields that Hugging Face's Hub reads, from the run.

local decided = require("seqrun.checkpoint.decided")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local kinds = require("seqrun.base.kinds")
local labels = require("seqrun.data.readers.labels")
local loading = require("seqrun.checkpoint.loading")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")
local yaml = require("seqrun.core.yaml")

local card = {}

---What the Hub calls the tasks of classes of Transformers.
local TASKS = {
  ForSequenceClassification = "text-classification", ForTokenClassification = "token-classification",
  ForQuestionAnswering = "question-answering", ForMultipleChoice = "multiple-choice", ForMaskedLM = "fill-mask",
  ForPreTraining = "fill-mask", ForCausalLM = "text-generation", LMHeadModel = "text-generation",
  ElectraForPreTraining = "feature-extraction", -- which detects replaced tokens, and fills in none
}

local function task_of(architecture, sentences)
  if sentences then return "sentence-similarity" end
  return TASKS[architecture] or TASKS[architecture:match("For%u%w+$") or architecture:match("LMHeadModel$")]
    or "feature-extraction"
end

---The value of a key in the config that trained a checkpoint: a text, or a list of them.
local function key_of(root, path)
  local node = root
  for name in path:gmatch("[^.]+") do
    local inner
    for _, entry in ipairs(node and node.kind == "map" and node or {}) do
      if entry.key.value == name then inner = entry.value end
    end
    node = inner
  end
  if not node or node.kind == "map" or node.value == "none" then return nil end
  local parts = {}
  for i, item in ipairs(node.kind == "list" and node or { node }) do
    parts[i] = path:find("^data%.") and item.value:match("[^/]*$") or item.value
  end
  return table.concat(parts, ", ")
end

---The data that the scores are of.
local function scored_data(key)
  local dev = key "data.dev"
  if dev then return dev end
  local train, held = key "data.train" or key "data.file", tonumber(key "data.held")
  if train and held and held > 0 then return ("%g %% of %s, held out"):format(100 * held, train) end
end

---The scores of the last evaluation: { name, value }.
local function scores_of(folder)
  local saved = sys.exists(folder .. "/trainer/state.json") and failure.there(loading.state(folder))
  local state, list = saved and saved.state or {}, {}
  local result = state.aside or state.result -- the later one
  for _, shown in ipairs(result and result.order or {}) do
    local names = { shown.name .. "_loss" }
    for _, name in ipairs(shown.scores or {}) do names[#names + 1] = (shown.prefix or "") .. name end
    for _, name in ipairs(names) do
      local value = result.line[name]
      if type(value) == "number" and math.abs(value) < math.huge then list[#list + 1] = { name, value } end
    end
  end
  return list, result and result.step
end

---The YAML before the text.
local function head(t)
  local lines = { "---", "library_name: " .. (t.sentences and "sentence-transformers" or "transformers"),
    "pipeline_tag: " .. t.task }
  local function add(...) lines[#lines + 1] = (...) end
  for _, name in ipairs { "language", "license", "base_model" } do
    if t[name] then add(("%s: %s"):format(name, json.encode(t[name]))) end
  end
  add "tags: [seqrun]"
  if #t.scores > 0 and t.data then
    for _, line in ipairs { "model-index:", "- name: " .. json.encode(t.name), "  results:",
      "  - task: {type: " .. t.task .. "}", ("    dataset: {type: custom, name: %s}"):format(json.encode(t.data)),
      "    metrics:" } do add(line) end
    for _, score in ipairs(t.scores) do add(("    - {type: %s, value: %.4f}"):format(score[1], score[2])) end
  end
  add "---"
  return lines
end

local KEYS = {
  { "data.train", "training data" }, { "data.file", "training data" }, { "epochs", "epochs" },
  { "batch.sequences", "sequences per update" }, { "data.max_len", "maximum length" }, { "rate.peak", "peak rate" },
  { "optimizer.name", "optimizer" }, { "seed", "seed" }, { "precision", "precision" },
}

local function usage(t)
  local name = json.encode(t.name) -- which Python reads as a string, too
  if t.sentences then
    return ('from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer(%s)\n'
      .. 'vectors = model.encode(["a text", "another one"])'):format(name)
  end
  return ('from transformers import AutoTokenizer, %s\n\ntokenizer = AutoTokenizer.from_pretrained(%s)\n'
    .. 'model = %s.from_pretrained(%s)'):format(t.architecture, name, t.architecture, name)
end

---The card of an exported directory; the one that the directory has already.
---@param facts seqrun.Pretrained what is exported
---@param o { out: string, architecture: string, parameters: integer, dtype: string, sentences: boolean, part: boolean,
---  average?: boolean, language?: string, license?: string, crf?: boolean }
---  part: it is not the model that was scored: without its
---  heads, or another network; average: its weights are the moving average
---@return string
function card.text(facts, o)
  local theirs = failure.there(sys.read_file(facts.path .. "/README.md", 1 << 20))
  if theirs and o.part and theirs:find("\ntags: [seqrun]\n", 1, true) then theirs = nil end -- of all of the model
  if theirs and (o.language or o.license) then
    failure.raise("config", "export: %s has a README.md, which stays as it is; leave out language and license, or "
      .. "write them there", facts.path)
  end
  if theirs then return theirs end
  local dump = failure.there(sys.read_file(facts.path .. "/trainer/config.yaml", 1 << 20))
  local root = dump and yaml.parse(dump)
  local function key(path) return key_of(root, path) end
  local from, scores, step = key "init.from", {}, nil
  local scored = (key "eval.average" == "true") == (o.average or false) -- the weights that are written
  if scored and not o.part then scores, step = scores_of(facts.path) end
  local base = from and not sys.exists(from .. "/MANIFEST") and not sys.exists(from .. "/run.log")
  local t = {
    name = o.out:match("[^/]*$"), architecture = o.architecture, sentences = o.sentences, scores = scores,
    task = task_of(o.architecture, o.sentences), data = scored_data(key), language = o.language, license = o.license,
    base_model = base and from:gsub("/+$", ""):match("[^/]*$") or nil,
  }
  local lines = head(t)
  local function add(format, ...) lines[#lines + 1] = format:format(...) end
  add("\n# %s\n", t.name)
  add("%s with %s in %s, %s with seqrun %s.", o.architecture, text.counted(o.parameters, "parameter"), o.dtype,
    root and "trained on packed sequences" or "converted", sys.build().version)
  local has_head = o.sentences or o.architecture:find("For%u")
  if facts.kind and has_head then add("Task: %s.", facts.kind) end
  if facts.labels and has_head then add("Labels: %s.", table.concat(facts.labels, ", ")) end
  local first = facts.task_heads and facts.task_heads[1].name or facts.kind and kinds.get(facts.kind).head_fields.name
  local decide = has_head and not o.average and (facts.decide or {})[first]
  decide = decide and decided.text(decide, labels.names(facts.labels, facts.outputs))
  if decide then add("\nDecided by %s: seqrun does so; in Transformers, apply it to the logits yourself.", decide) end
  if o.crf then add("The CRF of its tags (crf.safetensors) is for `seqrun predict`; Transformers uses only logits.") end
  if #scores > 0 then
    add("\n## Scores\n\nStep %d%s:\n\n| score | value |\n|---|---|", step, t.data and ", on " .. t.data or "")
    for _, score in ipairs(scores) do add("| %s | %.4f |", score[1], score[2]) end
  end
  if root then
    add("\n## Training\n")
    if from then add("- from: %s", from) end
    for _, one in ipairs(KEYS) do
      local value = key(one[1])
      if value then add("- %s: %s", one[2], value) end
    end
  end
  add("\n## Usage\n\n```python\n%s\n```", usage(t))
  return table.concat(lines, "\n") .. "\n"
end

return card
