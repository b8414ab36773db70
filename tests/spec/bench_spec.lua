-- Benchmarks that compare with another system: the same work for both, in turns, and ratios of their times.

local fails = require("tests.support.fails")
local program = require("tests.support.program")

local folder = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../"
local MODEL = folder .. "tests/data/model/tiny"

---A stand-in for Python: keeps its first file and its questions, and answers 1000 seconds.
local function stand_in(home)
  local path = program.write(home, "python", ("#!/bin/sh\ncp \"$2\" %s/input\necho a stand-in\n"
    .. "while read line; do echo \"$line\" >> %s/questions; echo 1000; done\n"):format(home, home))
  assert(os.execute("chmod +x " .. path))
  return path
end

local function lines_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

local function ratio(out, how) return tonumber(out:match("\n" .. how .. " .- ([%d.]+) times")) end

describe("a benchmark beside another system", function()
  it("fine-tunes on the same updates, in turns", function()
    local home, rows = program.folder(), {}
    for i = 1, 12 do rows[i] = ("the cat %s\t%d"):format(("is here "):rep(i), i % 2) end
    local train = program.write(home, "train.tsv", table.concat(rows, "\n") .. "\n")
    local out = program.ok {
      folder .. "recipes/bench/finetune.lua", "train=" .. train, "init=" .. MODEL, "sequences=4", "updates=2",
      "turns=2", "threads=1", "max_len=32", "python=" .. stand_in(home),
    }
    assert.same({ "longest 0 2", "full 0 2", "longest 2 4", "full 2 4" }, lines_of(home .. "/questions"))
    local updates = lines_of(home .. "/input")
    assert.equal(4, #updates)
    for _, update in ipairs(updates) do assert.equal(4, select(2, update:gsub('"label":[01]', ""))) end
    assert.is_true(ratio(out, "longest") > 1 and ratio(out, "full") > 1, out)
    assert.is_truthy(out:find("an update of packed: [%d.]+ tokens; "), out)
  end)

  it("encodes and predicts the same lines, in turns", function()
    local home, list = program.folder(), {}
    for i = 1, 8 do list[i] = ("the cat is here "):rep(i) end
    local input = program.write(home, "lines.txt", table.concat(list, "\n") .. "\n")
    for _, verb in ipairs { "encode", "predict" } do
      os.remove(home .. "/questions")
      local out = program.ok {
        folder .. "recipes/bench/predict.lua", "input=" .. input, "init=" .. MODEL, "lines=4", "turns=2", "threads=1",
        "max_len=32", "verb=" .. verb, "python=" .. stand_in(home),
      }
      assert.same({ "sorted 0 4", "unsorted 0 4", "sorted 4 8", "unsorted 4 8" }, lines_of(home .. "/questions"))
      assert.is_true(ratio(out, "sorted") > 1 and ratio(out, "unsorted") > 1, out)
      assert.is_truthy(out:find("19.8 tokens per line", 1, true), out)
    end
  end)

  it("says what it needs, and whether the other system failed", function()
    for _, name in ipairs { "finetune", "predict" } do
      local out = program.ok { folder .. "recipes/bench/" .. name .. ".lua" }
      assert.is_truthy(out:find("nothing to measure: give ", 1, true), out)
    end
    local input = program.write(program.folder(), "lines.txt", "the cat\n")
    local words = { folder .. "recipes/bench/predict.lua", "input=" .. input, "init=" .. MODEL, "lines=1", "turns=1" }
    words[#words + 1] = "python=false"
    fails.exiting(1, "predict.py did not start; see its message above", words)
  end)
end)
