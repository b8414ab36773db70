-- together.lua - loaders of groups of sequences that share a micro-batch, such as the choices of a question.  Whether
-- each group fits into one is judged before a run starts, not at the update that meets it.

local failure = require("seqrun.base.failure")
local pack = require("seqrun.pack")
local sr_data = require("seqrun.data")

local together = {}

---Whether this many sequences, none longer than the longest, fit: each pack but the last holds `each` of them.
local function fits_surely(lengths, options)
  local each = options.max_len // math.max(1, table.unpack(lengths))
  if options.arrange == "padded" then each = 1 end
  if math.type(options.max_seqs) == "integer" and options.max_seqs > 0 then each = math.min(each, options.max_seqs) end
  return each > 0 and (#lengths + each - 1) // each <= options.micro_packs
end

---The packs that sequences of these lengths need by themselves, as the loader packs a micro-batch.
local function packs_of(lengths, options)
  if options.arrange == "padded" then return #lengths end
  local depth = options.max_seqs ~= "auto" and options.max_seqs or nil
  local plan = failure.must(pack.pack(lengths, {
    max_len = options.max_len, solver = options.solver, max_seqs = depth, seed = options.seed,
  }))
  return plan.packs
end

---Fails if a group of the first epoch needs more packs than batch.micro_packs.
---@param what string what a group has: "has %d choices"
---@param loader seqrun.Loader
---@param order fun(update: integer): integer[][]? of sr.data.groups
---@param updates integer of an epoch
local function check(what, loader, order, updates)
  local options = loader.options
  local micro = options.micro_packs
  if not micro or options.arrange == "single" then return end
  local lengths, most, worst, state = nil, nil, nil, {}
  for update = 0, updates - 1 do
    for _, group in ipairs(order(update, state)) do
      if #group > micro then
        lengths = lengths or loader:lengths()
        local own = {}
        for i, uid in ipairs(group) do own[i] = lengths[uid + 1] end
        local packs = fits_surely(own, options) and 0 or packs_of(own, options)
        if packs > (most or micro) then most, worst = packs, group end
      end
    end
  end
  if not most then return end
  local first = options.data:place(loader:origin(worst[1]).example)
  failure.raise("config", "batch.micro_packs=%d: %s " .. what .. " that need %d packs of data.max_len=%d tokens, and "
    .. "must share a micro-batch; set batch.micro_packs=%d", micro, first, #worst, most, options.max_len, most)
end

---The loader of a task whose updates are groups, and the updates of an epoch.
---@param task seqrun.FinetuningTask
---@param cfg table
---@param data seqrun.FinetuningData
---@param part "train"|"dev"
---@param group { says: string, size: integer, apart?: function } says: what one has, "has %d choices"; size: its usual
---  number of sequences; apart: makes an order of sequences of one of groups, which need not share a micro-batch in
---  training
---@return seqrun.Loader
---@return integer updates
function together.loader(task, cfg, data, part, group)
  local dev = part == "dev"
  local options = task:loader_options(cfg, data, part)
  local order, updates, _, mixed = sr_data.groups(data[part], {
    groups = dev and math.max(1, cfg.batch.evaluation // group.size) or cfg.batch.sequences,
    seed = not dev and cfg.seed or nil, epochs = dev and 1 or nil, part = dev and data.dev_part or "train",
    weights = options.weights, temperature = options.temperature,
  })
  local apart = not dev and group.apart
  options.by, options.sequences, options.epochs, options.order = nil, nil, nil, apart and apart(order) or order
  options.weights, options.temperature, options.mixed = nil, nil, mixed
  local loader = failure.must(sr_data.loader(options))
  if not apart then check(group.says, loader, order, updates) end
  return loader, updates
end

return together
