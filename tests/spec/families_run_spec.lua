-- From a directory of Transformers to a fine-tuned model and back, in every family, by the recipe and the verbs.

local families = require("tests.support.families")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local folder = program.folder()

local OTHERS = { "the", "of", "and", "to", "in", "was", "that", "it", "with", "for", "not" }

---Sentences of words that all tokenizers know; the class is that of one word in it.
local function sentence(i, word)
  local words = {}
  for k = 1, 3 + i % 7 do words[k] = OTHERS[(i * 7 + k * (3 + i % 4)) % #OTHERS + 1] end
  table.insert(words, 1 + i % #words, word)
  return words
end

local CLASSES = { "he", "she" }

local WRITE = {
  classify = function(i, word) return json.encode { text = table.concat(sentence(i, word), " "), label = word } end,
  pair = function(i, word)
    return json.encode { text = table.concat(sentence(i + 5, "it"), " "), pair = table.concat(sentence(i, word), " "),
      label = word }
  end,
  tokens = function(i, word)
    local words, tags = sentence(i, word), {}
    for k, one in ipairs(words) do tags[k] = (one == "he" or one == "she") and "B-WHO" or "O" end
    return json.encode { tokens = json.array(words), tags = json.array(tags) }
  end,
  squad = function(i, word)
    local words = sentence(i, word)
    local context = table.concat(words, " ")
    local start = ((" " .. context .. " "):find(" " .. word .. " ", 1, true)) - 1
    local answers = json.array { { text = word, answer_start = start } }
    local question = { id = tostring(i), question = "who", answers = answers }
    return json.encode { question = "who", context = context, qas = json.array { question } }
  end,
  choice = function(i, word)
    local right = i % 2
    local choices = json.array { "it was not", "it was not" }
    choices[right + 1] = table.concat(sentence(i, word), " ")
    return json.encode { text = "who", choices = choices, label = right }
  end,
}

---Lines of JSON, which `predict` reads.
local function lines_of(task)
  local lines = {}
  for i = 1, 48 do lines[i] = WRITE[task](i, CLASSES[i % 2 + 1]) end
  return lines
end

---Writes a file of examples of a task.
local function data(task)
  local name, text = task .. ".jsonl", table.concat(lines_of(task), "\n") .. "\n"
  if task == "squad" then
    name = "squad.json"
    text = ('{"data": [{"paragraphs": [%s]}]}'):format(table.concat(lines_of(task), ",\n"))
  end
  return program.write(folder, name, text)
end

---Runs the recipe and returns the directory of the run.
local function finetune(name, task, how, ...)
  local out = ("%s/%s-%s-%s"):format(folder, name, task, how)
  program.ok { "recipes/finetune.lua", "task=" .. task, "init.from=" .. families.ROOT .. name,
    "data.train=" .. data(task), "data.dev=" .. data(task), "data.folder=" .. folder .. "/sets-" .. name,
    "data.max_len=32", "batch.sequences=8", "data.query=8", "data.stride=8", "save.minutes=0",
    "seed=3", "--quiet", "--out", out, ... }
  return out
end

local function verb(words, input) return (program.ok(words, { input = input })) end

local TASKS = { "classify", "pair", "tokens", "squad", "choice" }

---Classes of Transformers that are not there.
local function has_class(name, task)
  local golden = json.decode(sr.must(sys.read_file(families.ROOT .. name .. "/golden.json")))
  return golden.tasks[task == "classify" and "class" or task] ~= nil or task == "pair"
end

for i, name in ipairs(families.names()) do
  describe("the family " .. name, function()
    for k, task in ipairs(TASKS) do
      local tag = (k - i) % #TASKS < 2 and "" or " #long" -- two tasks a family, in turn
      it(("is fine-tuned, evaluated and exported for %s #slow%s"):format(task, tag), function()
        local run = finetune(name, task, "few", "--max-steps", "3", "epochs=1")
        local lines = small.metrics(run, "eval")
        assert.is_true(#lines > 0)
        verb { "eval", run, data(task), "--json" }
        local input = table.concat(lines_of(task), "\n"):gsub('"tokens":', '"words":') .. "\n"
        local predicted = verb({ "predict", run, "--format", "jsonl", "--max-len", "32" }, input)
        assert.equal(48, select(2, predicted:gsub("\n", "\n")))
        local out = ("%s/%s-%s-export"):format(folder, name, task)
        local code, told, err = program.run { "export", run, out }
        if has_class(name, task) then
          assert.equal(0, code, err)
          local again = verb({ "predict", out, "--format", "jsonl", "--max-len", "32" }, input)
          assert.equal(predicted, again)
        else
          assert.matches("Transformers", told .. err)
        end
      end)
    end

    it("makes vectors, and fills in masks if it has the head #slow", function()
      local vectors = verb({ "encode", families.ROOT .. name }, "he was in it\nshe had not\n")
      assert.equal(2, select(2, vectors:gsub("\n", "\n")))
      local mask = json.decode(sr.must(sys.read_file(families.ROOT .. name .. "/tokenizer_config.json"))).mask_token
      local code, out, err = program.run({ "fill", families.ROOT .. name }, { input = ("he was %s it\n"):format(mask) })
      if name:find("discriminator") then return assert.matches("discriminator", err) end
      assert.equal(0, code, err)
      assert.is_true(#out > 0)
    end)
  end)
end

for _, name in ipairs { "modernbert", "xlm_roberta" } do
  it(("a file that is easy is learned by %s with nothing but the task, the directory and the file #slow"):format(name),
    function()
      local run = finetune(name, "classify", "long", "epochs=20", "rate.peak=3e-3")
      local lines = small.metrics(run, "eval")
      assert.is_true(lines[#lines].accuracy >= 0.95, tostring(lines[#lines].accuracy))
    end)
end
