/* lsignals.c - signals, as handled by a run, long work and the prompt; part of seqrun.core.sys. */
#include <signal.h>
#include <unistd.h>

#include "core/base/thread.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lsys.h"

static volatile sig_atomic_t caught;
static lua_State *prompt_state;

static volatile sig_atomic_t line_shown; /* on a terminal, without a line break */

/* A run: the first signal asks for a stop at the end of the step, a second Ctrl-C exits at once.
 */
static void on_run_signal(int number) {
    if (number == SIGINT && caught == SIGINT) {
        ssize_t written = line_shown ? write(STDERR_FILENO, "\n", 1) : 0;
        (void)written; /* the terminal may be gone */
        _exit(130);
    }
    caught = number;
}

/* Code that catches the error may run some instructions (for its __close handlers) before the next
 * error, fewer each time: so a loop that catches errors ends too. */
enum { GRACE = 10000, FEWER = 10, POLL = 1000 };
static int grace = GRACE;

void lsr_interrupt_begin(void) {
    grace = GRACE;
}

void lsr_interrupt(lua_State *L, lua_Debug *where) {
    (void)where;
    lua_sethook(L, lsr_interrupt, LUA_MASKCOUNT, grace);
    if (grace >= FEWER) grace /= FEWER;
    luaL_error(L, "interrupted");
}

/* Coroutines inherit this hook; a signal's own is only set in the main thread. */
static void poll(lua_State *L, lua_Debug *where) {
    if (caught != 0) lsr_interrupt(L, where);
}

/* Work without steps: long C functions poll the stop flag. */
static void on_work_signal(int number) {
    sr_stop_request();
    on_run_signal(number);
}

/* The prompt: ops poll the stop flag, Lua code is stopped by a hook at its next instruction. */
static void on_prompt_signal(int number) {
    (void)number;
    sr_stop_request();
    caught = SIGINT;
    lsr_interrupt_begin();
    lua_sethook(prompt_state, lsr_interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* The prompt while no Lua code of a line runs. */
static void on_reading_signal(int number) {
    caught = number;
}

/* The terminal has closed. */
static void on_prompt_hangup(int number) {
    (void)number;
    _exit(0);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* signals(mode: "run"|"work"|"prompt"|"waiting"|"reading"|"default")
 * Who handles INT, TERM, USR1 and HUP: a run (`caught` names them, HUP is ignored), work without
 * steps (the same, and long C functions end with "stopped"), the prompt (INT raises "interrupted"
 * in the Lua code that runs), the prompt between lines (INT is `caught`) or while it reads one (and
 * INT ends the read), or the system. */
static int sys_signals(lua_State *L) {
    static const char *const modes[] = {"default", "run",     "work", "prompt",
                                        "waiting", "reading", NULL};
    static const struct {
        void (*on_int)(int), (*on_others)(int), (*on_hangup)(int);
        int flags; /* of SIGINT */
    } ways[] = {{SIG_DFL, SIG_DFL, SIG_DFL, SA_RESTART},
                {on_run_signal, on_run_signal, SIG_IGN, SA_RESTART},
                {on_work_signal, on_work_signal, SIG_IGN, SA_RESTART},
                {on_prompt_signal, SIG_DFL, on_prompt_hangup, SA_RESTART},
                {on_reading_signal, SIG_DFL, on_prompt_hangup, SA_RESTART},
                {on_reading_signal, SIG_DFL, on_prompt_hangup, 0}};
    int mode = luaL_checkoption(L, 1, NULL, modes);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    prompt_state = lua_tothread(L, -1);
    caught = 0;
    bool prompts = ways[mode].on_int == on_prompt_signal;
    lua_sethook(prompt_state, prompts ? poll : NULL, prompts ? LUA_MASKCOUNT : 0, POLL);
    handle(SIGINT, ways[mode].on_int, ways[mode].flags);
    handle(SIGTERM, ways[mode].on_others, SA_RESTART);
    handle(SIGUSR1, ways[mode].on_others, SA_RESTART);
    handle(SIGHUP, ways[mode].on_hangup, SA_RESTART);
    handle(SIGPIPE, SIG_IGN, 0);
    return 0;
}

/* status_line(shown: boolean)
 * Says whether standard error ends with a line that is not complete: a program that is interrupted
 * completes it. */
static int sys_status_line(lua_State *L) {
    line_shown = lua_toboolean(L, 1);
    return 0;
}

bool lsr_line_shown(void) {
    return line_shown != 0;
}

bool lsr_caught(void) {
    return caught != 0;
}

/* caught(clear?: boolean) -> "INT"|"TERM"|"USR1"|nil
 * The signal that arrived since `signals` was called or it was last cleared. */
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

/* interruptible(fn: function, ...: any) -> boolean interrupted, boolean ok, any ...
 * Calls a function as pcall does; with signals("prompt"), no interrupt outlives the call.
 *   ...  its arguments
 *   ...  results, or the error */
static int sys_interruptible(lua_State *L) {
    luaL_checkany(L, 1);
    lua_pushboolean(L, 0);
    lua_insert(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 2);
    bool good = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 0) == LUA_OK;
    lua_sethook(L, NULL, 0, 0);
    lua_pushboolean(L, caught != 0);
    lua_replace(L, 1);
    lua_pushboolean(L, good);
    lua_replace(L, 2);
    caught = 0;
    sr_stop_clear();
    return lua_gettop(L);
}

static const luaL_Reg functions[] = {{"signals", sys_signals},
                                     {"caught", sys_caught},
                                     {"interruptible", sys_interruptible},
                                     {"status_line", sys_status_line},
                                     {NULL, NULL}};

void lsr_open_signals(lua_State *L) {
    luaL_setfuncs(L, functions, 0);
}
