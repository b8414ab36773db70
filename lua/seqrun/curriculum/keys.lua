-- keys.lua - the config keys of curricula, token dropping, and batches and masks that change.

local c = require("seqrun.config")
local measured = require("seqrun.curriculum.measured")
local schedule = require("seqrun.schedule")

local keys = {}

---Keys of a metric by which examples are unlocked: those of its schedule, and these.
local METRIC = {
  { "file", c.path { optional = true,
    doc = "metric file written by seqrun analyze, or the Lua file of a metric of your own, which a run computes; "
      .. "length and rarity need none" } },
  { "kind", c.enum({ "percentile", "value", "fraction" }, { default = "percentile",
    doc = "unit of the schedule: percentile of the examples by this metric, largest value, or fraction of the "
      .. "examples" }) },
  { "parts", c.integer { default = 100, min = 1, max = 1 << 30, doc = "number of parts for kind=percentile" } },
}

local curriculum = c.map({
  { "length", schedule.keys { kind = "length", doc = "maximum length of sequences, a schedule; none: data.max_len" } },
  { "cut", c.enum({ "truncate", "pieces" }, { default = "truncate",
    doc = "truncate: cut the end of longer sequences, except [SEP]; pieces: split them into several "
      .. "(data.nsp=false)" }) },
  { "order", c.enum({ "easy", "reversed", "random", "competence" }, { default = "easy",
    doc = "which examples metrics unlock first: easy, hard (reversed) or any (random); competence: easy, at the pace "
      .. "of Platanios et al. 2019" }) },
  { "examples", c.enum({ "same", "fresh" }, { default = "same",
    doc = "for text, same: each epoch has the pairs of the first, with new masks; fresh: new pairs each epoch" }) },
  { "window", c.integer { optional = true, min = 1, max = 4096,
    doc = "updates whose packing is solved together; none: about 32,768 tokens" } },
}, { others = schedule.keys { doc = "schedule of a metric of this name: examples unlocked so far", more = METRIC } })

local batch = c.map {
  { "tokens", c.integer { optional = true, min = 1, max = 1 << 30,
    doc = "tokens per update on average, instead of batch.sequences" } },
  { "ramp", schedule.keys { kind = "count",
    doc = "batch size as a schedule: sequences per update, or with batch.tokens tokens" } },
  { "scale", c.enum({ "none", "linear", "sqrt" }, { default = "none",
    doc = "factor on the rate: (sequences of the update / batch.sequences), its square root, or none" }) },
}

local mask = c.map {
  { "rate", schedule.keys { kind = "fraction", doc = "fraction of the tokens to mask, a schedule; none: mask.prob" } },
}

---The keys of pretraining; those of a curriculum alone, which fine-tuning has too.
keys.curriculum = { "curriculum", curriculum }
keys.keys = { keys.curriculum, { "batch", batch }, { "mask", mask } }

---The keys of `curriculum` that are not metrics.
local PLAIN = { length = true, cut = true, order = true, examples = true, window = true }

---The names of the metrics in a config, sorted.
---@param group table
---@return string[]
function keys.metrics(group)
  local names = {}
  for name in pairs(group) do
    if not PLAIN[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

---The name of a metric without a file, if a run computes it by itself.
---@param group table
---@param name string
---@return string?
function keys.measured(group, name)
  return not group[name].file and group.order ~= "random" and measured.is_quick(name) and name or nil
end

---The kind of a metric's schedule.
function keys.kind(metric)
  if metric.kind == "percentile" then return metric.parts == 100 and "percentile" or "count" end
  return metric.kind == "fraction" and "fraction" or nil
end

---A problem of reading a schedule, as a message of a rule.
local function problem(group, options)
  local ok, message = pcall(schedule.read, group, options)
  return not ok and tostring(message):gsub("^%S-:%d+: ", "") or nil
end

---A rule that a schedule of this name stays within a limit that another key sets.
local function within(path, other, kind)
  return {
    keys = { path, other },
    check = function(group, most)
      local ok, s = pcall(schedule.read, group, { name = path, kind = kind, steps = 1000, judged = true })
      if not ok or not s or not s.max or s.max <= most then return nil end -- another rule reports what is impossible
      return ("%s: max is %g, but %s is %g; raise %s, or lower max"):format(path, s.max, other, most, other)
    end,
  }
end

keys.curriculum_rules = {
  schedule.rule("curriculum.length", "length"), within("curriculum.length", "data.max_len", "length"),
  {
    keys = { "curriculum" },
    check = function(group)
      for _, name in ipairs(keys.metrics(group)) do
        local path, metric = "curriculum." .. name, group[name]
        local message = problem(metric, { name = path, kind = keys.kind(metric), steps = 1000, judged = true })
        if message then return message end
        if not metric.file and group.order ~= "random" and not measured.is_quick(name) then
          return ("%s.file is missing: the metric file that seqrun analyze writes; only %s need none"):format(path,
            table.concat(measured.QUICK, ", "))
        end
      end
    end,
  },
}

keys.rules = { schedule.rule("mask.rate", "fraction"), schedule.rule("batch.ramp", "count") }
table.move(keys.curriculum_rules, 1, #keys.curriculum_rules, #keys.rules + 1, keys.rules)

return keys
