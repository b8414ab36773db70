/* fault.c - allocations and storage calls that fail on demand, and bits that turn over, for Lua:
 * build/tests/fault.so, loaded by fault.lua, which describes the functions.
 *
 * An allocation that Lua itself makes fails like any other: Lua then collects garbage, retries, and
 * raises "not enough memory" only if that fails too. */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lstate.h"
#include "lua/bind/ltensor.h"
#include "tests/support/fail.h"
#include "tests/support/io_faults.h"

/* ---- memory --------------------------------------------------------------------------------- */

/* memory(n [, sticky]): allocation n from now fails, and all after it when sticky; 0: none */
static int fault_memory(lua_State *L) {
    int64_t n = lsr_checkrange(L, 1, 0, INT64_MAX);
    sr_mem_fail_at(n, lua_toboolean(L, 2));
    return 0;
}

/* allocations() -> how many were attempted since the last call to memory() */
static int fault_allocations(lua_State *L) {
    lua_pushinteger(L, sr_mem_calls());
    return 1;
}

/* held() -> blocks of memory in use, Lua's included */
static int fault_held(lua_State *L) {
    lua_pushinteger(L, sr_mem_live());
    return 1;
}

/* lua_limit(bytes) -> bytes that Lua holds now; from here on the limit is `bytes` (0: none)
 */
static int fault_lua_limit(lua_State *L) {
    int64_t bytes = lsr_checkrange(L, 1, 0, INT64_MAX);
    lsr_state_limit(L, (size_t)bytes);
    lua_pushinteger(L, (lua_Integer)lsr_state_memory(L));
    return 1;
}

/* ---- storage -------------------------------------------------------------------------------- */

static const char *const CALLS[] = {"any",   "open",   "pread", "read",   "write", "fsync",
                                    "close", "rename", "mkdir", "unlink", "rmdir", NULL};
static const char *const ERRORS[] = {"EIO", "ENOSPC", "EACCES", "EROFS", "EINTR", NULL};
static const int NUMBERS[] = {EIO, ENOSPC, EACCES, EROFS, EINTR};

/* storage(n [, error [, call]]): storage call n from now fails with `error`; 0: none */
static int fault_storage(lua_State *L) {
    int64_t n = lsr_checkrange(L, 1, 0, INT64_MAX);
    int error = NUMBERS[luaL_checkoption(L, 2, "EIO", ERRORS)];
    int call = luaL_checkoption(L, 3, "any", CALLS);
    if (n == 0) {
        io_sound();
        return 0;
    }
    io_fail(n, error, call > 0 ? CALLS[call] : NULL);
    sr_io_now.exchange = io_faults.sound.exchange; /* what is no call of CALLS is not counted */
    sr_io_now.fallocate = io_faults.sound.fallocate;
    sr_io_now.flock = io_faults.sound.flock;
    sr_io_now.space = io_faults.sound.space;
    return 0;
}

/* storage_calls() -> how many were made since the last call to storage(n) with n > 0 */
static int fault_storage_calls(lua_State *L) {
    lua_pushinteger(L, io_faults.calls);
    return 1;
}

/* ---- memory that decays ------------------------------------------------------------------------
 */

/* flip(tensor, bit): turns over bit number `bit`, from 0, of a tensor of the host's memory, as a
 * fault of the memory would: no one is told */
static int fault_flip(lua_State *L) {
    const sr_tensor *t = lsr_checktensor(L, 1);
    luaL_argcheck(L, sr_tensor_is_contiguous(t), 1, "must be contiguous");
    int64_t bits = 8 * sr_tensor_elements(t) * (int64_t)sr_dtype_size(t->dtype);
    int64_t bit = lsr_checkrange(L, 2, 0, bits - 1);
    ((unsigned char *)sr_tensor_data(t))[bit / 8] ^= (unsigned char)(1u << bit % 8);
    return 0;
}

static const luaL_Reg functions[] = {
    {"memory", fault_memory},   {"allocations", fault_allocations},
    {"held", fault_held},       {"lua_limit", fault_lua_limit},
    {"storage", fault_storage}, {"storage_calls", fault_storage_calls},
    {"flip", fault_flip},       {NULL, NULL},
};

int luaopen_fault(lua_State *L);
int luaopen_fault(lua_State *L) {
    luaL_newlib(L, functions);
    return 1;
}
