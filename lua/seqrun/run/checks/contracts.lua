-- contracts.lua - checks the parts that a recipe passes to a run, before training starts.

local check = require("seqrun.base.check")
local counted = require("seqrun.base.format").counted
local held = require("seqrun.run.checks.held")

local contracts = {}

---Required methods and fields of each part, and an example that has them.
local WANTED = {
  loader = {
    like = "sr.data.loader (seqrun/data/loader/init.lua)",
    methods = { "next", "cursor", "seek", "summary", "plan", "plan_text" },
  },
  held = { like = "sr.data.loader (seqrun/data/loader/init.lua)", methods = { "next", "cursor", "seek" } },
  model = { like = "sr.nn.model (seqrun/nn/model/init.lua)", methods = { "losses" }, fields = { params = "table" } },
  objective = { like = "sr.nn.model (seqrun/nn/model/init.lua)", methods = { "losses" } },
  optimizer = {
    like = "sr.optim.adamw (seqrun/optim/init.lua)", methods = { "step", "read_results", "counts", "state", "restore" },
  },
  corpus = { like = "sr.data.open (seqrun/data/dataset/corpus.lua)", methods = { "info", "tokenizer" } },
}

---Parts in the order of checking; true: optional.
local PARTS = {
  { "model" }, { "optimizer" }, { "loader" }, { "held", true }, { "corpus", true }, { "objective", true },
}

---What a loss has for each of its items.
local PER_ITEM = { "items", "correct" }

---What run:start takes.
local KNOWN = {
  model = true, optimizer = true, loader = true, loaders = true, rate = true, schedules = true, objective = true,
  held = true, corpus = true, total = true, epoch = true, fresh = true, notes = true, watch = true,
}

---Names of what a part lacks.
local function lacks(part, wanted)
  local missing = {}
  for _, name in ipairs(wanted.methods) do
    if not check.is_callable(part[name]) then missing[#missing + 1] = name .. "()" end
  end
  for name, kind in pairs(wanted.fields or {}) do
    if type(part[name]) ~= kind then missing[#missing + 1] = name end
  end
  return missing
end

local function check_part(name, part, optional, level)
  local wanted = WANTED[name]
  if part == nil and optional then return end
  if type(part) ~= "table" then
    local found = part == nil and "missing" or "a " .. type(part)
    error(("run:start: %s is %s; expected one like %s"):format(name, found, wanted.like), level or 4)
  end
  local missing = lacks(part, wanted)
  if #missing > 0 then
    local text = "run:start: %s has no %s; see %s"
    error(text:format(name, table.concat(missing, ", "), wanted.like), level or 4)
  end
end

---Several loaders by name; `loader`, if given as well, is one of them.
local function check_loaders(parts)
  if parts.loaders == nil then return end
  if type(parts.loaders) ~= "table" or next(parts.loaders) == nil then
    check.fail("run:start: loaders must be a table of loaders by name, such as { short = a, long = b }")
  end
  local found = parts.loader == nil
  for name, loader in pairs(parts.loaders) do
    if type(name) ~= "string" or not name:find("^[%w_-]+$") then
      check.fail("run:start: the name of a loader must consist of letters, digits, _ and -, got %s; expected loaders = "
        .. "{ short = a, long = b }", tostring(name))
    end
    check_part("loader", loader, false, 5)
    found = found or loader == parts.loader
  end
  if not found then check.fail("run:start: loader is not one of loaders; leave it out, or pass one of them") end
end

---Frozen layers get no gradient, but decay would move them.
local function check_frozen(model, optimizer)
  local encoder = model.encoder
  if type(encoder) ~= "table" or not encoder.frozen or not encoder.is_frozen or not optimizer.segments then return end
  for i, param in ipairs(model.params.list or {}) do
    local segment = optimizer.segments[i]
    if encoder:is_frozen(param.name) and not segment.frozen and segment.decay > 0 then
      check.fail("run:start: encoder.frozen is %s, but decay moves %s; use groups = model:frozen(targets)",
        tostring(encoder.frozen), param.name)
    end
  end
end

---Raises at the recipe's line if a part lacks something.
---@param parts table
function contracts.check(parts)
  check.options("run:start", check.value("run:start: the parts", parts, "table"), KNOWN)
  for _, entry in ipairs(PARTS) do
    local name, optional = entry[1], entry[2]
    check_part(name, parts[name] or nil, optional or name == "loader" and parts.loaders ~= nil)
  end
  check_loaders(parts)
  if parts.rate ~= nil and not check.is_callable(parts.rate) then
    local text = "run:start: rate is a %s; expected a function of the step, such as sr.run.schedule(cfg)"
    check.fail("%s", text:format(type(parts.rate)))
  end
  if parts.optimizer.params and parts.optimizer.params ~= parts.model.params then
    check.fail("run:start: the optimizer does not update the model's parameters; create it from model.params")
  end
  check_frozen(parts.model, parts.optimizer)
  held.check(parts)
end

---Raises at the recipe's line if nothing has written values of parameters: all are zero, which training hardly leaves.
---@param params seqrun.Params
function contracts.check_values(params)
  local names = params:unwritten()
  if #names == 0 then return end
  check.fail("run:start: %s of the parameters have no values yet, all are zero: %s%s; call model:initialise(cfg.seed) "
    .. "before, set init.from, or write them with params:set()", #names == #params.list and "all" or tostring(#names),
    table.concat(names, ", ", 1, math.min(3, #names)), #names > 3 and ", ..." or "")
end

---Fails unless `items` or `correct` of a loss has a value for each item that it counts.
local function check_each(what, loss, key, n, shape)
  if #shape > 1 and n ~= shape[1] then
    check.fail("%s: '%s' has %s of shape (%s); each item has one value, and (N, 1) with (N) spreads to a matrix: "
      .. "reshape them to (N) first", what, loss.name, key, table.concat(shape, ", "))
  end
  if n < loss.count then
    check.fail("%s: '%s' has `%s` with %s, but its count is %d; return a value for each item, as it is before "
      .. ":mean() or :sum(), and let total be the reduced one", what, loss.name, key, counted(n, "value"), loss.count)
  end
end

---Raises if the result of a model's losses() is invalid; see seqrun/nn/losses.lua.
---@param losses any
---@param what? string the call that got it
---@param source? table whose losses() gave it
function contracts.check_losses(losses, what, source)
  what = what or "run:tally"
  local way = "return an sr.nn.losses() object, filled with :add(name, { total =, count = })"
  if type(losses) ~= "table" or type(losses.total) ~= "userdata" then
    check.fail("%s: model:losses(batch)%s returned %s, without a scalar tensor `total`; %s", what,
      check.place(source and source.losses), check.show(losses), way)
  end
  if #losses == 0 then
    check.fail("%s", what .. ": model:losses(batch) returned no loss with a name, so neither metrics nor evaluations "
      .. "would have any; " .. way)
  end
  for i, loss in ipairs(losses) do
    if type(loss) ~= "table" or type(loss.name) ~= "string" or not loss.total or math.type(loss.count) ~= "integer" then
      check.fail("%s: loss %d of model:losses(batch) has no name, total or count; %s", what, i, way)
    end
    for _, key in ipairs(PER_ITEM) do
      local values = loss[key]
      if values then check_each(what, loss, key, values:numel(), values:shape()) end
    end
  end
end

return contracts
