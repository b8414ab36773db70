---@meta

---Allocations and storage calls that fail on demand, for tests.
---@class seqrun.core.fault
local fault = {}

---Lets allocation number `n` from now fail, and all later ones too when `sticky`; 0 ends it.
---@param n integer
---@param sticky? boolean
function fault.memory(n, sticky) end

---How many allocations were attempted since the last call of `memory`.
---@return integer
function fault.allocations() end

---How many blocks of memory are held now, including Lua's.
---@return integer
function fault.held() end

---Limits the memory of Lua itself (0: no limit) and returns its current use, in bytes.
---@param bytes integer
---@return integer
function fault.lua_limit(bytes) end

---Lets storage call number `n` from now fail with `error`, counting only calls of one name if
---`call` gives it; 0 restores the real calls.
---@param n integer
---@param error? "EIO"|"ENOSPC"|"EACCES"|"EROFS"|"EINTR"
---@param call? "any"|"open"|"pread"|"read"|"write"|"fsync"|"close"|"rename"|"mkdir"|"unlink"|"rmdir"
function fault.storage(n, error, call) end

---How many storage calls were made since `storage` was called.
---@return integer
function fault.storage_calls() end

return fault
