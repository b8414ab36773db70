-- fault.lua - allocations and storage calls that fail on demand: the functions of fault.c.

local program = assert(require("seqrun.core.sys").real_path("/proc/self/exe"))

---@class tests.fault
---@field memory fun(n: integer, sticky?: boolean) allocation number `n` from now fails, and all later ones too when
---  `sticky`; 0 ends it
---@field allocations fun(): integer how many were attempted since the last call of `memory`
---@field held fun(): integer blocks of memory in use, including Lua's
---@field lua_limit fun(bytes: integer): integer limits the memory of Lua (0: no limit); returns its use, in bytes
---@field storage fun(n: integer, error?: string, call?: string) storage call number `n` from now fails with `error`
---  ("EIO", ...), counting only calls of one name ("write", ...) if `call` gives it; 0 restores the real calls
---@field storage_calls fun(): integer how many were made since the last call of `storage` with n > 0
---@field flip fun(t: seqrun.Tensor, bit: integer) turns over a bit of a tensor, from 0
return assert(package.loadlib(program:gsub("[^/]*$", "tests/fault.so"), "luaopen_fault"))()
