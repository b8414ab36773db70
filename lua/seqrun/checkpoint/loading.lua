-- loading.lua - a checkpoint's values, configuration, weights and moments, read back

local check = require("seqrun.base.check")
local directory = require("seqrun.checkpoint.directory")
local exact = require("seqrun.base.exact")
local json = require("seqrun.core.json")
local model = require("seqrun.checkpoint.model")
local moments = require("seqrun.checkpoint.moments")
local sys = require("seqrun.core.sys")

local loading = {}

---The trainer's plain values of a checkpoint: { step, state, optimizer }.
---@param path string
---@return table|nil
---@return string? message
---@return string? code
function loading.state(path)
  local text, message, code = sys.read_file(path .. "/trainer/state.json", 1 << 28)
  if not text then return nil, message, code end
  local value
  value, message, code = exact.decode(text)
  if type(value) ~= "table" or math.type(value.step) ~= "integer" or type(value.state) ~= "table" then
    return nil, ("%s/trainer/state.json: %s"):format(path, message or "not a state"), code or "data"
  end
  return value
end

---What the device had chosen by timing when a checkpoint was saved, as a text (core/base/choices.h); "missing" where
---it chose nothing.
---@param path string
---@return string|nil
---@return string? message
---@return string? code
function loading.choices(path)
  local file = path .. "/trainer/choices.txt"
  if not sys.exists(file) then return nil, file .. ": no such file", "missing" end
  return sys.read_file(file, 1 << 24)
end

---config.json of a checkpoint, as a table.
---@param path string a directory, or a run's directory
---@return table|nil
---@return string? message
---@return string? code
function loading.config(path)
  local folder, message, code = directory.resolve(path)
  if not folder then return nil, message, code end
  local text
  text, message, code = sys.read_file(folder .. "/config.json", 1 << 20)
  if not text then return nil, message, code end
  local config
  config, message, code = json.decode(text)
  if type(config) ~= "table" then
    return nil, ("%s/config.json: %s"):format(folder, message or "not an object"), "data"
  end
  for key, value in pairs(config) do
    if value == json.null then config[key] = nil end
  end
  return config, nil, code
end

---The result of checkpoint.load.
---@class seqrun.Loaded
---@field path string
---@field report seqrun.LoadReport
---@field step? integer
---@field state? table

---Fills an optimizer, if there is one: its moments, and what the saved values say about them.
local function load_optimizer(folder, opt, carry, values)
  if not opt then return true end
  local ok, message, code = true, nil, nil
  if carry == "moments" and values and opt.carry then ok, message, code = opt:carry(values) end
  if not ok then return nil, ("%s: %s"):format(folder, message), code end
  local averaged = values ~= nil and opt.takes_average ~= nil and opt:takes_average(values)
  ok, message, code = moments.load(folder, opt, averaged)
  if not ok then return nil, message, code end
  if carry == "resume" and values then ok, message, code = opt:restore(values) end
  if not ok then return nil, ("%s: %s"):format(folder, message), code end
  return true
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
  return ok, message, code
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
  local carry = t.carry or "weights"
  local folder, message, code = directory.resolve(path)
  if not folder then return nil, message, code end
  local report
  report, message, code = model.load(folder, t.model, { seed = carry ~= "resume" and t.seed or nil, fresh = t.fresh })
  if not report then return nil, message, code end
  if t.average then
    local ok
    ok, message, code = load_average(folder, t.model, report)
    if not ok then return nil, message, code end
  end
  local loaded = { path = folder, report = report }
  if carry == "weights" then return loaded end

  local missing = report.missing[1]
  if carry == "resume" and missing then
    return nil, ("%s: has no parameter '%s'; a resume needs all of them"):format(folder, missing.name), "data"
  end
  local values
  values, message, code = loading.state(folder)
  if not values then return nil, message, code end
  local ok
  ok, message, code = load_optimizer(folder, t.opt, carry, values.optimizer)
  if not ok then return nil, message, code end
  if carry ~= "resume" then return loaded end
  loaded.step, loaded.state = values.step, values.state
  return loaded
end

return loading
