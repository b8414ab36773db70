---@meta

---Owns the tensors that are made while it is the innermost one.
---@class seqrun.Scope
local Scope = {}

---Expires its tensors and frees their memory; closing twice is harmless.
function Scope:close() end
