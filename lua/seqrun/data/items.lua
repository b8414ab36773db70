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

---The document that an example is a window of, `source`, and its number, `example`; empty where none are cut.
---@param loader seqrun.Loader
---@param uid integer
---@return { source?: integer, example?: integer }
function items.document(loader, uid)
  return loader.data:known("window_share") and loader:origin(uid) or {}
end

---The number of the example in its data set, from 1.
---@param loader seqrun.Loader
---@param uid integer
function items.example(loader, uid) return loader:origin(uid).example end

return items
