-- BERT against known results, and against itself packed, padded and alone.
--
-- tests/data/model/tiny was computed in double precision by PyTorch 2.15 and Transformers 5.23; its
-- README.md says how.

local fails = require("tests.support.fails")
local json = require("seqrun.core.json")
local sr = require("seqrun")
require("tests.support.devices").late()
local sys = require("seqrun.core.sys")
local support = require("tests.support.bert")
local with = require("tests.support.with")

local TINY = "tests/data/model/tiny/"
local TOLERANCE = 1e-5 -- CONTRACTS, "Numbers": f32 against the reference, and packed against alone

local function read_json(name) return json.decode(assert(sys.read_file(TINY .. name))) end

local input = read_json("input.json").sequences

local function tiny(changes)
  local bert = sr.nn.bert(with(read_json("config.json"), changes))
  local loaded = assert(sr.checkpoint.load(TINY, { model = bert.params }))
  assert.equal(#bert.params:names(), #loaded.report.loaded)
  return bert
end

---Losses and all gradients of the batches of one update.
local function measure(bert, batches) return support.measure(bert, batches, "mlm", "nsp") end

---All sequences as one update, cut into batches of these sizes.
local function cut(sizes, options) return support.cut(input, sizes, options) end

local function near(wanted, got, tolerance)
  local allowed = tolerance * math.max(1, math.abs(wanted))
  assert.is_true(math.abs(got - wanted) <= allowed, ("%.9g is not %.9g"):format(got, wanted))
end

it("a config of another model type is rejected", function()
  local others = { position_embedding_type = "relative_key", tie_word_embeddings = false, is_decoder = true }
  for key, value in pairs(others) do
    fails.raising(("bert: '%s = %s' is not supported"):format(key, value), tiny, { [key] = value })
  end
  local bert = tiny { position_embedding_type = "absolute", is_decoder = false, use_cache = true }
  assert.matches("^bert: %d layers, hidden size %d+, %d attention heads, %d+ tokens, %d+ parameters$", tostring(bert))
end)

for _, device in ipairs(sr.devices()) do
  describe("bert on " .. device, function()
    local before
    setup(function() before = sr.device(); sr.use(device) end)
    teardown(function() sr.use(before) end)

    it("computes the known logits, losses and gradients", function()
      local expected = assert(sr.checkpoint.read_tensors(TINY .. "expected.safetensors"))
      local bert = tiny()
      local batch = cut({ #input })[1]
      local hidden = bert:encode(batch)
      local function close(name, got)
        local wanted = expected[name]
        local error_ratio = (got:reshape(wanted:size()) - wanted):abs():max():item() / wanted:abs():max():item()
        assert.is_true(error_ratio <= TOLERANCE, ("%s: %.3e"):format(name, error_ratio))
      end
      close("hidden", hidden)
      close("mlm_logits", bert:head("mlm"):logits(sr.ops.gather_rows(hidden, batch.targets.mlm.rows)))
      close("nsp_logits", bert:head("nsp"):logits(sr.ops.gather_rows(hidden, batch.targets.nsp.rows)))

      local got = measure(bert, { batch })
      near(expected.mlm_loss:item(), got.mlm, TOLERANCE)
      near(expected.nsp_loss:item(), got.nsp, TOLERANCE)
      local wanted = {}
      for name in pairs(got.gradients) do wanted[name] = assert(expected["grad." .. name], name) end
      assert.is_nil(support.differ(got.gradients, wanted, TOLERANCE))
    end)

    ---Compares 20 steps with one of the tables.
    local function follow(file, kind, power)
      local bert = tiny()
      local optimizer = sr.optim[kind](bert.params,
        { betas = { 0.9, 0.999 }, eps = 1e-6, decay = 0.01, power = power })
      local batch = cut({ #input })[1]
      for line in io.lines(TINY .. file) do
        local step, mlm, nsp, norm = line:match("^(%d+)\t(%S+)\t(%S+)\t(%S+)")
        if step then
          local got = measure(bert, { batch })
          local result = optimizer:step { rate = kind == "lamb" and 0.01 or 1e-3, clip = 1 }
          near(tonumber(mlm), got.mlm, 1e-4)
          near(tonumber(nsp), got.nsp, 1e-4)
          near(tonumber(norm), result.norm, 1e-4)
        end
      end
    end

    it("follows 20 steps of AdamW", function() follow("adamw20.tsv", "adamw") end)
    it("follows 20 steps of LAMB", function() follow("lamb20.tsv", "lamb") end)
    it("follows 20 steps of LAMB with betas raised to the packing factor", function()
      follow("lamb20_p2.tsv", "lamb", 2)
    end)

    for _, dropout in ipairs { 0, 0.1 } do
      describe(("with dropout %g"):format(dropout), function()
        local changes = { hidden_dropout_prob = dropout, attention_probs_dropout_prob = dropout }
        local one_by_one = { 1, 1, 1, 1, 1, 1, 1, 1 }

        local function equal(a, b)
          near(a.mlm, b.mlm, TOLERANCE)
          near(a.nsp, b.nsp, TOLERANCE)
          assert.is_nil(support.differ(b.gradients, a.gradients, TOLERANCE))
        end

        it("gives packed sequences the same results as alone", function()
          local bert = tiny(changes)
          local alone = measure(bert, cut(one_by_one))
          equal(alone, measure(bert, cut({ #input })))
          equal(alone, measure(bert, cut({ #input }, { rows = 512 })))
          local needed = measure(bert, cut(one_by_one, { last = true }))
          equal(needed, measure(bert, cut({ #input }, { last = true, slots = 64, rows = 512 })))
        end)

        it("gives padded sequences the same results as alone", function()
          local bert = tiny(changes)
          equal(measure(bert, cut(one_by_one)), measure(bert, cut({ #input }, { slots = 64, rows = 512 })))
        end)

        it("gives the same update in 1, 3 and 8 micro-batches", function()
          local bert = tiny(changes)
          local one = measure(bert, cut { #input })
          equal(one, measure(bert, cut { 3, 3, 2 }))
          equal(one, measure(bert, cut(one_by_one)))
        end)

        it("recomputes layers bit for bit", function()
          local bert = tiny(changes)
          local kept = measure(bert, cut { #input })
          bert.recompute = true
          local runs, layer = 0, bert.encoder.layer
          function bert.encoder:layer(...)
            runs = runs + 1
            return layer(self, ...)
          end
          local recomputed = measure(bert, cut { #input })
          assert.equal(2 * bert.config.num_hidden_layers, runs) -- forward, and again in backward
          assert.equal(kept.total, recomputed.total)
          assert.is_nil(support.differ(recomputed.gradients, kept.gradients, 0))
        end)

        it("changes only the results of a sequence when that sequence changes", function()
          local bert = tiny(changes)
          local function hidden(sequences)
            local scope <close> = sr.scope()
            return bert:encode(support.batch(sequences)):totable()
          end
          local touched = {}
          for i, s in ipairs(input) do touched[i] = s end
          local ids = table.move(input[1].ids, 1, #input[1].ids, 1, {})
          ids[10] = ids[10] == 50 and 51 or 50
          touched[1] = setmetatable({ ids = ids }, { __index = input[1] })
          local before_rows, after_rows = hidden(input), hidden(touched)
          local own, others = 0, 0
          for t = 1, #before_rows do
            for h = 1, #before_rows[t] do
              if before_rows[t][h] ~= after_rows[t][h] then
                if t <= #ids then own = own + 1 else others = others + 1 end
              end
            end
          end
          assert.equal(0, others)
          assert.is_true(own > 0)
        end)
      end)
    end

    it("uses the activation and the initializer range of its config", function()
      local plain = measure(tiny(), cut { #input }).mlm
      local tanh = measure(tiny { hidden_act = "gelu_new" }, cut { #input }).mlm
      assert.is_true(math.abs(plain - tanh) > 1e-6 and math.abs(plain - tanh) < 1e-2)
      assert.equal(tanh, measure(tiny { hidden_act = "gelu_pytorch_tanh" }, cut { #input }).mlm)
      local fresh = sr.nn.bert {
        vocab_size = 200, hidden_size = 32, num_hidden_layers = 1, num_attention_heads = 1, intermediate_size = 64,
        initializer_range = 0.5,
      }
      local x = fresh:initialise(1).params:value_of("bert.encoder.layer.0.intermediate.dense.weight")
      near(0.8796 * 0.5, math.sqrt(x:square():mean():item()), 0.02) -- of a normal truncated at two deviations
    end)

    it("agrees with dense masked attention", function()
      local bert = tiny()
      local fast = measure(bert, cut { #input })
      bert.encoder.attention = sr.nn.dense_attention
      local dense = measure(bert, cut { #input })
      near(fast.total, dense.total, TOLERANCE)
      assert.is_nil(support.differ(fast.gradients, dense.gradients, TOLERANCE))
    end)

    it("gives the same results when the last layer computes only the rows that heads read", function()
      local bert = tiny()
      local all, needed = measure(bert, cut { #input }), measure(bert, cut({ #input }, { last = true }))
      near(all.total, needed.total, TOLERANCE)
      assert.is_nil(support.differ(needed.gradients, all.gradients, TOLERANCE))
    end)

    it("gives every dropout site of every layer its own key and rate", function()
      local ops, real, seen, count = require("seqrun.tensor.ops"), {}, {}, 0
      for _, name in ipairs { "embed", "attention", "residual_norm" } do
        real[name] = ops[name]
        ops[name] = function(...)
          local options = select(select("#", ...), ...)
          local key = ("%s %s"):format(options.site or name, options.layer)
          if options.dropout then
            assert.equal(name == "attention" and 0.2 or 0.1, options.dropout)
            assert.is_nil(seen[key], key)
            seen[key], count = true, count + 1
          end
          return real[name](...)
        end
      end
      local bert = tiny { hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.2 }
      local ok, problem = pcall(bert.encode, bert, cut({ #input })[1])
      for name, op in pairs(real) do ops[name] = op end
      assert.is_true(ok, problem)
      assert.equal(1 + 3 * bert.config.num_hidden_layers, count)
    end)

    it("draws a different dropout mask in every epoch", function()
      local bert = tiny { hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1 }
      local first = measure(bert, cut { #input }).total
      assert.are_not.equal(first, measure(bert, cut({ #input }, { epoch = 1 })).total)
      assert.equal(first, measure(bert, cut { #input }).total)
    end)
  end)
end
