/* lsys.c - seqrun.core.sys: the clock, the terminal, files and the machine.  Files go through
 * core/base/io.h, so that tests can fail any call. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <utf8proc.h>
#include <yaml.h>
#include <zlib.h>
#include <zstd.h>

#include "core/base/directory.h"
#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/base/thread.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lstate.h"
#include "lua/bind/lsys.h"

#include "plugins.h"
#include "version.h" /* made by the Makefile: SR_VERSION, SR_GIT, SR_CFLAGS */

/* ---- time ------------------------------------------------------------------------------------ */

/* now() -> number
 * Seconds of a monotonic clock. */
static int sys_now(lua_State *L) {
    return lsr_give_number(L, sr_time_monotonic());
}

/* time() -> number
 * Seconds since 1970, with fractions; for logs only. */
static int sys_time(lua_State *L) {
    return lsr_give_number(L, sr_time_wall());
}

/* sleep(seconds: number)
 * Waits; a signal ends it early. */
static int sys_sleep(lua_State *L) {
    lua_Number s = luaL_checknumber(L, 1);
    luaL_argcheck(L, s >= 0 && s < 1e6, 1, "must be from 0 to 1e6 seconds");
    struct timespec t = {(time_t)s, (long)((s - (lua_Number)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
    return 0;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

/* is_terminal(fd: integer) -> boolean
 * Whether a file descriptor (1 is standard output) is a terminal. */
static int sys_is_terminal(lua_State *L) {
    return lsr_give_bool(L, isatty((int)lsr_checkrange(L, 1, 0, 1023)));
}

static int assumed_columns; /* 0: the width of the terminal */

/* where() -> string
 * "FILE:LINE: " of the innermost caller that is not a file of the library, to begin a message
 * about its mistake; "" if there is none. */
static int sys_where(lua_State *L) {
    lsr_where(L);
    return 1;
}

/* is_outside(level: integer) -> boolean
 * Whether the function at a level of the stack, 1 being the caller, is of a file outside the
 * library. */
static int sys_is_outside(lua_State *L) {
    return lsr_give_bool(L, lsr_is_outside(L, (int)lsr_checkrange(L, 1, 1, 1000)));
}

/* columns(fd: integer) -> integer
 * The width of a terminal, 80 when unknown. */
static int sys_columns(lua_State *L) {
    struct winsize w = {0};
    int fd = (int)lsr_checkrange(L, 1, 0, 1023);
    if (assumed_columns > 0) return lsr_give_integer(L, assumed_columns);
    return lsr_give_integer(L, ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80);
}

/* rows(fd: integer) -> integer
 * The height of a terminal, 24 when unknown. */
static int sys_rows(lua_State *L) {
    struct winsize w = {0};
    int fd = (int)lsr_checkrange(L, 1, 0, 1023);
    return lsr_give_integer(L, ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 ? w.ws_row : 24);
}

/* assume_columns(columns?: integer)
 * What columns() returns from now on, for output that goes to another terminal; nil: the width of
 * the terminal. */
static int sys_assume_columns(lua_State *L) {
    assumed_columns = (int)lsr_optrange(L, 1, 0, 1, 10000);
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Names that core listed, until Lua has copied them, which may raise. */
typedef struct names {
    char **name;
    size_t count;
} names;

#define NAMES "seqrun.core.Names"

static int names_free(lua_State *L) {
    names *n = lsr_checkbox(L, 1, NAMES);
    sr_file_list_free(n->name, n->count);
    *n = (names){0};
    return 0;
}

/* read_file(path: string, limit?: integer) -> string bytes | nil, message, code
 * A whole file; one larger than `limit` (default 1 GiB) is an error. */
static int sys_read_file(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    size_t size, limit = (size_t)lsr_optrange(L, 2, 1 << 30, 0, INT64_MAX);
    void **bytes = lsr_newbytes(L);
    LSR_TRY(L, sr_file_read(bytes, &size, path, limit));
    lua_pushlstring(L, *bytes, size);
    sr_free(*bytes); /* freed at once, not by the collector: files are large */
    *bytes = NULL;
    return 1;
}

/* write_file(path: string, bytes: string) -> true done | nil, message, code
 * Replaces a file durably and atomically. */
static int sys_write_file(lua_State *L) {
    size_t size;
    const char *path = luaL_checkstring(L, 1), *bytes = luaL_checklstring(L, 2, &size);
    return lsr_done(L, sr_file_replace(path, bytes, size));
}

/* check_writable(path: string) -> true done | nil, message, code
 * Whether a file can be written there; checked before long work. */
static int sys_check_writable(lua_State *L) {
    sr_draft draft;
    sr_status st = sr_draft_open(&draft, luaL_checkstring(L, 1));
    sr_draft_drop(&draft);
    return lsr_done(L, st);
}

/* make_dirs(path: string) -> true done | nil, message, code
 * Makes a directory and its missing parents. */
static int sys_make_dirs(lua_State *L) {
    return lsr_done(L, sr_file_make_dirs(luaL_checkstring(L, 1)));
}

/* temporary_dir() -> string path | nil, message, code
 * Makes a directory of a new name in TMPDIR, or /tmp, for this user alone. */
static int sys_temporary_dir(lua_State *L) {
    char **path = lsr_newbytes(L);
    LSR_TRY(L, sr_file_make_temporary(path));
    return lsr_give_string(L, *path);
}

/* tree_size(path: string) -> integer bytes | nil, message, code
 * The bytes of a file, or of all files in a directory; 0 of what is not there. */
static int sys_tree_size(lua_State *L) {
    uint64_t bytes;
    LSR_TRY(L, sr_file_tree_size(&bytes, luaL_checkstring(L, 1)));
    return lsr_give_integer(L, (lua_Integer)bytes);
}

/* remove(path: string) -> true done | nil, message, code
 * Removes a file, or a directory with its contents; links are not followed. */
static int sys_remove(lua_State *L) {
    return lsr_done(L, sr_file_remove_tree(luaL_checkstring(L, 1)));
}

/* Whether this name exists.  Raises where the system does not know: what it then does
 * not show is not missing (lua/seqrun/base/failure.lua knows the words). */
static bool examine(lua_State *L, struct stat *st) {
    bool there;
    if (sr_file_stat(&there, st, luaL_checkstring(L, 1)) == SR_OK) return there;
    lua_pushstring(L, sr_message());
    return lua_error(L);
}

/* exists(path: string) -> boolean
 * Whether the path exists. */
static int sys_exists(lua_State *L) {
    struct stat st;
    return lsr_give_bool(L, examine(L, &st));
}

/* is_dir(path: string) -> boolean
 * Whether the path is a directory. */
static int sys_is_dir(lua_State *L) {
    struct stat st;
    return lsr_give_bool(L, examine(L, &st) && S_ISDIR(st.st_mode));
}

/* list(path: string) -> string[] names | nil, message, code
 * The names in a directory, in byte order. */
static int sys_list(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    names *n = lsr_newbox(L, sizeof *n, NAMES);
    LSR_TRY(L, sr_file_list(&n->name, &n->count, path));
    LSR_PUSH_LIST(L, n->count, i, lua_pushstring(L, n->name[i]));
    return 1;
}

static int not_there(lua_State *L, const char *path) {
    sr_status st = sr_io_absent(errno) ? SR_ENOENT : errno == ENOMEM ? SR_ENOMEM : SR_EIO;
    return lsr_result(L, sr_fail(st, "%s: %s", path, strerror(errno)));
}

/* stat(path: string) -> { kind: "file"|"dir"|"other", size: integer, modified: number } facts |
 *     nil, message, code
 * Kind, size in bytes and time of the last change. */
static int sys_stat(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    struct stat st;
    if (stat(path, &st) != 0) return not_there(L, path);
    lua_createtable(L, 0, 3);
    lsr_set_string(L, "kind", S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "dir" : "other");
    lsr_set_integer(L, "size", st.st_size);
    lsr_set_number(L, "modified",
                   (lua_Number)st.st_mtim.tv_sec + 1e-9 * (lua_Number)st.st_mtim.tv_nsec);
    return 1;
}

/* real_path(path: string) -> string path | nil, message, code
 * The absolute path, with links followed. */
static int sys_real_path(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char whole[PATH_MAX];
    if (realpath(path, whole) == NULL) return not_there(L, path);
    return lsr_give_string(L, whole);
}

/* sync_dir(path: string) -> true done | nil, message, code
 * Syncs a directory: its entries survive a power cut. */
static int sys_sync_dir(lua_State *L) {
    return lsr_done(L, sr_file_sync_dir(luaL_checkstring(L, 1)));
}

/* hash(bytes: string) -> string
 * XXH3-128 of some bytes, as 32 hexadecimal digits. */
static int sys_hash(lua_State *L) {
    size_t size;
    char hex[33];
    const char *bytes = luaL_checklstring(L, 1, &size);
    sr_hash_bytes(hex, bytes, size);
    return lsr_give_string(L, hex);
}

/* key(bytes: string, seed?: integer) -> integer
 * XXH3-64 of some bytes, for tables in memory.
 *   seed  0; the key of the bytes before these */
static int sys_key(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    return lsr_give_integer(
        L, (lua_Integer)sr_hash_key(bytes, size, (uint64_t)luaL_optinteger(L, 2, 0)));
}

/* hash_file(path: string) -> string digits | nil, message, code
 * XXH3-128 of a file, as 32 hexadecimal digits. */
static int sys_hash_file(lua_State *L) {
    char hex[33];
    LSR_TRY(L, sr_hash_file(hex, luaL_checkstring(L, 1)));
    return lsr_give_string(L, hex);
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* machine() -> { system: string, release: string, arch: string, host: string, processors: integer,
 *     memory: integer, cpu: string, avx2: boolean, avx512: boolean, avx512_bf16: boolean,
 *     amx_bf16: boolean }
 * The machine and the features of its processor; `memory` is in bytes. */
static int sys_machine(lua_State *L) {
    struct utsname u;
    sr_cpu cpu;
    if (uname(&u) != 0) memset(&u, 0, sizeof u);
    sr_cpu_facts(&cpu);
    lua_createtable(L, 0, 11);
    lsr_set_string(L, "system", u.sysname);
    lsr_set_string(L, "release", u.release);
    lsr_set_string(L, "arch", u.machine);
    lsr_set_string(L, "host", u.nodename);
    lsr_set_string(L, "cpu", cpu.model);
    lsr_set_bool(L, "avx2", cpu.avx2);
    lsr_set_bool(L, "avx512", cpu.avx512);
    lsr_set_bool(L, "avx512_bf16", cpu.avx512_bf16);
    lsr_set_bool(L, "amx_bf16", cpu.amx_bf16);
    lsr_set_integer(L, "processors", sr_thread_default());
    lsr_set_integer(L, "memory", sr_memory_total());
    return 1;
}

/* build() -> table<string, string|boolean>
 * How the program was built: version, commit, compiler, flags, library versions. */
static int sys_build(lua_State *L) {
    lua_createtable(L, 0, 14);
    lsr_set_string(L, "version", SR_VERSION);
    lsr_set_string(L, "git", SR_GIT);
    lsr_set_string(L, "compiler", "cc " __VERSION__);
    lsr_set_string(L, "cflags", SR_CFLAGS);
    lsr_set_string(L, "lua", LUA_RELEASE);
    lsr_set_string(L, "jansson", JANSSON_VERSION);
    lsr_set_string(L, "libyaml", yaml_get_version_string());
    lsr_set_string(L, "utf8proc", utf8proc_version());
    lsr_set_string(L, "unicode", utf8proc_unicode_version());
    lsr_set_string(L, "zlib", zlibVersion());
    lsr_set_string(L, "zstd", ZSTD_versionString());
    lsr_set_string(L, "plugins", SR_PLUGINS);
    lsr_set_bool(L, "cuda", strstr(SR_PLUGINS, " cuda ") != NULL);
#ifdef __SANITIZE_ADDRESS__
    lsr_set_bool(L, "sanitizers", true);
#else
    lsr_set_bool(L, "sanitizers", false);
#endif
    return 1;
}

/* free_space(path: string) -> integer bytes | nil, message, code
 * Free bytes on the file system of `path`. */
static int sys_free_space(lua_State *L) {
    int64_t bytes;
    LSR_TRY(L, sr_disk_free(&bytes, luaL_checkstring(L, 1)));
    return lsr_give_integer(L, bytes);
}

/* exit_code(code: string) -> integer?
 * The process exit code of an error code such as "data"; nil if the code is unknown. */
static int sys_exit_code(lua_State *L) {
    const char *name = luaL_checkstring(L, 1);
    for (int s = 0; s < SR_STATUS_COUNT; s++) {
        if (strcmp(name, sr_status_name((sr_status)s)) != 0) continue;
        return lsr_give_integer(L, sr_exit_code((sr_status)s));
    }
    return 0;
}

static const luaL_Reg functions[] = {
    {"now", sys_now},
    {"time", sys_time},
    {"sleep", sys_sleep},
    {"is_terminal", sys_is_terminal},
    {"columns", sys_columns},
    {"rows", sys_rows},
    {"where", sys_where},
    {"is_outside", sys_is_outside},
    {"assume_columns", sys_assume_columns},
    {"read_file", sys_read_file},
    {"write_file", sys_write_file},
    {"check_writable", sys_check_writable},
    {"make_dirs", sys_make_dirs},
    {"temporary_dir", sys_temporary_dir},
    {"tree_size", sys_tree_size},
    {"remove", sys_remove},
    {"exists", sys_exists},
    {"is_dir", sys_is_dir},
    {"list", sys_list},
    {"stat", sys_stat},
    {"real_path", sys_real_path},
    {"sync_dir", sys_sync_dir},
    {"hash", sys_hash},
    {"key", sys_key},
    {"hash_file", sys_hash_file},
    {"machine", sys_machine},
    {"build", sys_build},
    {"free_space", sys_free_space},
    {"exit_code", sys_exit_code},
    {NULL, NULL},
};

/* @class seqrun.core.sys
 * Clocks, the terminal, files, signals and facts about the machine and the build. */
void lsr_open_sys(lua_State *L) {
    lsr_class(L, NAMES, NULL, names_free);
    luaL_setfuncs(L, functions, 0);
}
