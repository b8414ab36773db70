-- pack - from lengths to a plan: which lengths share a pack, how efficiently, and how near to the optimum.
--
--     local plan = sr.must(sr.pack({ 12, 300, 77, 512 }, { max_len = 512 }))
--     print(plan)                                   -- packs, efficiency, lower bound, gap
--     print(plan:view(1))                           -- a drawing of pack 1
--     sr.must(plan:save("novels.plan"))
--     print(sr.pack.compare("wikipedia.hist"))      -- every solver, and what people do today
--
-- A source is a list of lengths, a data set (anything with :lengths()), a histogram (sr.pack.histogram),
-- or the path of a .hist file or a data set.

local check = require("seqrun.base.check")
local core = require("seqrun.core.pack")
local plans = require("seqrun.pack.plan")
local show = require("seqrun.pack.show")
local solvers = require("seqrun.pack.solvers")
local sources = require("seqrun.pack.source")
local sys = require("seqrun.core.sys")

local pack = {
  lengths = sources.lengths,
  histogram = sources.histogram,
  split = sources.split,
  register = solvers.register,
  solvers = solvers.names,
  builtin_solvers = solvers.builtin,
  is_registered = solvers.is_registered,
  check_solver = solvers.check,
  load = plans.load,
  parse = plans.parse,
}

core.histogram_class.__tostring, core.certificate_class.__tostring = show.histogram, show.certificate

---@class seqrun.PackSourceOptions: seqrun.PackOptions
---@field max_len? integer tokens of a pack; a histogram knows its own
---@field max_seqs? integer|"auto" maximum sequences per pack; nil: unlimited
---@field tolerance? number of "auto": how far above the bound without a limit, 0.0005 by default
---@field too_long? "error"|"truncate"|"split" what to do with sequences longer than max_len
---@field part? "train"|"held" of a data set
---@field epoch? integer of a data set, from 0

local OPTIONS = {
  max_len = true, max_seqs = true, tolerance = true, too_long = true, part = true, epoch = true, solver = true,
  iterations = true, seconds = true, seed = true, open = true,
}

local function check_options(what, options)
  check.options(what, options, OPTIONS)
  local max_len, max_seqs = options.max_len, options.max_seqs
  if max_len then check.integer(what .. ": max_len", max_len, 1, 65535) end
  if max_seqs and max_seqs ~= "auto" then check.integer(what .. ": max_seqs", max_seqs, 0) end
end

---Sequences are packed in their own order if they have one.
local function solve_source(source, histogram, options)
  local ordered = type(source) == "table" and not source.lengths
  if options.solver == "online" and ordered then
    return core.online(source, histogram:info().max_len, options, options.too_long)
  end
  return solvers.solve(histogram, options)
end

---Packs a source.
---@param source any a list of lengths, a data set, a histogram, or a path
---@param options? seqrun.PackSourceOptions
---@return seqrun.Plan? plan
---@return string? message
---@return string? code
function pack.pack(source, options)
  options = options or {}
  check_options("pack", options)
  local known, problem = solvers.check(options.solver)
  if not known then check.fail("%s", problem) end
  local histogram, message, code = sources.lengths(source, options)
  if not histogram then return nil, message, code end
  local own, reason = {}, nil
  for key, value in pairs(options) do own[key] = value end
  if own.max_seqs == "auto" then
    own.max_seqs = nil
    local base, began = solvers.is_registered(own.solver) and { seconds = own.seconds } or own, sys.now()
    own.max_seqs, reason, code = core.choose_depth(histogram, base, own.tolerance)
    if not own.max_seqs then return nil, reason, code end
    if own.seconds then own.seconds = math.max(own.seconds / 4, own.seconds - (sys.now() - began)) end
  end
  local plan, ms
  plan, message, code, ms = solve_source(source, histogram, own)
  if not plan then return nil, message, code end
  return plans.wrap(plan, { reason = reason, milliseconds = ms })
end

---Compares all solvers and common baselines on one source; prints as a table.
---@param source any
---@param options? seqrun.PackSourceOptions
---@return seqrun.PackComparison? comparison
---@return string? message
---@return string? code
function pack.compare(source, options)
  options = options or {}
  check_options("pack.compare", options)
  local histogram, message, code = sources.lengths(source, options)
  if not histogram then return nil, message, code end
  return require("seqrun.pack.compare")(pack, histogram, options)
end

---Assigns the packs of one global batch to ranks: equal numbers, costs as even as possible.
---@param packs integer[][] the lengths in each pack
---@param groups integer
---@param cost? { per_token?: number, per_square?: number } a and b of a * tokens + b * sum len^2
---@param balance? "cost"|"random" as the key `balance` of a run; cost by default
---@return integer[] group of each pack, from 1
---@return number imbalance: the most expensive group over the mean
function pack.assign(packs, groups, cost, balance)
  local a, b = cost and cost.per_token or 1, cost and cost.per_square or 1 / 512
  local costs = {}
  for i, lengths in ipairs(packs) do
    local total = 0
    for _, length in ipairs(lengths) do total = total + a * length + b * length * length end
    costs[i] = total
  end
  return core.assign(costs, groups, balance)
end

---Length histogram and efficiency by depth, as text for a terminal.
---@param source any
---@param options? seqrun.PackSourceOptions
---@return string? drawing
---@return string? message
---@return string? code
function pack.plot(source, options)
  local histogram, message, code = sources.lengths(source, options)
  if not histogram then return nil, message, code end
  return require("seqrun.pack.draw").terminal(histogram, pack, options or {})
end

---The same as an SVG picture.
---@param source any
---@param options? seqrun.PackSourceOptions
---@return string? svg
---@return string? message
---@return string? code
function pack.svg(source, options)
  local histogram, message, code = sources.lengths(source, options)
  if not histogram then return nil, message, code end
  return require("seqrun.pack.draw").svg(histogram, pack, options or {})
end

---A certificate file.
---@param path string
---@return seqrun.core.pack.Certificate? certificate
---@return string? message
---@return string? code
function pack.load_certificate(path) return core.load_certificate(path) end

return setmetatable(pack, { __call = function(_, ...) return pack.pack(...) end })
