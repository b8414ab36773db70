-- own_step.lua - training steps of this program on made-up packs, timed, here or on ranks that mpirun starts.
--
-- Every pack holds two sequences, of 3/4 and 1/4 of its tokens, so that a token attends to 5/8 of a pack on average;
-- 15 % of the rows are masked.

local json = require("seqrun.core.json")
local nn = require("seqrun.nn")
local optim = require("seqrun.optim")
local shares = require("seqrun.data.loader.shares")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local own_step = {}

---Mean number of tokens that a token of a made-up pack attends to, over the tokens of the pack.
own_step.ATTENDED = (0.75 ^ 2 + 0.25 ^ 2)

local SEED = 1

---Whether token i of a sequence is masked: one in seven is.
---@param sequence { uid: integer }
---@param i integer from 0
---@return boolean
function own_step.is_masked(sequence, i) return (sequence.uid + i) % 7 == 0 end

---Token ids, types, masked rows and labels of sequences at given starts.  The content of a sequence is a function of
---its uid, so that every arrangement sees the same.
local function fill(sequences, starts, rows, vocabulary)
  local ids, types, masked, labels = {}, {}, {}, {}
  for r = 1, rows do ids[r], types[r] = 0, 0 end
  for s, sequence in ipairs(sequences) do
    for i = 0, sequence.length - 1 do
      local id = (sequence.uid * 7919 + i * 104729) % vocabulary
      ids[starts[s] + i + 1] = id
      types[starts[s] + i + 1] = i > sequence.length // 2 and 1 or 0
      if own_step.is_masked(sequence, i) then
        masked[#masked + 1], labels[#labels + 1] = starts[s] + i, (id * 31 + 1) % vocabulary
      end
    end
  end
  return ids, types, masked, labels
end

---A micro-batch of made-up sequences.
---@param sequences { length: integer, uid: integer }[]
---@param starts integer[] their first rows
---@param rows integer
---@param totals { masked: integer, sequences: integer } of the update
---@param o { vocabulary: integer, seed: integer }
---@return table batch
---@return table<string, integer[]> read the rows that each target reads
function own_step.batch(sequences, starts, rows, totals, o)
  local lens, uids = {}, {}
  for s, sequence in ipairs(sequences) do lens[s], uids[s] = sequence.length, sequence.uid end
  local ids, types, masked, labels = fill(sequences, starts, rows, o.vocabulary)
  local weights, nsp, halves = {}, {}, {}
  for i = 1, #masked do weights[i] = 1 / totals.masked end
  for s = 1, #sequences do nsp[s], halves[s] = s % 2, 1 / totals.sequences end
  local int = { dtype = "i32" }
  local function kept(list, options) return tensor.tensor(list, options):keep() end
  return {
    layout = tensor.layout { lens = lens, starts = starts, uids = uids, rows = rows, seed = o.seed },
    ids = kept(ids, int), types = kept(types, int),
    targets = {
      mlm = { rows = kept(masked, int), labels = kept(labels, int), weights = kept(weights) },
      nsp = { rows = kept(starts, int), labels = kept(nsp, int), weights = kept(halves) },
    },
  }, { mlm = masked, nsp = starts }
end

---A micro-batch of packs of two sequences, of an update of `all` packs.
local function batch_of(vocabulary, seq, packs, all, uid)
  local first, sequences, starts = seq * 3 // 4, {}, {}
  for p = 0, packs - 1 do
    for half, length in ipairs { first, seq - first } do
      sequences[#sequences + 1] = { length = length, uid = uid + 2 * p + half }
      starts[#starts + 1] = p * seq + (half - 1) * first
    end
  end
  return (own_step.batch(sequences, starts, packs * seq, { masked = all * seq / 7, sequences = 2 * all },
    { vocabulary = vocabulary, seed = SEED }))
end

---The least of some timings of a function.
---@param repeats integer
---@param fn fun()
---@return number
function own_step.least(repeats, fn)
  local least = math.huge
  for _ = 1, repeats do
    local begin = sys.now()
    fn()
    least = math.min(least, sys.now() - begin)
  end
  return least
end

---@class seqrun.advise.OwnStep
---@field bert seqrun.Bert
---@field update fun() the optimizer
---@field pass fun() forward and backward of all micro-batches
---@field kept integer bytes of activations after the forward of a micro-batch; 0 before the first pass
local OwnStep = {}
OwnStep.__index = OwnStep

local awake = setmetatable({}, { __close = function() collectgarbage("restart") end })

---What `fn` returns, and the bytes of tensors that it leaves.  Lua's collector frees what others left before, and then
---rests; many new tensors wake it, but it finds none of others.
local function kept_by(fn)
  collectgarbage()
  local _ <close> = collectgarbage("isrunning") and awake or nil
  collectgarbage("stop")
  local before = tensor.memory().used
  local result = fn()
  return result, tensor.memory().used - before
end

---The first pass, whose time does not count, measures what is kept.
local function passes(self, update)
  local measure = self.kept == 0
  for batch in shares.each(update, { self.bert.params }) do
    local scope <close> = tensor.scope()
    local function forward() return self.bert:losses(batch).total end
    if measure then
      local loss, bytes = kept_by(forward)
      self.kept = math.max(self.kept, bytes)
      loss:backward()
    else
      forward():backward()
    end
  end
  tensor.synchronize()
end

---The micro-batches of an update; those of this rank are made when they are first needed.
local function update_of(m, o, world)
  local made = {}
  return {
    count = o.batch // o.micro_batch, rank = world and world.rank, ranks = world and world.size,
    batch = function(_, i)
      made[i] = made[i] or batch_of(m.vocabulary, o.seq, o.micro_batch, o.batch, 2 * (i - 1) * o.micro_batch)
      return made[i]
    end,
  }
end

---@class seqrun.advise.OwnStep.Options
---@field seq integer
---@field batch integer packs of an update, of all ranks
---@field micro_batch integer
---@field recompute? boolean
---@field shard? boolean each rank updates its part of the parameters
---@field layers? integer default: the model's
---@field world? seqrun.World the ranks that share the update

---The config for sr.nn.bert.
local function config_of(m, o)
  local config, layers = {}, o.layers or m.layers
  for key, value in pairs(m.config) do config[key] = value end
  config[config.n_layers and "n_layers" or "num_hidden_layers"] = layers
  config.layer_types, config.heads = nil, { "mlm" }
  if (m.positions or o.seq) < o.seq then config.max_position_embeddings = o.seq end
  if type(config.experts) == "table" then
    local list = config.experts
    config.experts = table.move(list, 1, layers, 1, {})
    for i = #list + 1, layers do config.experts[i] = list[#list] end
  end
  return config
end

---@param m seqrun.advise.Model an encoder
---@param o seqrun.advise.OwnStep.Options
---@return seqrun.advise.OwnStep
function own_step.new(m, o)
  local bert = nn.bert(config_of(m, o))
  bert:initialise(SEED)
  bert.recompute = o.recompute or false
  local world = o.world and o.world.size > 1 and o.world or nil
  local shard = world and o.shard or nil
  if world then bert.params:share_with(world, { sharded = shard }) end
  local optimizer, update = optim.adamw(bert.params, { world = world, shard = shard }), update_of(m, o, world)
  local self = setmetatable({ bert = bert, kept = 0 }, OwnStep)
  function self.update() optimizer:step { rate = 1e-5, clip = 1.0 } tensor.synchronize() end
  function self.pass() passes(self, update) end
  return self
end

---Seconds of a step: the least of some, after one that is not counted.
---@param repeats integer
---@return number
function OwnStep:seconds(repeats)
  local function step()
    self.pass()
    self.update()
  end
  step()
  return own_step.least(repeats, step)
end

-- ---- ranks ---------------------------------------------------------------------------------------

---What each rank runs: rank 0 prints the seconds of a step and the bytes it keeps.
---@param text string of start()
function own_step.as_rank(text)
  local o = json.decode(text)
  tensor.use("cpu", { threads = o.threads })
  o.world = require("seqrun.tensor.ranks").open()
  local step = own_step.new(o.model, o)
  local seconds = step:seconds(o.repeats)
  if o.world.rank == 0 then print(("own step: %.9g s, %d bytes"):format(seconds, step.kept)) end
end

local START = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n %d "
  .. "'%s' -e '%s' 2>&1"

---Times a step on ranks of this machine.
---@param m seqrun.advise.Model
---@param o seqrun.advise.OwnStep.Options
---@param how { ranks: integer, threads: integer, repeats: integer }
---@return number|nil seconds, integer|string kept bytes that rank 0 keeps, or why there is no measurement
function own_step.on_ranks(m, o, how)
  local text = json.encode {
    model = { config = m.config, layers = m.layers, positions = m.positions, vocabulary = m.vocabulary },
    seq = o.seq, batch = o.batch, micro_batch = o.micro_batch, recompute = o.recompute,
    shard = o.shard, threads = how.threads, repeats = how.repeats,
  }
  local expression = ("require(%q).as_rank(%q)"):format("seqrun.advise.own_step", text):gsub("'", "'\\''")
  local pipe = assert(io.popen(START:format(how.ranks, sys.real_path("/proc/self/exe"), expression)))
  local out = pipe:read("a")
  pipe:close()
  local seconds, kept = out:match("own step: (%S+) s, (%d+) bytes")
  if not seconds then return nil, out:match("[^\n]*seqrun: ([^\n]+)") or "mpirun did not start ranks" end
  return tonumber(seconds), math.tointeger(tonumber(kept))
end

return own_step
