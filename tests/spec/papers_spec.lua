-- The experiments in recipes/papers: a rehearsal of each; with LONG=1 what they share and their arithmetic by hand.

package.path = "recipes/papers/?.lua;recipes/bench/?.lua;" .. package.path

local advise = require("seqrun.advise")
local arms = require("saving_arms")
local claims = require("recommend_claims")
local experiment = require("experiment")
local fit = require("scaling_fit")
local program = require("tests.support.program")
local report = require("saving_report")
local small = require("tests.support.small")
local study_best = require("recommend_best")
local sys = require("seqrun.core.sys")

local exits, works = program.exits, program.works

local folder, corpus = small.folder(700)

local function run(name, ...)
  local out = works(program.run { "recipes/papers/" .. name .. ".lua", ... })
  return out
end

describe("experiments #long", function()
  it("show a mean with its 95 % interval, and values between the points of a curve", function()
    assert.equal("2.00 ± 2.48", experiment.shown({ 1, 2, 3 }, "%.2f")) -- 4.303 sqrt(1 / 3)
    assert.equal("+5.0", experiment.shown({ 5 }, "%+.1f"))
    assert.equal("-", experiment.shown({}, "%.2f"))
    local all = { only = "", planned = 3 }
    assert.equal("shown", experiment.verdict(all, { 3, 4, 5 }, "%+.2f"))
    assert.equal("cannot tell; below -0.48 and above +4.48 are excluded; 4 seeds would tell",
      experiment.verdict(all, { 1, 2, 3 }, "%+.2f")) -- 3.182 / 2 < 2
    assert.equal("3 seeds could find 3.51", experiment.verdict({ only = "pilot", planned = 3 }, { 1, 3 }, "%+.2f"))
    assert.equal("one seed: no interval", experiment.verdict(all, { 1 }, "%+.2f"))
    assert.equal("equal", experiment.verdict(all, { 0, 0, 0 }, "%+.2f"))
    local curve = { { x = 10, loss = 6 }, { x = 20, loss = 4 }, { x = 30, loss = 3 } }
    assert.equal(5, experiment.value_at(curve, "x", "loss", 15))
    assert.is_nil(experiment.value_at(curve, "x", "loss", 31))
    assert.equal(25, experiment.reaches(curve, "x", "loss", 3.5))
    assert.equal(10, experiment.reaches(curve, "x", "loss", 7))
    assert.is_nil(experiment.reaches(curve, "x", "loss", 2))
  end)

  it("know the processor time of a step between two lines of metrics", function()
    local lines = {}
    local function add(text) lines[#lines + 1] = text end
    for _, line in ipairs { { 10, 100 }, { 20, 300 } } do
      add(('{"type":"train","step":%d,"cpu_ms":%d}'):format(line[1], line[2]))
      add(('{"type":"eval","step":%d,"mlm_loss":5}'):format(line[1] + 5))
    end
    assert(sys.make_dirs(folder .. "/timed"))
    program.write(folder, "timed/metrics.jsonl", table.concat(lines, "\n") .. "\n")
    local curve = experiment.curve(folder .. "/timed")
    assert.near(1 + 5 * 0.3, curve[1].train_seconds, 1e-9) -- 10 steps of 0.1 s, 5 of 0.3
    assert.near(1 + 10 * 0.3 + 5 * 0.3, curve[2].train_seconds, 1e-9) -- after the last line: as in it
  end)

  it("draw the same sequences for a causal model as for a masked one", function()
    local sr = require("seqrun")
    local schema, rules = sr.run.schema(sr.tasks.causal)
    local cfg = sr.must(require("seqrun.config").load { schema = schema, rules = rules, arguments = {
      "data.file=" .. corpus, "data.max_len=48", "rate.peak=1", "rate.total=1",
    } }).values
    local options = sr.tasks.causal.loader_options(cfg, sr.must(sr.data.open(corpus, { held = 0 })), "train")
    assert.same({ 0, false }, { options.short_seq_prob, options.nsp })
  end)

  it("join the sequences of a pack, and no others", function()
    local sr, packs = require("seqrun"), require("equivalence_packs")
    local options = { data = sr.must(sr.data.open(corpus, { held = 0 })), max_len = 64, by = "sequences",
      sequences = 40, micro_packs = 8, prefetch = 0, seed = 5 }
    local loader <close> = sr.must(sr.data.loader(options))
    local pack_of, joined = packs.reader(options), 0
    for _ = 1, 3 do
      local update = loader:next()
      local in_packs, count = pack_of(update), 0
      for batch in update:batches() do
        local whole = packs.joined(batch.layout, in_packs)
        assert.equal(batch.layout:tokens(), whole:tokens())
        assert.equal(batch.layout:rows(), whole:rows())
        for _, len in ipairs(whole:lengths()) do assert.is_true(len <= 64) end
        count, joined = count + whole:sequences(), joined + batch.layout:sequences() - whole:sequences()
      end
      assert.equal(update.packs, count)
    end
    assert.is_true(joined > 20)
  end)

  it("omit the mask of a pack, its positions, or both, and nothing else", function()
    local sr, packs = require("seqrun"), require("equivalence_packs")
    local data = sr.must(sr.data.open(corpus, { held = 0 }))
    local options = { data = data, max_len = 64, by = "sequences", sequences = 40, micro_packs = 8, prefetch = 0,
      seed = 5 }
    local loader <close> = sr.must(sr.data.loader(options))
    local bert = sr.nn.bert { vocab_size = data:vocab_size(), hidden_size = 32, num_hidden_layers = 2,
      num_attention_heads = 2, intermediate_size = 64, max_position_embeddings = 64 }:initialise(1)
    bert.training = false
    local quiet <close> = sr.no_grad()
    local update = loader:next()
    local pack_of, batch = packs.reader(options)(update), update:batch(1)
    local uids, epochs, owners = batch.layout:uids(), batch.layout:epochs(), batch.layout:owners()
    local function pack(i) return uids[i] and pack_of[uids[i] .. " " .. epochs[i]] end
    local first = 1 -- a sequence with which a pack begins, and another after it
    while pack(first) ~= pack(first + 1) or pack(first) == pack(first - 1) do first = first + 1 end
    local ids = batch:host("ids")
    local at = batch.layout:starts()[first] + 2
    ids[at] = ids[at] == 20 and 21 or 20
    local other = setmetatable({ ids = sr.tensor(ids, { dtype = "i32" }) }, { __index = batch })

    ---The losses of the masked tokens of that sequence, and of the one after it.
    local function losses_of(one, losses)
      local list, found = losses.mlm.items:totable(), { {}, {} }
      for k, row in ipairs(one:host_rows("mlm")) do
        local own = found[owners[row + 1] + 2 - first]
        if own then own[#own + 1] = list[k] end
      end
      assert.is_true(#found[1] > 0 and #found[2] > 0)
      return found
    end
    local right = losses_of(batch, bert:losses(batch))
    assert.same(right[2], losses_of(other, bert:losses(other))[2])
    for arm, mask in pairs { unmasked = true, unreset = false, joined = true } do
      local found = losses_of(batch, packs.losses(bert, batch, arm, pack_of))
      local changed = losses_of(other, packs.losses(bert, other, arm, pack_of))
      assert.equal(mask, table.concat(found[2], " ") ~= table.concat(changed[2], " "), arm) -- sees its neighbour
      assert.not_same(right[2], found[2])
      if not mask then assert.same(right[1], found[1]) end -- positions of the first are as they should be
    end
    local whole = setmetatable({ layout = packs.joined(batch.layout, pack_of) }, { __index = batch })
    local joined = losses_of(batch, packs.losses(bert, batch, "joined", pack_of))
    assert.same(joined, losses_of(batch, bert:losses(whole))) -- as one sequence
  end)

  it("average curves where all of them are", function()
    local curves = {}
    for seed = 1, 3 do
      curves[seed] = {}
      for i = 1, 4 do curves[seed][i] = { tokens = 100 * i + seed, loss = 6 - i + seed / 10 } end
    end
    local points = experiment.mean(curves, "tokens", "loss")
    assert.same({ 103, 401 }, { points[1][1], points[#points][1] })
    local found = experiment.interval { 6 - 1.02 + 0.1, 6 - 1.01 + 0.2, 6 - 1 + 0.3 }
    assert.near(found.mean, points[1][2], 1e-9)
    assert.near(found.half, points[1][3], 1e-9)
    assert.same({}, experiment.mean({ { { tokens = 5, loss = 1 } } }, "tokens", "loss"))
  end)

  it("refuse what they do not know, and to go on with other settings", function()
    local function refused(message, ...)
      local code, _, err = program.run { "recipes/papers/scaling.lua", "out=" .. folder .. "/none", "only=report", ... }
      assert.equal(2, code, err)
      assert.truthy(err:find(message, 1, true), err)
    end
    refused("size must be positive", "size=0")
    refused("batch must be a positive integer, got 0.5", "batch=0.5")
    refused("threads must not be negative, got -1", "threads=-1")
    refused("'x' in '1,x' is not a number", "seeds=1,x")
    refused("invalid argument 'widht=64'", "widht=64")
    refused("next=5: give a width and a budget", "next=5")
    refused("was begun with layers=2, now it is 3", "layers=3")
    exits(2, "unknown arm 'bert'; choose mlm, concept, electra, sas or causal",
      program.run { "recipes/papers/objectives.lua", "arms=mlm,bert", "out=" .. folder .. "/arms" })
    exits(2, "shares: 2 is not a share of the tokens",
      program.run { "recipes/papers/saving.lua", "shares=1,2", "out=" .. folder .. "/shares" })
    exits(2, "layouts=[^\n]*none.tsv: no such file",
      program.run { "recipes/papers/recommend.lua", "cases=bert", "layouts=" .. folder .. "/none.tsv" })
  end)
end)

describe("the fit of the scaling experiment #long", function()
  local function points_of(noise)
    local points = {}
    for _, N in ipairs { 1e5, 2e5, 4e5 } do
      for _, D in ipairs { 1e5, 4e5, 1.6e6 } do
        local loss = 2 + 1.5 * (N / 2e5) ^ -0.4 + 2 * (D / 4e5) ^ -0.3
        points[#points + 1] = { N = N, D = D, loss = loss, losses = { loss - noise, loss, loss + noise } }
      end
    end
    return points
  end

  it("finds the terms of a law, and the best size for a budget", function()
    local found = fit.fit(points_of(0))
    assert.near(0.4, found.a, 1e-9)
    assert.near(0.3, found.b, 1e-9)
    assert.near(2, found.x[1], 1e-6)
    assert.near(2 + 1.5 * 4 ^ -0.4 + 2 * 8 ^ -0.3, fit.loss(found, 8e5, 3.2e6), 1e-6)
    assert.near(0.12 / 0.7, fit.exponent(found), 1e-9)
    local N, loss = fit.best(found, 1e12)
    for _, other in ipairs { 0.9 * N, 1.1 * N } do assert.is_true(fit.loss(found, other, 1e12 / 6 / other) >= loss) end
  end)

  it("has no negative term, and says where exponents mean nothing", function()
    local rising = points_of(0)
    for _, point in ipairs(rising) do point.loss = 9 - point.loss end
    local found = fit.fit(rising)
    assert.same({ 0, 0 }, { found.x[2], found.x[3] })
    assert.equal("the loss does not fall with size or data in these runs", fit.problem(found))
    local mean = 0
    for _, point in ipairs(rising) do mean = mean + point.loss / #rising end
    assert.near(mean, fit.loss(found, 1e9, 1e9), 1e-9)
    local data_alone = points_of(0)
    for _, point in ipairs(data_alone) do point.loss = 2 + 2 * (point.D / 4e5) ^ -0.3 + (point.N / 2e5) ^ 0.2 / 50 end
    found = fit.fit(data_alone)
    assert.equal(0, found.x[2])
    assert.equal("the loss does not fall with size in these runs", fit.problem(found))
    local function off(x, b) -- no neighbour without negative terms is better
      local sum = 0
      for _, p in ipairs(data_alone) do sum = sum + (x[1] + x[3] * (p.D / found.scale.D) ^ -b - p.loss) ^ 2 end
      return sum
    end
    for _, by in ipairs { 0.99, 1.01 } do
      assert.is_true(off({ by * found.x[1], 0, found.x[3] }, found.b) >= found.squares)
      assert.is_true(off({ found.x[1], 0, by * found.x[3] }, found.b) >= found.squares)
    end
    assert.is_nil(fit.problem(fit.fit(points_of(0))))
  end)

  it("is made of each seed by itself, so that intervals are those of the seeds", function()
    local fits, losses = fit.by_seed(points_of(0.1)), {}
    assert.equal(3, #fits)
    for s, one in ipairs(fits) do losses[s] = fit.loss(one, 8e5, 3.2e6) end
    local middle = 2 + 1.5 * 4 ^ -0.4 + 2 * 8 ^ -0.3
    assert.near(middle - 0.1, losses[1], 0.02)
    assert.near(middle, losses[2], 1e-6)
    assert.near(middle + 0.1, losses[3], 0.02)
    assert.near(0.1 * 4.303 / math.sqrt(3), experiment.interval(losses).half, 0.06)
  end)
end)

describe("the claims about layouts #long", function()
  local function row(fields)
    local one = { micro_batch = 1, tensor = 1, pipeline = 1, interleave = 1, sequence_parallel = false,
      recompute = false, selective = false, kernel = "flash2" }
    for key, value in pairs(fields) do one[key] = value end
    return one
  end

  it("compare layouts that differ in one respect", function()
    local rows = {
      row { seconds = 10 }, row { seconds = 8, micro_batch = 2 }, row { seconds = 13, recompute = true },
      row { seconds = 11, selective = true }, row { seconds = 12, tensor = 2 }, row { seconds = 10.5, pipeline = 2 },
      row { seconds = 11, tensor = 2, sequence_parallel = true }, row { seconds = 9, pipeline = 2, interleave = 2 },
      row { seconds = 11.5, kernel = "flash1" },
    }
    local expected = {
      ["micro-batch 1, not 2, in the same layout"] = 0.8,
      ["no recomputation, not every layer, in the same layout"] = 1.3,
      ["2 pipeline stages, not 2 tensor ranks without sequence parallelism"] = 12 / 10.5,
      ["2 pipeline stages, not 2 tensor ranks with it"] = 11 / 10.5,
      ["sequence parallelism, where there are tensor ranks"] = 12 / 11, ["FlashAttention-2, not 1"] = 1.15,
      ["interleaved stages (not in the study)"] = 10.5 / 9,
      ["selective recomputation, not every layer (not in the study)"] = 13 / 11,
    }
    for _, claim in ipairs(claims.LIST) do
      local factors = claims.factors(rows, claim)
      if expected[claim.title] then
        assert.equal(1, #factors, claim.title)
        assert.near(expected[claim.title], factors[1], 1e-12)
      end
    end
    local both = { row { seconds = 10 }, row { seconds = 8, tensor = 2, micro_batch = 2 },
      row { seconds = 5, tensor = 2, micro_batch = 2, sequence_parallel = true } }
    assert.same({ 0.8, 0.5 }, claims.factors(both, claims.LIST[2])) -- tensor ranks with sequence parallelism as well
    assert.equal(8, claims.fastest(rows).seconds)
    assert.equal(11, claims.fastest(rows, function(l) return l.selective end).seconds)
  end)

  it("bound a layout by trials beside it, which every sum of costs agrees with", function()
    local rows = {
      row { seconds = 32, mfu = 0.6 }, row { seconds = 35.5, pipeline = 2 }, -- 0.5 s a sequence and stage, bubble 7
      row { seconds = 32, micro_batch = 4 }, row { seconds = 46, pipeline = 2, micro_batch = 4 },
      row { seconds = 40, recompute = true }, row { seconds = 39, recompute = true, pipeline = 2 },
    }
    local found = study_best.compared(study_best.doubled(rows))
    assert.equal(1, #found)
    assert.near(4.5 / (32 + 35.5 + 40 + 39), found[1].off, 1e-12)
    assert.near(0.6 * 32 / 36.5, study_best.most(found[1], 0), 1e-12)
    assert.near(0.6, study_best.most(found[1], 4.5 / (35.5 + 40 + 39)), 1e-12)
    local doubled = study_best.doubled { rows[1], rows[2], rows[3], rows[4] }
    local least, most = study_best.bubble({ batch = 64, devices = 2 }, doubled[1], doubled[2], 0.01)
    assert.near(7, (least + most) / 2, 1e-9)
    assert.near(0.01 * (32 + 35.5 + 32 + 46) / 1.5, (most - least) / 2, 1e-9)
    local long = { seconds = 8, batch = 512, seq = 8192, devices = 128 } -- twice the devices, four times the sequence
    least, most = study_best.saved({ batch = 2048, seq = 2048, devices = 64 }, long, { seconds = 12 }, 0.01)
    assert.near(4 / 2, (least + most) / 2, 1e-9)
    assert.near(0.2 / 2, (most - least) / 2, 1e-9)

    local predicted = {}
    for _, kernel in ipairs { "torch", "fused", "flash1", "flash2", "flash2_rms" } do
      for i = 0, 11 do
        local one = row { kernel = kernel, recompute = i >= 6, tensor = i % 6 < 3 and 1 or 2, pipeline = 1 << i % 3 }
        local job = assert(advise.job { model = "llama-13b", seq = 2048, batch = 2048, devices = 64, device = "a100",
          kernel = kernel })
        one.zero, one.data = 1, 64 // one.tensor // one.pipeline
        one.seconds = advise.predict(job, one).step_seconds
        predicted[#predicted + 1] = one
      end
    end
    found = study_best.compared(study_best.doubled(predicted))
    assert.equal(4 * 45, #found) -- of ten kinds of layers, by tensor ranks and stages
    for _, pair in ipairs(found) do assert.is_true(pair.off <= 0) end
  end)

  it("are judged over models and devices, and over measured trials", function()
    local lines = { "study hidden seq gbs world mbs tp pp ckpt sp kernel status step_s mfu" }
    for _, line in ipairs { "1 1 1 0 0 flash2 ok 10 0.6", "1 1 1 1 0 flash2 ok 13 0.5", "2 1 1 1 0 flash2 oom  ",
      "1 1 2 1 0 flash2 ok 12.5 0.52", "1 1 2 0 0 flash2_rms ok 10 0.6" } do
      lines[#lines + 1] = "s 5120 2048 2048 64 " .. line
    end
    local table_of = program.write(folder, "layouts.tsv", (table.concat(lines, "\n"):gsub(" ", "\t")) .. "\n")
    local out = run("recommend", "cases=13b-2k,bert", "layouts=" .. table_of, "out=" .. folder .. "/recommend")
    local line = out:match("\n(no recomputation, not every layer, in the same layout [^\n]+)\n")
    assert.matches("holds always %(one case%) +1%.30 +1 of 1$", line)
    assert.truthy(out:find("measured 70%.5 %% of MFU %(published%), predicted %d+%.%d %%"), out)
    local bound = "flash2, recompute: at most 57.1 % of MFU, 59.1 % if each trial is 1 % off; 70.5 % takes 5.6 %"
    assert.truthy(out:find(bound, 1, true), out)
    assert.truthy(sys.exists(folder .. "/recommend/recommend.svg"))
    exits(2, "cases=none: choose 13b%-2k,", program.run { "recipes/papers/recommend.lua", "cases=none" })
  end)
end)

it("an experiment that is stopped #long does not count the arm, and goes on to the same loss #slow", function()
  local function words_of(out, ...)
    return { "recipes/papers/equivalence.lua", "data=" .. corpus, "arms=packed", "seeds=1", "hidden=64", "layers=1",
      "evaluations=2", "threads=1", "out=" .. out, ... }
  end

  ---Sends a signal to the experiment and its run when the run has made some steps; returns the exit status.
  local function interrupt(out, signal)
    local steps = ("$(grep -c '\"train\"' %s/corpus-packed-1/metrics.jsonl 2>/dev/null)"):format(out)
    local script = "setsid env --default-signal=INT '%s' %s >/dev/null 2>&1 & pid=$!; i=0; "
      .. "while [ $i -lt 3000 ] && [ 0%s -lt 5 ]; do sleep 0.02; i=$((i + 1)); done; "
      .. "kill -s %s -- -$pid; wait $pid; exit $?"
    script = script:format(program.path, table.concat(words_of(out), " "), steps, signal)
    local status
    for _ = 1, 9 do
      sys.remove(out)
      status = select(3, os.execute(script))
      if status ~= 0 then break end -- else it had ended before the signal came
    end
    return status
  end

  local function loss(out, ...)
    local text = works(program.run(words_of(out, ...)))
    return text:match("\npacked +1 +(%d+%.%d+) ")
  end
  local unbroken = assert(loss(folder .. "/unbroken"))
  for signal, status in pairs { KILL = 137, INT = 75 } do -- INT is Ctrl-C: the run saves a checkpoint
    local out = folder .. "/stopped-" .. signal
    assert.equal(status, interrupt(out, signal))
    assert.is_nil(loss(out, "only=report"))
    local saved = table.concat(assert(sys.list(out .. "/corpus-packed-1")), " "):find("step-", 1, true)
    assert.equal(signal == "INT", saved ~= nil)
    assert.equal(unbroken, loss(out))
  end
end)

describe("an experiment at toy size", function()
  it("shows that padded and packed are the same, and goes on where it stopped #slow", function()
    local words = { "data=" .. corpus, "arms=padded,packed,unmasked,unreset,joined,betas,plain", "seeds=1",
      "size=0.008", "hidden=32", "layers=1", "evaluations=2", "threads=1", "out=" .. folder .. "/equivalence" }
    local out = run("equivalence", table.unpack(words))
    local largest = out:match("losses have the same digits; the largest difference is %S+ in the first 50 steps, (%S+)")
    assert.is_true(tonumber(largest) < 5e-6, out) -- rounding of sums in another order
    for _, name in ipairs { "padded", "packed", "unmasked", "unreset", "joined", "betas", "plain" } do
      assert.truthy(out:find("\n" .. name .. " +1 +%d"), out)
    end
    assert.truthy(out:find("\npadded +1 +[%d.]+ +[+-]0%.0000 "), out)
    assert.truthy(sys.exists(folder .. "/equivalence/equivalence.svg"))
    assert.equal(7, select(2, out:gsub(": done after", "")))
    out = run("equivalence", table.unpack(words))
    assert.is_nil(out:find(": done after", 1, true))
    assert.truthy(out:find("\njoined +1 "), out)
    assert.truthy(out:find("\npacked +1 [^\n]+ 1%.00\n"), out) -- the time to a loss, in its own
  end)

  it("fine-tunes with the losses of the baseline of most tokens, on the data set of its own file #slow", function()
    local files = require("tests.support.task_files")
    local base, data = files.encoder(folder .. "/base"), files.write(folder, "pair")
    local dev = data.train:gsub("[^/]*$", "") .. data.train:match("([^/]*)%.%w+$") .. "-other.tsv" -- the same beginning
    assert(sys.write_file(dev, assert(sys.read_file(data.dev))))
    local out = run("saving", "part=finetune", "init=" .. base, "train=" .. data.train, "dev=" .. dev, "arms=loss",
      "words=task=pair," .. table.concat(data.words, ","), "shares=0.25,0.5", "seeds=1", "tune_tokens=8000",
      "tune_batch=8", "max_len=48", "threads=1", "out=" .. folder .. "/tuning")
    for _, title in ipairs { "baseline", "loss under the baseline, 20 to 100 %" } do
      assert.equal(2, select(2, out:gsub("\n" .. title:gsub("%%", "%%%%") .. " +1 ", "")), out)
    end
    assert.truthy(sys.exists(folder .. "/tuning/metrics-0.5-1"))
  end)

  it("prints what there is of objectives", function()
    assert.matches("causal +%- +%- +%-", run("objectives", "out=" .. folder .. "/objectives", "only=report"))
  end)

  it("fits and predicts #slow", function()
    local out = run("scaling", "data=" .. corpus, "widths=16,32", "budgets=2e9,4e9", "next=48,8e9", "layers=1",
      "seeds=1,2", "threads=1", "out=" .. folder .. "/scaling")
    assert.truthy(out:find("\n32 +4e%+09 "), out)
    assert.truthy(out:find("\ntrained: [%d.]+ ± [^\n]+; by seed, predicted less trained: [+-][%d.]+ ± "), out)
    assert.truthy(out:find("predicted loss [%d.]+ %([%d.]+ ± "), out)
  end)

  it("compares experts with a dense model #slow", function()
    local out = run("experts", "data=" .. corpus, "flop=1.5e9", "hidden=16", "layers=1", "seeds=1", "evaluations=2",
      "threads=1", "out=" .. folder .. "/experts")
    assert.truthy(out:find("\ndense +%d%.%d+ +%+0%.000 "), out)
    for _, name in ipairs { "start", "continued", "upcycled", "scratch", "dense gate" } do
      assert.truthy(out:find("\n" .. name .. " +%d%.%d+ +[+-]%d%.%d+ .- 1\n"), out)
    end
    assert.truthy(sys.exists(folder .. "/experts/experts.svg"))
  end)

  it("compares curricula with a baseline #slow", function()
    local out = run("saving", "data=" .. corpus, "arms=baseline,composed", "seeds=1", "size=0.01", "layers=3",
      "hidden=64", "threads=1", "out=" .. folder .. "/saving")
    assert.truthy(out:find("\nlength %+ rarity %+ token dropping +1 "), out)
    assert.truthy(sys.exists(folder .. "/saving/saving.svg"))
    assert.truthy(run("saving", "part=finetune", "out=" .. folder .. "/tuned"):find("nothing to measure: give init=", 1,
      true))
  end)

  it("climbs the ladder, and keeps what it has measured #slow", function()
    local words = { "model=tiny", "packs=1", "repeats=1", "seeds=1,2", "updates=1", "longest=64", "threads=1",
      "out=" .. folder .. "/ladder" }
    local out = run("ladder", table.unpack(words))
    for _, rung in ipairs { "padded", "unpadded", "bucketed", "exact", "fused" } do
      assert.truthy(out:find("\n" .. rung .. " +2 +%d+ ± %d+ "), out)
    end
    assert.truthy(sys.exists(folder .. "/ladder/ladder.svg"))
    local path = folder .. "/ladder/ladder.tsv"
    local kept = sys.read_file(path)
    run("ladder", table.unpack(words))
    assert.equal(kept, sys.read_file(path))
    assert(sys.write_file(path, kept .. "fused\t3\t12")) -- a line that a kill cut short
    words[4] = "seeds=1,2,3"
    assert.truthy(run("ladder", "only=report", table.unpack(words)):find("\nfused +2 "))
  end)
end)

local ALL = { names = arms.NAMES, titles = arms.TITLES, y = { key = "mlm_loss", label = "nats" } }
local SETTING = { tokens = 1e6, least = 32, max_len = 128, metric = "rarity", easiest = 5, file = "r.metric" }

describe("the report of the data efficiency experiment #long", function()
  it("interpolates the baseline in log x, and says when it extrapolates", function()
    local points = { { 100, 3 }, { 400, 1 } }
    assert.same({ 3, false }, { report.at(points, 100) })
    local loss, outside = report.at(points, 200)
    assert.near(2, loss, 1e-12)
    assert.is_false(outside)
    loss, outside = report.at(points, 800)
    assert.near(0, loss, 1e-12)
    assert.is_true(outside)
    assert.is_nil(report.at({ { 100, 3 } }, 200))
  end)

  it("compares each arm with the baseline of the same seed, three ways", function()
    local runs = {}
    for seed = 1, 2 do
      for _, share in ipairs { 0.5, 1 } do
        local base = 4 - 2 * math.log(share) + seed
        runs[#runs + 1] = { arm = "baseline", share = share, seed = seed, loss = base, effective_tokens = 100 * share,
          raw_tokens = 100 * share, step = 100 * share, train_seconds = 1 }
        runs[#runs + 1] = { arm = "token_drop", share = share, seed = seed, loss = base - 0.5,
          effective_tokens = 100 * share,
          raw_tokens = 200 * share, step = 100 * share, train_seconds = 1 }
      end
    end
    local row = report.rows(runs, 0.5, ALL)[3]
    assert.equal(arms.TITLES.token_drop, row[1])
    assert.equal("-0.500 ± 0.000", row[4])
    assert.equal(("%+.3f ± 0.000"):format(2 * math.log(2) - 0.5), row[5]) -- as many raw tokens are better
    assert.equal("-0.500 ± 0.000", row[6])
    assert.equal("-", row[7])
    assert.truthy(report.rows(runs, 1, ALL)[3][5]:find("*", 1, true))
  end)

  it("has the eight arms, with schedules over effective tokens", function()
    assert.equal(8, #arms.NAMES)
    for _, name in ipairs(arms.USUAL) do assert.truthy(arms.TITLES[name]) end
    for _, name in ipairs(arms.NAMES) do
      local text = table.concat(arms.words(name, SETTING), " ")
      assert.equal(name == "baseline", text == "")
      assert.equal(name == "random" or name == "reversed", text:find("curriculum.order", 1, true) ~= nil)
    end
    local text = table.concat(arms.words("composed", SETTING), " ")
    assert.truthy(text:find("curriculum.length.total=480000", 1, true))
    assert.truthy(text:find("token_drop.keep.total=1000000", 1, true))
  end)

  it("says how many times less an arm needs for the loss of the baseline", function()
    local x, outside = report.where({ { 100, 3 }, { 400, 1 } }, 2)
    assert.near(200, x, 1e-9)
    assert.is_false(outside)
    assert.is_true(select(2, report.where({ { 100, 3 }, { 400, 1 } }, 0.5)))
    assert.is_nil(report.where({ { 100, 3 } }, 2))
    assert.is_nil(report.where({ { 100, 3 }, { 200, 3 } }, 2))
    local runs = {}
    for seed = 1, 2 do
      for _, share in ipairs { 0.5, 1 } do
        for _, name in ipairs { "baseline", "composed" } do -- composed: 1.5 times less
          local tokens = 100 * share
          runs[#runs + 1] = { arm = name, share = share, seed = seed, effective_tokens = tokens, raw_tokens = tokens,
            step = tokens, train_seconds = tokens, loss = 9 - math.log(tokens * (name == "composed" and 1.5 or 1)) }
        end
      end
    end
    local saved = "1.50 (1.50 to 1.50)"
    assert.same({ arms.TITLES.composed, saved, saved, saved, saved }, report.saved(runs, ALL)[2])
    for i = 2, 4, 2 do runs[i].loss = runs[i].loss + math.log(1.5) end -- a seed that saves nothing
    local wider = report.saving(runs, "composed", "step")
    assert.near(math.sqrt(1.5), wider.factor, 1e-9)
    assert.near(1, wider.low, 1e-9) -- drawn twice in a quarter of the samples
    assert.near(1.5, wider.high, 1e-9)
  end)

  it("has curves by share and counter", function()
    local curve = { { effective_tokens = 1, raw_tokens = 1, train_seconds = 1, mlm_loss = 5 } }
    local panels = report.panels({ { arm = "baseline", share = 1, curve = curve } }, { 1, 0.5 }, ALL)
    assert.equal(6, #panels)
    assert.same({ curve }, panels[1].series[1].curves)
  end)

  it("has arms of fine-tuning that keep to the length of packs", function()
    for _, name in ipairs(arms.TUNING) do
      local text = table.concat(arms.words(name, { tokens = 1e5, least = 16, max_len = 128, metric = "loss",
        easiest = 20, file = "l.metric" }), " ")
      assert.equal(name == "baseline", text == "")
      assert.equal(name == "loss" or name == "composed", text:find("l.metric", 1, true) ~= nil)
    end
  end)
end)
