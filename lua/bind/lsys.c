/* lsys.c - seqrun.core.sys: the clock, files, signals and the machine, as far as the program needs
 * them.  Files go through core/base/file.h, so that tests can fail any call. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "lua/bind/lseqrun.h"

#ifdef SR_VERSION_H
#include SR_VERSION_H
#endif
#ifndef SR_GIT
#define SR_GIT "unknown"
#endif

/* ---- time ------------------------------------------------------------------------------------ */

static lua_Number seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (lua_Number)t.tv_sec + (lua_Number)t.tv_nsec * 1e-9;
}

/* now() -> seconds of a clock that never goes back */
static int sys_now(lua_State *L) {
    lua_pushnumber(L, seconds(CLOCK_MONOTONIC));
    return 1;
}

/* time() -> seconds since 1970, with fractions */
static int sys_time(lua_State *L) {
    lua_pushnumber(L, seconds(CLOCK_REALTIME));
    return 1;
}

/* sleep(seconds); a signal ends it early */
static int sys_sleep(lua_State *L) {
    lua_Number s = luaL_checknumber(L, 1);
    luaL_argcheck(L, s >= 0 && s < 1e6, 1, "not in 0..1e6 seconds");
    struct timespec t = {(time_t)s, (long)((s - (lua_Number)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
    return 0;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

/* is_terminal(fd) -> boolean */
static int sys_is_terminal(lua_State *L) {
    lua_pushboolean(L, isatty((int)lsr_checkrange(L, 1, 0, 1023)));
    return 1;
}

/* columns(fd) -> width of the terminal, 80 when unknown */
static int sys_columns(lua_State *L) {
    struct winsize w = {0};
    int fd = (int)lsr_checkrange(L, 1, 0, 1023);
    lua_pushinteger(L, ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80);
    return 1;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int done(lua_State *L, sr_status status) {
    if (status != SR_OK) return lsr_result(L, status);
    lua_pushboolean(L, 1);
    return 1;
}

/* read_file(path[, limit]) -> string | nil, message, code */
static int sys_read_file(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    lua_Integer limit = luaL_optinteger(L, 2, 1 << 30);
    luaL_argcheck(L, limit >= 0, 2, "is negative");
    void *bytes = NULL;
    size_t size = 0;
    sr_status st = sr_file_read(&bytes, &size, path, (size_t)limit);
    if (st != SR_OK) return lsr_result(L, st);
    /* A string that cannot be made raises: let a buffer of Lua's own hold the bytes first. */
    luaL_Buffer b;
    char *room = size > 0 ? luaL_buffinitsize(L, &b, size) : NULL;
    if (room == NULL) {
        lua_pushliteral(L, "");
    } else {
        memcpy(room, bytes, size);
        luaL_pushresultsize(&b, size);
    }
    sr_free(bytes);
    return 1;
}

/* write_file(path, bytes) -> true | nil, message, code: replaced whole or not at all */
static int sys_write_file(lua_State *L) {
    size_t size;
    const char *path = luaL_checkstring(L, 1), *bytes = luaL_checklstring(L, 2, &size);
    return done(L, sr_file_replace(path, bytes, size));
}

/* make_dirs(path) -> true | nil, message, code */
static int sys_make_dirs(lua_State *L) {
    return done(L, sr_file_make_dirs(luaL_checkstring(L, 1)));
}

/* remove(path) -> true | nil, message, code: a file, or a folder with all that is in it */
static int sys_remove(lua_State *L) {
    return done(L, sr_file_remove_tree(luaL_checkstring(L, 1)));
}

/* exists(path) -> boolean */
static int sys_exists(lua_State *L) {
    lua_pushboolean(L, sr_file_exists(luaL_checkstring(L, 1)));
    return 1;
}

/* is_dir(path) -> boolean */
static int sys_is_dir(lua_State *L) {
    lua_pushboolean(L, sr_file_is_dir(luaL_checkstring(L, 1)));
    return 1;
}

static int push_names(lua_State *L) {
    char **names = lua_touserdata(L, 1);
    size_t count = (size_t)lua_tointeger(L, 2);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushstring(L, names[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* list(path) -> names in byte order | nil, message, code */
static int sys_list(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char **names = NULL;
    size_t count = 0;
    sr_status st = sr_file_list(&names, &count, path);
    if (st != SR_OK) return lsr_result(L, st);
    lua_pushcfunction(L, push_names);
    lua_pushlightuserdata(L, names);
    lua_pushinteger(L, (lua_Integer)count);
    int rc = lua_pcall(L, 2, 1, 0); /* so that the names are freed though memory runs out */
    sr_file_list_free(names, count);
    if (rc != LUA_OK) return lua_error(L);
    return 1;
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;
static lua_State *prompt_state;

/* A run: the first signal asks for a stop at the end of the step, a second Ctrl-C leaves at once.
 */
static void on_run_signal(int number) {
    if (number == SIGINT && caught == SIGINT) _exit(130);
    caught = number;
}

static void interrupt(lua_State *L, lua_Debug *where) {
    (void)where;
    lua_sethook(L, NULL, 0, 0);
    luaL_error(L, "interrupted");
}

/* The prompt: ops poll the stop flag, Lua code meets a hook at its next instruction. */
static void on_prompt_signal(int number) {
    (void)number;
    sr_stop_request();
    caught = SIGINT;
    lua_sethook(prompt_state, interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* signals("run" | "prompt" | "default"): who deals with INT, TERM, USR1, HUP.
 *
 *   run      caught() names them; HUP is ignored, so that training outlives its terminal
 *   prompt   INT raises "interrupted" in the Lua code that runs
 *   default  as the system has it
 */
static int sys_signals(lua_State *L) {
    static const char *const modes[] = {"default", "run", "prompt", NULL};
    int mode = luaL_checkoption(L, 1, NULL, modes);
    void (*handler)(int) = mode == 1 ? on_run_signal : SIG_DFL;
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    prompt_state = lua_tothread(L, -1);
    caught = 0;
    handle(SIGINT, mode == 2 ? on_prompt_signal : handler, SA_RESTART);
    handle(SIGTERM, handler, SA_RESTART);
    handle(SIGUSR1, handler, SA_RESTART);
    handle(SIGHUP, mode == 1 ? SIG_IGN : SIG_DFL, SA_RESTART);
    handle(SIGPIPE, SIG_IGN, 0);
    return 0;
}

/* caught([clear]) -> "INT" | "TERM" | "USR1" | nil */
static int sys_caught(lua_State *L) {
    int number = caught;
    if (lua_toboolean(L, 1)) {
        caught = 0;
        sr_stop_clear();
        lua_sethook(L, NULL, 0, 0);
    }
    if (number == 0) return 0;
    lua_pushstring(L, number == SIGINT ? "INT" : number == SIGTERM ? "TERM" : "USR1");
    return 1;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void field(lua_State *L, const char *name, const char *value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

/* machine() -> { system, release, arch, host, processors } */
static int sys_machine(lua_State *L) {
    struct utsname u;
    if (uname(&u) != 0) memset(&u, 0, sizeof u);
    lua_createtable(L, 0, 6);
    field(L, "system", u.sysname);
    field(L, "release", u.release);
    field(L, "arch", u.machine);
    field(L, "host", u.nodename);
    lua_pushinteger(L, sr_thread_default());
    lua_setfield(L, -2, "processors");
    return 1;
}

/* build() -> { git, compiler, sanitizers } */
static int sys_build(lua_State *L) {
    lua_createtable(L, 0, 4);
    field(L, "git", SR_GIT);
    field(L, "compiler", "cc " __VERSION__);
#ifdef __SANITIZE_ADDRESS__
    lua_pushboolean(L, 1);
#else
    lua_pushboolean(L, 0);
#endif
    lua_setfield(L, -2, "sanitizers");
    return 1;
}

/* memory() -> resident bytes now, most so far */
static int sys_memory(lua_State *L) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        if (fscanf(f, "%*s %ld", &pages) != 1) pages = 0;
        fclose(f);
    }
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    lua_pushinteger(L, (lua_Integer)pages * sysconf(_SC_PAGESIZE));
    lua_pushinteger(L, (lua_Integer)usage.ru_maxrss * 1024);
    return 2;
}

/* free_space(path) -> bytes left for us on the file system of path | nil, message, code */
static int sys_free_space(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    struct statvfs v;
    if (statvfs(path, &v) != 0)
        return lsr_result(L, sr_fail(SR_EIO, "free space of %s: %s", path, strerror(errno)));
    lua_pushinteger(L, (lua_Integer)v.f_bavail * (lua_Integer)v.f_frsize);
    return 1;
}

/* exit_code(status name) -> integer | nil: the process exit code of a code such as "data" */
static int sys_exit_code(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    for (int s = 0; s < SR_STATUS_COUNT; s++) {
        if (strcmp(name, sr_status_name((sr_status)s)) != 0) continue;
        lua_pushinteger(L, sr_exit_code((sr_status)s));
        return 1;
    }
    return 0;
}

/* pid() -> integer */
static int sys_pid(lua_State *L) {
    lua_pushinteger(L, getpid());
    return 1;
}

static const luaL_Reg functions[] = {
    {"now", sys_now},
    {"time", sys_time},
    {"sleep", sys_sleep},
    {"is_terminal", sys_is_terminal},
    {"columns", sys_columns},
    {"read_file", sys_read_file},
    {"write_file", sys_write_file},
    {"make_dirs", sys_make_dirs},
    {"remove", sys_remove},
    {"exists", sys_exists},
    {"is_dir", sys_is_dir},
    {"list", sys_list},
    {"signals", sys_signals},
    {"caught", sys_caught},
    {"machine", sys_machine},
    {"build", sys_build},
    {"memory", sys_memory},
    {"free_space", sys_free_space},
    {"exit_code", sys_exit_code},
    {"pid", sys_pid},
    {NULL, NULL},
};

int luaopen_seqrun_core_sys(lua_State *L) {
    luaL_newlib(L, functions);
    return 1;
}
