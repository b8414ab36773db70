-- Kept vectors with their texts, and the questions that are answered from them.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")
local vector_search = require("seqrun.predict.vector_search")

local folder = program.folder()
local model, vectors = folder .. "/run", folder .. "/v.safetensors"
local texts = {}

setup(function()
  program.ok(small.words(small.corpus(folder, 40), "--out", model, "--max-steps", "1"))
  local nouns = { "cat", "dog", "house", "river", "letter", "gard\u{e9}n", "teacher", "window" }
  for i = 1, 60 do
    texts[i] = ("the %s\tsees %d %s"):format(nouns[i % 8 + 1], i, nouns[i * i % 7 + 1])
  end
  program.write(folder, "texts.txt", table.concat(texts, "\n") .. "\n")
  program.ok { "encode", model, folder .. "/texts.txt", "--out", vectors, "--format", "lines" }
end)

local function search(...) return program.run { "recipes/search.lua", "model=" .. model, ... } end

---The best rows for a question, by the cosines of encode.
local function wanted(question, top, dimensions)
  local encode, list = sr.must(sr.encode.open(model, { normalise = false })), {}
  local function unit(vector)
    local sum, own = 0, {}
    for i = 1, dimensions or #vector do sum = sum + vector[i] ^ 2 end
    for i = 1, dimensions or #vector do own[i] = vector[i] / math.sqrt(sum) end
    return own
  end
  local asked = unit(encode:one(question))
  for i, text in ipairs(texts) do
    local score = 0
    for k, x in ipairs(unit(encode:one(text))) do score = score + x * asked[k] end
    list[i] = { score = score, row = i }
  end
  table.sort(list, function(a, b) return a.score > b.score end)
  return table.move(list, 1, top, 1, {})
end

local function same(list, results)
  assert.equal(#list, #results)
  for i, one in ipairs(list) do
    assert.near(one.score, results[i].score, 1e-5)
    assert.equal(texts[results[i].row], results[i].text)
  end
end

it("a question finds the nearest texts of a file of vectors, as among the texts themselves", function()
  local found = json.decode((program.works(search("vectors=" .. vectors, "the river sees", "top=4", "--json"))))
  same(wanted("the river sees", 4), found.results)
  assert.equal(vectors, found.results[1].file)
  local lines = "texts=" .. folder .. "/texts.txt"
  local now = json.decode((program.works(search(lines, "the river sees", "top=4", "--json"))))
  same(wanted("the river sees", 4), now.results)
  found = json.decode((program.works(search("vectors=" .. vectors, "the cat", "top=3", "dimensions=6", "--json"))))
  same(wanted("the cat", 3, 6), found.results)
  local cut = folder .. "/cut.safetensors"
  program.ok { "encode", model, folder .. "/texts.txt", "--out", cut, "--dimensions", "6", "--format", "lines" }
  found = json.decode((program.works(search("vectors=" .. cut, "the cat", "top=3", "--json"))))
  same(wanted("the cat", 3, 6), found.results)
end)

it("questions come from a pipe, and several files are searched", function()
  local both = ("vectors=[%s,%s]"):format(vectors, vectors)
  local out = program.works(program.run({ "recipes/search.lua", "model=" .. model, both, "top=2", "--json" },
    { input = "the cat\nthe dog\n" }))
  local lines = {}
  for line in out:gmatch("[^\n]+") do lines[#lines + 1] = json.decode(line) end
  assert.same({ "the cat", "the dog" }, { lines[1].question, lines[2].question })
  local best = wanted("the dog", 1)[1]
  for i = 1, 2 do assert.near(best.score, lines[2].results[i].score, 1e-5) end
  out = program.works(search("vectors=" .. vectors, "the cat", "top=2"))
  assert.equal(2, select(2, out:gsub("\n", "")))
end)

it("vectors longer than a block are all compared", function()
  local path = folder .. "/many.safetensors"
  local file = assert(require("seqrun.predict.vector_file").open(path, 1024))
  for i = 1, 5000 do -- 20 MB
    assert(file:add(string.pack("<ff", i == 4500 and 0 or 1, 0.75) .. ("\0"):rep(4088), "text " .. i))
  end
  assert(file:commit())
  local source <close> = vector_search.open(path)
  local question = { 0, 2 }
  for i = 3, 1024 do question[i] = 0 end
  local found = vector_search.nearest({ source }, { question }, { top = 3 })[1]
  assert.equal("text 4500", source:text(found[1].row))
  assert.near(1, found[1].score, 1e-6)
end)

it("refuses the vectors of another model, files without texts, and more dimensions than there are", function()
  local other = folder .. "/other"
  program.ok(small.words(folder .. "/corpus.sqr", "--out", other, "--max-steps", "1", "seed=7"))
  local function refused(code, words, ...)
    local _, _, err = program.exits(code, words, program.run { "recipes/search.lua", ... })
    return err
  end
  refused(3, "v.safetensors: the vectors are of another model than ", "model=" .. other, "vectors=" .. vectors, "x")
  refused(3, "no vectors with their texts; `seqrun encode MODEL TEXTS %-%-out ", "model=" .. model,
    "vectors=" .. sr.must(sr.checkpoint.resolve(model)) .. "/model.safetensors", "x")
  refused(2, "give texts, or vectors of", "model=" .. model, "x")
  refused(2, "dimensions=99, but a vector has 16", "model=" .. model, "vectors=" .. vectors, "x", "dimensions=99")
  local short = folder .. "/short.safetensors"
  program.ok { "encode", model, folder .. "/texts.txt", "--out", short, "--dimensions", "4" }
  local both = ("vectors=[%s,%s]"):format(vectors, short)
  refused(2, "have 16 numbers, of .*short.safetensors 4, so .*; add dimensions=4", "model=" .. model, both, "x")
  program.ok { "recipes/search.lua", "model=" .. model, both, "x", "dimensions=4" }
  local bytes = assert(sys.read_file(vectors))
  local broken = program.write(folder, "broken.safetensors", bytes:sub(1, 3000))
  refused(5, "broken.safetensors: cannot be read: it is shorter", "model=" .. model, "vectors=" .. broken, "x")
  fails.exiting(2, "%-%-dimensions 99, but a vector has 16 numbers",
    { "encode", model, folder .. "/texts.txt", "--dimensions", "99" })
end)
