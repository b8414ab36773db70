/* lkeys.c - single keys of the terminal, for views that are redrawn; part of seqrun.core.edit. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include "lua/bind/lcheck.h"
#include "lua/bind/lsys.h"

#define KEYS "seqrun.core.Keys"

typedef struct keys {
    bool raw;
    struct termios before;
} keys;

static void make_raw(keys *k) {
    struct termios mode = k->before;
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    k->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0;
}

static void restore(keys *k) {
    if (k->raw) tcsetattr(STDIN_FILENO, TCSADRAIN, &k->before);
    k->raw = false;
}

/* keys() -> Keys|nil
 * The keys of standard input; nil if it is not a terminal. */
static int edit_keys(lua_State *L) {
    keys *k = lsr_newbox(L, sizeof *k, KEYS);
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &k->before) != 0) return 0;
    make_raw(k);
    return 1;
}

/* @class seqrun.core.Keys
 * Single keys of a terminal, also Ctrl-C and Ctrl-Z; its __close restores the terminal. */

/* keys:read(seconds: number) -> string|nil
 * The bytes of the next keys: "" if none came in time or a signal arrived, nil at the end of the
 * input.
 *   seconds  to wait */
static int keys_read(lua_State *L) {
    lsr_checkbox(L, 1, KEYS);
    lua_Number seconds = luaL_checknumber(L, 2);
    luaL_argcheck(L, seconds >= 0 && seconds <= 3600, 2, "must be from 0 to 3600 seconds");
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&input, 1, (int)(seconds * 1000));
    if (ready <= 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    char bytes[64];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR)) return 0;
    return lsr_give_bytes(L, bytes, n > 0 ? (size_t)n : 0);
}

/* keys:pause()
 * Stops the process as Ctrl-Z does, with the terminal restored; returns when it is continued. */
static int keys_pause(lua_State *L) {
    keys *k = lsr_checkbox(L, 1, KEYS);
    restore(k);
    raise(SIGSTOP); /* an orphaned process group ignores SIGTSTP */
    make_raw(k);
    return 0;
}

/* keys:close()
 * Restores the terminal. */
static int keys_close(lua_State *L) {
    restore(lsr_checkbox(L, 1, KEYS));
    return 0;
}

static const luaL_Reg methods[] = {
    {"read", keys_read},
    {"pause", keys_pause},
    {"close", keys_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"keys", edit_keys},
    {NULL, NULL},
};

void lsr_open_keys(lua_State *L) {
    lsr_class(L, KEYS, methods, keys_close);
    luaL_setfuncs(L, functions, 0);
}
