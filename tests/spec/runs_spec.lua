-- The commands about several runs: the table of runs, and their comparison.

local curves = require("seqrun.draw.curves")
local grid = require("seqrun.draw.grid")
local json = require("seqrun.core.json")
local overview = require("seqrun.history.overview")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local refuses, works = program.refuses, program.works

local folder

---A run directory made by hand.
---@param t { lines?: table[], ended?: table, config?: string, log?: string }
local function made(name, t)
  local dir, lines = folder .. "/" .. name, {}
  assert(sys.make_dirs(dir))
  for i, line in ipairs(t.lines or {}) do lines[i] = json.encode(line) .. "\n" end
  program.write(dir, "metrics.jsonl", table.concat(lines))
  program.write(dir, "config.yaml", t.config or "seed: 1\n")
  program.write(dir, "run.log", t.log or "")
  if t.ended then program.write(dir, "ended.json", json.encode(t.ended)) end
  return dir
end

local function lines_of(losses, more)
  local lines = {}
  for i, loss in ipairs(losses) do
    lines[i] = {
      type = "train", step = 10 * i, loss = loss, seconds = 2.0 * i, real_tokens_per_s = 1000.0 + i,
      real_tokens = 2000 * i, sequences = 30 * i, efficiency = 0.9, lr = 1e-3,
    }
  end
  for _, line in ipairs(more or {}) do lines[#lines + 1] = line end
  return lines
end

setup(function()
  folder = program.folder()
  made("a/first", {
    lines = lines_of({ 7.5, 6.5, 6.25 }, { { type = "eval", step = 30, mlm_loss = 6.125, unigram_loss = 6.5 } }),
    ended = { state = "finished", step = 30 }, log = "step 30/30  loss 6.25\n",
    config = "seed: 1\nrate:\n  peak: 0.001\n  warmup: 20\ndata:\n  file: x.sqr\n",
  })
  made("a/second", {
    lines = lines_of({ 7.5, 6.0 }, { { type = "eval", step = 20, mlm_loss = 5.875, unigram_loss = 6.5 } }),
    ended = { state = "failed", step = 20, message = "the loss is NaN" }, log = "step 20/30\n",
    config = "seed: 1\nrate:\n  peak: 0.01\n  warmup: 20\ndata:\n  file: x.sqr\n",
  })
  made("b", { lines = {}, ended = { state = "stopped", step = 0, message = "stopped by signal INT" } })
end)

describe("the command runs", function()
  it("lists runs with state, step, loss, speed and age", function()
    local out = works(program.run { "runs", folder, "--sort", "name" })
    local rows = {}
    for line in out:gmatch("[^\n]+") do rows[#rows + 1] = line end
    assert.matches("^run +state +step +loss +held%-out +tokens/s +trained +age$", rows[1])
    assert.matches("^a/first +finished +30/30 +6.250 +mlm loss 6.125 +1.00k +6.0s +%d", rows[2])
    assert.matches("^a/second +failed +20/30 +6.000 +mlm loss 5.875 ", rows[3])
    assert.matches("^b +stopped +0 +%- ", rows[4])
    assert.equal("failed: a/second: the loss is NaN", rows[5])
  end)

  it("selects by state, sorts by loss, and shows a living run", function()
    local words = { "runs", folder, "--state", "failed", "--state", "finished", "--sort", "loss", "--json" }
    local _, out = program.run(words)
    local list = json.decode(out).runs
    assert.same({ 2, folder .. "/a/second", "failed", "the loss is NaN", 20, 30, 6.0 }, {
      #list, list[1].path, list[1].state, list[1].reason, list[1].step, list[1].steps, list[1].loss,
    })
    assert.same({ { name = "mlm_loss", value = 6.125 }, 1002.0, 6.0, 90, 6000 }, {
      list[2].held, list[2].real_tokens_per_s, list[2].seconds, list[2].sequences, list[2].real_tokens,
    })
    local lock <close> = assert(train.run_dir(folder .. "/b"))
    assert.matches("\nb +running ", select(2, program.run { "runs", folder }))
    lock:close()
  end)

  it("says that there are none, and guesses a mistyped directory", function()
    local empty = folder .. "/empty"
    assert(sys.make_dirs(empty))
    local code, out = program.run { "runs", empty, "--state", "running" }
    assert.same({ 0, ("no running runs at or below %s\n"):format(empty) }, { code, out })
    assert.same({ 0, '{"runs":[]}\n', "" }, { program.run { "runs", empty, "--json" } })
    refuses(3, "emty: no such directory; did you mean '.*/empty'", program.run { "runs", folder .. "/emty" })
    assert.equal(2, (program.run { "runs", folder, "--state", "done" }))
  end)
end)

describe("the command runs selects", function()
  local function runs(...)
    local code, out, err = program.run { "runs", folder .. "/a", ... }
    return out, code, err
  end
  local function names(condition, ...)
    local found = {}
    for line in runs("--where", condition, "--columns", "state", "--format", "csv", ...):gmatch("[^\n]+") do
      found[#found + 1] = line:match("^[^,]*")
    end
    table.remove(found, 1)
    return table.concat(found, " ")
  end

  it("by conditions on keys, states and metrics", function()
    assert.equal("first", names("rate.peak<1e-2"))
    assert.equal("first second", names("rate.peak<=1e-2", "--sort", "name"))
    assert.equal("second", names("best.mlm_loss < 6 and last.unigram_loss=6.5"))
    assert.equal("first", names("not (state=failed or loss > 7)"))
    assert.equal("first second", names("data.file~x.sqr", "--sort", "run"))
    assert.equal("second", names("state != 'finished' and rate.warmup"))
    assert.equal("first second", names("age<7d and not seconds>1h30m", "--sort", "name"))
    assert.equal("second first", names("step>0", "--sort", "best.mlm_loss"))
    assert.equal("first second", names("step>0", "--sort", "best.mlm_loss", "--reverse"))
    assert.equal("second first", names("step>0", "--sort", "rate.peak", "--reverse"))
  end)

  it("and shows columns as a table, CSV, Markdown or JSON", function()
    local words = { "--columns", "rate.peak,best.mlm_loss,data.file", "--sort", "name" }
    local out = runs(table.unpack(words))
    assert.matches("^run +rate.peak +best.mlm_loss +data.file\nfirst +0.001 +6.125 +x.sqr\n", out)
    local function in_format(format)
      words[5], words[6] = "--format", format
      return runs(table.unpack(words))
    end
    assert.equal("run,rate.peak,best.mlm_loss,data.file\nfirst,0.001,6.125,x.sqr\nsecond,0.01,5.875,x.sqr\n",
      in_format("csv"))
    assert.matches("^| run | rate.peak | best.mlm_loss | data.file |\n|%-%-%-|%-%-%-|%-%-%-|%-%-%-|\n| first | 0.001 |",
      in_format("markdown"))
    local first = { path = folder .. "/a/first", ["rate.peak"] = 0.001, ["best.mlm_loss"] = 6.125 }
    first["data.file"] = "x.sqr"
    assert.same(first, json.decode(in_format("json")).runs[1])
    assert.matches("^| run | state | step |", runs("--format", "markdown"))
    assert.matches("^run,state,step,steps,loss,held,", runs("--format", "csv"))
  end)

  it("and says what it does not understand", function()
    local function problem(...)
      local out, code, err = runs(...)
      assert.same({ "", 2 }, { out, code })
      return err
    end
    assert.matches("no run has 'rate.peek'; did you mean 'rate.peak'%?", problem("--where", "rate.peek<1"))
    assert.matches("no run has 'best.mlm_los'; did you mean 'best.mlm_loss'%?", problem("--sort", "best.mlm_los"))
    assert.matches("%-%-where: age is a number of seconds or a time such as 7d, not 'x'", problem("--where", "age<x"))
    assert.matches("%-%-where: best.f1 is a number, not '0,8'", problem("--where", "best.f1>0,8"))
    assert.matches("expected a value after step<, got the end", problem("--where", "step<"))
    assert.matches("expected a closing %), got the end", problem("--where", "(step<1"))
    assert.matches("expected and, or, or the end, got 'x'", problem("--where", "step<1 x"))
    assert.matches("expected a name, .*, got '<'", problem("--where", "<1"))
    assert.matches("the quote at character 7 is not closed", problem("--where", "state='a"))
  end)
end)

describe("the command compare", function()
  it("puts scores, speeds and what differs side by side, and draws curves", function()
    local out = works(program.run { "compare", folder .. "/a/first", folder .. "/a/second" })
    assert.matches("^ +first +second\nstate +finished +failed\nstep +30 +20\ntrain loss +6.2500 +6.0000\n", out)
    assert.matches("\nheld%-out mlm loss +6.1250 +5.8750\nheld%-out unigram loss +6.5000 +6.5000\n", out)
    assert.matches("\ntokens/s +1.00k +1.00k\n  of the first's +1.00 +1.00\n", out)
    assert.matches("\nwhat differs\n +first +second\nrate.peak +0.001 +0.01\n\n", out)
    local _, other = program.run { "compare", folder }
    assert.matches("\nrate.peak +0.001 +0.01 +%-\n2 keys that only some of the runs have; %-%-all lists them\n", other)
    assert.matches("\nrate.warmup +20 +20 +%-\n", select(2, program.run { "compare", folder, "--all" }))
    assert.matches("loss by step\n", out)
    assert.matches(" +7.5 │[ab]", out)
    assert.matches("\n +a  first\n +b  second\n$", out)
    for line in out:gmatch("[^\n]+") do assert.is_true(utf8.len(line) <= 100, line) end
    assert.is_nil(out:find("\27"))
  end)

  it("writes its figures as CSV and Markdown", function()
    local out = works(program.run { "compare", folder .. "/a/first", folder .. "/a/second", "--format", "csv" })
    assert.matches("^,first,second\nstate,finished,failed\nstep,30,20\ntrain loss,6.2500,6.0000\n", out)
    assert.matches("\nrate.peak,0.001,0.01\n", out)
    out = select(2, program.run { "compare", folder .. "/a/first", folder .. "/a/second", "--format", "markdown" })
    assert.matches("^|  | first | second |\n|%-%-%-|%-%-%-|%-%-%-|\n| state | finished | failed |\n", out)
  end)

  it("takes all runs below a directory, and leaves out what is no run", function()
    local out = works(program.run { "compare", folder, folder .. "/empty", "--json" })
    local told = json.decode(out)
    assert.same({ 3, "finished", 6.125 }, { #told.runs, told.runs[1].state, told.runs[1].metrics.mlm_loss })
    local keys = {}
    for i, difference in ipairs(told.differences) do keys[i] = difference.key end
    assert.same({ "rate.peak", "rate.warmup", "data.file" }, keys)
    assert.same({ "0.001", "0.01", json.null }, { table.unpack(told.differences[1].values) })
    assert.matches("not of the same held%-out examples or masks: data.file differs", told.notes[1])
  end)

  it("compares scores on one fixed file, whatever else differs", function()
    local function notes(name, first, second)
      local dirs = {}
      for i, config in ipairs { first, second } do
        dirs[i] = made(("dev/%s-%d"):format(name, i), { lines = lines_of { 8 }, config = config })
      end
      return json.decode(select(2, program.run { "compare", dirs[1], dirs[2], "--json" })).notes
    end
    local one = "seed: 1\ndata:\n  dev: [dev.csv]\n  train: [a.csv]\n  max_len: 32\n"
    assert.same({}, notes("same", one, "seed: 2\ndata:\n  dev: [dev.csv]\n  train: [b.csv]\n  max_len: 32\n"))
    assert.matches("data.dev differs", notes("other", one, (one:gsub("dev.csv", "test.csv")))[1])
    assert.matches("data.max_len differs", notes("longer", one, (one:gsub("32", "64")))[1])
    local held = "seed: 1\ndata:\n  train: [a.csv]\n  held: 0.1\n"
    assert.matches("seed differs", notes("held", held, (held:gsub("seed: 1", "seed: 2")))[1])
  end)

  it("reports the step at which a run ended, also between two lines", function()
    local dir = made("ended", { lines = lines_of { 8 }, ended = { state = "stopped", step = 12 } })
    assert.equal(12, json.decode(select(2, program.run { "runs", dir, "--json" })).runs[1].step)
    program.write(dir, "ended.json", '{"state":"<b>x</b>"}')
    assert.not_equal("<b>x</b>", json.decode(select(2, program.run { "runs", dir, "--json" })).runs[1].state)
    program.write(dir, "ended.json", '{"state":"stopped","step":"many"}')
    assert.equal(10, json.decode(select(2, program.run { "runs", dir, "--json" })).runs[1].step)
    sys.remove(dir)
  end)

  it("reports why scores are not comparable", function()
    local function notes(...)
      local _, out = program.run { "compare", "--json", ... }
      return json.decode(out).notes
    end
    local function scored(name, config, unigram)
      local line = { type = "eval", step = 20, mlm_loss = 6.5, unigram_loss = unigram }
      return made("notes/" .. name, { lines = lines_of({ 8, 7 }, { line }), config = config })
    end
    local one, same = scored("one", "seed: 1\n", 6.25), scored("same", "seed: 1\n", 6.25)
    assert.same({}, notes(one, same))
    assert.matches("seed differs", notes(one, scored("other", "seed: 2\n", 6.5))[1])
    assert.matches("the data set has changed", notes(one, scored("changed", "seed: 1\n", 6.5))[1])
    sys.remove(folder .. "/notes")
  end)

  it("groups runs that differ in their seeds alone, and pairs arms by seed", function()
    local dirs, losses = {}, { ["1e-3"] = { 6.5, 6.75, 6.25 }, ["1e-2"] = { 6.25, 6.5 } }
    for _, rate in ipairs { "1e-3", "1e-2" } do
      for seed, loss in ipairs(losses[rate]) do
        dirs[#dirs + 1] = made(("arms/%s-%d"):format(rate, seed), {
          lines = lines_of({ 8 }, { { type = "eval", step = 10, mlm_loss = loss } }),
          config = ("seed: %d\nrate:\n  peak: %s\n"):format(seed, rate),
        })
      end
    end
    local _, out = program.run { "compare", "--json", table.unpack(dirs) }
    local arms = json.decode(out).arms
    assert.same({ { 1, 2, 3 }, { 4, 5 } }, { arms[1].runs, arms[2].runs })
    assert.same({ 6.5, 6.375 }, { arms[1].mean, arms[2].mean })
    assert.same({ mean = -0.25, deviation = 0, half = 0, count = 2 }, arms[2].less_first) -- where both have the seed
    dirs[6] = made("arms/unscored", { lines = lines_of({ 8 }, {}), config = "seed: 3\nrate:\n  peak: 1e-2\n" })
    assert.matches("\nrate.peak=0.01 +2 +6.3750 ± %d.%d+ +%-0.2500 ± 0.0000\n", works(program.run { "compare",
      table.unpack(dirs) }))
    _, out = program.run { "compare", "--json", dirs[1], dirs[4] }
    assert.same({}, json.decode(out).arms)
    sys.remove(folder .. "/arms")
  end)

  it("compares scores at equal effective tokens, raw tokens and steps, as far as both runs went", function()
    local function scored(name, per_step)
      local evals = {}
      for i, loss in ipairs(per_step.losses) do
        evals[i] = { type = "eval", step = 10 * i, mlm_loss = loss, raw_tokens = 1000 * i,
          effective_tokens = per_step.effective * i }
      end
      return made("even/" .. name, { lines = lines_of({ 8, 7 }, evals) })
    end
    local base = scored("base", { losses = { 8, 7, 6 }, effective = 1000 })
    local half = scored("half", { losses = { 8, 7.5, 7, 6.5 }, effective = 500 })
    local told = json.decode(select(2, program.run { "compare", base, half, "--json" }))
    assert.same({ effective_tokens = -0.5, raw_tokens = 1.0, step = 1.0 }, told.runs[2].beside_first)
    assert.is_nil(told.runs[1].beside_first)
    local _, out = program.run { "compare", base, half, "--held-out", "--by", "effective" }
    assert.matches("\nmlm loss less the first's *\n  at equal effective tokens +%- +%-0.5000\n"
      .. "  at equal raw tokens +%- +%+1.0000\n  at equal steps +%- +%+1.0000\n", out)
    assert.matches("held%-out mlm loss by effective\n", out)
    sys.remove(folder .. "/even")
  end)

  it("draws any metric by steps, seconds or tokens", function()
    local function picture(...) return select(2, program.run { "compare", folder .. "/a", ... }) end
    assert.matches("held%-out mlm loss by step\n", picture("--held-out"))
    assert.matches("lr by tokens\n", picture("--key", "lr", "--by", "tokens"))
  end)

  it("guesses mistyped names, and wants two runs", function()
    local function refused(code, pattern, ...)
      return select(2, refuses(code, pattern, program.run { "compare", ... }))
    end
    refused(2, "no run has 'mlm_los' by step; did you mean 'mlm_loss'", folder .. "/a", "--key", "mlm_los")
    local listed = refused(2, "", folder .. "/a", "--key", "zzz")
    local seen = {}
    for name in listed:match("choose (.*)"):gmatch("[%w_]+") do
      assert.is_nil(seen[name], name)
      seen[name] = true
    end
    refused(3, "no such directory; did you mean '.*/second'", folder .. "/a/first", folder .. "/a/secnd")
    refused(2, "one run, .*/a/first; add another", folder .. "/a/first", folder .. "/a/first/")
    refused(3, "", folder .. "/empty")
    refused(2, "", folder .. "/a", "--by", "tokns")
  end)
end)

describe("curves", function()
  local one = { name = "one", xs = { 0, 1, 2, 3 }, ys = { 1, 2, 0 / 0, 4 } }
  local two = { name = "two", xs = { 0, 3 }, ys = { 4, 1 } }

  it("are letters without colours, and colours with them", function()
    local text = curves.draw({ one, two }, { width = 40, height = 4, colours = false })
    assert.matches("a", text)
    assert.matches("b", text)
    assert.is_nil(text:find("\27"))
    local coloured = curves.draw({ one, two }, { width = 40, height = 4, colours = true })
    assert.equal(2, select(2, coloured:gsub("\27%[%d+m──", "")))
    local function count(s) return utf8.len((s:gsub("\27%[%d*m", ""))) end
    for line in coloured:gmatch("[^\n]+") do assert.is_true(count(line) <= 40) end
  end)

  it("average by place: points that are dense at the end do not move those at the beginning", function()
    local dense = { name = "dense", xs = {}, ys = {} }
    for i = 1, 1000 do dense.xs[i], dense.ys[i] = i < 11 and 10 * i or 100 + i / 10, i < 11 and 9 or 1 end
    local text = curves.draw({ dense }, { width = 60, height = 4 })
    assert.matches("\n +10 +200\n?$", text)
  end)

  it("are averaged when there are too many points, and leave out what is far above the others", function()
    local many = { name = "many", xs = {}, ys = {} }
    for i = 1, 5000 do many.xs[i], many.ys[i] = i, i < 3 and 1e6 or 5 + i % 2 end
    local text = curves.draw({ many }, { width = 60, height = 4, title = "t" })
    assert.matches("t %(up to ", text)
    assert.matches("\n +5%.[0-9]+ │", text)
    assert.is_nil(curves.draw({ { name = "none", xs = { 1 }, ys = { 0 / 0 } } }, {}))
    assert.is_nil(curves.draw({ { name = "none", xs = { 1 }, ys = { -1 } } }, { log = true }))
  end)
end)

it("a path that is mistyped gets a guess from every command that takes a run", function()
  for _, words in ipairs {
    { "info" }, { "eval", "x.csv" }, { "predict" }, { "encode" }, { "fill", "-t", "[MASK]" },
    { "export", folder .. "/o" }, { "runs" }, { "compare" },
  } do
    table.insert(words, 2, folder .. "/a/frist")
    refuses(3, "did you mean '.*/a/first'", program.run(words))
  end
end)

it("an overview takes the figure of an evaluation that says most", function()
  local function name(line, best) return (overview.headline(line, best) or {}).name end
  assert.same({ name = "f1", value = 0.5, accuracy = 0.75 },
    overview.headline { f1 = 0.5, f1_macro = 0.6, accuracy = 0.75, label_loss = 0.4 })
  assert.same({ name = "f1", value = 0.5 }, overview.headline { f1 = 0.5, accuracy = 0.75 }) -- of spans of tokens
  assert.equal("mlm_loss", name { step = 1, mlm_loss = 2, nsp_loss = 1, nsp_accuracy = 0.5 })
  assert.equal("f1", name { accuracy = 0.5, f1 = 0.4, label_loss = 1 })
  assert.equal("accuracy", name({ accuracy = 0.5, f1 = 0.4 }, "accuracy"))
  assert.equal("own_loss", name { own_loss = 0.5 })
  assert.is_nil(name { step = 3 })
  assert.equal(2, overview.median({ { x = 9 }, { x = 1 }, { x = 2 }, { y = 3 } }, "x"))
end)

it("a grid aligns characters, and cuts to the width", function()
  local rows = { { "name", "x" }, { "é", "1.5" }, { "a/very/long/path", "10" } }
  assert.same({ "name                x", "é                 1.5", "a/very/long/path   10" },
    grid.lines(rows, { left = { true }, columns = 80 }))
  local narrow = grid.lines(rows, { left = { true }, cut = { true }, tail = { true }, columns = 18 })
  assert.same({ "name            x", "é             1.5", "...long/path   10" }, { narrow[1], narrow[2], narrow[3] })
  local remarked = { { "", "n", "why" }, { "one", "1", "the first of them" }, { "two", "2", "" } }
  assert.same({ "     n  why", "one  1  the first of them", "two  2" },
    grid.remarks(remarked, { left = { true }, columns = 80 }))
  assert.same({ "     n", "one  1", "      the first of\n        them", "two  2" },
    grid.remarks(remarked, { left = { true }, columns = 21 }))
  assert.same({ "wö...", "...hr", "abc" }, { grid.cut("wörter", 5), grid.tail("sehr mehr", 5), grid.cut("abc", 3) })
end)
