/* lsignals.c - signals, as handled by a run, long work and the prompt; part of seqrun.core.sys. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/thread.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lsys.h"

static volatile sig_atomic_t caught;
static lua_State *main_state;

static volatile sig_atomic_t line_shown; /* on a terminal, without a line break */

/* ---- Ctrl-C where nothing looks for it ------------------------------------------------------- */

enum { PATIENCE = 2 };             /* seconds */
static volatile sig_atomic_t seen; /* sys.caught() has given the signal */
static volatile sig_atomic_t said; /* that a second Ctrl-C ends the program */

/* Where the person's Lua code is, in one of two places, so that a handler reads a whole one. */
static char places[2][LUA_IDSIZE + 32];
static volatile sig_atomic_t place;

static void note_place(lua_State *L, lua_Debug *at) {
    (void)at;
    int free_one = 1 - place, top = lua_gettop(L);
    lsr_where(L);
    snprintf(places[free_one], sizeof places[0], "%s", lua_tostring(L, -1));
    lua_settop(L, top);
    place = free_one;
}

/* Writes a line in a signal handler, after the place if that is known. */
static void write_line(const char *text) {
    const char *parts[] = {line_shown ? "\n" : "", "seqrun: ", places[place], text, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ssize_t written = write(STDERR_FILENO, parts[i], strlen(parts[i]));
        (void)written; /* the terminal may be gone */
    }
}

static void exit_at_once(void) {
    write_line("ended by a second Ctrl-C");
    _exit(130);
}

/* PATIENCE after Ctrl-C: a loop, a pattern or a __gc goes on. */
static void on_alarm(int number) {
    (void)number;
    if (caught != SIGINT || seen) return;
    said = 1;
    write_line("busy; press Ctrl-C again to end the program at once");
}

/* A run: the first signal asks for a stop at the end of the step, a second Ctrl-C exits at once.
 */
static void on_run_signal(int number) {
    if (number == SIGINT && caught == SIGINT) exit_at_once();
    if (number == SIGINT) {
        if (lua_gethook(main_state) == NULL) lua_sethook(main_state, note_place, LUA_MASKLINE, 0);
        alarm(PATIENCE);
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
    if (said) exit_at_once();
    if (caught == 0) alarm(PATIENCE);
    sr_stop_request();
    caught = SIGINT;
    lsr_interrupt_begin();
    lua_sethook(main_state, lsr_interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
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

/* The last signal is dealt with. */
static void forget_signal(void) {
    caught = seen = said = 0;
    places[place][0] = '\0';
    alarm(0);
}

/* signals(mode: "run"|"work"|"stream"|"prompt"|"waiting"|"reading"|"default")
 * Who handles INT, TERM, USR1 and HUP: a run (`caught` names them, HUP is ignored), work without
 * steps (the same, and long C functions end with "stopped", also one that waits for input), work
 * on a stream (the same, and HUP too, unless it was ignored: nohup), the prompt (INT raises "interrupted"
 * in the Lua code that runs), the prompt between lines (INT is `caught`) or while it reads one (and
 * INT ends the read), or the system. */
static int sys_signals(lua_State *L) {
    static const char *const modes[] = {"default", "run",     "work",    "stream",
                                        "prompt",  "waiting", "reading", NULL};
    static const struct {
        void (*on_int)(int), (*on_others)(int), (*on_hangup)(int);
        int flags; /* of SIGINT */
    } ways[] = {{SIG_DFL, SIG_DFL, SIG_DFL, SA_RESTART},
                {on_run_signal, on_run_signal, SIG_IGN, SA_RESTART},
                {on_work_signal, on_work_signal, SIG_IGN, SA_RESTART},
                {on_work_signal, on_work_signal, on_work_signal, SA_RESTART},
                {on_prompt_signal, SIG_DFL, on_prompt_hangup, SA_RESTART},
                {on_reading_signal, SIG_DFL, on_prompt_hangup, SA_RESTART},
                {on_reading_signal, SIG_DFL, on_prompt_hangup, 0}};
    int mode = luaL_checkoption(L, 1, NULL, modes);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main_state = lua_tothread(L, -1);
    forget_signal();
    bool prompts = ways[mode].on_int == on_prompt_signal;
    lua_sethook(main_state, prompts ? poll : NULL, prompts ? LUA_MASKCOUNT : 0, POLL);
    handle(SIGINT, ways[mode].on_int, ways[mode].flags);
    handle(SIGUSR1, ways[mode].on_others, SA_RESTART);
    struct sigaction before;
    bool nohup = sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!nohup || ways[mode].on_hangup != on_work_signal)
        handle(SIGHUP, ways[mode].on_hangup, SA_RESTART);
    handle(SIGALRM, mode == 0 ? SIG_DFL : on_alarm, SA_RESTART);
    handle(SIGTERM, ways[mode].on_others, SA_RESTART);
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

/* caught(clear?: boolean) -> "INT"|"TERM"|"USR1"|"HUP"|nil
 * The signal that arrived since `signals` was called or it was last cleared. */
static int sys_caught(lua_State *L) {
    int number = caught;
    seen = number != 0;
    if (lua_toboolean(L, 1)) {
        forget_signal();
        sr_stop_clear();
        lua_sethook(L, NULL, 0, 0);
    }
    if (number == 0) return 0;
    return lsr_give_string(L, number == SIGINT    ? "INT"
                              : number == SIGTERM ? "TERM"
                              : number == SIGHUP  ? "HUP"
                                                  : "USR1");
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
    forget_signal();
    sr_stop_clear();
    return lua_gettop(L);
}

/* ---- programs that are waited for ------------------------------------------------------------ */

static volatile sig_atomic_t child;

static void pass_on(int number) {
    caught = number;
    if (child != 0) kill((pid_t)child, number);
}

/* run(command: string) -> true|nil, "exit"|"signal", integer
 * As os.execute: Ctrl-C, which the program hears too, is ignored meanwhile.  SIGTERM and SIGUSR1 are
 * passed on to it, and `caught`. */
static int sys_run(lua_State *L) {
    static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
    char shell[] = "sh", option[] = "-c",
         *words[] = {shell, option, (char *)luaL_checkstring(L, 1), NULL};
    struct sigaction before[4];
    sigset_t as_usual;
    sigemptyset(&as_usual);
    for (int i = 0; i < 4; i++) {
        sigaction(numbers[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaddset(&as_usual, numbers[i]);
        handle(numbers[i], i < 2 ? SIG_IGN : pass_on, SA_RESTART);
    }
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    posix_spawnattr_setsigdefault(&how, &as_usual);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
    pid_t pid;
    int status = 0, failed = posix_spawn(&pid, "/bin/sh", NULL, &how, words, environ);
    posix_spawnattr_destroy(&how);
    child = failed ? 0 : pid;
    if (!failed && caught != 0) kill(pid, caught); /* before there was a child */
    while (!failed && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    for (int i = 0; i < 4; i++) sigaction(numbers[i], &before[i], NULL);
    child = 0;
    errno = failed;
    return luaL_execresult(L, failed ? -1 : status);
}

static const luaL_Reg functions[] = {{"run", sys_run},
                                     {"signals", sys_signals},
                                     {"caught", sys_caught},
                                     {"interruptible", sys_interruptible},
                                     {"status_line", sys_status_line},
                                     {NULL, NULL}};

void lsr_open_signals(lua_State *L) {
    luaL_setfuncs(L, functions, 0);
}
