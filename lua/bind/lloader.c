/* lloader.c - seqrun.core.batch: loaders and their cursors; wrapped by
 * lua/seqrun/data. */
#include <string.h>

#include "core/base/mem.h"
#include "core/base/permute.h"
#include "core/loader/loader.h"
#include "lua/bind/lbatch.h"
#include "lua/bind/ldata.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lconcepts.h"
#include "lua/bind/lpack.h"
#include "lua/bind/lsolver.h"
#include "lua/bind/ltargets.h"

#define EPOCH "seqrun.core.Epoch" /* never seen from Lua */

static const char *const arrange_names[] = {"packed", "padded", "single", NULL};

sr_loader *lsr_checkloader(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_LOADER, "the loader is closed");
}

/* ---- loaders ---- */

static void read_mask(lua_State *L, sr_loader_opts *o) {
    int type = lua_getfield(L, 2, "mask");
    o->mask = type == LUA_TTABLE || type == LUA_TNIL || lua_toboolean(L, -1);
    if (type != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
    }
    int at = lua_gettop(L);
    o->mask_prob = lsr_field_number(L, at, "prob", 0.15);
    o->mask_max = (int32_t)lsr_field_range(L, at, "max", 20, 0, INT32_MAX);
    o->whole_word = lsr_field_bool(L, at, "whole_word", false);
    lua_pop(L, 1);
}

/* A number of sequences, or "auto". */
static int32_t read_depth(lua_State *L) {
    int type = lua_getfield(L, 2, "max_seqs");
    bool chosen = type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0;
    lua_pop(L, 1);
    if (chosen) return SR_DEPTH_AUTO;
    return (int32_t)lsr_field_range(L, 2, "max_seqs", 0, 0, INT32_MAX);
}

/* share_range = { first, last } */
static void read_share_range(lua_State *L, sr_loader_opts *o) {
    if (lua_getfield(L, 2, "share_range") != LUA_TNIL) {
        int at = lua_gettop(L);
        if (!lua_istable(L, at) || lua_rawlen(L, at) != 2)
            lsr_error(L, "share_range must be { first, last }");
        o->first_share = (int32_t)lsr_checkelement(L, at, 1, "share_range", 1, SR_UPDATE_SHARES);
        o->last_share = (int32_t)lsr_checkelement(L, at, 2, "share_range", 1, SR_UPDATE_SHARES);
    }
    lua_pop(L, 1);
}

static void read_options(lua_State *L, sr_loader_opts *o) {
    static const char *const bys[] = {"packs", "sequences", "order", NULL};
    lsr_readexamples(L, 2, &o->examples);
    read_mask(L, o);
    o->solve.solver = lsr_field_string(L, 2, "solver", NULL);
    o->solve.max_seqs = read_depth(L);
    o->by = (sr_by)lsr_field_choice(L, 2, "by", bys);
    o->shares = lsr_field_integer(L, 2, "shares", 0);
    read_share_range(L, o);
    o->rank = (int32_t)lsr_field_range(L, 2, "rank", 0, 0, INT32_MAX);
    o->ranks = (int32_t)lsr_field_range(L, 2, "ranks", 0, 0, INT32_MAX);
    o->arrange = (sr_arrange)lsr_field_choice(L, 2, "arrange", arrange_names);
    o->packs = lsr_field_integer(L, 2, "packs", 0);
    o->sequences = lsr_field_integer(L, 2, "sequences", 0);
    o->micro = lsr_field_integer(L, 2, "micro_packs", 0);
    o->balance = (sr_balance)lsr_field_choice(L, 2, "balance", sr_balance_names);
    o->per_square = lsr_field_number(L, 2, "per_square", 0);
    o->epochs = lsr_field_integer(L, 2, "epochs", 0);
    o->mean = (sr_mean)lsr_field_choice(L, 2, "loss", lsr_mean_names);
    o->keep_ids = lsr_field_bool(L, 2, "keep_ids", false);
    o->threads = (int32_t)lsr_field_range(L, 2, "threads", 1, 0, INT32_MAX);
    o->prefetch = (int32_t)lsr_field_range(L, 2, "prefetch", 2, 0, INT32_MAX);
    if (o->prefetch == 0) o->threads = 0;
}

/* The uids of the stage on top of the stack, in a userdata below it. */
static void read_stage_uids(lua_State *L, sr_stage *s, int keep) {
    if (lua_getfield(L, -1, "uids") != LUA_TNIL) {
        if (!lua_istable(L, -1)) lsr_error(L, "loader: uids of a stage must be a list");
        s->uid = lsr_checklist(L, -1, &s->uids, "uids", 0, UINT32_MAX, sizeof *s->uid);
        lua_rawseti(L, keep, (lua_Integer)lua_rawlen(L, keep) + 1);
    }
    lua_pop(L, 1);
}

/* The stage on top of the stack. */
static void read_stage(lua_State *L, sr_stage *s, int keep) {
    static const char *const known[] = {"updates",        "sequences", "raw_tokens", "real_tokens",
                                        "max_len",        "shortest",  "longest",    "uids",
                                        "short_seq_prob", NULL};
    int at = lua_gettop(L);
    if (!lua_istable(L, at)) lsr_error(L, "loader: stages must be a list of tables");
    lsr_check_options(L, at, "data.loader: stages", known);
    s->until.updates = lsr_field_range(L, at, "updates", 0, 0, INT64_MAX);
    s->until.sequences = lsr_field_range(L, at, "sequences", 0, 0, INT64_MAX);
    s->until.raw_tokens = lsr_field_range(L, at, "raw_tokens", 0, 0, INT64_MAX);
    s->until.real_tokens = lsr_field_range(L, at, "real_tokens", 0, 0, INT64_MAX);
    s->max_len = (int32_t)lsr_field_range(L, at, "max_len", 0, 0, INT32_MAX);
    s->shortest = (int32_t)lsr_field_range(L, at, "shortest", 0, 0, INT32_MAX);
    s->longest = (int32_t)lsr_field_range(L, at, "longest", 0, 0, INT32_MAX);
    s->short_seq_prob = lsr_field_number(L, at, "short_seq_prob", -1);
    s->text = s->short_seq_prob != -1;
    read_stage_uids(L, s, keep);
}

/* Leaves on the stack what the stages point into. */
static void read_stages(lua_State *L, sr_loader_opts *o) {
    lua_newtable(L);
    int keep = lua_gettop(L);
    if (lua_getfield(L, 2, "stages") == LUA_TNIL) return;
    if (!lua_istable(L, -1)) lsr_error(L, "loader: stages must be a list of tables");
    int list = lua_gettop(L);
    int64_t n = (int64_t)lua_rawlen(L, list);
    if (n > 4096) lsr_error(L, "loader: %d stages; the maximum is 4096", (int)n);
    sr_stage *stage = lsr_scratch(L, n, sizeof *stage);
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, list, i + 1);
        read_stage(L, &stage[i], keep);
        lua_pop(L, 1);
    }
    o->stage = stage;
    o->stages = (int)n;
}

/* mask.rates = { by = "step", { from, value }, ... }; leaves on the stack what it points into. */
static void read_rates(lua_State *L, sr_schedule *c) {
    static const char *const bys[] = {"step", "sequences", "raw_tokens", "real_tokens", NULL};
    if (lua_getfield(L, 2, "mask") != LUA_TTABLE || lua_getfield(L, -1, "rates") == LUA_TNIL)
        return;
    if (!lua_istable(L, -1)) lsr_error(L, "mask: rates must be a list of { from, value }");
    int list = lua_gettop(L);
    c->by = (sr_schedule_by)lsr_field_choice(L, list, "by", bys);
    c->count = (int64_t)lua_rawlen(L, list);
    c->from = lsr_scratch(L, c->count, sizeof *c->from);
    c->value = lsr_scratch(L, c->count, sizeof *c->value);
    for (int64_t i = 0; i < c->count; i++) {
        if (lua_rawgeti(L, list, i + 1) != LUA_TTABLE)
            lsr_error(L, "mask: rates must be a list of { from, value }");
        c->from[i] = lsr_checkelement(L, lua_gettop(L), 1, "rates", 0, INT64_MAX);
        lua_rawgeti(L, -1, 2);
        c->value[i] = lua_tonumber(L, -1); /* not a number: 0, which is rejected */
        lua_pop(L, 2);
    }
}

/* Opens with a saved plan (text) and threads for this call only. */
static sr_status open_loader(sr_loader **out, const sr_dataset *d, sr_loader_opts *o,
                             const char *plan_text, size_t plan_size) {
    sr_plan *plan = NULL;
    sr_threads *threads = NULL;
    sr_status st = SR_OK;
    if (plan_text != NULL) st = sr_plan_parse(&plan, plan_text, plan_size, "plan");
    o->plan = plan;
    if (st == SR_OK) st = sr_threads_new(&threads, 0);
    if (st == SR_OK) st = sr_loader_open(out, d, o, threads);
    sr_threads_free(threads);
    sr_plan_free(plan);
    return st;
}

/* loader(dataset: Dataset, options: table) -> Loader loader | nil, message, code
 * Opens a loader and builds its first epoch; for the options see seqrun.LoaderOptions. */
static int batch_loader(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_loader_opts o = {0};
    read_options(L, &o);
    o.target = lsr_readtargets(L, 2, o.mean, &o.targets);
    read_stages(L, &o);
    read_rates(L, &o.mask_rate);
    lsr_readconcepts(L, 2, &o.concepts);
    int concepts = lua_gettop(L);
    size_t size = 0;
    lua_getfield(L, 2, "plan");
    const char *plan = lua_isnil(L, -1) ? NULL : luaL_checklstring(L, -1, &size);
    sr_loader **box = lsr_newbox_with(L, sizeof *box, LSR_LOADER, 3);
    lsr_keep(L, 1, 1);        /* the data set lives at least as long */
    lsr_keep(L, concepts, 3); /* and so do the concepts */
    lsr_push_solver(L, 2, &o.solve);
    lua_setiuservalue(L, -2, 2);
    if (o.solve.own != NULL) o.threads = 0; /* Lua runs on this thread only */
    return lsr_give(L, open_loader(box, d, &o, plan, size));
}

LSR_RELEASE(loader_close, LSR_LOADER, sr_loader, sr_loader_close)

/* @class seqrun.core.batch.loader
 * A loader; it keeps its data set alive. */

/* loader:next() -> Update update | nil, message, code
 * The next update; nil alone after the last epoch. */
static int loader_next(lua_State *L) {
    sr_loader *l = lsr_checkloader(L, 1);
    sr_update **box = lsr_newupdate(L);
    LSR_TRY(L, sr_loader_next(box, l));
    if (*box == NULL)
        lua_pushnil(L);
    else
        lsr_account_update(L, *box);
    return 1;
}

/* loader:cursor() -> seqrun.Cursor
 * Where the next update begins. */
static int loader_cursor(lua_State *L) {
    sr_cursor c = sr_loader_cursor(lsr_checkloader(L, 1));
    lsr_pushcursor(L, &c);
    return 1;
}

static sr_cursor read_cursor(lua_State *L, int at) {
    return (sr_cursor){.epoch = (uint32_t)lsr_field_range(L, at, "epoch", 0, 0, UINT32_MAX),
                       .position = lsr_field_integer(L, at, "position", 0),
                       .stage = (int32_t)lsr_field_range(L, at, "stage", 1, 1, INT32_MAX) - 1,
                       .packs = lsr_field_integer(L, at, "packs", 0),
                       .drawn = {.updates = lsr_field_integer(L, at, "update", 0),
                                 .sequences = lsr_field_integer(L, at, "sequences", 0),
                                 .raw_tokens = lsr_field_integer(L, at, "raw_tokens", 0),
                                 .real_tokens = lsr_field_integer(L, at, "real_tokens", 0),
                                 .masked_tokens = lsr_field_integer(L, at, "masked_tokens", 0),
                                 .words = lsr_field_integer(L, at, "words", 0)}};
}

/* loader:seek(cursor: table) -> true done | nil, message, code
 * Goes to a cursor. */
static int loader_seek(lua_State *L) {
    sr_loader *l = lsr_checkloader(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_cursor c = read_cursor(L, 2);
    sr_status st = sr_loader_seek(l, &c);
    return st == SR_OK ? lsr_done(L, st)
                       : lsr_failure(L, st); /* the cursor may be a checkpoint's */
}

/* An epoch, released with the Lua stack. */
LSR_RELEASE(epoch_free, EPOCH, sr_epoch, sr_epoch_release)

static sr_status push_epoch(lua_State *L, sr_epoch **out, sr_loader *l, int arg) {
    uint32_t epoch =
        (uint32_t)lsr_optrange(L, arg, sr_loader_options(l)->examples.epoch, 0, UINT32_MAX);
    sr_epoch **box = lsr_newbox(L, sizeof *box, EPOCH);
    sr_status st = sr_loader_epoch(box, l, epoch);
    *out = *box;
    return st;
}

/* loader:plan(epoch?: integer) -> table figures | nil, message, code
 * The figures of an epoch's plan and examples. */
static int loader_plan(lua_State *L) {
    sr_epoch *e;
    LSR_TRY(L, push_epoch(L, &e, lsr_checkloader(L, 1), 2));
    lua_newtable(L);
    lsr_set_plan(L, e->plan);
    lsr_set_integer(L, "max_seqs", e->plan->max_seqs);
    lsr_set_integer(L, "random_next", e->examples->random_next);
    lsr_set_integer(L, "cut", e->examples->cut);
    lsr_set_integer(L, "lost_tokens", e->examples->lost);
    lsr_set_integer(L, "split", e->examples->split);
    lsr_set_number(L, "seconds", e->seconds);
    if (e->reason[0] != '\0') lsr_set_string(L, "reason", e->reason);
    return 1;
}

/* loader:plan_text(epoch?: integer) -> string text | nil, message, code
 * The plan of an epoch as text. */
static int loader_plan_text(lua_State *L) {
    sr_epoch *e;
    size_t size;
    char **text = lsr_newbytes(L);
    LSR_TRY(L, push_epoch(L, &e, lsr_checkloader(L, 1), 2));
    LSR_TRY(L, sr_plan_print(text, &size, e->plan));
    return lsr_give_bytes(L, *text, size);
}

/* loader:distinct(epoch?: integer) -> integer count | nil, message, code
 * How many tokens of the data set stand in at least one example of an epoch. */
static int loader_distinct(lua_State *L) {
    sr_epoch *e;
    int64_t count = 0;
    sr_status st = push_epoch(L, &e, lsr_checkloader(L, 1), 2);
    lua_getiuservalue(L, 1, 1);
    if (st == SR_OK) st = sr_examples_distinct(&count, e->examples, lsr_checkdataset(L, -1));
    if (st != SR_OK) return lsr_result(L, st);
    return lsr_give_integer(L, count);
}

/* loader:sources() -> integer[] counts | nil, message, code
 * How many examples of the first epoch each source of the data set has. */
static int loader_sources(lua_State *L) {
    sr_epoch *e;
    LSR_TRY(L, push_epoch(L, &e, lsr_checkloader(L, 1), 2));
    lua_getiuservalue(L, 1, 1);
    const sr_dataset *d = lsr_checkdataset(L, -1);
    int64_t *count = lsr_scratch(L, d->sources, sizeof *count);
    for (int64_t i = 0; i < e->examples->count; i++)
        count[sr_dataset_source(d, sr_example_a(&e->examples->example[i]))]++;
    LSR_PUSH_LIST(L, d->sources, s, lua_pushinteger(L, count[s]));
    return 1;
}

/* loader:lengths(epoch?: integer) -> integer[] lengths | nil, message, code
 * Tokens of each example of an epoch, by uid + 1. */
static int loader_lengths(lua_State *L) {
    sr_epoch *e;
    LSR_TRY(L, push_epoch(L, &e, lsr_checkloader(L, 1), 2));
    LSR_PUSH_LIST(L, e->examples->count, i,
                  lua_pushinteger(L, sr_example_length(&e->examples->example[i])));
    return 1;
}

/* An integer of a unit's field. */
static void set_value(lua_State *L, const char *key, const sr_dataset *d, const sr_field *f,
                      uint32_t unit, int64_t more) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (f == NULL) return;
    bool is_wide = f->column->type == SR_COLUMN_I64;
    lsr_check(L, sr_shard_read(d->shard, f->column, is_wide ? (void *)&wide : &narrow, unit, 1));
    lsr_set_integer(L, key, (is_wide ? wide : narrow) + more);
}

/* loader:origin(uid: integer, epoch?: integer) -> { example: integer, first: integer, source?:
 *     integer, offset?: integer }
 * The origin of a fixed example of an epoch: its number in the data set (from 1), the number of
 * its tokens before this piece, and with such columns its source and its offset there. */
static int loader_origin(lua_State *L) {
    sr_epoch *e;
    LSR_TRY(L, push_epoch(L, &e, lsr_checkloader(L, 1), 3));
    int64_t uid = lsr_checkrange(L, 2, 0, e->examples->count - 1);
    if (e->examples->unit == NULL)
        lsr_error(L, "loader: only fixed examples have an origin; these are drawn from text");
    lua_getiuservalue(L, 1, 1);
    const sr_dataset *d = lsr_checkdataset(L, -1);
    uint32_t unit = e->examples->unit[uid];
    int64_t first = (int64_t)(sr_example_a(&e->examples->example[uid]) - d->unit_token[unit]);
    lua_newtable(L);
    lsr_set_integer(L, "example", (int64_t)unit + 1);
    lsr_set_integer(L, "first", first);
    set_value(L, "source", d, d->source, unit, 0);
    set_value(L, "offset", d, d->offset, unit, first);
    return 1;
}

/* loader:waited() -> number
 * Seconds that next() waited, in all. */
static int loader_waited(lua_State *L) {
    return lsr_give_number(L, sr_loader_waited(lsr_checkloader(L, 1)));
}

/* The ends of groups as an array in a userdata; nil: every sequence is a group. */
static int64_t *check_ends(lua_State *L, int arg, int64_t sequences, int64_t *n) {
    if (!lua_isnoneornil(L, arg)) return lsr_checklist(L, arg, n, "ends", 0, sequences, 8);
    int64_t *ends = lsr_scratch(L, *n = sequences, sizeof *ends);
    for (int64_t i = 0; i < *n; i++) ends[i] = i + 1;
    return ends;
}

/* loader:push(uids: integer[], ends?: integer[], max_len?: integer) -> true done | nil, message,
 *     code
 * By order: queues the order of one more update.
 *   ends  where each group of uids ends; nil: every sequence is a group */
static int loader_push(lua_State *L) {
    sr_loader *l = lsr_checkloader(L, 1);
    sr_given g = {.max_len = (int32_t)lsr_optrange(L, 4, 0, 0, INT32_MAX)};
    lua_settop(L, 4);
    g.uid = lsr_checklist(L, 2, &g.sequences, "uids", 0, UINT32_MAX, 4);
    g.group_end = check_ends(L, 3, g.sequences, &g.groups);
    if (g.groups > 0 && g.group_end[g.groups - 1] != g.sequences)
        return lsr_argerror(L, 3, "the last group ends before the uids do");
    sr_status st = sr_loader_push(l, &g);
    return st == SR_OK ? lsr_done(L, st) : lsr_failure(L, st); /* lua/seqrun names the update */
}

/* loader:update_of(uids: integer[], epoch: integer, arrange: "packed"|"padded"|"single"|"longest") ->
 *     Update update | nil, message, code
 * An update of the chosen examples of an epoch, in this order. */
static int loader_update_of(lua_State *L) {
    sr_loader *l = lsr_checkloader(L, 1);
    uint32_t epoch = (uint32_t)lsr_checkrange(L, 3, 0, UINT32_MAX);
    static const char *const names[] = {"packed", "padded", "single", "longest", NULL};
    int arrange = luaL_checkoption(L, 4, NULL, names);
    int64_t n;
    uint32_t *uids = lsr_checklist(L, 2, &n, "uids", 0, UINT32_MAX, 4);
    sr_update **box = lsr_newupdate(L);
    return lsr_give(L, sr_loader_update_of(box, l, uids, n, epoch, (sr_arrange)arrange));
}

/* loader:close()
 * Stops the workers and frees the memory. */
static const luaL_Reg loader_methods[] = {
    {"close", loader_close},       {"next", loader_next},
    {"cursor", loader_cursor},     {"seek", loader_seek},
    {"plan", loader_plan},         {"plan_text", loader_plan_text},
    {"lengths", loader_lengths},   {"origin", loader_origin},
    {"waited", loader_waited},     {"update_of", loader_update_of},
    {"push", loader_push},         {"sources", loader_sources},
    {"distinct", loader_distinct}, {NULL, NULL},
};

/* ---- the module ---- */

/* permuted(i: integer, count: integer, seed: integer, epoch: integer) -> integer
 * Where i goes in the keyed order of an epoch, a permutation of 0 to count - 1.
 *   i  from 0 */
static int batch_permuted(lua_State *L) {
    int64_t count = lsr_checkrange(L, 2, 1, UINT32_MAX), i = lsr_checkrange(L, 1, 0, count - 1);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 3);
    uint32_t epoch = (uint32_t)lsr_checkrange(L, 4, 0, UINT32_MAX);
    sr_domain all = sr_domain_of((uint32_t)count);
    return lsr_give_integer(
        L, sr_permute(&all, (uint32_t)i, seed, SR_PURPOSE_SEQUENCE_ORDER, 0, epoch));
}

static const luaL_Reg batch_functions[] = {
    {"loader", batch_loader},
    {"permuted", batch_permuted},
    {NULL, NULL},
};

/* @class seqrun.core.batch
 * Loaders, and the updates they make. */
void lsr_open_batch(lua_State *L) {
    lsr_class(L, LSR_LOADER, loader_methods, loader_close);
    lsr_class(L, EPOCH, NULL, epoch_free);
    luaL_setfuncs(L, batch_functions, 0);
}
