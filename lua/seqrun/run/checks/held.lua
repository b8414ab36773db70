-- held.lua - whether the evaluations of a run fit its training: other examples, the same targets, the same classes.

local check = require("seqrun.base.check")

local held = {}

---Whether two loaders draw the same part of one data set, or of two with the same contents.
---@param opened boolean of one that was opened once
local function same_part(a, b, opened)
  if not a.data or not b.data or not a.options or not b.options then return false end
  if (a.options.part or "train") ~= (b.options.part or "train") then return false end
  return a.data == b.data or not opened and a.data:info().digest == b.data:info().digest
end

---The targets of a loader: the column of each by name; nil where it does not say.
---@param loader seqrun.Loader
---@return table<string, string>|nil
function held.targets(loader)
  local options, names = loader.options, {}
  if not options or not options.targets and loader.data:info().labelled then return nil end
  for _, target in ipairs(options.targets or { "mlm", "nsp" }) do
    local name = target.name or target
    names[name] = target.column or name
  end
  return names
end

---Fails if the classes of a head have other numbers than in the data.
local function check_labels(head, column, data)
  local text = data.meta and data:meta()["labels." .. column]
  local theirs, numbers = text and require("seqrun.core.json").decode(text), {}
  for i, name in ipairs(theirs or {}) do numbers[name] = i end
  for i, name in ipairs(theirs and head.labels or {}) do
    if (numbers[name] or i) ~= i then
      check.fail("run:start: '%s' is class %d of the head '%s' and class %d in %s, so predictions would have wrong "
        .. "names; give the head labels = { '%s' }, the order of the data (corpus:labels())", name, i - 1, head.name,
        numbers[name] - 1, data:info().path, table.concat(theirs, "', '"))
    end
  end
end

---Fails if evaluations would be of what is trained on, or lack what is trained.
---@param parts table of run:start
function held.check(parts)
  local loaders, heads = parts.loaders or { train = parts.loader }, parts.model.heads or {}
  local seen = parts.held and not parts.loaders and held.targets(parts.held) -- one of several may be an aid
  for _, loader in pairs(loaders) do
    local trained = held.targets(loader) or {}
    local data = loader.data
    if parts.held and (parts.held == loader or same_part(loader, parts.held, true)) then
      check.fail("run:start: held draws the examples that are trained on, so its losses are not those of other text; "
        .. "open it with part = 'held', of a data set that is opened with held above 0, or pass held = false")
    end
    for _, head in ipairs(heads) do
      local column = trained[head.name]
      if column and seen and not seen[head.name] then
        check.fail("run:start: held has no target '%s', so the head that is trained on it would not be evaluated; "
          .. "give both loaders the same targets", head.name)
      end
      if column and head.labels and data then check_labels(head, column, data) end
      if column and head.labels and parts.held and parts.held.data then check_labels(head, column, parts.held.data) end
    end
  end
end

---A warning about what is kept out of training and not evaluated, or evaluated and not kept out; nil if there is
---nothing, or that is meant.
---@param t { config: table, loader: table, held?: table|false } held: false where nothing is to be evaluated
---@return string|nil
function held.warning(t)
  local keys, options = t.config.data or {}, t.held and t.held.options
  if options and not options.epochs and not options.order and (t.config.eval or {}).updates == 0 then
    check.fail("run:start: held has no end, and eval.updates=0 evaluates all of it; open it with epochs = 1")
  end
  if t.held and not keys.dev and same_part(t.loader, t.held) then
    return ("held draws the examples of %s that are trained on: its losses and scores are not those of other data")
      :format(t.held.data:info().path)
  end
  local data = t.loader.data
  if t.held ~= nil or not data then return nil end
  local units, kind = data:info().held.units, data:info().kind
  if units == 0 and kind == "text" and (keys.held or 0) > 0 then
    return ("data.held is %g, but the data set was opened without it and nothing is evaluated: open it with held = "
      .. "cfg.data.held, or pass held = false if that is meant"):format(keys.held)
  end
  if units == 0 and not keys.dev then return nil end
  local what = "the examples of data.dev"
  if units > 0 then
    what = ("%d %s of %s (data.held)"):format(units, kind == "text" and "documents" or "examples", data:info().path)
  end
  return ("%s are neither trained on nor evaluated: pass a loader of them, run:start { held = ... }, or held = false "
    .. "if that is meant"):format(what)
end

return held
