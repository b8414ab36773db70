-- loader.lua - updates in order: what a training loop draws from.

local check = require("seqrun.base.check")
local core = require("seqrun.core.batch")
local counted = require("seqrun.base.format").counted
local failure = require("seqrun.base.failure")
local mixed = require("seqrun.data.loader.mixed")
local Orders = require("seqrun.data.loader.order")
local solver = require("seqrun.data.loader.solver")
local strict = require("seqrun.base.strict")
local targets = require("seqrun.data.loader.targets")
local Windows = require("seqrun.data.loader.windows")
local new_update = require("seqrun.data.loader.update")

---Ends when a total of the cursor reaches `updates`, `sequences`, `raw_tokens` or `real_tokens`.  By sequences, a stage
---that draws from the same sequences continues the pass; any other starts a new one.
---@class seqrun.Stage
---@field updates? integer
---@field sequences? integer
---@field raw_tokens? integer before stages truncate sequences
---@field real_tokens? integer
---@field max_len? integer longer sequences are truncated before packing and masking; packs keep their length
---@field shortest? integer minimum length of sequences, before truncation
---@field longest? integer maximum length, before truncation
---@field uids? integer[] ascending; only these fixed examples
---@field filter? fun(uid: integer, tokens: integer): boolean instead of uids
---@field short_seq_prob? number of text; the loader's by default

---@class seqrun.LoaderOptions
---@field data seqrun.Corpus
---@field weights? number[] relative weight of each source of the data among the sequences drawn, of which an update has
---exactly `sequences`; sources begin again on their own, with other masks: see mixed.lua
---@field temperature? number instead of weights: the number of sequences of a source to this power
---@field mixed? seqrun.Source[] what an `order` draws from, as sr.data.groups returns it
---@field part? "train"|"held"
---@field max_len? integer tokens of a sequence and of a pack, 128
---@field arrange? "packed"|"padded"|"single" position of tokens; the sequences are the same
---@field by? "packs"|"sequences"|"order" unit of an update, packs by default. packs: packs of the epoch's plan,
---in keyed order; sequences: exactly that many, in keyed order, packed inside the update; order: the orders given to
---Loader:order()
---@field stages? seqrun.Stage[] a curriculum: each until a total is reached, the last has no end
---@field order? seqrun.Curriculum|fun(update: integer, state: table): (integer|integer[])[]?, { max_len?: integer }? a
---curriculum (sr.curriculum), or a function that returns the content
---of update `update` (from 0): uids, or groups of uids that must share a micro-batch; nil ends the data.  Called on the
---main thread, `prefetch` updates ahead
---@field order_state? table initial state of `order`: plain values, saved with the cursor (see Loader:order_state)
---@field packs? integer packs per update
---@field sequences? integer by packs, instead of packs: average number per update; by sequences: exact number
---@field adjust? "batch"|"betas" "batch": as many packs as hold `sequences`; "betas": `sequences` packs
---@field micro_packs? integer packs per micro-batch; the whole update by default
---@field shares? integer parts of an update whose gradients are summed in a tree, with equally many micro-batches; by
---default each micro-batch is a share, at most 8
---@field share_range? integer[] { first, last }: make only these shares, from 1; denominators are of the whole update
---@field balance? "cost"|"random" how packs are assigned to batches: see the key of a run
---@field rank? integer from 0, of `ranks`: make only the shares of this rank
---@field ranks? integer
---@field per_square? number packs are assigned to batches by tokens + per_square * sum len^2; 1 / (6 H) of the model
---@field seed? integer
---@field epoch? integer the first epoch, 0
---@field epochs? integer number of epochs; no end by default
---@field nsp? boolean pairs with a next-sentence label; true for text
---@field short_seq_prob? number 0.1
---@field short_seq_by? "sequence"|"document" what draws short lengths in long documents, see the key of a run
---@field too_long? "error"|"truncate"|"split" of fixed examples
---@field targets? (string|seqrun.TargetOptions)[] what to predict, see seqrun.data.targets; by default "mlm" and "nsp"
---for text, "label" for examples that have it, else "mlm"
---@field mask? false|{ prob?: number, max?: integer, whole_word?: boolean, rates?: table, concepts?: table } if set,
---adds "mlm" to the targets; rates: fraction by counter, { by = "step", { from, fraction }, ... }, at most prob
---(sr.schedule.rates); concepts: { table =, share =, from = { update, ... } }, masked first from these updates on
---@field keep_ids? boolean batches keep the ids before masking as original_ids
---@field loss? "token"|"sequence" what the loss is a mean over
---@field solver? string built in or of pack.register(); one written in Lua runs on the main thread, without workers
---@field max_seqs? integer|"auto" maximum sequences per pack; "auto": as few as pack nearly as well as no limit
---@field plan? string a saved plan (Loader:plan_text), used if it fits
---@field threads? integer workers, 1
---@field prefetch? integer updates made ahead, 2; 0: none, and no worker

local OPTIONS = {
  data = true, part = true, by = true, max_len = true, arrange = true, packs = true, sequences = true, adjust = true,
  shares = true, micro_packs = true, per_square = true, seed = true, epoch = true, epochs = true, nsp = true,
  short_seq_prob = true, short_seq_by = true, too_long = true, targets = true, mask = true, keep_ids = true,
  loss = true, solver = true, max_seqs = true, plan = true, threads = true, prefetch = true, order = true,
  order_state = true, share_range = true, stages = true, rank = true, ranks = true, balance = true,
  weights = true, temperature = true, mixed = true,
}

local CURSOR = {
  epoch = true, position = true, stage = true, packs = true, update = true, sequences = true, raw_tokens = true,
  real_tokens = true, masked_tokens = true, words = true, pending = true, state = true, ended = true, by = true,
}

---@class seqrun.Loader
---@field options seqrun.LoaderOptions
local Loader = {}
Loader.__index = Loader
Loader.__name = "seqrun.Loader"
local FIELDS = { "options", "data", "orders", "core", "first_plan", "used", "mixed" }
strict.seal(Loader, "the loader", FIELDS)

local function check_stage(stage, i)
  if type(stage) ~= "table" then
    check.fail("data.loader: stages[%d] is a %s; it must be a table of options", i, type(stage))
  end
  if stage.filter ~= nil and type(stage.filter) ~= "function" then
    check.fail("data.loader: stages[%d]: filter must be a function, got a %s", i, type(stage.filter))
  end
  if stage.filter and stage.uids then
    check.fail("data.loader: stages[%d] has both uids and a filter; keep one of them", i)
  end
end

---Stages with the uids that their filters accept.
local function core_stages(t)
  local stages = {}
  if type(t.stages) ~= "table" then check.fail("data.loader: stages must be a list of tables") end
  for i, stage in ipairs(t.stages) do
    check_stage(stage, i)
    local own = {}
    for key, value in pairs(stage) do own[key] = value end
    if stage.filter then
      own.filter, own.uids = nil, {}
      local options = { nsp = false, too_long = t.too_long }
      local lengths = failure.must(t.data:lengths(t.part or "train", 0, t.max_len or 128, options))
      for k, tokens in ipairs(lengths) do
        if stage.filter(k - 1, tokens) then own.uids[#own.uids + 1] = k - 1 end
      end
    end
    stages[i] = own
  end
  return stages
end

local function is_weighted(t) return t.weights ~= nil or t.temperature ~= nil end

---The options as the core takes them.
local function core_options(t)
  local o = {}
  for key, value in pairs(t) do o[key] = value end
  o.data, o.adjust, o.order, o.order_state, o.weights, o.temperature, o.mixed = nil, nil, nil, nil, nil, nil, nil
  if t.order then o.by = "order" end
  if is_weighted(t) then o.by, o.sequences, o.epochs = "order", nil, nil end
  if t.stages then o.stages = core_stages(t) end
  if t.adjust == "betas" and not t.packs then o.packs, o.sequences = t.sequences, nil end
  if o.nsp == nil then o.nsp = t.data:info().kind == "text" end
  if not o.packs and not o.sequences and o.by ~= "order" then o.packs = 1 end
  return o
end

---Options that weights of sources exclude, by their names in a config.
local function check_weights(t)
  local function refuse(what) failure.raise("config", "data.weights and data.temperature %s", what) end
  if not is_weighted(t) then return end
  if not t.data:sources() then refuse "are for several data sets; give a list of them" end
  if t.order or t.by == "order" then
    refuse("draw by weight, but a curriculum, batch.ramp, batch.tokens or another order decides here which sequences "
      .. "an update has; leave one of them out")
  end
  if t.adjust == "betas" then refuse "draw a number of sequences, so batch.adjust must be batch" end
  if t.stages or t.epochs or t.packs or not t.sequences then
    refuse "draw a number of sequences, without end: give sequences, leave out packs, stages and epochs"
  end
end

local function is_curriculum(order) return type(order) == "table" and order.decide ~= nil end

---Options of orders that contradict each other.
local function check_order(t)
  if t.order ~= nil and type(t.order) ~= "function" and not is_curriculum(t.order) then
    check.fail("data.loader: order must be a function or a curriculum, got a %s", type(t.order))
  end
  if t.order and t.by and t.by ~= "order" then
    check.fail("data.loader: a function `order` decides what an update has; leave out by = '%s'", tostring(t.by))
  end
  if t.order_state ~= nil and not t.order and t.by ~= "order" then
    check.fail("data.loader: order_state belongs to a function `order`, which is missing")
  end
end

---@param t seqrun.LoaderOptions
---@return seqrun.Loader? loader
---@return string? message
---@return string? code
function Loader.open(t)
  check.options("data.loader", t, OPTIONS)
  if not t.data then check.fail("data.loader: give data, an opened data set") end
  if t.adjust and t.adjust ~= "batch" and t.adjust ~= "betas" then
    check.fail("data.loader: adjust is '%s'; it is 'batch' or 'betas'", tostring(t.adjust))
  end
  if t.by == "sequences" and (t.packs or t.adjust == "betas" or not t.sequences) then
    local text = "data.loader: by 'sequences' needs the exact number of sequences of an update: set sequences, leave "
      .. "out %s"
    check.fail("%s", text:format(t.adjust == "betas" and "adjust 'betas'" or "packs"))
  end
  check_order(t)
  check_weights(t)
  local o, list, makers = core_options(t), targets.read(t)
  o.targets = list
  if o.mask == nil then o.mask = not t.data:info().labelled end
  solver.replace(t, o)
  local object, message, code = core.loader(t.data.core, o)
  if not object then return nil, message, code end
  local self = strict.keep(setmetatable({
    core = object, options = strict.fixed(t, "the loader: options", nil, true), data = t.data, makers = makers,
    mixed = t.mixed,
  }, Loader), FIELDS)
  if is_curriculum(t.order) then
    self.orders = Windows.new(self, t.order, math.max(1, t.prefetch or 2))
  elseif is_weighted(t) then
    local order
    order, self.mixed = mixed(t.data:sources(), failure.must(object:sources()), t.sequences, t)
    self.orders = Orders.new(object, order, nil, math.max(1, t.prefetch or 2))
  elseif t.order or t.by == "order" then
    self.orders = Orders.new(object, t.order, t.order_state, math.max(1, t.prefetch or 2))
  end
  return self
end

function Loader:__tostring()
  local s = self:summary()
  local each = s.by == "sequences" and counted(self.options.sequences, "sequence")
    or ("%s (%.1f sequences)"):format(counted(s.packs, "pack"), s.packs * s.factor)
  return ("loader of %s, %s: %s per update, %s per epoch, %s, %.1f %% full"):format(
    self.data.about.path, s.part, each, counted(s.packs_per_epoch, "pack"), s.arrange, 100 * s.efficiency)
end

---Batch size in sequences; nil if it is a number of packs.
---@return integer?
function Loader:sequences_per_update() return not self.options.packs and self.options.sequences or nil end

---The next update; nil after the last epoch.  Damaged data raises a failure, so that a loop does not
---mistake it for the end.
---@return seqrun.Update?
function Loader:next()
  if self.orders and not self.orders:ask(self.core:cursor().update) then return nil end
  local update, message, code = self.core:next()
  if update then
    local window = self.orders and self.orders:delivered()
    update = new_update(update, self:sequences_per_update(), self.data.sources and self.data:sources())
    if window and window.updates then
      update.window, update.max_len = window, window.max_len > 0 and window.max_len or nil
    end
    return targets.make(update, self.makers)
  end
  if code then failure.raise(code, "%s", message) end
  return nil
end

---@class seqrun.Cursor
---@field epoch integer
---@field position integer packs (or sequences, by sequences) of the epoch drawn before
---@field stage integer of the last update, from 1
---@field packs integer an update; 0 by sequences
---@field update integer updates drawn before, and their
---@field sequences integer
---@field raw_tokens integer before stages truncate sequences
---@field real_tokens integer
---@field masked_tokens integer
---@field words integer as white space separates them; 0 where the data set has not counted them
---@field pending? table[] by order: the orders of the next updates
---@field state? table by order: the state of the function
---@field ended? boolean by order: it has ended the data
---@field by? "packs"|"sequences"|"order" what the loader draws by; seek() rejects another

---The position of the next update: a plain table to save and to pass to seek().
---@return seqrun.Cursor
function Loader:cursor()
  local cursor = self.core:cursor()
  cursor.by = self:draws_by()
  if self.orders then self.orders:save(cursor) end
  return cursor
end

---The unit of an update.
---@return "packs"|"sequences"|"order"
function Loader:draws_by() return self.orders and "order" or self.options.by or "packs" end

---Seeks to a cursor: the updates that follow are the same as without a stop.
---@param cursor seqrun.Cursor
function Loader:seek(cursor)
  check.options("loader:seek", cursor, CURSOR)
  if cursor.by and cursor.by ~= self:draws_by() then
    failure.raise("config", "loader:seek: the cursor is of a loader by %s, but this one draws by %s; open it with "
      .. "the options that the cursor was saved with", cursor.by, self:draws_by())
  end
  failure.must(self.core:seek(cursor))
  if self.orders then self.orders:load(cursor) end
end

---By order, without a function: appends the order of one more update.  Uids in an update are distinct; the index of the
---update is the epoch word of its random keys.
---@param order (integer|integer[])[] uids, or groups of uids that must share a micro-batch
---@param options? { max_len?: integer } longer sequences are truncated
function Loader:order(order, options)
  if not self.orders or self.orders.source then
    check.fail("loader:order: open the loader with by = 'order' and without a function that decides")
  end
  local done, message, code = self.orders:push(order, options)
  if code == "memory" then failure.raise(code, "loader:order: %s", message) end
  if not done then check.fail("%s", "loader:order: " .. message:gsub("^order: ", "")) end
end

---The state of the function `order`: a loop may write results into it, which take effect `prefetch` updates later.
---@return table
function Loader:order_state() return self.orders.state end

---The figures of an epoch's plan: solver, sequences, tokens, packs, max_len, efficiency, factor,
---lower_bound, gap_packs, ...; and of its examples: random_next, cut, lost_tokens, split.
---@param epoch? integer the first by default
---@return table
function Loader:plan(epoch) return failure.must(self.core:plan(epoch)) end

---The plan itself as text, for the option `plan` and for seqrun.pack.
---@param epoch? integer
---@return string
function Loader:plan_text(epoch) return failure.must(self.core:plan_text(epoch)) end

---Tokens of each example of an epoch, by uid + 1.
---@param epoch? integer
---@return integer[]
function Loader:lengths(epoch) return failure.must(self.core:lengths(epoch)) end

---The share of the tokens of its part that stand in at least one example of an epoch; sentence pairs leave some out.
---Nil where every token is used: without pairs.
---@return number|nil
function Loader:used_share()
  if not self.options.nsp or not self.data or self.data:info().kind ~= "text" then return nil end
  local part = self.data:info()[self.options.part or "train"]
  self.used = self.used or failure.must(self.core:distinct()) / math.max(1, part.tokens)
  return self.used
end

---The origin of a fixed example: its number for Corpus:column and Corpus:decode (from 1), the number of tokens before
---it if it is a piece of a split one (first), and for windows their source and offset in it.
---@param uid integer
---@param epoch? integer
---@return { example: integer, first: integer, source?: integer, offset?: integer }
function Loader:origin(uid, epoch) return failure.must(self.core:origin(uid, epoch)) end

---How many examples an epoch has.
---@param epoch? integer
---@return integer
function Loader:examples(epoch) return self:plan(epoch).sequences end

---What a run prints about its data.
---@return table
function Loader:summary()
  self.first_plan = self.first_plan or self:plan()
  local plan, packs, target = self.first_plan, self:cursor().packs, self:sequences_per_update()
  local exact = self.options.by == "sequences" or is_weighted(self.options)
  local first = self.orders and self.orders.curriculum and self.orders.curriculum:first_update()
  if self.orders then packs = first and first.packs or self.options.micro_packs or 1 end -- an order may have any
  if exact then packs = math.ceil(target / plan.factor) end -- as the plan of a whole epoch would have them
  local micro = self.options.micro_packs or packs
  return {
    by = exact and "sequences" or self:draws_by(), part = self.options.part or "train",
    arrange = self.options.arrange or "packed", packs = packs,
    micro_packs = first and micro or math.min(packs, micro), -- a curriculum's later updates may be larger
    packs_per_epoch = plan.packs,
    sequences = plan.sequences, factor = plan.factor, efficiency = plan.efficiency, max_len = plan.max_len,
    schedule_steps = target and not exact and packs * plan.factor / target or 1, -- per update, on average
    varies = target and not exact or false, -- whether updates differ in it
  }
end

---Seconds that next() waited for its updates, in all.
---@return number
function Loader:waited() return self.core:waited() end

---An update of these examples, in this order, with its own denominators.
---@param uids integer[]
---@param options? { arrange?: string, epoch?: integer }
---@return seqrun.Update
function Loader:update_of(uids, options)
  options = check.options("loader:update_of", options, { arrange = true, epoch = true })
  local epoch = options.epoch or self.options.epoch or 0
  local arrange = options.arrange or self.options.arrange or "packed"
  return targets.make(new_update(failure.must(self.core:update_of(uids, epoch, arrange))), self.makers)
end

---One batch of these examples; "single" takes one example.
---@param uids integer[]
---@param options? { arrange?: string, epoch?: integer }
---@return seqrun.Batch
function Loader:batch_of(uids, options)
  local update = self:update_of(uids, options)
  if update.count ~= 1 then
    check.fail("loader:batch_of: %d single examples make %d batches; use loader:update_of", #uids, update.count)
  end
  return update:batch(1)
end

---Stops the workers and releases the memory.
function Loader:close() self.core:close() end

Loader.__close = Loader.close

return Loader
