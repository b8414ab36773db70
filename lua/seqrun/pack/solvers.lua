-- solvers.lua - the solvers by name: those built in, and those written in Lua.

local check = require("seqrun.base.check")
local core = require("seqrun.core.pack")
local guess = require("seqrun.base.guess")
local sorted = require("seqrun.base.sorted")

local solvers = {}

---@alias seqrun.LuaSolver fun(counts: integer[], options: { max_len: integer, max_seqs?: integer }): table[]

local registered = {} ---@type table<string, seqrun.LuaSolver>

---Adds a solver.  It gets the counts by length and the options, and returns a list of patterns,
---{ count = packs, length, length, ... } each; the plan made of them is checked like any other.  Loaders and
---runs take it by its name.
---@param name string
---@param solver seqrun.LuaSolver
function solvers.register(name, solver)
  if type(name) ~= "string" or not name:find("^[%w_%-]+$") or #name > 31 then
    check.fail("pack.register: a name must be up to 31 letters, digits, '_' and '-'")
  end
  for _, taken in ipairs(core.solvers()) do
    if taken == name then check.fail("pack.register: '%s' is a built-in solver", name) end
  end
  registered[name] = solver
end

---The names of all solvers, the default first.
---@return string[]
function solvers.names()
  local names, own = core.solvers(), sorted(registered)
  return table.move(own, 1, #own, #names + 1, names)
end

---The names of the solvers that are not written in Lua.
---@return string[]
function solvers.builtin() return core.solvers() end

---Whether a solver was added by pack.register().
---@param name string
---@return boolean
function solvers.is_registered(name) return registered[name] ~= nil end

---Solves a histogram with a solver of either kind.
---@param histogram seqrun.core.pack.pack_histogram
---@param options seqrun.PackSourceOptions
---@return seqrun.core.pack.pack_plan? plan
---@return string? message
---@return string? code
---@return number? milliseconds of a solver written in Lua
function solvers.solve(histogram, options)
  local own = registered[options.solver]
  if not own then return core.solve(histogram, options) end
  local began = os.clock()
  local max_len = histogram:info().max_len
  local patterns = own(histogram:counts(), { max_len = max_len, max_seqs = options.max_seqs })
  if type(patterns) ~= "table" then
    local text = "pack: solver %s returned a %s; expected a list of patterns, { count = packs, length, ... } each"
    error(text:format(options.solver, type(patterns)), 0)
  end
  local plan, message, code = core.plan(histogram, patterns, options)
  -- what is internal for a built-in solver is here an error of the caller's
  if not plan then return nil, message, code == "internal" and "invalid" or code end
  return plan, nil, nil, (os.clock() - began) * 1e3
end

---Whether a solver of this name exists.
---@param name? string nil is the default solver
---@return true? known
---@return string? message
function solvers.check(name)
  local names = solvers.names()
  for _, known in ipairs(names) do
    if name == nil or known == name then return true end
  end
  local text = "pack: unknown solver '%s'%s; choose one of: %s"
  return nil, text:format(tostring(name), guess.hint(tostring(name), names), table.concat(names, ", "))
end

return solvers
