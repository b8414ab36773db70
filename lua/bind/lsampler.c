/* lsampler.c - samplers of a loader's examples, and the windows of updates that they draw; part of
 * seqrun.core.batch, wrapped by lua/seqrun/curriculum. */
#include "core/loader/loader.h"
#include "core/loader/sampler.h"
#include "core/loader/window.h"
#include "lua/bind/lbatch.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/lmetric.h"

#define SAMPLER "seqrun.core.Sampler"

static sr_sampler *check_sampler(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, SAMPLER, "the sampler is closed");
}

/* Element i of a list at `arg`, a metric (false: a random order), reversed if element i of the next
 * argument is true. */
static sr_sampler_metric check_metric(lua_State *L, int arg, int i) {
    lua_rawgeti(L, arg, i + 1);
    lua_rawgeti(L, arg + 1, i + 1);
    sr_sampler_metric m = {.reverse = lua_toboolean(L, -1)};
    if (lua_toboolean(L, -2)) m.metric = lsr_checkmetric(L, lua_gettop(L) - 1);
    lua_pop(L, 2);
    return m;
}

/* loader:sampler(metrics: (Metric|false)[], reversed: boolean[], epoch?: integer) -> Sampler
 *     sampler | nil, message, code
 * A sampler of an epoch, with nothing unlocked; everything if there are no metrics.
 *   metrics  false is a random order
 *   epoch    the first by default */
static int loader_sampler(lua_State *L) {
    sr_loader *l = lsr_checkloader(L, 1);
    sr_sampler_metric metric[SR_SAMPLER_METRICS];
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checktype(L, 3, LUA_TTABLE);
    uint32_t first = sr_loader_options(l)->examples.epoch;
    uint32_t epoch = (uint32_t)lsr_optrange(L, 4, first, first, UINT32_MAX);
    int64_t n = (int64_t)lua_rawlen(L, 2);
    if (n > SR_SAMPLER_METRICS) return lsr_argerror(L, 2, "a sampler has at most 16 metrics");
    for (int i = 0; i < (int)n; i++) metric[i] = check_metric(L, 2, i);
    sr_sampler **box = lsr_newbox_with(L, sizeof *box, SAMPLER, 1);
    lsr_keep(L, 2, 1); /* the metrics live at least as long */
    sr_epoch *e;
    sr_status st = sr_loader_epoch(&e, l, epoch);
    if (st == SR_OK) {
        st = sr_sampler_new(box, e, metric, (int)n);
        sr_epoch_release(e);
    }
    return st == SR_OK ? lsr_give(L, st) : lsr_failure(L, st);
}

LSR_RELEASE(sampler_close, SAMPLER, sr_sampler, sr_sampler_free)

/* @class seqrun.core.batch.sampler
 * The examples that metrics have unlocked, and draws from them. */

/* sampler:unlock(prefixes: integer[]) -> integer unlocked | nil, message, code
 * Unlocks the first `prefixes[i]` examples of the order of metric i. */
static int sampler_unlock(lua_State *L) {
    sr_sampler *s = check_sampler(L, 1);
    int64_t prefix[SR_SAMPLER_METRICS] = {0};
    luaL_checktype(L, 2, LUA_TTABLE);
    for (int i = 0; i < SR_SAMPLER_METRICS && i < (int)lua_rawlen(L, 2); i++)
        prefix[i] = lsr_checkelement(L, 2, i + 1, "prefixes", 0, sr_sampler_examples(s));
    LSR_TRY(L, sr_sampler_unlock(s, prefix));
    return lsr_give_integer(L, sr_sampler_unlocked(s));
}

/* sampler:unlocked() -> integer
 * How many examples all metrics have unlocked. */
static int sampler_unlocked(lua_State *L) {
    return lsr_give_integer(L, sr_sampler_unlocked(check_sampler(L, 1)));
}

/* sampler:examples() -> integer
 * How many examples there are. */
static int sampler_examples(lua_State *L) {
    return lsr_give_integer(L, sr_sampler_examples(check_sampler(L, 1)));
}

/* sampler:tokens(limit: integer, pieces?: boolean) -> integer
 * Tokens of what is unlocked, cut to the limit (0: not cut) or into pieces. */
static int sampler_tokens(lua_State *L) {
    sr_sampler *s = check_sampler(L, 1);
    int32_t limit = (int32_t)lsr_checkrange(L, 2, 0, SR_EXAMPLES_MOST);
    if (limit != 0 && limit < SR_EXAMPLES_LEAST) return lsr_argerror(L, 2, "at least 5 tokens");
    return lsr_give_integer(L, sr_sampler_tokens(s, limit, lua_toboolean(L, 3)));
}

/* sampler:run(from: integer, n: integer) -> integer
 * How many updates from `from` on draw n each without repetition.
 *   from  update */
static int sampler_run(lua_State *L) {
    sr_sampler *s = check_sampler(L, 1);
    int64_t update = lsr_checkrange(L, 2, 0, INT64_MAX);
    return lsr_give_integer(L, sr_sampler_run(s, update, lsr_checkrange(L, 3, 1, UINT32_MAX)));
}

/* The uids of `updates` updates of n each, in a userdata on the stack. */
static uint32_t *draw(lua_State *L, const sr_sampler *s, int64_t update, int64_t n,
                      int64_t updates) {
    if (updates > sr_sampler_run(s, update, n))
        lsr_error(L, "sampler: %I updates of %I cannot be drawn from %I examples from update %I on",
                  (lua_Integer)updates, (lua_Integer)n, (lua_Integer)sr_sampler_unlocked(s),
                  (lua_Integer)update);
    uint32_t *uid = lsr_scratch(L, n * updates, sizeof *uid);
    sr_sampler_draw(uid, s, update, n, updates);
    return uid;
}

/* sampler:draw(from: integer, n: integer, updates?: integer) -> integer[] uids
 * The draws of `updates` updates.
 *   from     update
 *   n        of each
 *   updates  1 */
static int sampler_draw(lua_State *L) {
    sr_sampler *s = check_sampler(L, 1);
    int64_t update = lsr_checkrange(L, 2, 0, INT64_MAX), n = lsr_checkrange(L, 3, 1, UINT32_MAX);
    int64_t updates = lsr_optrange(L, 4, 1, 1, INT32_MAX);
    const uint32_t *uid = draw(L, s, update, n, updates);
    LSR_PUSH_LIST(L, n * updates, i, lua_pushinteger(L, uid[i]));
    return 1;
}

static void push_totals(lua_State *L, const sr_counters *c) {
    lua_newtable(L);
    lsr_set_integer(L, "update", c->updates);
    lsr_set_integer(L, "sequences", c->sequences);
    lsr_set_integer(L, "raw_tokens", c->raw_tokens);
    lsr_set_integer(L, "real_tokens", c->real_tokens);
}

/* The epoch of a window. */
static uint32_t epoch_of(lua_State *L, const sr_loader *l) {
    uint32_t first = sr_loader_options(l)->examples.epoch;
    return (uint32_t)lsr_field_range(L, 3, "epoch", first, first, UINT32_MAX);
}

/* loader:push_window(own: Sampler, window: table) -> { update: integer, sequences: integer,
 *     raw_tokens: integer, real_tokens: integer } totals | nil, message, code
 * By order: queues the updates of a window; see seqrun.Window.
 *   own     that has unlocked what the window draws from
 *   totals  after it */
static int loader_push_window(lua_State *L) {
    sr_loader *l = lsr_checkloader(L, 1);
    sr_sampler *s = check_sampler(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    sr_counters c = {.updates = lsr_field_range(L, 3, "update", 0, 0, INT64_MAX),
                     .sequences = lsr_field_range(L, 3, "sequences", 0, 0, INT64_MAX),
                     .raw_tokens = lsr_field_range(L, 3, "raw_tokens", 0, 0, INT64_MAX),
                     .real_tokens = lsr_field_range(L, 3, "real_tokens", 0, 0, INT64_MAX)};
    int64_t each = lsr_field_range(L, 3, "each", 0, 1, UINT32_MAX);
    sr_window_opts o = {.updates = lsr_field_range(L, 3, "updates", 1, 1, INT32_MAX),
                        .max_len = (int32_t)lsr_field_range(L, 3, "max_len", 0, 0, INT32_MAX),
                        .pieces = lsr_field_bool(L, 3, "pieces", false),
                        .mask = lsr_field_number(L, 3, "mask", 0),
                        .begin = {.epoch = epoch_of(L, l), .drawn = c}};
    o.sequences = each * o.updates;
    int64_t first = lsr_field_range(L, 3, "epoch_update", 0, 0, c.updates);
    o.uid = draw(L, s, c.updates - first, each, o.updates);
    sr_counters end;
    sr_status st =
        sr_loader_push_window(l, &o, lsr_field_range(L, 3, "from", 0, 0, INT32_MAX), &end);
    if (st != SR_OK) return lsr_failure(L, st); /* it may come from a checkpoint */
    push_totals(L, &end);
    return 1;
}

/* sampler:close()
 * Frees the memory. */
static const luaL_Reg sampler_methods[] = {
    {"close", sampler_close},       {"unlock", sampler_unlock},
    {"unlocked", sampler_unlocked}, {"examples", sampler_examples},
    {"tokens", sampler_tokens},     {"run", sampler_run},
    {"draw", sampler_draw},         {NULL, NULL},
};

static const luaL_Reg loader_methods[] = {
    {"sampler", loader_sampler}, {"push_window", loader_push_window}, {NULL, NULL}};

void lsr_open_samplers(lua_State *L) {
    lsr_class(L, SAMPLER, sampler_methods, sampler_close);
    luaL_getmetatable(L, LSR_LOADER);
    lua_getfield(L, -1, "__index");
    luaL_setfuncs(L, loader_methods, 0);
    lua_pop(L, 2);
}
