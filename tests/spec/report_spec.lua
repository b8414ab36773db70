-- seqrun report: one page about runs of every kind, whole or damaged, from what is in their directories.

local files = require("tests.support.task_files")
local json = require("seqrun.core.json")
local page = require("seqrun.report.page")
local program = require("tests.support.program")
local small = require("tests.support.small")
local summary = require("seqrun.report.summary")
local sys = require("seqrun.core.sys")

local refuses, works = program.refuses, program.works

local folder, corpus = small.folder()
local first, second = folder .. "/runs/first", folder .. "/runs/second"

local function report(...) return program.run { "report", ... } end

setup(function()
  local function train(...) assert.equal(0, (program.run(small.words(corpus, ...)))) end
  train("--out", first, "--max-steps", "4", "eval.every=1")
  train("--out", first, "--max-steps", "6", "--resume")
  train("--out", second, "--max-steps", "3", "rate.peak=1e-3", "model.num_hidden_layers=3",
    "token_drop.keep=24")
end)

local VOID = { meta = true, br = true }

---Fails unless all elements are closed in order and nothing comes from elsewhere.
local function check_page(text)
  assert.is_nil(text:find("<script", 1, true))
  assert.is_nil(text:find("http", 1, true))
  assert.is_nil(text:find("<[^<>]* src="))
  assert.is_nil(text:find("@import", 1, true))
  assert.is_nil(text:find("%f[%w]nan%f[%W]"))
  assert.is_nil(text:find('"-?inf"'))
  local open = {}
  for closing, name, empty in text:gsub("<style>.-</style>", ""):gmatch("<(/?)([%w]+)[^<>]-(/?)>") do
    if closing == "/" then
      assert.equal(table.remove(open), name)
    elseif empty == "" and not VOID[name] then
      open[#open + 1] = name
    end
  end
  assert.same({}, open)
end

local function holds(text, parts)
  for _, part in ipairs(parts) do assert.truthy(text:find(part, 1, true), part) end
end

---A run directory made by hand.
local function made(name, contents)
  local dir = folder .. "/made/" .. name
  assert(sys.make_dirs(dir))
  for file, content in pairs(contents) do program.write(dir, file, content) end
  return dir
end

local function page_of(...) return page(summary.gather({ ... }, { samples = 0 }), "step") end

describe("a report", function()
  it("has curves, predictions, plan, config, environment and checkpoints of a run", function()
    local out = works(report(first))
    holds(out, { first .. "/report.html" })
    local text = assert(sys.read_file(first .. "/report.html"))
    check_page(text)
    holds(text, {
      "MLM loss", "NSP loss", "Learning rate", "Gradient norm", "tokens / s", "unigram model", "held-out",
      "resumed at step 4", "Predictions", "Slots used", "Packs by number of sequences", "num_hidden_layers",
      "processor", "step-000000006", "finished",
      "prefers-color-scheme: dark", "@media print", "<desc id=", "nats above the unigram model",
    })
  end)

  it("shows several runs in one picture, and the differences of their configs", function()
    local file = folder .. "/both.html"
    local out = works(report(first, second, "--out", file, "--by", "tokens", "--samples", "2"))
    holds(out, { file })
    local text = assert(sys.read_file(file))
    check_page(text)
    holds(text, {
      "2 runs", "first", "second", "rate.peak", "0.003", "0.001", "Differences", "tokens trained on",
      "Tokens kept by middle layers",
    })
    out = works(report(folder .. "/runs", "-o", "-", "--samples", "0", "--by", "effective"))
    holds(out, { "effective tokens" })
    check_page(out)
    holds(out, { "2 runs" })
  end)

  it("gives what it is made of as JSON", function()
    local out = works(report(first, second, "--json"))
    local object = assert(json.decode(out))
    assert.equal(2, #object.runs)
    local run = object.runs[1]
    assert.same({ "first", "finished", 6 }, { run.name, run.state, run.step })
    assert.same({ "mlm", "nsp" }, run.heads)
    assert.same({ 4 }, run.resumed_at)
    assert.equal(run.eval.step, 6)
    assert.equal(1, #run.plans)
    assert.is_true(run.plans[1].packs > 0 and #run.plans[1].depths > 0)
    assert.is_true(#run.samples.items > 0)
    for _, item in ipairs(run.samples.items) do
      assert.equal(5, #item.candidates)
      assert.truthy(item.word:find("^%a+$"))
    end
    local keys = {}
    for _, one in ipairs(object.differences) do keys[one.key] = one.values end
    assert.same({ "0.003", "0.001" }, keys["rate.peak"])
    assert.is_false(sys.exists("report.html"))
  end)

  it("shows what the model of a task gets wrong", function()
    local base = files.encoder(folder .. "/base")
    local wanted = { tokens = "Spans", squad = "Answers", regress = "Worst mistakes", classify = "Confusion matrix" }
    for kind, part in pairs(wanted) do
      local data, out = files.write(folder, kind), folder .. "/tasks/" .. kind
      works(program.run(files.finetune(folder, kind, data, base, "data.query=16", "--quiet", "--max-steps", "2",
        "--out", out)))
      local text = page_of(out)
      check_page(text)
      holds(text, { "<h2>Predictions</h2>", part, "Worst mistakes" })
      if kind == "tokens" then -- the wrong words with their tags, as in the file
        local scores = assert(json.decode(sys.read_file(out .. "/scores.json")))
        local tags, count = {}, 0
        local rows = assert(sys.read_file(data.dev))
        for word, tag in rows:gmatch("(%S+) %S+ (%S+)\n") do tags[word .. " " .. tag] = true end
        for _, mistake in ipairs(scores.heads[1].mistakes) do
          for pair in mistake.label:gmatch("[^,]+") do
            assert.truthy(tags[pair:match("^%s*(.-)$")], pair)
            count = count + 1
          end
          assert.equal(select(2, mistake.label:gsub(",", "")), select(2, mistake.predicted:gsub(",", "")))
        end
        assert.is_true(count > 0)
      end
    end
  end)

  it("shows precision and recall, reliability, the class of F1, and the best value beside the last one", function()
    local function line(step, f1, loss)
      return ('{"type":"eval","step":%d,"f1":%g,"label_loss":%g}\n'):format(step, f1, loss)
    end
    local dir = made("task", {
      ["metrics.jsonl"] = '{"type":"train","step":1,"label_loss":3}\n' .. line(10, 0.5, 0.9) .. line(20, 0.75, 0.4)
        .. line(30, 0.625, 0.4), ["config.yaml"] = "seed: 1\n", ["run.log"] = "",
      ["scores.json"] = '{"heads":[{"kind":"classify","f1_class":"y<s","decide":{"thresholds":[0.25]},"ranked":'
        .. '[{"name":"y<s","average_precision":0.8125,"points":[[0.5,1,0.9],[1,0.5,0.1]]},{"name":"z","points":1}],'
        .. '"calibration":{"bins":[{"confidence":0.2,"accuracy":0.1},{"confidence":0.8,"accuracy":0.9}]}}]}',
    })
    local text = page_of(dir)
    check_page(text)
    holds(text, {
      "<dt>F1</dt><dd>0.625<small>of the class &#39;y&lt;s&#39;; best 0.750 at step 20</small>",
      "<figcaption>Precision and recall</figcaption>", "y&lt;s, average 0.812", "<figcaption>Reliability</figcaption>",
      "F1 and average precision are those of the class &#39;y&lt;s&#39;. Temperature and thresholds were fitted on",
    })
    assert.is_nil(text:find("best 0.400", 1, true)) -- the last is as good
  end)

  it("has means and deviations of runs that differ in their seeds alone", function()
    local function seed(i)
      return made("seeds/seed-" .. i, {
        ["config.yaml"] = "seed: " .. i .. "\n", ["run.log"] = "",
        ["metrics.jsonl"] = '{"type":"eval","step":1,"mlm_loss":' .. 2 + i .. "}\n",
      })
    end
    local note = "scores are not of the same held-out examples or masks: seed differs"
    holds(page_of(seed(1), seed(2), seed(3)), { "mean ± deviation", "4.000 ± 1.000", note })
    assert.is_nil(page_of(first, second):find("± deviation", 1, true))
  end)

  it("compares arms by the metric of --key where evaluations have it, else by the headline", function()
    local dirs = {}
    for i = 1, 4 do
      dirs[i] = made(("keyed/rate.peak=%d/seed-%d"):format(i // 3, i % 2), {
        ["config.yaml"] = ("seed: %d\nrate:\n  peak: %d\n"):format(i % 2, i // 3), ["run.log"] = "",
        ["metrics.jsonl"] = '{"type":"train","step":1,"lr":1}\n'
          .. ('{"type":"eval","step":1,"f1":0.5,"own":%d}\n'):format(i),
      })
    end
    local function compared(key) return program.ok { "compare", "--key", key, table.unpack(dirs) } end
    assert.matches("\narm +seeds +own ± 95 %% .*\nrate.peak=1 +2 +3.5000 ", compared "own")
    assert.matches("\narm +seeds +f1 ± 95 %% ", compared "lr")
  end)

  it("has means of each group of a sweep", function()
    local dirs = {}
    for _, rate in ipairs { "1e-3", "1e-4" } do
      for i = 1, 2 do
        dirs[#dirs + 1] = made(("sweep/rate.peak=%s/seed-%d"):format(rate, i), {
          ["config.yaml"] = ("seed: %d\nrate:\n  peak: %s\n"):format(i, rate), ["run.log"] = "",
          ["metrics.jsonl"] = ('{"type":"eval","step":1,"mlm_loss":%g}\n{"type":"eval","step":2,"mlm_loss":%g}\n'
            .. '{"type":"eval","step":3,"mlm_loss":%g}\n'):format(9 + i, 5 + i, i + 1000 * rate),
        })
      end
    end
    local text = page_of(table.unpack(dirs))
    check_page(text)
    holds(text, { "mean ± deviation, rate.peak=0.001", "2.500 ± 0.707", "mean ± deviation, rate.peak=0.0001",
      "1.600 ± 0.707", "2 seeds", "less the first arm", "-0.9000 ± 0.0000",
      "means over the seeds of an arm", "rate.peak=0.0001, mean over 2 seeds",
      "fill band s2" })
    assert.is_nil(text:find("fill band s3", 1, true)) -- a colour and a band an arm
    for name, class in text:gmatch('<span class="key (s%d)"></span><b>rate.peak=([%d.e-]+)/') do
      assert.equal(class == "1e-3" and "s1" or "s2", name)
    end
  end)

  it("pairs scores with all their digits and signs", function()
    local dirs = {}
    for i, score in ipairs { "-0.1", "-0.2", "0.3004", "0.1" } do
      dirs[i] = made("signs/" .. i, {
        ["config.yaml"] = ("seed: %d\nrate:\n  peak: %d\n"):format(i % 2, i // 3), ["run.log"] = "",
        ["metrics.jsonl"] = '{"type":"eval","step":1,"mlm_loss":1,"pearson":' .. score .. "}\n",
      })
    end
    holds(page_of(table.unpack(dirs)), { "-0.150 ± 0.071", "+0.3502 ± 0.6378" })
  end)

  it("draws evaluations in another style than training", function()
    local text = page_of(first)
    holds(text, { "dash", "dashes with dots are evaluations" })
  end)

  it("escapes names, values and texts", function()
    local dir = made("<img src=x>&\"'", {
      ["metrics.jsonl"] = '{"type":"train","step":1,"loss":2,"</title><b>_loss":2}\n',
      ["config.yaml"] = 'seed: 1\nname: "<script>alert(1)</script>"\n',
      ["scores.json"] = '{"heads":[{"classes":[{"name":"<b>"},{"name":"x"}],"confusion":[[1,2],[3,4]],'
        .. '"mistakes":[{"text":"<i>\\u0001","label":"&","predicted":"<","place":"<a>","badness":1}]}]}',
      ["run.log"] = "", ["ended.json"] = '{"state":"failed","message":"<u></html>"}',
    })
    local text = page_of(dir)
    check_page(text)
    holds(text, { "&lt;script&gt;", "&lt;img src=x&gt;&amp;&quot;&#39;", "&lt;u&gt;" })
  end)

  it("survives runs without lines, with NaN, damaged files and unusual scores", function()
    check_page(page_of(made("empty", { ["metrics.jsonl"] = "" })))
    check_page(page_of(made("one", { ["metrics.jsonl"] = '{"type":"train","step":1,"loss":2,"mlm_loss":2}\n{"type' })))
    local lines = {}
    for step = 1, 200 do
      lines[step] = step % 50 == 0
        and ('{"type":"train","step":%d,"mlm_loss":null,"nonfinite":["mlm_loss"]}'):format(step)
        or ('{"type":"train","step":%d,"mlm_loss":%g,"grad_norm":%g}'):format(step, 300 / step, 10.0 ^ (step % 5))
    end
    local text = page_of(made("broken", {
      ["metrics.jsonl"] = table.concat(lines, "\n"), ["config.yaml"] = "a: [", ["environment.json"] = "[1]",
      ["scores.json"] = '{"heads":[1,{"classes":3,"confusion":[[1],[2]],"mistakes":"x","calibration":{"bins":[1]}}]}',
    }))
    check_page(text)
    holds(text, { "not a finite number", "cannot be read" })
  end)

  it("reports what attached prompts did", function()
    local text = page_of(made("attached", {
      ["metrics.jsonl"] = '{"type":"train","step":1,"mlm_loss":3}\n'
        .. '{"type":"event","event":"rate","step":2,"factor":0.5}\n'
        .. '{"type":"event","event":"<b>","step":2}\n{"type":"train","step":2,"mlm_loss":2}\n',
    }))
    check_page(text)
    holds(text, { "step 2: from here on the rate is the schedule times 0.5", "rate changed from an attached" })
  end)

  it("says why words are not filled in", function()
    sys.remove(folder .. "/moved.sqr")
    assert(os.rename(corpus, folder .. "/moved.sqr"))
    local code, out = report(first, "--json")
    assert(os.rename(folder .. "/moved.sqr", corpus))
    assert.equal(0, code)
    holds(json.decode(out).runs[1].samples.note, { "was not found" })
  end)

  it("refuses what is not a run, too many runs, and a file that cannot be written", function()
    local function refused(exit, part, ...)
      local _, err = refuses(exit, part, report(...))
      assert.equal(1, select(2, err:gsub("\n", "")))
    end
    refused(3, "no such directory", folder .. "/none")
    refused(3, "did you mean '" .. first .. "'", folder .. "/runs/frist")
    refused(3, "is a checkpoint, not a run", first .. "/step-000000006")
    refused(3, "not a run", first .. "/step-000000006/trainer", "--json")
    local other = made("other", { ["notes.txt"] = "x" })
    refused(3, "not a run", other)
    works(report(other, first, "-o", folder .. "/one.html")) -- of several, as of runs/*
    refused(5, "", first, "-o", folder .. "/no/such/place.html")
    refused(2, "not an HTML page", first, "-o", first .. "/config.yaml")
    refused(2, "not an HTML page", first, "-o", corpus)
    local many = { "-o", folder .. "/many.html" }
    for i = 1, 13 do many[#many + 1] = made("many/" .. i, { ["metrics.jsonl"] = "" }) end
    refused(2, "13 runs are too many", table.unpack(many))
  end)
end)
