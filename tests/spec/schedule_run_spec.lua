-- Runs whose rate, batch and masks follow schedules by steps and by tokens; stopped and resumed they are the same.

local program = require("tests.support.program")
local small = require("tests.support.small")

local exits, works = program.exits, program.works

local STEPS = 12

local folder, corpus = small.folder()

local function start(out, ...)
  local words = small.words(corpus, "--out", folder .. "/" .. out, "threads=1", ...)
  words[1] = "recipes/curriculum.lua"
  return program.run(words)
end

local function run(out, ...)
  works(start(out, ...))
end

local function facts(out) return { small.weights(folder .. "/" .. out, STEPS), small.metrics(folder .. "/" .. out) } end

---The values of a key in the lines of a run.
local function column(out, key)
  local list = {}
  for i, line in ipairs(small.metrics(folder .. "/" .. out)) do list[i] = line[key] end
  return list
end

---Runs once straight and once in two parts; returns the name of the straight one.
local function check_resume(name, ...)
  run(name, "--max-steps", tostring(STEPS), ...)
  run(name .. "_two", "--max-steps", "7", ...)
  run(name .. "_two", "--max-steps", tostring(STEPS), "--resume", ...)
  assert.same(facts(name), facts(name .. "_two"))
  return name
end

it("a run of packs ends with the update by which the schedule has had its sequences", function()
  local sr, task_model = require("seqrun"), require("tests.support.task_model")
  local lines, words, steps = {}, task_model.words(), {}
  for i = 1, 400 do
    lines[i] = ("%s %s %s"):format(words[i % #words + 1], words[i * 7 % #words + 1], i % 25 == 0 and "\n" or "the")
  end
  local out = folder .. "/short.sqr"
  sr.must(sr.data.prepare { inputs = { program.write(folder, "short.txt", table.concat(lines, "\n")) }, out = out,
    vocab = task_model.VOCAB, format = "lines" })
  for seed = 1, 4 do
    local path = folder .. "/short" .. seed
    local run_of = { "--out", path, "rate.total=20", "rate.warmup=2", "batch.sequences=8", "batch.by=packs",
      "data.max_len=64", "data.short_seq_prob=0.5", "seed=" .. seed, "log.every=1" }
    works(program.run(small.words(out, table.unpack(run_of))))
    local log = sr.must(require("seqrun.core.sys").read_file(path .. "/run.log"))
    assert.is_nil(log:find("stopping", 1, true))
    local sequences, rates = {}, {}
    for i, line in ipairs(small.metrics(path)) do sequences[i], rates[i] = line.sequences, line.lr end
    local last = #sequences
    assert.is_true(sequences[last] >= 160 and sequences[last - 1] < 160, table.concat(sequences, " "))
    assert.is_true(rates[last - 1] > 0)
    steps[last] = true
    run_of[#run_of + 1] = "--resume"
    works(program.run(small.words(out, table.unpack(run_of))))
    log = sr.must(require("seqrun.core.sys").read_file(path .. "/run.log"))
    assert.matches(("step %d is the last, so nothing is trained"):format(last), log)
  end
  assert.is_truthy(next(steps, (next(steps)))) -- they differ
end)

describe("a run on schedules", function()
  it("is constant after the warmup and ends by one minus a square root, by steps", function()
    local out = check_resume("steps", "rate.decay=1-sqrt", "rate.total=12", "rate.last=6", "rate.floor=3e-6",
      "batch.by=sequences")
    local rates = column(out, "lr")
    assert.is_true(math.abs(rates[2] - 2e-3) < 1e-12 and math.abs(rates[6] - 3e-3) < 1e-12, rates[6])
    assert.is_true(math.abs(rates[9] - (3e-6 + (3e-3 - 3e-6) * (1 - math.sqrt(0.5)))) < 1e-9, rates[9])
    assert.is_true(math.abs(rates[12] - 3e-6) < 1e-12, rates[12])
  end)

  it("takes rate, size of the batch and share of masks from tokens", function()
    local out = check_resume("tokens", "rate.by=real_tokens", "rate.warmup_by=real_tokens", "rate.warmup=300",
      "rate.total=1e6", "rate.last=5e5", "rate.decay=cosine", "batch.ramp.type=proportional", "batch.ramp.min=4",
      "batch.ramp.max=8", "batch.ramp.total=2000", "batch.ramp.by=real_tokens", "mask.rate.min=0.15",
      "mask.rate.max=0.3", "mask.rate.total=3000", "mask.rate.down=true",
      "mask.rate.by=real_tokens", "curriculum.window=1")
    local sequences, before, sizes = column(out, "sequences"), 0, {}
    for i, all in ipairs(sequences) do sizes[i], before = all - before, all end
    assert.equal(4, sizes[1])
    assert.equal(8, sizes[STEPS])
    for i = 2, STEPS do assert.is_true(sizes[i] >= sizes[i - 1]) end
  end)

  it("follows a cosine and an inverse square root, with a linear end", function()
    local out = check_resume("inverse", "rate.decay=cosine_inverse_sqrt", "rate.cosine=3", "rate.bend=0.2",
      "rate.total=12", "rate.last=4", "batch.by=sequences")
    local rates = column(out, "lr")
    assert.is_true(math.abs(rates[6] - 3e-3 * 0.6) < 1e-12, rates[6]) -- 3 steps of warmup, 3 of the cosine
    assert.is_true(math.abs(rates[10] - rates[8] / 2) < 1e-9 and rates[12] == 0)
  end)

  it("is refused in a sentence where its keys contradict each other", function()
    for words, keys in pairs {
      ["rate.decay=poly has none: choose linear"] = { "rate.last=5" },
      ["the length of its cosine, belong together"] = { "rate.decay=cosine_inverse_sqrt" },
      ["rate.power applies to rate.decay=poly by steps only"] = { "rate.decay=cosine", "rate.power=2" },
      ["rate.decay_from=start applies to rate.decay=poly"] = { "rate.decay=linear", "rate.decay_from=start" },
      ["exceed the 40 steps of rate.total"] = { "rate.decay=linear", "rate.last=38" },
      ["needs rate.warmup_by equal to rate.by"] = {
        "rate.decay=cosine_inverse_sqrt", "rate.cosine=9", "rate.by=real_tokens" },
      ["differ by no multiple of quantum 3"] = {
        "batch.ramp.type=proportional", "batch.ramp.min=4", "batch.ramp.max=8", "batch.ramp.total=9",
        "batch.ramp.quantum=3" },
    } do
      local out, err = exits(2, "", start("refused", table.unpack(keys)))
      assert.is_truthy((out .. err):find(words, 1, true), out .. err)
    end
  end)
end)
