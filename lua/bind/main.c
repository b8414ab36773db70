/* main.c - the program: sets up the process, finds its Lua files and calls
 * lua/seqrun/cli/init.lua, whose main(arg) returns the exit code. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/system.h"
#include "lua/bind/lseqrun.h"
#include "lua/bind/lstate.h"
#include "lua/bind/lsys.h"

enum { EXIT_MEMORY = 4, EXIT_STORAGE = 5, EXIT_INTERNAL = 70, MXCSR_DEFAULT = 0x1F80 };

/* The directory of the Lua files: beside build/ in a checkout, else PREFIX/share/seqrun/lua. */
static void find_lua_dir(char out[PATH_MAX]) {
    char exe[PATH_MAX], try[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = '\0';
    const char *dir = dirname(exe);
    snprintf(try, sizeof try, "%s/../lua/seqrun", dir);
    bool checkout = access(try, R_OK) == 0;
    snprintf(try, sizeof try, "%s/../%s", dir, checkout ? "lua" : "share/seqrun/lua");
    if (realpath(try, out) == NULL) snprintf(out, PATH_MAX, "%.4000s", try);
}

/* Opened files must not become a closed standard stream; what is printed to one is lost, and said. */
static void open_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        if (open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) _exit(EXIT_INTERNAL);
    }
}

static void warn(void *context, sr_log_level level, const char *line) {
    (void)context;
    fprintf(stderr, "%sseqrun: %s%s\n", lsr_line_shown() ? "\n" : "",
            level == SR_LOG_WARN ? "warning: " : "", line);
}

static void set_up_process(void) {
    open_standard_streams();
    signal(SIGPIPE, SIG_IGN);  /* writing to a closed pipe returns an error */
    signal(SIGXFSZ, SIG_IGN);  /* and so does exceeding the file size limit */
    _mm_setcsr(MXCSR_DEFAULT); /* a library built with -ffast-math flushes small numbers to 0 */
    sr_log_set(warn, NULL, SR_LOG_WARN);
}

/* Calls require("seqrun.cli").main(arg) with the arguments; returns its exit code. */
static int run(lua_State *L) {
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    lsr_open(L, lua_touserdata(L, 3));
    lua_createtable(L, argc, 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "arg");
    lua_getglobal(L, "require");
    lua_pushliteral(L, "seqrun.cli");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "main");
    lua_getglobal(L, "arg");
    lua_call(L, 1, 1);
    if (!lua_isinteger(L, -1)) return luaL_error(L, "cli.main returned no exit code");
    return 1;
}

/* An error that the command line did not catch is internal. */
static int report_fault(lua_State *L, int status) {
    const char *message = lua_tostring(L, -1);
    if (status == LUA_ERRMEM) {
        fprintf(stderr, "seqrun: out of memory\n");
        return EXIT_MEMORY;
    }
    if (message != NULL && strncmp(message, LSR_CANNOT_LOAD, strlen(LSR_CANNOT_LOAD)) == 0) {
        fprintf(stderr, "seqrun: %.*s\n", (int)strcspn(message, "\n"), message);
        return EXIT_STORAGE;
    }
    fprintf(stderr, "seqrun: internal error, please report it: %s\n",
            message != NULL ? message : "(no message)");
    return EXIT_INTERNAL;
}

/* Whether output was lost; a pipe whose reader has left does not count.
 * Lua flushes as it prints, so the last flush may succeed where an earlier one failed. */
static bool output_lost(void) {
    bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
    return failed && !lsr_reader_left();
}

int main(int argc, char **argv) {
    char lua_dir[PATH_MAX];
    set_up_process();
    find_lua_dir(lua_dir);
    lua_State *L = lsr_state_new();
    if (L == NULL) {
        fprintf(stderr, "seqrun: out of memory\n");
        return EXIT_MEMORY;
    }
    lua_pushcfunction(L, lsr_traceback);
    lua_pushcfunction(L, run);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    lua_pushlightuserdata(L, lua_dir);
    int status = lua_pcall(L, 3, 1, 1);
    int code = status == LUA_OK ? (int)lua_tointeger(L, -1) : report_fault(L, status);
    lsr_state_close(L);
    if (code != 0 || !output_lost()) return code;
    fprintf(stderr, "seqrun: cannot write to standard output; is its disk full?\n");
    return EXIT_STORAGE;
}
