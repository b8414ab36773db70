-- batch.lua - a micro-batch: its layout, its tensors, its targets.

local counted = require("seqrun.base.format").counted
require("seqrun.core.tensor") -- the classes of layouts and tensors

---@class seqrun.Target
---@field name string
---@field reads "rows"|"sequences"|"spans" tokens, [CLS] of each sequence, or first and last token of a span
---@field rows seqrun.Tensor (M) i32 rows of the batch; spans (M, 2)
---@field labels seqrun.Tensor (M) or (M, K), i32 or f32; spans: (M, 2) positions in the sequence, 0 is [CLS]
---@field weights seqrun.Tensor (M) f32, which sum to 1 over the update
---@field places seqrun.Tensor as `rows`: position of each in `last`
---@field count integer M
---@field denominator number of the whole update: items, or with loss = "sequence" sequences

---@class seqrun.Batch
---@field layout seqrun.Layout
---@field ids seqrun.Tensor (T) i32
---@field types seqrun.Tensor (T) i32
---@field original_ids? seqrun.Tensor (T) i32 before masking; with keep_ids
---@field targets table<string, seqrun.Target>
---@field target_names string[] in order
---@field last? { layout: seqrun.Layout, rows: seqrun.Tensor } the rows that some target needs
---@field sequences integer
---@field tokens integer real ones
---@field slots integer T
---@field masked integer
---@field epoch integer of the first sequence
---@field share integer its share of the update, from 1
---@field update_sequences integer of the whole update
---@field sources? string[] names of the sources of a data set that has several
local Batch = {}

---The targets by name, with their tensors.
local function targets_of(self, sent)
  local by_name = {}
  for i, target in ipairs(self.facts) do
    for key, tensor in pairs(sent.targets[i]) do target[key] = tensor end
    by_name[target.name] = target
  end
  return by_name
end

---The tensors of a batch: sent together to the current device when the first is read, in the scope open then;
---sent again after that scope has closed.
local function uploaded(self)
  local sent = rawget(self, "sent")
  if not sent or not sent.ids:is_live() then
    sent = self.core:upload(self.number)
    sent.targets = targets_of(self, sent)
    local layout = sent.last_rows and self.core:last_layout(self.number)
    sent.last = layout and { layout = layout, rows = sent.last_rows } or nil
    rawset(self, "sent", sent)
  end
  return sent
end

local SENT = { ids = true, types = true, original_ids = true, targets = true, last = true }

local MAKE = {
  layout = function(self) return self.core:layout(self.number) end,
  update_sequences = function(self) return self.core:info().sequences end,
  target_names = function(self)
    local names = {}
    for i, target in ipairs(self.facts) do names[i] = target.name end
    return names
  end,
}

function Batch:__index(key)
  if SENT[key] then return uploaded(self)[key] end
  local make = MAKE[key]
  if not make then return Batch[key] end
  local value = make(self)
  rawset(self, key, value)
  return value
end

Batch.__name = "seqrun.Batch"

---The numbers of `ids`, `types` or `original_ids` as a list, or the last row of each segment, without a device.
---@param key "ids"|"types"|"original_ids"|"separators"
---@return integer[]?
function Batch:host(key) return self.core:host(self.number, key) end

---The rows that a target reads, without a device; nil without such a target.
---@param target string
---@return integer[]?
function Batch:host_rows(target) return self.core:host_rows(self.number, target) end

function Batch:__tostring()
  return ("batch: %s, %d tokens in %d rows, %d masked"):format(counted(self.sequences, "sequence"), self.tokens,
    self.slots, self.masked)
end

---@param update seqrun.core.batch.update
---@param number integer from 1
---@return seqrun.Batch
return function(update, number)
  local batch = update:batch(number)
  batch.core, batch.number = update, number
  return setmetatable(batch, Batch)
end
