-- resuming.lua - where a run begins: at its newest checkpoint, at another run's, or at random weights.

local checkpoint = require("seqrun.checkpoint")
local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local shipped = require("seqrun.base.shipped")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")

local resuming = {}

---The data set of a run by its contents; nil for a recipe that names none.
---@param corpus? table
---@return string|nil
function resuming.digest(corpus) return corpus and corpus:info().digest end

---Fails if the data set has changed since the run started: resuming needs the same examples under the same uids.
local function check_data(corpus, state)
  local digest = resuming.digest(corpus)
  if not state.data or not digest or state.data == digest then return end
  failure.raise("data", "%s has changed since the run started (digest %s, was %s); restore the old data set, or "
    .. "start a new run with --out", corpus:info().path, digest, state.data)
end

-- ---- schedules -------------------------------------------------------------------------------

---The state of a schedule that has one; most are functions of the counters alone.
local function state_of(schedule)
  local meta = getmetatable(schedule)
  return type(schedule) == "table" and type(meta) == "table" and schedule.state and schedule:state() or nil
end

---The states of the rate and of the other schedules.
---@param rate? function|table
---@param schedules? table<string, seqrun.ValueSchedule>
---@return table|nil rate
---@return table<string, table> schedules
function resuming.schedules(rate, schedules)
  local states = {}
  for name, schedule in pairs(schedules or {}) do states[name] = state_of(schedule) end
  return state_of(rate), states
end

---A table with the names of today.
local function today(saved)
  local list = {}
  for name, value in pairs(saved) do list[config.RENAMED[name] or name] = value end
  return list
end

---The names of what depends on the time.
local function timed(t)
  local list, order = {}, t.loader.options and t.loader.options.order
  local function look(name, schedule)
    if type(schedule) == "table" and schedule.by == "seconds" then list[#list + 1] = name end
  end
  look("rate", t.rate)
  for name, schedule in pairs(t.schedules or {}) do look(name, schedule) end
  if type(order) ~= "table" then order = {} end
  for _, key in ipairs(order.schedules or {}) do look(key, order[key]) end
  for name, metric in pairs(order.metrics or {}) do look(name, metric.schedule) end
  table.sort(list)
  return list
end

---Restores the schedules, and warns of what depends on the time.
---@param state table of the checkpoint
---@param t { rate?: function|table, schedules?: table<string, seqrun.ValueSchedule>, loader: seqrun.Loader,
---  screen: seqrun.Screen }
function resuming.restore_schedules(state, t)
  local saved = today(state.schedules or {})
  for name, schedule in pairs(t.schedules or {}) do
    if saved[name] then schedule:restore(saved[name]) end
  end
  for _, name in ipairs(timed(t)) do
    t.screen:warn("%s depends on time, so results differ from those of a run without the stop, except for updates "
      .. "that were already drawn", name)
  end
  if state.rate and t.rate then t.rate:restore(state.rate) end
end

---The keys of the rate whose values are not those of a checkpoint: { ["rate.peak"] = { from = "1e-3", to = "5e-4" } };
---nil if there are none.
---@param loaded seqrun.Config
---@param path string
---@return table<string, { from: string, to: string }>|nil
function resuming.new_rates(loaded, path)
  local file, found = path .. "/trainer/config.yaml", {}
  local before = sys.exists(file) and failure.valid(config.load { schema = loaded.schema, file = file })
  for _, change in ipairs(before and loaded:differences(before) or {}) do
    if change.path:find("^rate%.") then found[change.path] = { from = change.theirs, to = change.mine } end
  end
  return next(found) and found or nil
end

-- ---- the newest checkpoint -------------------------------------------------------------------

---The newest checkpoint of the run; nil if there is none.  All ranks call it.
---@param directory seqrun.RunDirectory
---@param ranks seqrun.RunRanks
---@return { path: string, state: table }|nil found
function resuming.find(directory, ranks)
  local path = failure.there(directory:newest(ranks))
  return path and { path = path, state = failure.must(checkpoint.state(path)).state }
end

---Loads the weights and moments of a checkpoint.
---@param found { path: string, state: table }
---@param t { model: table, optimizer: table, corpus?: table }
---@return table state of the rest of the run
function resuming.load(found, t)
  check_data(t.corpus, found.state) -- before tensors, whose shapes depend on it
  local parts = { model = t.model.params, opt = t.optimizer, carry = "resume" }
  return failure.must(checkpoint.load(found.path, parts)).state
end

---The rest of the run has taken up its state: says so, and what may give other bits than before.
---@param state table
---@param path string of the checkpoint
---@param t { folder: string, ranks: seqrun.RunRanks, saves: seqrun.Saves, screen: seqrun.Screen }
function resuming.resolve(state, path, t)
  if state.instructions ~= devices.instructions() then
    local why = devices.refused_instructions()
    t.screen:warn("the run used %s instructions before; resuming with %s is not bit-exact%s",
      tostring(state.instructions), devices.instructions(), why and (" (%s)"):format(why) or "")
  end
  if sys.exists(path .. "/trainer/choices.txt") then -- of a version that timed the products of a GPU
    t.screen:warn("%s/trainer/choices.txt is ignored: products are no longer chosen by timing, so resuming is not "
      .. "bit-exact", path)
  end
  t.ranks:first_does(function() failure.must(checkpoint.set_aside(t.folder, state.step)) end)
  t.saves:resumed(state.step, path)
  t.screen:say("resumed from %s at step %d", path, state.step)
end

-- ---- another run's ---------------------------------------------------------------------------

---Fails if the tokenizer of a checkpoint is not that of the data set.
local function check_tokenizer(t, folder)
  if not t.corpus then return end
  local theirs, message, code = checkpoint.vocabulary.read(folder)
  if message then failure.raise(code, "init.from: %s", message) end
  if not theirs then
    t.screen:warn("%s has no tokenizer, so it cannot be compared with that of %s", folder, t.corpus:info().path)
    return
  end
  local difference = checkpoint.vocabulary.difference(theirs, t.corpus:tokenizer())
  if not difference then return end
  failure.raise("data", "init.from: the tokenizer of %s differs from that of the data set %s (%s); prepare the data "
    .. "with vocab.file=%s, or train from scratch with init.from=none", folder, t.corpus:info().path, difference,
    folder)
end

---What no shape of a tensor shows.
local UNSEEN = { heads = "attention heads", kv_heads = "heads of keys and values", act = "activation" }

---Both are named gelu by the configs of TensorFlow's BERT, and differ by less than 5e-4.
local ALIKE = { gelu = true, gelu_tanh = true }

---Fails if the experts of a checkpoint are not those of the model.  Those of a model may come from a checkpoint without
---experts: each is a copy of its feed-forward block.
local function check_experts(t, folder, theirs)
  local mine, list = t.model.design.experts, {}
  if not theirs then
    if not mine or t.config.init.carry ~= "moments" then return end
    failure.raise("config", "init.from: %s has no experts, so it has no moments for those of the model; set "
      .. "init.carry=weights", folder)
  end
  for i = 0, t.model.design.layers - 1 do list[#list + 1] = theirs.counts[i] end
  local way = ("set model.experts=[%s] model.experts_chosen=%d model.experts_residual=%s"):format(
    table.concat(list, ","), theirs.chosen, theirs.residual)
  local same = mine ~= nil and mine.residual == theirs.residual and (mine.chosen == 1) == (theirs.chosen == 1)
  for i = 0, t.model.design.layers - 1 do same = same and mine.counts[i] == theirs.counts[i] end
  if same then return end
  failure.raise("config", "init.from: the model of %s has other experts than this one; %s", folder, way)
end

---Fails if the model would read the weights of a checkpoint in another way than the model that they are of.
local function check_design(t, folder)
  local facts, message, code
  if t.model.design and sys.exists(folder .. "/config.json") then
    facts, message, code = checkpoint.pretrained(folder)
  end
  if message then failure.raise(code, "init.from: %s", message) end
  local list = {}
  if facts then check_experts(t, folder, facts.design.experts) end
  for key, what in pairs(UNSEEN) do
    local mine, theirs = t.model.design[key], facts and facts.design[key]
    if facts and mine ~= theirs and not (ALIKE[mine] and ALIKE[theirs]) then
      list[#list + 1] = ("%s: %s there, %s here"):format(what, tostring(theirs), tostring(mine))
    end
  end
  if #list == 0 then return end
  table.sort(list)
  failure.raise("config", "init.from: the model of %s differs (%s); set the keys of model to those of its config.json",
    folder, table.concat(list, "; "))
end

---Names of the parameters that are initialized although the checkpoint has them: `fresh` of run:start, and those of all
---heads with init.heads=new.
local function fresh_parameters(t)
  local list = table.move(t.fresh or {}, 1, #(t.fresh or {}), 1, {})
  for _, head in ipairs(t.config.init.heads == "new" and t.model.heads or {}) do
    for _, spec in ipairs(head.specs) do list[#list + 1] = spec.name end
  end
  return #list > 0 and list or nil
end

---Parts of an encoder that checkpoints of other objectives, or without experts, do not have.
local MAY_BE_NEW = { "pooler", "expert", "router", "residual_gate" }

---Fails if a checkpoint lacks tensors of the encoder that nobody has asked to be new; poolers and experts may be.
local function check_encoder(t, loaded, fresh)
  local wanted, lost = {}, {}
  for _, name in ipairs(fresh or {}) do wanted[name] = true end
  for _, item in ipairs(loaded.report.missing) do
    local inside = t.model.encoder and item.name:find(t.model.encoder.prefix, 1, true) == 1
    for _, part in ipairs(MAY_BE_NEW) do inside = inside and not item.name:find(part, 1, true) end
    if inside and not wanted[item.name] then lost[#lost + 1] = item.name end
  end
  if #lost == 0 then return end
  failure.raise("data", "init.from: %s lacks the tensor '%s'%s of the encoder, which would be random; get the whole "
    .. "checkpoint, or list the parameters to initialize, run:start { fresh = ... }",
    loaded.path, lost[1], #lost > 1 and (" and %d others"):format(#lost - 1) or "")
end

---What to do without the run that init.from names: the usual directory of a recipe is made by the recipe.
local function way_to(path, preset)
  local recipe = ("recipes/%s.lua"):format(path:match("^runs/([%w_]+)$"))
  local first = shipped.seen(shipped.find(recipe)) and ("train it first with `seqrun %s%s`, "):format(recipe, preset
    and " preset=" .. preset or "") or ""
  return ("; %sgive a run or checkpoint, or init.from=none"):format(first)
end

---Starts from another run's checkpoint: its weights, and its moments when asked for.
---@param t { config: table, preset?: string, model: table, optimizer: table, corpus?: table, fresh?: string[],
---  screen: seqrun.Screen }
---@return table|nil origin what was loaded; nil if the weights are random
function resuming.start_from(t)
  local init = t.config.init
  if not init.from or init.carry == "none" then return nil end
  local folder = failure.valid(checkpoint.resolve(init.from))
  if folder and sys.is_dir(folder) then
    check_tokenizer(t, folder)
    if not init.tile then check_design(t, folder) end
  end
  local parts = {
    model = t.model.params, opt = t.optimizer, carry = init.carry, seed = t.config.seed, fresh = fresh_parameters(t),
    average = init.average,
  }
  local loaded, message, code
  if init.tile then
    loaded, message, code = checkpoint.tile(init.from, { model = t.model, fresh = parts.fresh })
  else
    loaded, message, code = checkpoint.load(init.from, parts)
  end
  if not loaded then
    failure.raise(code, "init.from: %s%s", message, code == "missing" and way_to(init.from, t.preset) or "")
  end
  if not init.tile then check_encoder(t, loaded, parts.fresh) end
  return loaded
end

---Reports what the run was initialized from, and what was missing or ignored.
---@param origin table|nil of `start_from`
---@param init table the keys of `init`
---@param screen seqrun.Screen
function resuming.tell_origin(origin, init, screen)
  local carry, average = init.carry, init.average
  if not origin then return end
  local report, unfit = origin.report, false
  for _, item in ipairs(report.ignored) do unfit = unfit or not item.known end
  screen:say("initialized from the %s of %s", average and carry == "weights" and "average of the weights" or carry
    .. (average and " and the average of the weights" or ""), origin.path)
  if #report.missing > 0 or unfit then screen:say("%s", tostring(report)) end
end

---Why nothing is trained, where the run was to end at this step or before.
---@param t { step: integer, total: integer, max_steps?: integer, folder: string }
---@return string
function resuming.nothing_left(t)
  local most = t.max_steps
  local where = most and most < t.step and ("beyond --max-steps %d, which is a total"):format(most) or "the last"
  local way = t.step < t.total and "raise --max-steps" or "start a run with init.from=" .. text.shell(t.folder)
  return ("step %d is %s, so nothing is trained: the weights are evaluated; to train them further, %s"):format(t.step,
    where, way)
end

return resuming
