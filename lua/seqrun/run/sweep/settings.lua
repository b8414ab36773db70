-- settings.lua - the settings of a sweep's trials: key=v1,v2 for each key that is swept, key=value for all others.

local failure = require("seqrun.base.failure")

local settings = {}

---@class seqrun.SweepAxis
---@field key string
---@field values? string[]
---@field low? number of a range
---@field high? number
---@field whole? boolean both ends are integers

---The parts of a text between commas outside of brackets.
local function parts_of(text)
  local parts, depth, from = {}, 0, 1
  for at, sign in text:gmatch("()([%[%],])") do
    if sign == "," and depth == 0 then
      parts[#parts + 1], from = text:sub(from, at - 1), at + 1
    elseif sign ~= "," then
      depth = depth + (sign == "[" and 1 or -1)
    end
  end
  parts[#parts + 1] = text:sub(from)
  return parts
end

---A range "1e-5..1e-3".
local function range_of(key, text)
  local low, high = text:match("^([%d.eE+-]+)%.%.([%d.eE+-]+)$")
  local a, b = tonumber(low), tonumber(high)
  if not a or not b then return nil end
  if a >= b then failure.raise("config", "%s=%s: a range begins with its smaller end", key, text) end
  return { key = key, low = a, high = b, whole = math.type(a) == "integer" and math.type(b) == "integer" }
end

---Sorts arguments into those of all trials, and the keys that are swept.
---@param arguments string[] key=value
---@return string[] fixed
---@return seqrun.SweepAxis[] axes
function settings.read(arguments)
  local fixed, axes, seen = {}, {}, {}
  for _, word in ipairs(arguments) do
    local key, text = word:match("^([%w_%.]+)=(.*)$")
    if not key then failure.raise("config", "sweep: '%s' is not key=value or key=value,value", word) end
    if key == "seed" or key == "seeds" then
      failure.raise("config", "sweep: %s: the seeds of each trial are set by --seeds N", word)
    end
    local values, range = parts_of(text), range_of(key, text)
    if #values == 1 and not range then
      fixed[#fixed + 1] = word
    else
      if seen[key] then failure.raise("config", "sweep: %s is swept twice", key) end
      seen[key], axes[#axes + 1] = true, range or { key = key, values = values }
    end
  end
  if #axes == 0 then
    failure.raise("config", "sweep: no key has several values; give one, such as rate.peak=1e-4,3e-4")
  end
  return fixed, axes
end

---@class seqrun.SweepTrial
---@field name string its directory: "rate.peak=1e-4,batch.sequences=16"
---@field words string[] key=value
---@field label? string what it is called; default: its words
---@field metrics? string[] it is compared by their mean; default: by the metric of the sweep
---@field measure? fun(folder: string): table<string, number>?, string? of a run that has ended, or why none
---@field wrong? string why it cannot run
---@field chosen? boolean it has settings that the user wrote for it alone: if they are refused, nothing is run

local function trial_of(words)
  return { name = (table.concat(words, ","):gsub("[^%w%.=_,%-%[%]]", "-")), words = words }
end

---All combinations, the last key changing fastest.
local function grid(axes)
  local list = { {} }
  for _, axis in ipairs(axes) do
    if not axis.values then
      failure.raise("config", "sweep: %s=%s..%s is a range; draw values of it with --random N", axis.key,
        tostring(axis.low), tostring(axis.high))
    end
    local longer = {}
    for _, words in ipairs(list) do
      for _, value in ipairs(axis.values) do
        local more = table.move(words, 1, #words, 1, {})
        more[#more + 1] = axis.key .. "=" .. value
        longer[#longer + 1] = more
      end
    end
    list = longer
  end
  return list
end

---A value of an axis; of a range over a factor of ten or more, uniform in its logarithm.
local function draw(axis)
  if axis.values then return axis.values[math.random(#axis.values)] end
  local low, high, x = axis.low, axis.high, math.random()
  if axis.whole and not (low > 0 and high >= 10 * low) then return ("%d"):format(math.random(low, high)) end
  if low > 0 and high >= 10 * low then x = low * (high / low) ^ x else x = low + (high - low) * x end
  if axis.whole then return ("%d"):format(math.floor(x + 0.5)) end
  return ("%.3g"):format(x)
end

---Different combinations, drawn; fewer than `count` if there are no more.
local function random(axes, count, seed)
  math.randomseed(seed)
  local list, seen = {}, {}
  for _ = 1, 50 * count do
    if #list == count then break end
    local words = {}
    for i, axis in ipairs(axes) do words[i] = axis.key .. "=" .. draw(axis) end
    local key = table.concat(words, " ")
    if not seen[key] then seen[key], list[#list + 1] = true, words end
  end
  return list
end

---The trials of a sweep: all combinations, or some that are drawn with a seed.
---@param axes seqrun.SweepAxis[]
---@param options { random?: integer, seed?: integer }
---@return seqrun.SweepTrial[]
function settings.trials(axes, options)
  local list = options.random and random(axes, options.random, options.seed or 1) or grid(axes)
  local trials, seen = {}, {}
  for i, words in ipairs(list) do
    trials[i] = trial_of(words)
    if seen[trials[i].name] then
      failure.raise("config", "sweep: two trials would be in the directory %s; give each value once", trials[i].name)
    end
    seen[trials[i].name] = true
  end
  return trials
end

return settings
