/* lsocket.c - seqrun.core.socket: local sockets, and work that a connection can end. */
#include <stdlib.h>

#include "core/base/limit.h"
#include "core/base/socket.h"
#include "core/base/thread.h"
#include "core/base/watch.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lstate.h"
#include "lua/bind/lsys.h"

#define SOCKET "seqrun.core.Socket"
#define LISTENER "seqrun.core.Listener"

/* A box is all zero at first. */
typedef struct handle {
    bool open;
    int fd;
} handle;

static sr_status keep(handle *h, sr_status st, int fd) {
    *h = (handle){.open = st == SR_OK && fd >= 0, .fd = fd};
    return st;
}

static int close_handle(lua_State *L, const char *type) {
    handle *h = lsr_checkbox(L, 1, type);
    if (h->open) sr_socket_close(h->fd);
    h->open = false;
    return 0;
}

/* @class seqrun.core.Socket
 * A connection; nothing blocks except wait(). */

/* socket:close()
 * Closes the connection; twice is allowed. */
static int socket_close(lua_State *L) {
    return close_handle(L, SOCKET);
}

/* @class seqrun.core.Listener
 * A socket that listens. */

/* listener:close()
 * Stops listening; the path stays. */
static int listener_close(lua_State *L) {
    return close_handle(L, LISTENER);
}

static int check_open(lua_State *L, const char *type) {
    handle *h = lsr_checkbox(L, 1, type);
    luaL_argcheck(L, h->open, 1, "the socket was closed");
    return h->fd;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* folder() -> string path | nil, message, code
 * The directory of this user's sockets, which only this user can enter; created if needed. */
static int socket_folder(lua_State *L) {
    char path[SR_SOCKET_PATH];
    sr_status st = sr_socket_folder(path, getenv("XDG_RUNTIME_DIR"));
    if (st == SR_OK) lua_pushstring(L, path);
    return lsr_give(L, st);
}

/* listen(path: string) -> Listener | nil, message, code
 * Listens at a path, with mode 0600; an existing socket is replaced. */
static int socket_listen(lua_State *L) {
    int fd;
    const char *path = luaL_checkstring(L, 1);
    handle *h = lsr_newbox(L, sizeof *h, LISTENER);
    sr_status st = sr_socket_listen(&fd, path);
    return lsr_give(L, keep(h, st, fd));
}

/* connect(path: string) -> Socket | nil, message, code
 * Connects to a process of this user that listens there.
 *   code  "missing" if nobody listens there */
static int socket_connect(lua_State *L) {
    int fd;
    const char *path = luaL_checkstring(L, 1);
    handle *h = lsr_newbox(L, sizeof *h, SOCKET);
    sr_status st = sr_socket_connect(&fd, path);
    return lsr_give(L, keep(h, st, fd));
}

/* listener:accept() -> Socket | nil, message, code
 * The next connection of a program of this user; nil if there is none. */
static int listener_accept(lua_State *L) {
    int fd, listener = check_open(L, LISTENER);
    handle *h = lsr_newbox(L, sizeof *h, SOCKET);
    sr_status st = sr_socket_accept(&fd, listener);
    keep(h, st, fd);
    if (st != SR_OK) return lsr_result(L, st);
    return h->open ? 1 : 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* socket:read() -> string bytes | nil, message, code
 * What has arrived, "" if nothing has; nil once the other end has closed. */
static int socket_read(lua_State *L) {
    char bytes[16384];
    size_t got;
    bool open;
    LSR_TRY(L, sr_socket_read(&got, &open, check_open(L, SOCKET), bytes, sizeof bytes));
    if (!open) return 0;
    return lsr_give_bytes(L, bytes, got);
}

/* socket:write(bytes: string, from?: integer) -> integer count | nil, message, code
 * Writes as much as there is room for, from a position on.
 *   from   default 1
 *   count  of bytes written */
static int socket_write(lua_State *L) {
    size_t size, sent;
    int fd = check_open(L, SOCKET);
    const char *bytes = luaL_checklstring(L, 2, &size);
    size_t from = (size_t)lsr_optrange(L, 3, 1, 1, (int64_t)size + 1) - 1;
    LSR_TRY(L, sr_socket_write(&sent, fd, bytes + from, size - from));
    return lsr_give_integer(L, (lua_Integer)sent);
}

/* socket:wait(seconds: number, writes?: boolean) -> boolean ready
 * Waits until the socket can be read, or written; a signal ends the wait. */
static int socket_wait(lua_State *L) {
    int fd = check_open(L, SOCKET);
    return lsr_give_bool(L, sr_socket_wait(fd, lua_toboolean(L, 3), luaL_checknumber(L, 2)));
}

/* ---- limited work ---------------------------------------------------------------------------- */

static void on_count(lua_State *L, lua_Debug *where) {
    if (sr_stop_requested()) lsr_interrupt(L, where);
}

/* limited(connection: Socket, limits: { seconds?: number, lua?: integer, tensors?: integer }, fn:
 *     function, ...: any) -> "time"|"stop"|"gone"|"signal"|nil why, boolean done, any ...
 * Calls a function that ends with "interrupted" after some time, when the other end of the socket
 * closes or sends "stop", or on a signal.
 *   limits  seconds: default 10; bytes that it may allocate for values of Lua (default 2 GiB) and
 *           for tensors (default: no limit)
 *   ...     its arguments
 *   why     it was interrupted
 *   ...     what it returned, or the error */
static int socket_limited(lua_State *L) {
    static const char *const names[] = {NULL, "time", "stop", "gone", "signal"};
    enum { POLL = 1000 };
    sr_watch *w;
    int fd = check_open(L, SOCKET);
    luaL_checktype(L, 2, LUA_TTABLE);
    double seconds = lsr_field_number(L, 2, "seconds", 10);
    int64_t lua = lsr_field_range(L, 2, "lua", INT32_MAX, 0, INT64_MAX);
    int64_t tensors = lsr_field_range(L, 2, "tensors", -1, 0, INT64_MAX);
    luaL_checkany(L, 3);
    lsr_check(L, sr_watch_start(&w, fd, seconds, lsr_caught));
    lsr_state_limit(L, lsr_state_memory(L) + (size_t)lua);
    sr_mem_limit(tensors);
    lsr_interrupt_begin();
    lua_sethook(L, on_count, LUA_MASKCOUNT, POLL);
    bool good = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 0) == LUA_OK;
    lua_sethook(L, NULL, 0, 0);
    lsr_state_limit(L, 0);
    sr_mem_limit(-1);
    const char *why = names[sr_watch_finish(w)];
    lua_pushstring(L, why); /* NULL: nil */
    lua_replace(L, 1);
    lua_pushboolean(L, good);
    lua_replace(L, 2);
    return lua_gettop(L);
}

/* ---- the module ------------------------------------------------------------------------------ */

static const luaL_Reg socket_methods[] = {
    {"read", socket_read}, {"write", socket_write}, {"wait", socket_wait}, {"close", socket_close},
    {NULL, NULL},
};

static const luaL_Reg listener_methods[] = {
    {"accept", listener_accept},
    {"close", listener_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"folder", socket_folder},
    {"listen", socket_listen},
    {"connect", socket_connect},
    {"limited", socket_limited},
    {NULL, NULL},
};

/* @class seqrun.core.socket
 * Local sockets of one user, and work that a connection may end. */
void lsr_open_socket(lua_State *L) {
    lsr_class(L, SOCKET, socket_methods, socket_close);
    lsr_class(L, LISTENER, listener_methods, listener_close);
    luaL_setfuncs(L, functions, 0);
}
