-- loading.lua - a checkpoint's values, configuration, weights and moments, read back

local check = require("seqrun.base.check")
local directory = require("seqrun.checkpoint.directory")
local exact = require("seqrun.base.exact")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local model = require("seqrun.checkpoint.model")
local moments = require("seqrun.checkpoint.moments")
local sys = require("seqrun.core.sys")

local loading = {}

local function read_state(path)
  local text = failure.must(sys.read_file(path .. "/trainer/state.json", 1 << 28))
  local value, message, code = exact.decode(text)
  if type(value) ~= "table" or math.type(value.step) ~= "integer" or type(value.state) ~= "table" then
    failure.raise(code or "data", "%s/trainer/state.json: %s", path, message or "not a state")
  end
  return value
end

---The trainer's plain values of a checkpoint: { step, state, optimizer }.
---@param path string
---@return table|nil
---@return string? message
---@return string? code
function loading.state(path) return failure.returned(read_state, path) end

local function read_config(path)
  local folder = failure.must(directory.resolve(path))
  local config, message = json.decode(failure.must(sys.read_file(folder .. "/config.json", 1 << 20)))
  if type(config) ~= "table" then
    failure.raise("data", "%s/config.json: %s", folder, message or "not an object")
  end
  for key, value in pairs(config) do
    if value == json.null then config[key] = nil end
  end
  return config
end

---config.json of a checkpoint, as a table.
---@param path string a directory, or a run's directory
---@return table|nil
---@return string? message
---@return string? code
function loading.config(path) return failure.returned(read_config, path) end

---The result of checkpoint.load.
---@class seqrun.Loaded
---@field path string
---@field report seqrun.LoadReport
---@field step? integer
---@field state? table

---Fills an optimizer, if there is one: its moments, and what the saved values say about them.
local function load_optimizer(folder, opt, carry, values)
  if not opt then return end
  local function taken(ok, message, code)
    if not ok then failure.raise(code or "invalid", "%s: %s", folder, message) end
  end
  if carry == "moments" and values and opt.carry then taken(opt:carry(values)) end
  local averaged = values ~= nil and opt.takes_average ~= nil and opt:takes_average(values)
  failure.must(moments.load(folder, opt, averaged))
  if carry == "resume" and values then taken(opt:restore(values)) end
end

---Replaces the weights that were loaded by their average.
local function load_average(folder, params, report)
  local weights, rows = {}, {}
  for _, param in ipairs(params.list) do rows[param.name] = param.longer ~= nil end
  for _, one in ipairs(report.loaded) do
    weights[one.from] = { tensor = params:master(one.name):detach(), longer = rows[one.name] }
  end
  local ok, message, code = moments.load_average(folder, weights)
  params:refresh()
  failure.must(ok, message, code)
end

local function load(path, t)
  local carry = t.carry or "weights"
  local folder = failure.must(directory.resolve(path))
  local report = model.load(folder, t.model, { seed = carry ~= "resume" and t.seed or nil, fresh = t.fresh })
  if t.average then load_average(folder, t.model, report) end
  local loaded = { path = folder, report = report }
  if carry == "weights" then return loaded end

  local missing = report.missing[1]
  if carry == "resume" and missing then
    failure.raise("data", "%s: has no parameter '%s'; a resume needs all of them", folder, missing.name)
  end
  local values = read_state(folder)
  load_optimizer(folder, t.opt, carry, values.optimizer)
  if carry ~= "resume" then return loaded end
  loaded.step, loaded.state = values.step, values.state
  return loaded
end

---Loads weights, and with `opt` the moments, from a run's directory, a checkpoint, a Hugging Face directory or
---a safetensors file.
---
---  carry   "resume": everything must be present; counts and state are restored too; "moments": weights
---          and moments, counts restart; "weights" (the default): weights alone
---  seed    initialises parameters that the checkpoint lacks; without it they are unchanged
---  fresh   names of parameters that are not loaded, whatever the checkpoint has
---  average   the weights are the moving average that the checkpoint has; not with a resume
---@param path string
---@param t { model: seqrun.Params, opt?: seqrun.Optimizer, carry?: "weights"|"moments"|"resume", seed?: integer,
---  fresh?: string[], average?: boolean }
---@return seqrun.Loaded|nil
---@return string? message
---@return string? code
function loading.load(path, t)
  if type(t) ~= "table" or not t.model then
    check.fail("checkpoint.load: expected the parameters to load, as in load(path, { model = bert.params })")
  end
  return failure.returned(load, path, t)
end

return loading
