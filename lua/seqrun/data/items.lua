-- items.lua - which example each item of a target belongs to.

local items = {}

---The uid of each item, from the first row that it reads.
---@param target seqrun.Target
---@param batch seqrun.Batch
---@return integer[] uids
---@return integer[] positions of the rows in their sequences, from 0
function items.uids(target, batch)
  local owners, ids, starts = batch.layout:owners(), batch.layout:uids(), batch.layout:starts()
  local uids, positions = {}, {}
  for i, row in ipairs(target.rows:totable()) do
    if type(row) == "table" then row = row[1] end
    local owner = owners[row + 1] + 1
    uids[i], positions[i] = ids[owner], row - starts[owner]
  end
  return uids, positions
end

---The labels of an item as a list: those of a column of size 1 are plain values.
---@return number[]
function items.list(value) return type(value) == "table" and value or { value } end

---The logits of a head as nested lists.
function items.logits(head, hidden, target, batch)
  return head:logits(hidden, target, batch):to("f32"):totable()
end

---The items of a micro-batch, with uid, position, gold and logits; of a window of a document also that: `source`.
---@return table[]
function items.of(head, hidden, target, batch, loader)
  local gold, list, uids, positions = target.labels:totable(), {}, items.uids(target, batch)
  for i, logits in ipairs(items.logits(head, hidden, target, batch)) do
    local source = loader.data:known("window_share") and loader:origin(uids[i]).source or nil
    list[i] = { uid = uids[i], position = positions[i], gold = gold[i], logits = logits, source = source }
  end
  return list
end

---A field of all items.
---@param list table[]
---@param key string|integer
function items.column(list, key)
  local values = {}
  for i, item in ipairs(list) do values[i] = item[key] end
  return values
end

---The number of the example in its data set, from 1.
---@param loader seqrun.Loader
---@param uid integer
function items.example(loader, uid) return loader:origin(uid).example end

return items
