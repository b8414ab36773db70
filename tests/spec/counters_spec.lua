-- Counters of a run: in every line of metrics, exact after a resume, able to end the run and to drive the rate.

local fails = require("tests.support.fails")
local program = require("tests.support.program")
local small = require("tests.support.small")

local NAMES = {
  "sequences", "raw_tokens", "real_tokens", "masked_tokens", "layer_tokens", "effective_tokens", "flops",
}

local folder, corpus = small.folder()

local function run(out, ...)
  program.ok(small.words(corpus, "--out", folder .. "/" .. out, ...))
  return small.metrics(folder .. "/" .. out), small.metrics(folder .. "/" .. out, "eval")
end

describe("the counters of a run", function()
  it("are in every line of metrics, and grow by what each update has", function()
    local lines, evals = run("plain", "--max-steps", "4", "eval.every=2")
    for i, line in ipairs(lines) do
      for _, name in ipairs(NAMES) do
        assert.is_true(line[name] > (i > 1 and lines[i - 1][name] or 0), name)
      end
      assert.equal(2 * line.real_tokens, line.layer_tokens) -- two layers, none of which drops tokens
      assert.equal(line.real_tokens, line.effective_tokens)
    end
    assert.equal(2, #evals)
    for _, name in ipairs(NAMES) do assert.equal(lines[4][name], evals[2][name], name) end
  end)

  it("end a run at the first step that reaches a total, and a resume goes on to a later one", function()
    local lines = run("stop", "stop.effective_tokens=1200")
    assert.is_true(lines[#lines].effective_tokens >= 1200 and lines[#lines - 1].effective_tokens < 1200)
    local straight = run("further", "stop.effective_tokens=3000")
    program.ok(small.words(corpus, "--resume=" .. folder .. "/stop", "stop.effective_tokens=3000"))
    assert.same(straight, small.metrics(folder .. "/stop"))
    assert.same(small.weights(folder .. "/further", #straight), small.weights(folder .. "/stop", #straight))
  end)

  it("drive a rate that decays by tokens, exact after a stop in its warmup or later", function()
    local words = { "rate.by=real_tokens", "rate.total=4000", "rate.floor=1e-4", "rate.decay=linear" }
    local lines = run("tokens", table.unpack(words))
    local last, mark = lines[#lines], nil
    assert.is_true(last.real_tokens >= 4000 and lines[#lines - 1].real_tokens < 4000)
    assert.equal(1e-4, last.lr)
    for _, line in ipairs(lines) do
      local steps = line.sequences / 24
      if steps >= 3 and not mark then mark = line.real_tokens end
      local left = mark and 1 - (line.real_tokens - mark) / (4000 - mark)
      local rate = steps <= 3 and 3e-3 * steps / 3 or 1e-4 + math.max(0, left) * (3e-3 - 1e-4)
      assert.near(rate, line.lr, 1e-9)
    end
    for _, stop in ipairs { 2, 5 } do
      local out = "stopped" .. stop
      run(out, "--max-steps", tostring(stop), table.unpack(words))
      program.ok(small.words(corpus, "--resume=" .. folder .. "/" .. out, table.unpack(words)))
      assert.same(lines, small.metrics(folder .. "/" .. out))
    end
  end)

  it("drive the warmup too, if asked to, exact after a stop in it", function()
    local words = { "rate.by=real_tokens", "rate.warmup_by=real_tokens", "rate.warmup=1000", "rate.total=4000" }
    local lines = run("warm", table.unpack(words))
    assert.is_true(lines[1].real_tokens < 1000 and lines[#lines].real_tokens >= 4000)
    for _, line in ipairs(lines) do
      local x = line.real_tokens
      local rate = x <= 1000 and 3e-3 * x / 1000 or 3e-3 * math.max(0, 1 - (x - 1000) / 3000)
      assert.near(rate, line.lr, 1e-9)
    end
    run("warm1", "--max-steps", "1", table.unpack(words))
    program.ok(small.words(corpus, "--resume=" .. folder .. "/warm1", table.unpack(words)))
    assert.same(lines, small.metrics(folder .. "/warm1"))
    local text = program.ok(small.words(corpus, "--out", folder .. "/none", "--dry-run", table.unpack(words)))
    assert.truthy(text:find("peak 0.003 after 1000 real_tokens, linear decay to 0 at 4000 real_tokens", 1, true), text)
  end)

  it("are refused where they contradict each other", function()
    local function refused(words, ...)
      fails.exiting(2, words, small.words(corpus, "--out", folder .. "/none", ...))
    end
    refused("rate.power applies to rate.decay=poly by steps only", "rate.by=flops", "rate.power=0.5")
    refused("rate.power applies to rate.decay=poly by steps only", "rate.decay=cosine", "rate.power=0.5")
    refused("rate.from applies to rate.by=step only", "rate.by=flops", "rate.from=5")
    refused("rate.floor 1 exceeds rate.peak", "rate.floor=1")
    refused("unknown key 'tokens'", "stop.tokens=5")
    refused("rate.warmup_by is flops, but rate.by is step; the warmup is in steps or in units of rate.by",
      "rate.warmup_by=flops")
    refused("rate.warmup_by is flops, but rate.by is real_tokens", "rate.by=real_tokens", "rate.warmup_by=flops")
    refused("warmup is 40 of 40 real_tokens; lower rate.warmup or raise rate.total", "rate.by=real_tokens",
      "rate.warmup_by=real_tokens", "rate.warmup=40")
    refused("'warmup_by' is 'tokens'; expected one of step, sequences", "rate.warmup_by=tokens")
  end)
end)
