-- The fields that commands document for --json are those that they print.

local fields = require("seqrun.cli.fields")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local task_model = require("tests.support.task_model")

local dir, run, corpus, model, table_file

setup(function()
  dir = program.folder()
  corpus, run = small.corpus(dir), dir .. "/run"
  assert.equal(0, (program.run(small.words(corpus, "--out", run, "--max-steps", "2", "data.nsp=true"))))
  local bert = task_model.new(sr.nn.heads.classify { labels = { "no", "yes" } })
  model = task_model.save(dir .. "/model", bert)
  local rows = { "text\tlabel" }
  for i, word in ipairs(task_model.words()) do rows[#rows + 1] = word .. " the\t" .. (i % 3 == 0 and "yes" or "no") end
  table_file = program.write(dir, "test.tsv", table.concat(rows, "\n", 1, 41) .. "\n")
end)

-- ---- paths -------------------------------------------------------------------------------------------

---All paths of plain values, such as "runs[].held.name"; "part" for what is null or empty.
local function paths_of(value, path, found)
  if value == json.null or type(value) == "table" and next(value) == nil then
    found[path] = found[path] or "part"
  elseif type(value) ~= "table" then
    found[path] = true
  elseif #value > 0 then
    for _, one in ipairs(value) do paths_of(one, path .. "[]", found) end
  else
    for key, one in pairs(value) do paths_of(one, path == "" and key or path .. "." .. tostring(key), found) end
  end
  return found
end

---Whether a printed path is what a documented one says: itself, below it where that ends with ".*", or, if null or
---empty, a part of it.
local function agrees(path, documented, kind)
  local plain, open = documented:gsub("%?", ""), documented:find("%.%*$") ~= nil
  if open then plain = plain:sub(1, -3) end
  local rest = path:sub(1, #plain) == plain and path:sub(#plain + 1)
  if rest and (rest == "" or open and rest:find("^[.%[]")) then return true end
  return kind == "part" and plain:sub(1, #path) == path and (plain:find("^[.%[]", #path + 1) ~= nil or open)
end

---Compares what was printed with a form; `also`: forms that may appear with it.
local function check(name, form, printed, also)
  local found, patterns = {}, {}
  for _, value in ipairs(printed) do paths_of(value, "", found) end
  for _, one in ipairs(fields.forms(name)) do
    local mine = one.form == form
    if mine or also and also[one.form] then
      for _, field in ipairs(one.fields) do
        for _, path in ipairs(field.paths) do patterns[path] = mine end
      end
    end
  end
  assert.truthy(next(patterns), name .. " has no form " .. form)
  for path, kind in pairs(found) do
    local known = false
    for documented in pairs(patterns) do known = known or agrees(path, documented, kind) end
    assert.is_true(known, ("%s %s prints '%s', which is not documented"):format(name, form, path))
  end
  for documented, mine in pairs(patterns) do
    local seen = not mine or documented:find("?", 1, true)
    for path, kind in pairs(found) do seen = seen or agrees(path, documented, kind) end
    assert.truthy(seen, ("%s %s documents '%s', which it does not print"):format(name, form, documented))
  end
end

---What a command prints: one JSON value per line.
local function output(words, options)
  local code, out, err = program.run(words, options)
  assert(code == 0 or options and options.code == code, table.concat(words, " ") .. ": " .. err)
  local list = {}
  for line in out:gmatch("[^\n]+") do list[#list + 1] = assert(json.decode(line)) end
  return list
end

-- ---- commands -------------------------------------------------------------------------------------------

local CASES = {
  ["advise "] = function()
    return { "advise", "--model", "bert-base", "--seq", "128", "--batch", "64", "--devices", "4", "--device", "h100" }
  end,
  ["advise --list"] = function() return { "advise", "--list" } end,
  ["analyze "] = function() return { "analyze", corpus, "--metric", "length", "rarity", "--out", dir } end,
  ["compare "] = function() return { "compare", run, dir .. "/copy" } end,
  ["completion "] = function() return { "completion", "--json" } end,
  ["doctor "] = function() return { "doctor" } end,
  ["encode --out"] = function()
    return { "encode", model, table_file, "columns.text=text", "--out", dir .. "/v.safetensors" }
  end,
  ["encode (without --out: JSON lines)"] = function()
    return { "encode", model, table_file, "columns.text=text" }
  end,
  ["eval "] = function()
    return { "eval", model, table_file, "columns.text=text", "columns.label=label", "data.folder=" .. dir }
  end,
  ["export "] = function() return { "export", run, dir .. "/exported", "--force" } end,
  ["fill (JSON lines)"] = function() return { "fill", run, "-t", "the [MASK] sees" } end,
  ["fill --causal (JSON lines)"] = function()
    return { "fill", "--causal", "tests/data/causal/gpt2", "-t", "the his", "--tokens", "3" }
  end,
  ["import "] = function() return { "import", dir .. "/exported", dir .. "/imported" } end,
  ["info of a run"] = function() return { "info", run } end,
  ["info of a checkpoint"] = function() return { "info", model } end,
  ["info of safetensors"] = function() return { "info", model .. "/model.safetensors" } end,
  ["info of a data set"] = function() return { "info", corpus } end,
  ["info of a vocabulary"] = function() return { "info", task_model.VOCAB } end,
  ["info of a tokenizer"] = function()
    local vocab = assert(sys.read_file(task_model.VOCAB))
    local text = require("seqrun.text.tokenizer_json")(vocab, { lowercase = true })
    assert(sys.write_file(dir .. "/tokenizer.json", text))
    return { "info", dir .. "/tokenizer.json" }
  end,
  ["info of metrics"] = function() return { "info", run .. "/metrics.jsonl" } end,
  ["info of a metric"] = function() return { "info", dir .. "/corpus.length.metric" } end,
  ["info of a plan"] = function() return { "info", dir .. "/plan.txt" } end,
  ["new "] = function() return { "new", dir .. "/new" } end,
  ["pack "] = function() return { "pack", corpus, "--max-len", "48", "--out", dir .. "/plan.txt" } end,
  ["pack --compare"] = function() return { "pack", corpus, "--max-len", "48", "--compare" } end,
  ["pack --check"] = function() return { "pack", corpus, "--max-len", "48", "--check", dir .. "/proof.txt" } end,
  ["predict (JSON lines, by task)"] = function() return { "predict", model, "--text" }, { input = "the\n" } end,
  ["repro "] = function() return { "repro", run, "--out", dir .. "/again" } end,
  ["report "] = function() return { "report", run, dir .. "/copy" } end,
  ["runs "] = function() return { "runs", dir } end,
  ["score (JSON lines)"] = function()
    local lines = '{"text":"the"}\n{"sentence_good":"the","sentence_bad":"the the","UID":"some"}\n'
    return { "score", run, program.write(dir, "score.jsonl", lines) }
  end,
  ["stats "] = function() return { "stats", corpus } end,
  ["sweep "] = function()
    local words = small.words(corpus, "rate.peak=1e-3,1e-2", "--max-steps", "1", "--out", dir .. "/sweep")
    for i, word in ipairs(words) do
      if word == "--quiet" then table.remove(words, i) end
    end
    table.insert(words, 1, "sweep")
    return words
  end,
  ["tokenize (JSON lines)"] = function()
    return { "tokenize", "--vocab", task_model.VOCAB, "--ids" }, { input = "the the\n" }
  end,
  ["verify "] = function()
    local out = dir .. "/verified"
    local words = small.words(corpus, "--out", out, "--max-steps", "3", "save.every=1", "save.keep=4", "verify.every=2")
    assert.equal(0, (program.run(words)))
    return { "verify", out }
  end,
  ["version "] = function() return { "version" } end,
  ["vocab "] = function() return { "vocab", dir .. "/corpus.txt", "--size", "100", "--out", dir .. "/new.txt" } end,
}

---Forms that another form includes.
local ALSO = { info = { ["of everything"] = true } }
local NOT_RUN = { ["advise --here"] = "it measures for a while", ["info of everything"] = "part of the others" }

describe("the fields of --json", function()
  setup(function()
    sys.make_dirs(dir .. "/copy")
    for _, name in ipairs { "metrics.jsonl", "config.yaml", "run.log", "ended.json", "environment.json" } do
      program.write(dir .. "/copy", name, assert(sys.read_file(run .. "/" .. name)))
    end
    assert.equal(0, (program.run { "analyze", corpus, "--metric", "length", "--out", dir }))
    assert.equal(0, (program.run { "export", run, dir .. "/exported" }))
    local words = { "pack", corpus, "--max-len", "48", "--out", dir .. "/plan.txt" }
    table.move({ "--certificate", dir .. "/proof.txt" }, 1, 2, #words + 1, words)
    assert.equal(0, (program.run(words)))
  end)

  for _, name in ipairs(require("seqrun.cli.commands").names()) do
    for _, form in ipairs(name ~= "help" and fields.forms(name) or {}) do
      local key = name .. " " .. form.form
      if not NOT_RUN[key] then
        it("of " .. key .. " are as documented", function()
          local words, options = CASES[key]()
          words[#words + 1] = "--json"
          check(name, form.form, output(words, options), ALSO[name])
        end)
      end
    end
  end

  it("are documented for every command that has --json", function()
    for _, verb in ipairs(require("seqrun.cli.verbs").all()) do
      local has = false
      for _, option in ipairs(verb.options) do has = has or option.names[1] == "--json" end
      assert.equal(has, fields.forms(verb.name) ~= nil, verb.name)
      if has then assert.truthy(verb.epilog:find("fields of %-%-json"), verb.name) end
    end
  end)
end)
