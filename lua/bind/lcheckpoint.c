/* lcheckpoint.c - a run's directory and its checkpoints; part of seqrun.core.train. */
#include "core/store/checkpoint.h"

#include "core/store/background.h"
#include "core/store/manifest.h"
#include "core/store/saving.h"
#include "lua/bind/lsafetensors.h"
#include "lua/bind/ltrain.h"

#define RUN_DIR "seqrun.core.RunDir"
#define SAVING "seqrun.core.Saving"
#define BACKGROUND "seqrun.core.Background"

/* ---- the directory --------------------------------------------------------------------------- */

/* run_dir(path: string) -> RunDir | nil, message, code
 * Makes a run's directory, takes its lock and removes leftovers of dead runs.
 *   code  "lock" when another run holds it */
static int train_run_dir(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_run_dir **box = lsr_newbox(L, sizeof *box, RUN_DIR);
    return lsr_give(L, sr_run_dir_open(box, path));
}

/* run_held(path: string) -> boolean held | nil, message, code
 * Whether a live process holds the lock of a run's directory. */
static int train_run_held(lua_State *L) {
    bool held;
    LSR_TRY(L, sr_run_dir_held(&held, luaL_checkstring(L, 1)));
    return lsr_give_bool(L, held);
}

LSR_RELEASE(run_dir_close, RUN_DIR, sr_run_dir, sr_run_dir_close)

/* @class seqrun.core.RunDir
 * A run's directory, locked. */

/* runDir:check() -> true | nil, message, code
 * Whether the lock is still held, which is taken again if its file was only removed.
 *   code  "lock" when another run has taken the directory since */
static int run_dir_check(lua_State *L) {
    sr_run_dir **box = lsr_checkbox(L, 1, RUN_DIR);
    luaL_argcheck(L, *box != NULL, 1, "the directory was closed");
    return lsr_done(L, sr_run_dir_check(*box));
}

/* runDir:close()
 * Releases the lock. */
static const luaL_Reg run_dir_methods[] = {
    {"check", run_dir_check},
    {"close", run_dir_close},
    {NULL, NULL},
};

/* checkpoint_path(run: string, step: integer) -> string
 * The directory of a step's checkpoint. */
static int train_path(lua_State *L) {
    const char *run = luaL_checkstring(L, 1);
    int64_t step = lsr_checkrange(L, 2, 0, SR_MAX_STEP);
    char **path = lsr_newbytes(L);
    lsr_check(L, sr_checkpoint_path(path, run, step));
    return lsr_give_string(L, *path);
}

/* checkpoint_list(run: string) -> integer[] | nil, message, code
 * The steps of which a run has a directory, ascending, verified or not. */
static int train_list(lua_State *L) {
    size_t count;
    const char *run = luaL_checkstring(L, 1);
    int64_t **steps = lsr_newbytes(L);
    LSR_TRY(L, sr_checkpoint_list(steps, &count, run));
    LSR_PUSH_LIST(L, count, i, lua_pushinteger(L, (*steps)[i]));
    return 1;
}

/* checkpoint_verify(path: string) -> integer step | nil, message, code
 * Reads a whole checkpoint and compares it with its manifest. */
static int train_verify(lua_State *L) {
    int64_t step;
    LSR_TRY(L, sr_checkpoint_verify(&step, luaL_checkstring(L, 1)));
    return lsr_give_integer(L, step);
}

/* checkpoint_latest(run: string) -> string|nil path, integer|string step, string? code
 * The newest checkpoint that verifies; newer ones that are damaged are named by warnings, one that
 * cannot be read is an error.
 *   step  or message */
static int train_latest(lua_State *L) {
    int64_t step;
    const char *run = luaL_checkstring(L, 1);
    char **path = lsr_newbytes(L);
    LSR_TRY(L, sr_checkpoint_latest(path, &step, run));
    lua_pushstring(L, *path);
    lua_pushinteger(L, step);
    return 2;
}

/* checkpoint_retain(run: string, newest: integer, keep: integer, every?: integer) -> true | nil,
 *     message, code
 * Removes checkpoints older than `newest`, except the newest `keep` and the multiples of `every`.
 *   keep  at least 2 */
static int train_retain(lua_State *L) {
    return lsr_done(
        L, sr_checkpoint_retain(luaL_checkstring(L, 1), lsr_checkrange(L, 2, 0, SR_MAX_STEP),
                                (int)lsr_checkrange(L, 3, 2, 1 << 30), luaL_optinteger(L, 4, 0)));
}

/* checkpoint_set_aside(run: string, step: integer) -> true | nil, message, code
 * Renames the checkpoints after `step`, so that nothing loads them. */
static int train_set_aside(lua_State *L) {
    return lsr_done(
        L, sr_checkpoint_set_aside(luaL_checkstring(L, 1), lsr_checkrange(L, 2, 0, SR_MAX_STEP)));
}

/* ---- saving ---------------------------------------------------------------------------------- */

static sr_saving *check_saving(lua_State *L) {
    return lsr_checkobject(L, 1, SAVING, "the save has ended");
}

/* saving(run: string, step: integer, bytes: integer) -> Saving | nil, message, code
 * Begins a checkpoint in a run's directory.
 *   bytes  of all its files */
static int train_saving(lua_State *L) {
    const char *run = luaL_checkstring(L, 1);
    int64_t step = lsr_checkrange(L, 2, 0, SR_MAX_STEP);
    int64_t bytes = lsr_checkrange(L, 3, 0, INT64_MAX / 2);
    sr_saving **box = lsr_newbox(L, sizeof *box, SAVING);
    return lsr_give(L, sr_saving_begin(box, run, step, (uint64_t)bytes));
}

/* saving_join(draft: string, step: integer) -> Saving | nil, message, code
 * Takes part in a checkpoint that another process has begun.
 *   draft  its temporary directory */
static int train_saving_join(lua_State *L) {
    const char *draft = luaL_checkstring(L, 1);
    int64_t step = lsr_checkrange(L, 2, 0, SR_MAX_STEP);
    sr_saving **box = lsr_newbox(L, sizeof *box, SAVING);
    return lsr_give(L, sr_saving_join(box, draft, step));
}

LSR_RELEASE(saving_end, SAVING, sr_saving, sr_saving_end)

/* @class seqrun.core.Saving
 * A checkpoint being written; it is removed unless committed. */

/* saving:file(name: string, bytes: string) -> true | nil, message, code
 * Adds a file with these bytes.
 *   name  such as "trainer/state.json" */
static int saving_file(lua_State *L) {
    sr_saving *s = check_saving(L);
    size_t size;
    const char *name = luaL_checkstring(L, 2), *bytes = luaL_checklstring(L, 3, &size);
    return lsr_done(L, sr_saving_file(s, name, bytes, size));
}

/* saving:safetensors(name: string, plan: SafetensorsPlan) -> true | nil, message, code
 * Adds a safetensors file. */
static int saving_safetensors(lua_State *L) {
    sr_saving *s = check_saving(L);
    const char *name = luaL_checkstring(L, 2);
    const sr_st_plan *plan = lsr_checkplan(L, 3);
    LSR_TRY(L, sr_saving_open(s, name, plan->total_bytes));
    LSR_TRY(L, sr_st_plan_write(plan, sr_saving_write, s));
    return lsr_done(L, sr_saving_close(s));
}

/* saving:commit() -> true | nil, message, code
 * Commits the checkpoint: from here on it survives a power cut. */
static int saving_commit(lua_State *L) {
    return lsr_done(L, sr_saving_commit(check_saving(L)));
}

/* saving:draft() -> string
 * The temporary directory of the checkpoint. */
static int saving_draft(lua_State *L) {
    return lsr_give_string(L, sr_saving_draft(check_saving(L)));
}

/* saving:report() -> string | nil, message, code
 * The files written so far, for adopt() in the process that began the checkpoint. */
static int saving_report(lua_State *L) {
    size_t size;
    sr_saving *s = check_saving(L);
    char **text = lsr_newbytes(L);
    LSR_TRY(L, sr_saving_report(text, &size, s));
    return lsr_give_bytes(L, *text, size);
}

/* saving:adopt(report: string) -> true | nil, message, code
 * Adds the files of another process to the checkpoint. */
static int saving_adopt(lua_State *L) {
    size_t size;
    sr_saving *s = check_saving(L);
    const char *report = luaL_checklstring(L, 2, &size);
    return lsr_done(L, sr_saving_adopt(s, report, size));
}

/* saving:finish()
 * Ends the save. */
static const luaL_Reg saving_methods[] = {
    {"file", saving_file},     {"safetensors", saving_safetensors},
    {"commit", saving_commit}, {"draft", saving_draft},
    {"report", saving_report}, {"adopt", saving_adopt},
    {"finish", saving_end},    {NULL, NULL},
};

/* ---- in the background ----------------------------------------------------------------------- */

static sr_background *check_background(lua_State *L) {
    return lsr_checkobject(L, 1, BACKGROUND, "the save has ended");
}

/* background(run: string) -> Background
 * For checkpoints of a run that are written in the background. */
static int train_background(lua_State *L) {
    const char *run = luaL_checkstring(L, 1);
    sr_background **box = lsr_newbox(L, sizeof *box, BACKGROUND);
    return lsr_made(L, sr_background_new(box, run));
}

/* @class seqrun.core.Background
 * Checkpoints that a thread writes, one at a time: the files are copied into memory first. */

/* background:begin(step: integer, bytes: integer) -> true | nil, message, code
 * Begins a checkpoint; the code is "memory" if there is none for a copy.
 *   bytes  of all its files */
static int background_begin(lua_State *L) {
    sr_background *b = check_background(L);
    int64_t step = lsr_checkrange(L, 2, 0, SR_MAX_STEP);
    int64_t bytes = lsr_checkrange(L, 3, 0, INT64_MAX / 2);
    return lsr_done(L, sr_background_begin(b, step, (uint64_t)bytes));
}

LSR_RELEASE(background_free, BACKGROUND, sr_background, sr_background_free)

/* background:file(name: string, bytes: string) -> true | nil, message, code
 * Copies a file with these bytes.
 *   name  such as "trainer/state.json" */
static int background_file(lua_State *L) {
    sr_background *b = check_background(L);
    size_t size;
    const char *name = luaL_checkstring(L, 2), *bytes = luaL_checklstring(L, 3, &size);
    return lsr_done(L, sr_background_file(b, name, bytes, size));
}

/* background:safetensors(name: string, plan: SafetensorsPlan) -> true | nil, message, code
 * Copies the tensors of a safetensors file. */
static int background_safetensors(lua_State *L) {
    sr_background *b = check_background(L);
    const char *name = luaL_checkstring(L, 2);
    return lsr_done(L, sr_background_safetensors(b, name, lsr_checkplan(L, 3)));
}

/* background:start(keep: integer, every?: integer) -> true | nil, message, code
 * Starts the thread, which removes older checkpoints as checkpoint_retain() does.
 *   keep  at least 2 */
static int background_start(lua_State *L) {
    sr_background *b = check_background(L);
    int keep = (int)lsr_checkrange(L, 2, 2, 1 << 30);
    return lsr_done(L, sr_background_start(b, keep, luaL_optinteger(L, 3, 0)));
}

/* background:done() -> boolean
 * Whether the thread has ended. */
static int background_done(lua_State *L) {
    return lsr_give_bool(L, sr_background_done(check_background(L)));
}

/* background:wait() -> true | nil, message, code
 * Waits for the thread; from here on the checkpoint survives a power cut.
 *   message  of a failure, or the warning that an older checkpoint could not be removed */
static int background_wait(lua_State *L) {
    const char *warning;
    LSR_TRY(L, sr_background_wait(check_background(L), &warning));
    lua_pushboolean(L, true);
    lua_pushstring(L, warning);
    return 2;
}

/* background:finish()
 * Waits for the thread and frees the copy. */
static const luaL_Reg background_methods[] = {
    {"begin", background_begin},
    {"file", background_file},
    {"safetensors", background_safetensors},
    {"start", background_start},
    {"done", background_done},
    {"wait", background_wait},
    {"finish", background_free},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"run_dir", train_run_dir},
    {"run_held", train_run_held},
    {"checkpoint_path", train_path},
    {"checkpoint_list", train_list},
    {"checkpoint_verify", train_verify},
    {"checkpoint_latest", train_latest},
    {"checkpoint_retain", train_retain},
    {"checkpoint_set_aside", train_set_aside},
    {"saving", train_saving},
    {"saving_join", train_saving_join},
    {"background", train_background},
    {NULL, NULL},
};

void lsr_open_checkpoint(lua_State *L) {
    lsr_class(L, RUN_DIR, run_dir_methods, run_dir_close);
    lsr_class(L, SAVING, saving_methods, saving_end);
    lsr_class(L, BACKGROUND, background_methods, background_free);
    luaL_setfuncs(L, functions, 0);
}
