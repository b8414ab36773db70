-- token_drop.lua - random layerwise token dropping in a run: its config keys, and its schedule over the updates.
--
--     token_drop: { keep: 0.5 }                                             # half of each sequence
--     token_drop: { keep: { min: 128, max: 512, quantum: 16, total: 1000 } }  # tokens of a sequence of data.max_len
--
-- With a share, each sequence keeps that share of its tokens.  With r tokens, it keeps r / s of them, where s is
-- data.max_len, or the length to which the update is truncated: none are dropped once r reaches s.

local c = require("seqrun.config")
local failure = require("seqrun.base.failure")
local schedules = require("seqrun.schedule")

local token_drop = {}

---@class seqrun.TokenDropSchedule
---@field schedule seqrun.ValueSchedule
---@field tokens boolean its values are tokens
---@field max_len integer
---@field drop seqrun.TokenDrop
local TokenDrop = {}
TokenDrop.__index = TokenDrop

---Whether the numbers of `token_drop.keep` are tokens; otherwise they are shares.
local function in_tokens(keep)
  local most = math.max(keep.value or 0, keep.max or 0, table.unpack(keep.values or { 0 }))
  return most > 1
end

---The kind of the schedule `token_drop.keep`.
---@param keep table values of its keys
---@return string|nil # nil for a custom function, which may return either
function token_drop.kind(keep)
  if keep.fn then return nil end
  return in_tokens(keep) and "length" or "fraction"
end

---The config keys, as a field of a schema.
token_drop.key = { "token_drop", c.map {
  { "keep", schedules.keys {
    doc = "random layerwise token dropping: share of each sequence that layers keep in training, or, above 1, tokens "
      .. "of a sequence of data.max_len; none: all" } },
  { "layers", c.list(c.integer { min = 0 }, { optional = true, min = 2, max = 2,
    doc = "first and last layer that drops tokens, from 0; none: all but the first and the last" }) },
  { "first", c.boolean { default = true, doc = "always keep the first token, [CLS]" } },
  { "last", c.boolean { default = true, doc = "always keep the last token of each segment, [SEP]" } },
  { "masked", c.boolean { default = false, doc = "always keep masked tokens" } },
} }

---Its rule for config.load.
token_drop.rule = {
  keys = { "token_drop.keep" },
  check = function(keep)
    if not keep then return nil end
    -- any number of steps: fractions of them are allowed
    local options = { name = "token_drop.keep", kind = token_drop.kind(keep), steps = 1000, judged = true }
    local good, message = pcall(schedules.read, keep, options)
    return not good and tostring(message):gsub("^%S-:%d+: ", "") or nil
  end,
}

---Fails with the name of the key.
local function refuse(message)
  failure.raise("config", "token_drop: %s", (message:gsub("^%S-:%d+: ", ""):gsub("^nn%.token_drop: ", "")))
end

---The token dropping that a config asks for, set on the model; nil if it asks for none.
---@param group table|nil values of the keys `token_drop`
---@param t { max_len: integer, steps?: integer, model: seqrun.Bert } steps: those that a fraction in keep.total is of
---@return seqrun.TokenDropSchedule|nil
function token_drop.new(group, t)
  if not group or not group.keep then return nil end
  local encoder = t.model.encoder
  if not encoder then refuse("the model has no encoder to drop tokens in; leave out token_drop.keep") end
  local unfit = encoder:refuses_token_drop()
  if unfit then refuse(unfit .. "; leave out token_drop.keep") end
  local schedule = schedules.read(group.keep, {
    name = "token_drop.keep", kind = token_drop.kind(group.keep), steps = t.steps,
  })
  if schedule.kind == "length" and schedule.min > t.max_len then
    refuse(("keep begins at %g tokens, but sequences have at most %d, so none would be dropped; lower token_drop.keep")
      :format(schedule.min, t.max_len))
  end
  local options = { keep = 1, first = group.first, last = group.last, masked = group.masked, layers = group.layers }
  local drop = require("seqrun.nn.token_drop").new(options)
  local good, message = pcall(drop.range, drop, encoder.design.layers)
  if not good then refuse(message) end
  encoder.token_drop = drop
  local self = setmetatable({
    schedule = schedule, tokens = schedule.kind == "length", max_len = t.max_len, drop = drop,
  }, TokenDrop)
  self:set(schedule.value or 1)
  return self
end

---Sets the share from a value of the schedule.
function TokenDrop:set(keep, length)
  if self.tokens or keep > 1 then keep = keep / math.min(length or self.max_len, self.max_len) end
  self.drop:set(math.min(1, keep))
end

---Sets the share of an update, before its first batch.
---@param update seqrun.Update
---@param length? integer to which its sequences are truncated; default data.max_len
---@return number share
function TokenDrop:before(update, length)
  local keep = self.schedule:advance(update.counters)
  if not (keep > 0) then
    failure.raise("config", "token_drop.keep is %s at step %s; it must be positive", keep, update.counters.step)
  end
  self:set(keep, length)
  return self.drop.keep
end

return token_drop
