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

local check = require("seqrun.check")
local core = require("seqrun.core.pack")
local guess = require("seqrun.guess")
local show = require("seqrun.pack.show")
local sys = require("seqrun.core.sys")

local pack = {}

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

---@param name? string nil is the default solver
---@return true? known
---@return string? message
function pack.check_solver(name)
  local names = pack.solvers()
  for _, known in ipairs(names) do
    if name == nil or known == name then return true end
  end
  local text = "pack: unknown solver '%s'%s; choose one of: %s"
  return nil, text:format(tostring(name), guess.hint(tostring(name), names), table.concat(names, ", "))
end

-- ---- solvers written in Lua ------------------------------------------------------------------

---@alias seqrun.LuaSolver fun(counts: integer[], options: { max_len: integer, max_seqs?: integer }): table[]

local registered = {} ---@type table<string, seqrun.LuaSolver>

---Adds a solver.  It gets the counts by length and the options, and returns a list of patterns,
---{ count = packs, length, length, ... } each; the plan made of them is checked like any other.  Loaders take it
---for given examples, and for one epoch of text (data/solver.lua says why).
---@param name string
---@param solver seqrun.LuaSolver
function pack.register(name, solver)
  if type(name) ~= "string" or not name:find("^[%w_%-]+$") or #name > 31 then
    error("pack.register: a name must be up to 31 letters, digits, '_' and '-'", 2)
  end
  for _, taken in ipairs(core.solvers()) do
    if taken == name then error(("pack.register: '%s' is a built-in solver"):format(name), 2) end
  end
  registered[name] = solver
end

---The names of all solvers, the default first.
---@return string[]
function pack.solvers()
  local names, own = core.solvers(), {}
  for name in pairs(registered) do own[#own + 1] = name end
  table.sort(own)
  return table.move(own, 1, #own, #names + 1, names)
end

---The names of the solvers that are not written in Lua.
---@return string[]
function pack.builtin_solvers() return core.solvers() end

---Whether a solver was added by pack.register().
---@param name string
---@return boolean
function pack.is_registered(name) return registered[name] ~= nil end

local function solve(histogram, options)
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

-- ---- sources ---------------------------------------------------------------------------------

local function is_histogram(source)
  return type(source) == "userdata" and (getmetatable(source) or {}).__name == "seqrun.core.Histogram"
end

local function needs_max_len(max_len)
  if not max_len then error("pack: option 'max_len' is missing: the number of tokens in a pack", 4) end
  return max_len
end

local function from_lengths(lengths, options)
  return core.count(lengths, needs_max_len(options.max_len), options.too_long)
end

local function from_dataset(dataset, options)
  local max_len = needs_max_len(options.max_len)
  local lengths, message, code = dataset:lengths(options.part or "train", options.epoch or 0, max_len)
  if not lengths then return nil, message, code end
  return from_lengths(lengths, options)
end

local function from_path(path, options)
  if path:find("%.sqr$") or sys.exists(path .. "/data.sqr") then
    local dataset, message, code = require("seqrun.data").open(path)
    if not dataset then return nil, message, code end
    return from_dataset(dataset, options)
  end
  return core.load_histogram(path, options.max_len, options.too_long)
end

---The histogram of a source.
---@param source any a list of lengths, a data set, a histogram, or a path
---@param options? seqrun.PackSourceOptions
---@return seqrun.core.pack.pack_histogram? histogram
---@return string? message
---@return string? code
function pack.lengths(source, options)
  options = options or {}
  if type(source) == "string" then return from_path(source, options) end
  if is_histogram(source) then
    if not options.max_len then return source end
    return source:fit(options.max_len, options.too_long)
  end
  if type(source) == "table" and source.lengths then return from_dataset(source, options) end
  if type(source) == "table" then return from_lengths(source, options) end
  error(("pack: cannot pack a %s; give a list of lengths, a data set, a histogram or a path"):format(type(source)), 3)
end

---A histogram from counts: counts[l] sequences of l tokens.
---@param counts integer[]
---@param max_len? integer the number of counts when nil
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.pack_histogram? histogram
---@return string? message
---@return string? code
function pack.histogram(counts, max_len, too_long) return core.histogram(counts, max_len or #counts, too_long) end

---The pieces that too_long = "split" cuts these lengths into: a list of examples for Plan:packing().
---@param lengths integer[]
---@param max_len integer
---@return integer[]? pieces their lengths
---@return integer[]|string uids of the sequences that they are from
---@return integer[]|string starts the first token of each, from 0
function pack.split(lengths, max_len) return core.split(lengths, max_len) end

-- ---- plans -----------------------------------------------------------------------------------

---@class seqrun.Plan
---@field solver string
---@field sequences integer
---@field tokens integer
---@field max_len integer
---@field max_seqs? integer nil when any number is allowed
---@field packs integer
---@field strategies integer different patterns
---@field efficiency number tokens / (packs * max_len)
---@field factor number sequences / packs
---@field padding_tokens integer
---@field lower_bound integer no packing needs fewer packs
---@field bound_kind "tokens"|"count"|"l2"|"lp"
---@field gap_packs integer
---@field deepest integer most sequences of any pack
---@field unfilled integer slots that rounding left empty
---@field milliseconds number
---@field reason? string why this depth, when max_seqs was "auto"
---@field core seqrun.core.pack.pack_plan
local Plan = {}
Plan.__index = Plan
Plan.__name = "seqrun.Plan"

local function wrap(plan, extra)
  local self = plan:info()
  for key, value in pairs(extra or {}) do self[key] = value end
  self.core = plan
  return setmetatable(self, Plan)
end

function Plan:__tostring() return show.plan(self) end

---All patterns, { count = packs, length, length, ... } each, the most frequent first.
---@return table[]
function Plan:patterns()
  local list = {}
  for i = 1, self.strategies do list[i] = self.core:pattern(i) end
  local place = {}
  for i, pattern in ipairs(list) do place[pattern] = i end
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return place[a] < place[b]
  end)
  return list
end

---The histogram that the plan packs.
---@return seqrun.core.pack.pack_histogram
function Plan:hist() return self.core:histogram() end

---A drawing of pack i, from 1, in the order of the plan; with instances, of pack i of an epoch.
---@param i? integer
---@param packing? seqrun.core.pack.packing see Plan:packing()
---@param epoch? integer
---@return string
function Plan:view(i, packing, epoch)
  i = i or 1
  if math.type(i) ~= "integer" or i < 1 or i > self.packs then
    error(("view: pack %s is out of range; the plan has %d, numbered from 1"):format(tostring(i), self.packs), 2)
  end
  if packing then
    local uids, pattern = packing:at(epoch or 0, i)
    return show.pack(self, i, self.core:pattern(pattern), uids)
  end
  local before = 0
  for p = 1, self.strategies do
    local pattern = self.core:pattern(p)
    before = before + pattern.count
    if i <= before then return show.pack(self, i, pattern) end
  end
end

---Binds the plan to the lengths it was made from: `packing:at(epoch, i)` is any pack of any epoch.  A plan that
---split sequences requires the lengths of the pieces: see pack.split().
---@param lengths integer[]
---@param seed? integer
---@return seqrun.core.pack.packing? packing
---@return string? message
---@return string? code
function Plan:packing(lengths, seed) return core.packing(self.core, lengths, seed) end

---A certificate of the lower bound for these lengths and this depth.
---@return seqrun.core.pack.Certificate? certificate
---@return string? message
---@return string? code
function Plan:prove() return core.prove(self:hist(), { max_seqs = self.max_seqs }) end

---The plan file as a string, for loaders.
---@return string
function Plan:text() return self.core:text() end

---@param path string
---@return true? done
---@return string? message
---@return string? code
function Plan:save(path) return self.core:save(path) end

---The figures for a JSON object; null means no limit on depth.
---@return table
function Plan:json()
  local object = self.core:info()
  object.max_seqs = self.max_seqs or require("seqrun.core.json").null
  object.milliseconds, object.reason = self.milliseconds, self.reason
  return object
end

-- ---- packing ---------------------------------------------------------------------------------

---Sequences are packed in their own order if they have one.
local function solve_source(source, histogram, options)
  local ordered = type(source) == "table" and not source.lengths
  if options.solver == "online" and ordered then
    return core.online(source, histogram:info().max_len, options, options.too_long)
  end
  return solve(histogram, options)
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
  local known, problem = pack.check_solver(options.solver)
  if not known then error(problem, 2) end
  local histogram, message, code = pack.lengths(source, options)
  if not histogram then return nil, message, code end
  local own, reason = {}, nil
  for key, value in pairs(options) do own[key] = value end
  if own.max_seqs == "auto" then
    own.max_seqs = nil
    local base, began = registered[own.solver] and { seconds = own.seconds } or own, sys.now()
    own.max_seqs, reason, code = core.choose_depth(histogram, base, own.tolerance)
    if not own.max_seqs then return nil, reason, code end
    if own.seconds then own.seconds = math.max(own.seconds / 4, own.seconds - (sys.now() - began)) end
  end
  local plan, ms
  plan, message, code, ms = solve_source(source, histogram, own)
  if not plan then return nil, message, code end
  return wrap(plan, { reason = reason, milliseconds = ms })
end

---Reads a plan file.
---@param path string
---@return seqrun.Plan? plan
---@return string? message
---@return string? code
function pack.load(path)
  local plan, message, code = core.load(path)
  if not plan then return nil, message, code end
  return wrap(plan)
end

---Reads a plan from its text, such as a loader's plan_text().
---@param text string
---@param name? string for messages
---@return seqrun.Plan? plan
---@return string? message
---@return string? code
function pack.parse(text, name)
  local plan, message, code = core.parse(text, name)
  if not plan then return nil, message, code end
  return wrap(plan)
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
  local histogram, message, code = pack.lengths(source, options)
  if not histogram then return nil, message, code end
  return require("seqrun.pack.compare")(pack, histogram, options)
end

---Assigns the packs of one global batch to ranks: equal numbers, costs as even as possible.
---@param packs integer[][] the lengths in each pack
---@param groups integer
---@param cost? { per_token?: number, per_square?: number } a and b of a * tokens + b * sum len^2
---@return integer[] group of each pack, from 1
---@return number imbalance: the most expensive group over the mean
function pack.assign(packs, groups, cost)
  local a, b = cost and cost.per_token or 1, cost and cost.per_square or 1 / 512
  local costs = {}
  for i, lengths in ipairs(packs) do
    local total = 0
    for _, length in ipairs(lengths) do total = total + a * length + b * length * length end
    costs[i] = total
  end
  return core.assign(costs, groups)
end

---Length histogram and efficiency by depth, as text for a terminal.
---@param source any
---@param options? seqrun.PackSourceOptions
---@return string? drawing
---@return string? message
---@return string? code
function pack.plot(source, options)
  local histogram, message, code = pack.lengths(source, options)
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
  local histogram, message, code = pack.lengths(source, options)
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
