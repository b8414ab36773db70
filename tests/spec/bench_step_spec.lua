-- The benchmark of a training step: its arrangements, and the other system that it runs on the same packs.

package.path = "recipes/bench/?.lua;" .. package.path

local arms = require("step_arms")
local lengths = require("lengths")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sr = require("seqrun")

local folder = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../"
local SMALL = { "model=tiny", "packs=1", "updates=1", "repeats=1", "threads=1", "hist=8-64" }

local function bench(words, options)
  local all = table.move(SMALL, 1, #SMALL, 2, { folder .. "recipes/bench/step.lua" })
  return program.run(table.move(words, 1, #words, #all + 1, all), options)
end

describe("step.lua", function()
  it("measures all arrangements in both precisions", function()
    local out = program.works(bench { "precision=both" })
    for _, how in ipairs(arms.ORDER) do
      assert.equal(2, select(2, out:gsub("\n" .. how .. " +%d+ ", "")), how .. "\n" .. out)
    end
    assert.is_truthy(out:find("peak memory of the process: %d+ MiB"), out)
    assert.is_truthy(out:find("model tiny in bf16", 1, true), out)
  end)

  it("runs the peer in both precisions, eager and compiled, on the packs that it writes", function()
    local home = program.folder()
    local script = ("#!/bin/sh\necho \"$@\" >> %s/calls\ncp \"$2\" %s/packs\n"):format(home, home)
    local python = program.write(home, "python", script)
    assert(os.execute("chmod +x " .. python))
    local options = { before = "PYTHON=" .. python }
    program.works(bench({ "precision=both", "only=packed", "peer=true", "compile=true" }, options))
    local calls = {}
    for line in io.lines(home .. "/calls") do calls[#calls + 1] = line:match("%-%-repeats 1 ?(.*) %-%-threads 1$") end
    assert.same({ "", "--bf16", "--compile", "--bf16 --compile" }, calls)
    for line in io.lines(home .. "/packs") do
      for word in line:gmatch("%d+") do assert.is_true(tonumber(word) >= 8 and tonumber(word) <= 64, line) end
    end
    program.works(bench({ "only=packed", "peer=mask,sequence" }, options))
    local last
    for line in io.lines(home .. "/calls") do last = line end
    assert.is_truthy(last:find("--only mask,sequence", 1, true), last)
  end)
end)

it("batches by length have every sequence once, the longest first, and no more slots than they may", function()
  local sequences = {}
  for _, pack in ipairs((lengths.packs("8-64", 6, 3))) do
    for _, length in ipairs(pack) do sequences[#sequences + 1] = { length = length, uid = #sequences } end
  end
  for _, slots in ipairs { 1, 64, 500, 1 << 20 } do
    local batches, seen, before = arms.by_length(sequences, slots), {}, math.huge
    for _, batch in ipairs(batches) do
      assert.is_true(#batch == 1 or #batch * batch[1].length <= slots)
      for _, sequence in ipairs(batch) do
        assert.is_nil(seen[sequence.uid])
        assert.is_true(sequence.length <= before)
        seen[sequence.uid], before = true, sequence.length
      end
    end
    for _, sequence in ipairs(sequences) do assert.is_true(seen[sequence.uid]) end
    if slots == 1 << 20 then assert.equal(1, #batches) end
  end
end)

it("a model computed op by op has the losses and gradients of one with fused ops", function()
  local config = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 2, intermediate_size = 64,
    vocab_size = 120, hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1 }
  local data = sr.must(sr.data.open(small.corpus(program.folder()), { held = 0 }))
  local loader <close> = sr.must(sr.data.loader { data = data, max_len = 48, packs = 4, prefetch = 0 })
  local batch, found = loader:next():batch(1), {}
  for i = 1, 2 do
    local scope <close> = sr.scope()
    local bert = sr.nn.bert(config):initialise(1)
    if i == 2 then require("step_plain")(bert) end
    local loss = bert:losses(batch).total
    loss:backward()
    local weight = bert.params:get("bert.encoder.layer.0.intermediate.dense.weight")
    found[i] = { loss:item(), weight:grad():abs():sum():item() }
  end
  assert.near(found[1][1], found[2][1], 1e-5)
  assert.near(1, found[2][2] / found[1][2], 1e-4)
end)
