/* lbatch.c - updates and their batches, for seqrun.core.batch. */
#include "lua/bind/lbatch.h"

#include <string.h>

#include "core/tensor/batch_on.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltargets.h"
#include "lua/bind/ltensor.h"

#define UPLOAD "seqrun.core.BatchUpload"

sr_update **lsr_newupdate(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_update *), LSR_UPDATE);
}

void lsr_account_update(lua_State *L, const sr_update *u) {
    int64_t kilobytes = (u->slots * 20 + u->masked * 12 + u->sequences * 48) >> 10;
    lua_gc(L, LUA_GCSTEP, (int)(kilobytes < INT32_MAX ? kilobytes + 1 : INT32_MAX));
}

void lsr_pushcursor(lua_State *L, const sr_cursor *c) {
    lua_createtable(L, 0, 10);
    lsr_set_integer(L, "epoch", c->epoch);
    lsr_set_integer(L, "position", c->position);
    lsr_set_integer(L, "stage", c->stage + 1);
    lsr_set_integer(L, "packs", c->packs);
    lsr_set_integer(L, "update", c->drawn.updates);
    lsr_set_integer(L, "sequences", c->drawn.sequences);
    lsr_set_integer(L, "raw_tokens", c->drawn.raw_tokens);
    lsr_set_integer(L, "real_tokens", c->drawn.real_tokens);
    lsr_set_integer(L, "masked_tokens", c->drawn.masked_tokens);
    lsr_set_integer(L, "words", c->drawn.words);
}

static const sr_update *check_update(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_UPDATE, "the update was released");
}

LSR_RELEASE(update_gc, LSR_UPDATE, sr_update, sr_update_free)

/* @class seqrun.core.batch.update
 * An update: batches whose weights carry the denominators of the whole. */

/* update:info() -> table
 * Its tallies, and the cursors before (from) and after it (upto). */
static int update_info(lua_State *L) {
    const sr_update *u = check_update(L, 1);
    lua_newtable(L);
    lsr_set_integer(L, "index", u->index);
    lsr_set_integer(L, "batches", u->batches);
    lsr_set_integer(L, "shares", u->shares);
    lsr_set_integer(L, "packs", u->packs);
    lsr_set_integer(L, "sequences", u->sequences);
    lsr_set_integer(L, "tokens", u->tokens);
    lsr_set_integer(L, "slots", u->slots);
    lsr_set_integer(L, "masked", u->masked);
    lsr_set_integer(L, "words", u->words);
    lsr_set_number(L, "imbalance", u->imbalance);
    lsr_pushcursor(L, &u->begin);
    lua_setfield(L, -2, "from");
    lsr_pushcursor(L, &u->end);
    lua_setfield(L, -2, "upto");
    return 1;
}

static const sr_batch *check_batch(lua_State *L) {
    const sr_update *u = check_update(L, 1);
    return u->batch[lsr_checkrange(L, 2, 1, u->batches) - 1];
}

/* update:batch(i: integer) -> table
 * The tallies of batch i, from 1, its epoch, and the facts of its targets: { name, reads, count,
 * denominator }. */
static int update_batch(lua_State *L) {
    const sr_batch *b = check_batch(L);
    lua_newtable(L);
    lsr_set_integer(L, "sequences", b->sequences);
    lsr_set_integer(L, "tokens", b->tokens);
    lsr_set_integer(L, "slots", b->slots);
    lsr_set_integer(L, "masked", b->masked);
    lsr_set_integer(L, "epoch", b->layout->epoch[0]);
    lsr_set_integer(L, "share", b->share + 1);
    LSR_PUSH_LIST(L, b->targets, i, lsr_pushtarget(L, &b->target[i]));
    lua_setfield(L, -2, "facts");
    return 1;
}

/* update:layout(i: integer) -> Layout
 * The layout of batch i. */
static int update_layout(lua_State *L) {
    const sr_batch *b = check_batch(L);
    lsr_pushlayout(L, sr_layout_retain(b->layout));
    return 1;
}

/* update:last_layout(i: integer) -> Layout?
 * The layout of the rows that the targets of batch i need; nothing without targets. */
static int update_last_layout(lua_State *L) {
    const sr_batch *b = check_batch(L);
    if (b->last == NULL) return 0;
    lsr_pushlayout(L, sr_layout_retain(b->last));
    return 1;
}

LSR_RELEASE(upload_gc, UPLOAD, sr_batch_on, sr_batch_on_free)

/* t[name] = the tensor; nothing for NULL. */
static void set_tensor(lua_State *L, const char *name, sr_tensor *t) {
    if (t == NULL) return;
    lsr_pushtensor(L, sr_tensor_retain(t));
    lua_setfield(L, -2, name);
}

static void push_target(lua_State *L, const sr_target_on *t) {
    lua_createtable(L, 0, 4);
    set_tensor(L, "rows", t->rows);
    set_tensor(L, "places", t->places);
    set_tensor(L, "labels", t->labels);
    set_tensor(L, "weights", t->weights);
}

/* update:upload(i: integer) -> { ids: Tensor, types: Tensor, original_ids?: Tensor, last_rows?:
 *     Tensor, targets: { rows: Tensor, places: Tensor, labels: Tensor, weights: Tensor }[] }
 * The tensors of batch i, on the current device in the open scope, transferred as one block: ids,
 * types, original_ids (when the loader keeps them), last_rows (with targets), and for each target
 * its rows, places, labels, weights. */
static int update_upload(lua_State *L) {
    const sr_batch *b = check_batch(L);
    sr_batch_on **box = lsr_newbox(L, sizeof(sr_batch_on *), UPLOAD);
    lsr_check(L, sr_batch_upload(box, lsr_device(L), b));
    lua_createtable(L, 0, 5);
    set_tensor(L, "ids", (*box)->ids);
    set_tensor(L, "types", (*box)->types);
    set_tensor(L, "original_ids", (*box)->original_ids);
    set_tensor(L, "last_rows", (*box)->last_rows);
    LSR_PUSH_LIST(L, (*box)->targets, k, push_target(L, &(*box)->target[k]));
    lua_setfield(L, -2, "targets");
    sr_batch_on_free(*box); /* the tensors have references of their own */
    *box = NULL;
    return 1;
}

/* update:set_target(i: integer, number: integer, rows: integer[], labels: number[])
 * Sets a target that a Lua function makes; then finish().
 *   i       the batch, from 1
 *   number  of the target, from 1 */
static int update_set_target(lua_State *L) {
    const sr_update *u = check_update(L, 1);
    sr_batch *b = u->batch[lsr_checkrange(L, 2, 1, u->batches) - 1];
    int number = (int)lsr_checkrange(L, 3, 1, b->targets) - 1;
    return lsr_nothing(L, lsr_settarget(L, b, number, 4, 5));
}

/* update:finish()
 * Weighs targets that Lua functions made, and finds the rows they need. */
static int update_finish(lua_State *L) {
    check_update(L, 1);
    return lsr_nothing(L, sr_update_finish(*(sr_update **)lua_touserdata(L, 1)));
}

static int push_rows(lua_State *L, const int32_t *list, int64_t count) {
    LSR_PUSH_LIST(L, count, i, lua_pushinteger(L, list[i]));
    return 1;
}

/* The last row of each segment, where [SEP] is. */
static int push_separators(lua_State *L, const sr_batch *b) {
    const sr_layout *l = b->layout;
    lua_createtable(L, 2 * l->sequences, 0);
    lua_Integer n = 0;
    for (int32_t s = 0; s < l->sequences; s++) {
        int32_t last = l->start[s] + l->len[s] - 1;
        for (int32_t t = l->start[s]; t <= last; t++) {
            if (t < last && b->types[t] == b->types[t + 1]) continue;
            lua_pushinteger(L, t);
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

/* update:host(i: integer, what: "ids"|"types"|"original_ids"|"separators") -> integer[]?
 * Numbers of a micro-batch, without a device; nil if it has none.  separators: the last row of
 * each segment. */
static int update_host(lua_State *L) {
    static const char *const names[] = {"ids", "types", "original_ids", "separators", NULL};
    const sr_batch *b = check_batch(L);
    const int32_t *const all[] = {b->ids, b->types, b->original_ids, NULL};
    int what = lsr_checkoption(L, 3, "host", NULL, names);
    if (what == 3) return push_separators(L, b);
    return all[what] != NULL ? push_rows(L, all[what], b->slots) : 0;
}

static const sr_target *find_target(const sr_batch *b, const char *name) {
    for (int k = 0; k < b->targets; k++)
        if (strcmp(b->target[k].name, name) == 0) return &b->target[k];
    return NULL;
}

/* update:host_rows(i: integer, target: string) -> integer[]?
 * Rows that a target reads, without a device; nil without such a target. */
static int update_host_rows(lua_State *L) {
    const sr_batch *b = check_batch(L);
    const sr_target *t = find_target(b, luaL_checkstring(L, 3));
    return t != NULL ? push_rows(L, t->rows, t->count * sr_rows_each(t->reads)) : 0;
}

/* update:of_source(i: integer, source: integer, target?: string) -> string? mask, integer? count
 * Which items of a target, or sequences, are of a source of the data set: for each 1 or 0, f32; and
 * how many. Nothing without such a target, or if the data set has one source.
 *   source  from 1 */
static int update_of_source(lua_State *L) {
    const sr_batch *b = check_batch(L);
    int32_t source = (int32_t)luaL_checkinteger(L, 3) - 1;
    const char *name = luaL_optstring(L, 4, NULL);
    const sr_target *t = name != NULL ? find_target(b, name) : NULL;
    if (b->source == NULL || (name != NULL && t == NULL)) return 0;
    int64_t count = 0, n = t != NULL ? t->count : b->sequences;
    float *mask = lsr_scratch(L, n + 1, sizeof *mask);
    for (int64_t i = 0; i < n; i++) {
        int64_t s = t != NULL ? b->layout->owner[t->rows[i * sr_rows_each(t->reads)]] : i;
        mask[i] = b->source[s] == source;
        count += b->source[s] == source;
    }
    lua_pushlstring(L, (const char *)mask, (size_t)n * sizeof *mask);
    lua_pushinteger(L, count);
    return 2;
}

static const luaL_Reg update_methods[] = {
    {"info", update_info},
    {"batch", update_batch},
    {"layout", update_layout},
    {"last_layout", update_last_layout},
    {"upload", update_upload},
    {"set_target", update_set_target},
    {"finish", update_finish},
    {"host", update_host},
    {"host_rows", update_host_rows},
    {"of_source", update_of_source},
    {NULL, NULL},
};

void lsr_open_updates(lua_State *L) {
    static const luaL_Reg none[] = {{NULL, NULL}};
    lsr_class(L, LSR_UPDATE, update_methods, update_gc);
    lsr_class(L, UPLOAD, none, upload_gc); /* never seen from Lua */
}
