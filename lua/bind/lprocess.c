/* lprocess.c - this process: its processors, memory and standard output; part of seqrun.core.sys.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/affinity.h"
#include "core/base/system.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lsys.h"

/* pid() -> integer
 * The process id. */
static int sys_pid(lua_State *L) {
    return lsr_give_integer(L, getpid());
}

/* memory() -> integer resident, integer peak
 * Resident memory of this process in bytes, now and at its peak. */
static int sys_memory(lua_State *L) {
    sr_memory m;
    sr_memory_facts(&m);
    lua_pushinteger(L, m.resident);
    lua_pushinteger(L, m.peak);
    return 2;
}

/* affinity() -> integer[]
 * The numbers of the processors that this process may use. */
static int sys_affinity(lua_State *L) {
    int cpus[SR_MOST_PROCESSORS];
    int count = sr_affinity_get(cpus);
    LSR_PUSH_LIST(L, count, i, lua_pushinteger(L, cpus[i]));
    return 1;
}

/* bind(processors: integer[]) -> true | nil, message, code
 * Binds all threads of this process, and those it makes later, to these processors. */
static int sys_bind(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int cpus[SR_MOST_PROCESSORS];
    int64_t count = luaL_len(L, 1);
    if (count < 1 || count > SR_MOST_PROCESSORS)
        return lsr_argerror(L, 1, "expected 1 to 1024 processors");
    for (int64_t i = 1; i <= count; i++)
        cpus[i - 1] = (int)lsr_checkelement(L, 1, i, "processors", 0, SR_MOST_PROCESSORS - 1);
    return lsr_done(L, sr_affinity_set(cpus, (int)count));
}

/* mute()
 * Drops what is written to standard output from now on. */
static int sys_mute(lua_State *L) {
    fflush(stdout);
    if (freopen("/dev/null", "w", stdout) == NULL) return lsr_error(L, "cannot open /dev/null");
    return 0;
}

bool lsr_reader_left(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/* reader_left() -> boolean
 * Whether standard output is a pipe or terminal without a reader. */
static int sys_reader_left(lua_State *L) {
    return lsr_give_bool(L, lsr_reader_left());
}

static const luaL_Reg functions[] = {
    {"pid", sys_pid},   {"memory", sys_memory}, {"affinity", sys_affinity},
    {"bind", sys_bind}, {"mute", sys_mute},     {"reader_left", sys_reader_left},
    {NULL, NULL},
};

void lsr_open_process(lua_State *L) {
    luaL_setfuncs(L, functions, 0);
}
