-- measured.lua - metric files that a curriculum makes itself: those that are quick to compute and do not exist yet,
-- and those of the examples of later epochs.  A dry run keeps none.

local core = require("seqrun.core.metric")
local draft_of = require("seqrun.base.draft")
local failure = require("seqrun.base.failure")
local output = require("seqrun.base.output")
local ranks = require("seqrun.tensor.ranks")
local sys = require("seqrun.core.sys")
local text = require("seqrun.base.format")
local training = require("seqrun.tensor.training")
local Metric = require("seqrun.data.metric")

local measured = {}

---Metrics that cost a run nothing worth mentioning, from the tokens alone; see docs/theory/data_efficiency.md.
measured.QUICK = { "length", "rarity", "rarity_integer", "length_rarity" }

function measured.is_quick(name)
  for _, quick in ipairs(measured.QUICK) do
    if quick == name then return true end
  end
  return false
end

---The metric that a file has by its name, DATA.METRIC.metric; else that of the key.
---@param key string
---@param path string file, or name of a metric
function measured.name_of(key, path)
  if measured.is_quick(path) then return path end
  return path:match("%.([%w_-]+)%.metric$") or path:match("([^/]*)%.lua$") or key
end

---The examples of a loader, as options of sr.data.analyze.
local function subject(loader, epoch)
  local o = loader.options
  epoch = epoch or o.epoch
  return {
    data = loader.data, part = o.part, max_len = o.max_len, nsp = o.nsp, short_seq_prob = o.short_seq_prob,
    short_seq_by = o.short_seq_by, seed = o.seed, too_long = o.too_long, epoch = epoch,
  }
end

---Computes a metric; `way`: what to do where its file cannot be written.
local function compute(loader, spec, epoch, way)
  local options = subject(loader, epoch)
  options.metrics = { spec }
  local made, message, code = require("seqrun.analysis").analyze(options)
  if not made then failure.raise(code, "%s%s", message, code == "storage" and way or "") end
  return made[1]
end

---The arguments that make `seqrun analyze` write this file, and what spares that for a metric of a person's own.
local function command(loader, name)
  local known, spared = table.concat(require("seqrun.analysis.kinds").names(), " "), ""
  if not (" " .. known .. " "):find(" " .. name .. " ", 1, true) then
    name = name .. ".lua"
    spared = (", or name the Lua file instead, file: %s, which a run computes for its data and seed"):format(name)
  end
  local more = name == "loss" and " --checkpoint DIR" or name == "tfidf" and " --corpus FILE" or ""
  return ("seqrun analyze %s --metric %s%s%s"):format(text.shell(loader.data:info().path), name, more,
    core.arguments(loader.data.core, subject(loader))), spared
end

---The usual path, or if the file there is of other examples (another seed), one of their own.
local function usual_path(loader, name)
  local path_of, options = require("seqrun.analysis").path_of, subject(loader)
  local path = path_of(loader.data, name)
  local known = sys.exists(path) and failure.valid(Metric.open(path))
  if not known or known:is_of(loader.data, loader.options) then return path end
  local own = sys.hash(table.concat({
    loader.data:info().digest, core.arguments(loader.data.core, options), tostring(options.epoch),
  }, "|"))
  return path_of(loader.data, ("%s-%s"):format(name, own:sub(1, 8)))
end

---A key with the name of a metric has no file of another one.
local function check_name(key, path, metric)
  local name = metric:name()
  if not measured.is_quick(key) or name:find(key, 1, true) then return end
  failure.raise("config", "%s has the metric '%s'; give a file of '%s', or use another key for this one", path, name,
    key)
end

---Removes a file at the end of a block, however it ends, and what an analysis that stopped left of it.
local function removed(path)
  return setmetatable({ path = path }, { __close = function(self)
    for _, ending in ipairs { ".part", "" } do
      if self.path then sys.remove(self.path .. ending) end
    end
  end })
end

---The metric of a Lua file, made unless the usual path has that of the same function and the same examples.
local function of_lua(loader, file, name)
  local path, scratch <close> = usual_path(loader, name), training.scratch()
  if scratch and not sys.exists(path) then path = ("%s/%s.metric"):format(scratch.path, name) end
  return compute(loader, { name = file, path = path }, nil, "")
end

local function first(loader, key, path, any)
  if loader.data:sources() then
    failure.raise("config", "%s: a metric belongs to one data set, not to the list %s; prepare the texts as one data "
      .. "set, or leave the metric out", key, loader.data:info().path)
  end
  local name = measured.name_of(key, path)
  if path:find("%.lua$") then return of_lua(loader, path, name) end
  if path == name then path = usual_path(loader, name) end
  if sys.exists(path) then
    local metric = failure.must(Metric.open(path))
    check_name(key, path, metric)
    return metric
  end
  if not any and not measured.is_quick(name) then
    failure.raise("config", "%s does not exist; make it with `%s`%s", path, command(loader, name))
  end
  local began = sys.now()
  local scratch <close> = training.scratch()
  local own = scratch and ("%s/%s.metric"):format(scratch.path, name)
    or draft_of(path) -- other runs, or other ranks, may compute it now
  local guard <close> = removed(own)
  local way = ("; or make it in a directory that can be written, with `%s --out DIR`, and set curriculum.%s.file to "
    .. "the file there"):format((command(loader, name)), key)
  compute(loader, { name = name, path = own }, nil, any and "" or way):close()
  if not scratch then failure.must(os.rename(own, path)) end
  guard.path = nil -- with a scratch directory, that goes with all in it
  local metric = failure.must(Metric.open(scratch and own or path))
  output.note("%s%s: %s did not exist; computed for %d sequences in %.1f s%s", any and "" or "curriculum.", key, path,
    metric:count(), sys.now() - began, scratch and "; not kept" or "")
  return metric
end

---The metric of a file for the first epoch; made if it does not exist and is quick, or may take its time.
---@param loader seqrun.Loader|{ data: seqrun.Corpus, options: table }
---@param key string
---@param path string
---@param any? boolean also one that is not quick
---@return seqrun.Metric
function measured.first(loader, key, path, any)
  return ranks.in_turn(function() return first(loader, key, path, any) end)
end

---The same metric of the examples of another epoch.  Its file is removed once it is open.
---@param loader seqrun.Loader
---@param metric seqrun.Metric of the first
---@param epoch integer
---@return seqrun.Metric
function measured.again(loader, metric, epoch)
  local about = metric.about
  local scratch <close> = training.scratch()
  local path = draft_of(("%s.epoch%d"):format(scratch and scratch.path .. "/metric" or about.path, epoch))
  local guard <close> = removed(path)
  local slots = math.tointeger(tonumber((about.options or ""):match("^(%d+) slots")))
  return compute(loader, { name = about.name, path = path, slots = slots }, epoch)
end

return measured
