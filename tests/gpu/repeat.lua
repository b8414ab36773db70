-- The same bits every time: loss and gradients of one batch, over and over on one device.
--
--     seqrun tests/gpu/repeat.lua [DEVICE=cuda] [TIMES=100]

local sr = require("seqrun")

local device, times = arg[1] or "cuda", tonumber(arg[2] or 100)
sr.use(device)
local int = { dtype = "i32" }

---A batch of short and long sequences with slack, and targets for both heads.
local function make_batch(lens, rows, vocabulary)
  local ids, types, masked, labels, weights, starts, nsp, halves = {}, {}, {}, {}, {}, {}, {}, {}
  for i = 1, rows do ids[i], types[i] = i * 7919 % vocabulary, i // 40 % 2 end
  local at = 0
  for s, n in ipairs(lens) do
    starts[s], nsp[s], halves[s] = at, s % 2, 1 / #lens
    for i = 3, n, 7 do masked[#masked + 1], labels[#labels + 1] = at + i - 1, i * 31 % vocabulary end
    at = at + n
  end
  for i = 1, #masked do weights[i] = 1 / #masked end
  return {
    layout = sr.layout { lens = lens, rows = rows, seed = 1 }, ids = sr.tensor(ids, int), types = sr.tensor(types, int),
    targets = {
      mlm = { rows = sr.tensor(masked, int), labels = sr.tensor(labels, int), weights = sr.tensor(weights) },
      nsp = { rows = sr.tensor(starts, int), labels = sr.tensor(nsp, int), weights = sr.tensor(halves) },
    },
  }
end

local small = device ~= "cuda"
local failed = 0
for _, precision in ipairs { "f32", "bf16" } do
  local bert = sr.nn.bert({
    hidden_size = small and 32 or 256, num_hidden_layers = 2, num_attention_heads = small and 1 or 4,
    intermediate_size = small and 64 or 1024, vocab_size = small and 104 or 4096, precision = precision,
  }):initialise(1)
  local lens = small and { 20, 1, 17, 9 } or { 512, 1, 128, 300, 17, 64, 65, 188, 16 }
  local batch = make_batch(lens, small and 64 or 1536, bert.config.vocab_size)
  local first
  for i = 1, times do
    local scope <close> = sr.scope()
    local losses = bert:losses(batch)
    bert.params:zero_grad()
    losses.total:backward()
    local list = { losses.total:detach():tostring_bytes() }
    for _, name in ipairs(bert.params:names()) do
      list[#list + 1] = bert.params:get(name):grad():contiguous():tostring_bytes()
    end
    local bits = table.concat(list)
    first = first or bits
    if bits ~= first then
      failed = failed + 1
      print(("%s: run %d differs from the first"):format(precision, i))
    end
  end
  print(("%s in %s: %d runs, %d bytes each"):format(device, precision, times, #first))
end
os.exit(failed == 0 and 0 or 1)
