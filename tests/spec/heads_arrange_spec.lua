-- Fine-tuning on the same sequences, packed, padded and one by one, with dropout: only the speed may differ.

local sr = require("seqrun")
local tasks = require("tests.support.tasks")

---LONG=1: a larger model, more updates, a smaller rate (rounding errors grow with both).
local LONG = os.getenv("LONG")
local UPDATES, RATE = LONG and 300 or 100, LONG and 3e-4 or 2e-3
local MODEL = { initializer_range = 0.05, hidden_size = LONG and 64 or 16, num_hidden_layers = LONG and 4 or 2 }
local LOSSES = 1e-5 -- relative, f32: weight gradients are summed in another order
local ROUNDING = 1e-7 -- of the logarithm of a sum of exponentials near 1
local WEIGHTS = 1e-4 -- absolute

local folder = require("tests.support.program").folder()

---The loss of each update, and the model after the last.
local function train(kind, corpus, arrange)
  local loader <close> = tasks.loader(kind, corpus, { arrange = arrange, micro_packs = 4 })
  local model = tasks.model(kind, MODEL)
  local optimizer = sr.optim.adamw(model.params)
  local losses = {}
  for i = 1, UPDATES do
    local sum = 0
    for batch in loader:next():batches(model.params) do
      local scope <close> = sr.scope()
      local loss = model:losses(batch).total
      loss:backward()
      sum = sum + loss:item()
    end
    optimizer:step { rate = RATE * (1 - i / UPDATES), clip = 1 }
    losses[i] = sum
  end
  return losses, model
end

---What the model predicts for each example: the greatest of its logits, or their sign.
local function predictions(kind, corpus, model, arrange)
  local loader <close> = tasks.loader(kind, corpus, { arrange = arrange, micro_packs = 4, seed = 7 })
  local head, found = model.heads[1], {}
  model.training = false
  for _ = 1, 4 do
    for batch in loader:next():batches() do
      local scope <close> = sr.scope()
      local quiet <close> = sr.no_grad()
      local target = batch.targets[kind == "choice" and "group" or head.name]
      local logits = head:logits(model.encoder:states(batch), target, batch)
      local uids, owners = batch.layout:uids(), batch.layout:owners()
      local rows = target.rows:reshape(target.count, -1):select(2, 1):totable()
      local best = logits:dim() > 1 and logits:argmax(-1) or logits:gt(0)
      if kind == "multilabel" or kind == "regress" then best = logits:gt(0.5) end
      for i, value in ipairs(best:totable()) do
        local uid = uids[owners[rows[i] + 1] + 1]
        found[uid] = found[uid] or {}
        table.insert(found[uid], value)
      end
    end
  end
  return found
end

---The mean of ten losses.
local function mean(losses, first)
  local sum = 0
  for i = first, first + 9 do sum = sum + losses[i] end
  return sum / 10
end

---The gradients of these are zero in theory: a softmax does not change when all its inputs are shifted.
local function without_gradient(kind, name)
  return name:find("key.bias", 1, true) or kind == "choice" and name == "classifier.bias" or name == "qa_outputs.bias"
end

local function apart(got, wanted) return (got - wanted):abs():max():item() end

for _, kind in ipairs(tasks.ALL_HEADS) do
  describe("fine-tuning: " .. kind .. " #slow", function()
    it("packed, padded and one by one has the same losses, weights and predictions", function()
      local corpus = tasks.corpus(kind, folder, 90)
      local wanted, model = train(kind, corpus, "packed")
      local predicted = predictions(kind, corpus, model, "packed")
      assert.is_true(mean(wanted, UPDATES - 9) < mean(wanted, 1)) -- it does learn
      for _, arrange in ipairs { "padded", "single" } do
        local losses, other = train(kind, corpus, arrange)
        for i, loss in ipairs(losses) do
          local text = ("%s, update %d: %.9g, not %.9g"):format(arrange, i, loss, wanted[i])
          assert.is_true(math.abs(loss - wanted[i]) <= LOSSES * wanted[i] + ROUNDING, text)
        end
        for _, name in ipairs(model.params:names()) do
          if not without_gradient(kind, name) then
            local far = apart(other.params:value_of(name), model.params:value_of(name))
            assert.is_true(far <= WEIGHTS, ("%s: %s: %.3g"):format(arrange, name, far))
          end
        end
        assert.same(predicted, predictions(kind, corpus, other, arrange))
      end
    end)
  end)
end
