-- task_files.lua - the examples of tests/support/tasks.lua as the files that people have, and an encoder to start from.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local tasks = require("tests.support.tasks")

local files = { KINDS = tasks.NAMES }

---Ids as text: id 5 is the word "w0".
local function text_of(ids)
  local words = {}
  for i, id in ipairs(ids) do words[i] = "w" .. id - 5 end
  return table.concat(words, " ")
end

local function lines(examples, header, line_of)
  local out = { header }
  for _, example in ipairs(examples) do out[#out + 1] = line_of(example) end
  return table.concat(out, "\n") .. "\n"
end

local CLASSES = { "red", "green", "blue" }

---Text of a file, its ending, and the words that a recipe needs to read it.
local WRITE = {}

function WRITE.classify(examples)
  local rows = lines(examples, '"The text",colour', function(e)
    return ('"%s",%s'):format(text_of(e.a), CLASSES[e.label + 1])
  end)
  return rows, "csv", { "columns.text=The text", "columns.label=colour" }
end

function WRITE.pair(examples)
  return lines(examples, nil, function(e)
    return ("%d\t%s\t%s"):format(e.label, text_of(e.a), text_of(e.b))
  end), "tsv", { "columns.text=2", "columns.pair=3", "columns.label=1" }
end

function WRITE.regress(examples)
  return lines(examples, "text\tscore\tother", function(e)
    return ("%s\t%.4f\t%.4f"):format(text_of(e.a), e.label[1], e.label[2])
  end), "tsv", { "columns.label=[score,other]" }
end

function WRITE.multilabel(examples)
  return lines(examples, nil, function(e)
    local names = json.array {}
    for k = 1, 3 do
      if e.labels[k] == 1 then names[#names + 1] = CLASSES[k] end
    end
    return json.encode { text = text_of(e.a), subjects = names }
  end), "jsonl", { "columns.label=subjects" }
end

function WRITE.choice(examples)
  local questions, question = {}, nil
  for _, e in ipairs(examples) do
    if not question or question.group ~= e.group then
      question = { group = e.group, text = text_of(e.a), choices = json.array {} }
      questions[#questions + 1] = question
    end
    question.choices[#question.choices + 1] = text_of(e.b)
    if e.answer == 1 then question.label = #question.choices - 1 end
  end
  return lines(questions, nil, json.encode), "jsonl", {}
end

function WRITE.tokens(examples)
  return lines(examples, nil, function(e)
    local rows = {}
    for k, id in ipairs(e.a) do rows[k] = ("w%d X %s"):format(id - 5, e.tags[k] == 1 and "B-HOT" or "O") end
    return table.concat(rows, "\n") .. "\n"
  end), "conll", {}
end

function WRITE.squad(examples)
  local paragraphs = json.array {}
  for i, e in ipairs(examples) do
    local first, last = e.span[1] - #e.a + 1, e.span[2] - #e.a + 1
    local context, none = text_of(e.b), e.span[1] < 0
    local start = none and 0 or #text_of(table.move(e.b, 1, first - 1, 1, {})) + (first > 1 and 1 or 0)
    local answer = { text = text_of(table.move(e.b, first, last, 1, {})), answer_start = start }
    paragraphs[i] = { context = context, qas = json.array { {
      id = ("q%d"):format(i), question = text_of(e.a), is_impossible = none,
      answers = none and json.array {} or json.array { answer },
    } } }
  end
  return json.encode { version = "v2.0", data = json.array { { title = "t", paragraphs = paragraphs } } }, "json", {}
end

---Makes a choice of three for every question, since files have as many for all.
local function three_choices(examples)
  local out, at = {}, 1
  while at <= #examples do
    local group, first = examples[at].group, at
    while examples[at] and examples[at].group == group do at = at + 1 end
    for k = first, at - first == 3 and at - 1 or first - 1 do out[#out + 1] = examples[k] end
  end
  return out
end

---Tags for all tokens: files have no others.
local function name_all(examples)
  for _, e in ipairs(examples) do
    for k, id in ipairs(e.a) do e.tags[k] = id < 20 and 1 or 0 end
  end
end

local LABELS = { classify = "label", pair = "label", regress = "label", multilabel = "labels", tokens = "tags" }

---Moves the labels to other examples.
local function shuffle(kind, examples)
  local draw, key = require("tests.support.draws")(99), LABELS[kind]
  local function pick(n) return draw(n) + 1 end
  if kind == "choice" then
    for first = 1, #examples, 3 do
      local right = pick(3)
      for k = 1, 3 do examples[first + k - 1].answer = k == right and 1 or -100 end
    end
  elseif kind == "squad" then
    for _, e in ipairs(examples) do
      local at = #e.a + pick(#e.b) - 1
      e.span = { at, at }
    end
  elseif kind == "tokens" then
    for _, e in ipairs(examples) do
      for k in ipairs(e.tags) do e.tags[k] = pick(2) - 1 end
    end
  else
    for i = #examples, 2, -1 do
      local j = pick(i)
      examples[i][key], examples[j][key] = examples[j][key], examples[i][key]
    end
  end
end

---Writes train and dev files of a kind.
---@param folder string
---@param kind string
---@param shuffled? boolean labels belong to other examples
---@return { train: string, dev: string, words: string[] }
function files.write(folder, kind, shuffled)
  local made = {}
  for part, seed in pairs { train = 7, dev = 8 } do
    local examples = (tasks.examples(kind, (part == "train" and 480 or 160) * (kind == "choice" and 3 or 1), seed))
    if kind == "choice" then examples = three_choices(examples) end
    if kind == "tokens" then name_all(examples) end
    if shuffled then shuffle(kind, examples) end
    local text, ending, words = WRITE[kind](examples)
    made[part] = program.write(folder, ("%s-%s%s.%s"):format(kind, part, shuffled and "-shuffled" or "", ending), text)
    made.words = words
  end
  return made
end

---The words of a run that fine-tunes an encoder on what write() gave, and further ones.
---@param folder string
---@param kind string
---@param data { train: string, dev: string, words: string[] }
---@param base string
---@return string[]
function files.finetune(folder, kind, data, base, ...)
  local words = {
    "recipes/finetune.lua", "task=" .. kind, "data.train=" .. data.train, "data.dev=" .. data.dev,
    "data.folder=" .. folder .. "/sets", "init.from=" .. base, "data.max_len=48", ...,
  }
  return table.move(data.words, 1, #data.words, #words + 1, words)
end

---A small encoder with random weights, as a checkpoint.
---@param path string
---@return string path
function files.encoder(path)
  local model = sr.nn.bert {
    vocab_size = 120, hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 2,
    max_position_embeddings = 64, hidden_dropout_prob = 0, attention_probs_dropout_prob = 0, heads = { "mlm" },
  }
  model:initialise(3)
  local guard <close> = assert(sr.checkpoint.lock(path))
  assert(sr.checkpoint.save(path, {
    step = 0, model = model.params, config = model:hf_config(), vocab_text = assert(sys.read_file(tasks.VOCAB)),
  }))
  return path
end

return files
