/* ledit.c - seqrun.core.edit: lines of a terminal, edited by libedit where the build has it, and
 * the file that keeps their history. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lsys.h"

#include "plugins.h" /* made by the Makefile: SR_LIBEDIT */

/* ---- the history file ------------------------------------------------------------------------ */

/* keep(path: string, text: string, replace?: boolean) -> true | nil, message, code
 * Appends to a file that only its owner may read, created if missing.
 *   replace  empty the file first */
static int edit_keep(lua_State *L) {
    size_t size;
    const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
    int how = lua_toboolean(L, 3) ? O_TRUNC : O_APPEND;
    int fd = sr_io_open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | how, 0600);
    if (fd < 0) return lsr_result(L, sr_io_failed("open", path));
    sr_status st = fchmod(fd, 0600) == 0 ? SR_OK : sr_io_failed("protect", path);
    if (st == SR_OK) st = sr_file_write(fd, text, size, path);
    sr_status closed = sr_file_close(fd, path);
    return lsr_done(L, st != SR_OK ? st : closed);
}

#if SR_LIBEDIT

#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <wchar.h>

/* ---- the editor ------------------------------------------------------------------------------ */

#define EDITOR "seqrun.core.Editor"
enum { REMEMBERED = 2000, NO_CHARACTER = 0xFFFD };

typedef struct editor {
    EditLine *el;
    History *history;
    locale_t utf8;      /* libedit converts characters by the locale */
    lua_State *L;       /* while a line is read */
    const char *prompt; /* the same */
} editor;

/* Signals handled while waiting for a line: the terminal must not be left in libedit's mode. */
static const int served[] = {SIGWINCH, SIGTSTP, SIGTERM};
enum { SERVED = sizeof served / sizeof *served };
static volatile sig_atomic_t arrived[SERVED];

static void on_signal(int number) {
    for (int i = 0; i < SERVED; i++)
        if (served[i] == number) arrived[i] = 1;
}

static void serve(EditLine *el) {
    for (int i = 0; i < SERVED; i++) {
        if (!arrived[i]) continue;
        arrived[i] = 0;
        if (served[i] == SIGWINCH) {
            el_resize(el);
            continue;
        }
        el_set(el, EL_PREP_TERM, 0);
        if (served[i] == SIGTERM) {
            signal(SIGTERM, SIG_DFL);
            kill(getpid(), SIGTERM); /* blocked here, taken by the next wait */
            continue;
        }
        raise(SIGSTOP);
        el_set(el, EL_PREP_TERM, 1);
        el_set(el, EL_REFRESH);
    }
}

static editor *editor_of(EditLine *el) {
    editor *e = NULL;
    el_get(el, EL_CLIENTDATA, &e);
    return e;
}

static char *prompt_of(EditLine *el) {
    return (char *)editor_of(el)->prompt;
}

/* Waits for a byte; false after Ctrl-C.  The signals are blocked except while it waits, so that
 * none comes between the check and the wait. */
static bool wait_for_byte(EditLine *el) {
    sigset_t all, before;
    sigemptyset(&all);
    sigaddset(&all, SIGINT);
    for (int i = 0; i < SERVED; i++) sigaddset(&all, served[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!lsr_caught()) {
        serve(el);
        if (ppoll(&input, 1, NULL, &before) >= 0 || errno != EINTR) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !lsr_caught();
}

/* One character for libedit; a caught signal ends the line. */
static int read_character(EditLine *el, wchar_t *c) {
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (!wait_for_byte(el)) return -1;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return (int)n;
        size_t used = mbrtowc(c, &byte, 1, &state);
        if (used == (size_t)-2) continue;
        if (used == (size_t)-1) *c = NO_CHARACTER;
        return 1;
    }
}

/* ---- completion ------------------------------------------------------------------------------ */

/* The user value is complete(before) -> text to insert, text to show above the line. */
static int call_complete(lua_State *L) {
    EditLine *el = lua_touserdata(L, 1);
    const LineInfo *line = el_line(el);
    lua_getiuservalue(L, 2, 1);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    lua_call(L, 1, 2);
    return 2;
}

static unsigned char complete(EditLine *el, int key) {
    (void)key;
    lua_State *L = editor_of(el)->L;
    int top = lua_gettop(L);
    unsigned char result = CC_ERROR;
    lua_pushcfunction(L, call_complete);
    lua_pushlightuserdata(L, el);
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 2, 2, 0) == LUA_OK) {
        const char *insert = lua_tostring(L, -2), *list = lua_tostring(L, -1);
        if (insert != NULL && *insert != '\0' && el_insertstr(el, insert) == 0) result = CC_REFRESH;
        if (list != NULL) {
            printf("\n%s\n", list);
            fflush(stdout);
            result = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return result;
}

/* ---- methods --------------------------------------------------------------------------------- */

static int editor_release(lua_State *L) {
    editor *e = lsr_checkbox(L, 1, EDITOR);
    if (e->el != NULL) el_end(e->el);
    if (e->history != NULL) history_end(e->history);
    if (e->utf8 != (locale_t)0) freelocale(e->utf8);
    *e = (editor){0};
    return 0;
}

static editor *check_editor(lua_State *L) {
    editor *e = lsr_checkbox(L, 1, EDITOR);
    luaL_argcheck(L, e->el != NULL, 1, "the editor was closed");
    return e;
}

/* @class seqrun.core.Editor
 * Edits lines of a terminal, with history and completion; its __close restores the terminal. */

/* editor:read(prompt: string) -> string|false|nil
 * The next line: nil at the end of the input, false after Ctrl-C. */
static int editor_read(lua_State *L) {
    editor *e = check_editor(L);
    struct sigaction action = {.sa_handler = on_signal}, before[SERVED];
    int count = 0, failed = ferror(stdout);
    e->prompt = luaL_checkstring(L, 2);
    e->L = L;
    for (int i = 0; i < SERVED; i++) sigaction(served[i], &action, &before[i]);
    locale_t locale = uselocale(e->utf8);
    el_resize(e->el);
    const char *line = el_gets(e->el, &count);
    uselocale(locale);
    for (int i = 0; i < SERVED; i++) sigaction(served[i], &before[i], NULL);
    if (line != NULL && count > 0) {
        lua_pushlstring(L, line, (size_t)(line[count - 1] == '\n' ? count - 1 : count));
    } else if (lsr_caught()) {
        if (!failed) clearerr(stdout); /* the signal may have ended a write of the line */
        el_reset(e->el);
        lua_pushboolean(L, 0);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

/* editor:remember(line: string)
 * Adds a line to the history of this editor.
 *   line  valid UTF-8 */
static int editor_remember(lua_State *L) {
    editor *e = check_editor(L);
    HistEvent event;
    history(e->history, &event, H_ENTER, luaL_checkstring(L, 2));
    return 0;
}

static bool set_up(editor *e) {
    HistEvent event;
    e->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    e->history = history_init();
    e->el = el_init("seqrun", stdin, stdout, stderr);
    if (e->utf8 == (locale_t)0 || e->history == NULL || e->el == NULL) return false;
    history(e->history, &event, H_SETSIZE, REMEMBERED);
    history(e->history, &event, H_SETUNIQUE, 1);
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_PROMPT, prompt_of);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_HIST, history, e->history);
    el_set(e->el, EL_GETCFN, read_character);
    el_set(e->el, EL_ADDFN, "seqrun-complete", "complete the name before the cursor", complete);
    el_set(e->el, EL_BIND, "^I", "seqrun-complete", NULL);
    el_set(e->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    for (wchar_t c = 0xA0; c <= 0xFF; c++) /* letters such as an accented e, not the Meta key */
        el_wset(e->el, EL_BIND, (wchar_t[]){c, 0}, L"ed-insert", NULL);
    return true;
}

/* open(complete: fun(before: string): string?, string?) -> Editor|nil
 * The editor of the standard input and output; nil if they are not a terminal or the build has no
 * libedit.
 *   complete  from the text before the cursor: what to insert, what to list */
static int edit_open(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    editor *e = lsr_newbox_with(L, sizeof *e, EDITOR, 1);
    lsr_keep(L, 1, 1);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !set_up(e)) lua_pushnil(L);
    return 1;
}

static const luaL_Reg methods[] = {
    {"read", editor_read},
    {"remember", editor_remember},
    {NULL, NULL},
};

static void open_class(lua_State *L) {
    lsr_class(L, EDITOR, methods, editor_release);
}

#else

static int edit_open(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushnil(L);
    return 1;
}

static void open_class(lua_State *L) {
    (void)L;
}

#endif

static const luaL_Reg functions[] = {
    {"open", edit_open},
    {"keep", edit_keep},
    {NULL, NULL},
};

/* @class seqrun.core.edit
 * Lines that a person types. */
void lsr_open_edit(lua_State *L) {
    open_class(L);
    luaL_setfuncs(L, functions, 0);
}
