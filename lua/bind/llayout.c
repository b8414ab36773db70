/* llayout.c - layouts in Lua; part of seqrun.core.tensor. */
#include <string.h>

#include "core/base/mem.h"
#include "core/batch/token_drop.h"
#include "lua/bind/ltensor.h"

sr_layout *lsr_checklayout(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_LAYOUT, "the layout was released");
}

static sr_layout **new_layout(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_layout *), LSR_LAYOUT);
}

LSR_PUSH(lsr_pushlayout, sr_layout, new_layout, sr_layout_release, "layouts")

/* The list of integers in field `name` of the table at 1, as a userdata left on the stack (nil
 * if the field is absent); *count is its length. */
static int32_t *list_field(lua_State *L, const char *name, int64_t *count) {
    *count = 0;
    if (lua_getfield(L, 1, name) == LUA_TNIL) return NULL;
    if (!lua_istable(L, -1)) lsr_error(L, "layout: %s must be a list of integers", name);
    int32_t *list = lsr_checklist(L, -1, count, name, INT32_MIN, UINT32_MAX, sizeof *list);
    lua_remove(L, -2);
    return list;
}

static int32_t *list_of(lua_State *L, const char *name, int64_t wanted) {
    int64_t count;
    int32_t *list = list_field(L, name, &count);
    if (list != NULL && count != wanted)
        lsr_error(L, "layout: %I lengths but %I entries in %s", (lua_Integer)wanted,
                  (lua_Integer)count, name);
    return list;
}

/* layout{ lens=, starts=, uids=, epochs=, rows=, seed= } */
/* layout(fields: { lens: integer[], starts?: integer[], uids?: integer[], epochs?: integer[],
 *     rows?: integer, seed?: integer }) -> Layout
 * A layout from lists. */
static int layout_new(lua_State *L) {
    static const char *const known[] = {"lens", "starts", "uids", "epochs", "rows", "seed", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lsr_check_options(L, 1, "layout", known);
    int64_t n;
    int32_t *len = list_field(L, "lens", &n);
    if (len == NULL) return lsr_error(L, "layout: 'lens' is missing, the list of lengths");
    int32_t *start = list_of(L, "starts", n);
    uint32_t *uid = (uint32_t *)list_of(L, "uids", n);
    uint32_t *epoch = (uint32_t *)list_of(L, "epochs", n);
    int64_t rows = lsr_field_integer(L, 1, "rows", 0);
    uint64_t seed = (uint64_t)lsr_field_integer(L, 1, "seed", 0);
    sr_layout **box = new_layout(L);
    return lsr_made(L, sr_layout_new(box, (int32_t)n, start, len, uid, epoch, rows, seed));
}

/* Marks the rows of the list at `at` in `keep`. */
static void mark_rows(lua_State *L, int at, uint8_t *keep, const sr_layout *whole) {
    luaL_checktype(L, at, LUA_TTABLE);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, at); i++)
        keep[lsr_checkelement(L, at, i, "shorten: rows", 0, whole->rows - 1)] = 1;
}

static const char *const draw_options[] = {"fraction", "layer", "layers", "first",
                                           "last",     "rows",  "unit",   NULL};

/* layout:shorten{ fraction =, ... } at index 2; `forced` is scratch. */
static int draw_rows(lua_State *L, const sr_layout *whole, uint8_t *forced) {
    lsr_check_options(L, 2, "layout:shorten", draw_options);
    sr_token_drop_opts opts = {.fraction = lsr_field_number(L, 2, "fraction", 0),
                               .layer = (uint32_t)lsr_field_range(L, 2, "layer", 0, 0, 0xFFF),
                               .first = lsr_field_bool(L, 2, "first", false),
                               .last = lsr_field_bool(L, 2, "last", false)};
    int64_t layers = lsr_field_range(L, 2, "layers", 0, 0, 0x1000);
    int64_t unit = lsr_field_range(L, 2, "unit", 1, 1, 1 << 20);
    if (lua_getfield(L, 2, "rows") != LUA_TNIL) mark_rows(L, lua_gettop(L), forced, whole);
    int32_t **rows = lsr_newbytes(L);
    sr_layout **box = new_layout(L);
    uint32_t drawn = layers > 0 ? (uint32_t)layers : 1;
    lsr_check(L, sr_token_drop_layers(box, rows, whole, forced, &opts, drawn, unit));
    int64_t shape[] = {layers, (*box)->tokens};
    sr_tensor **tensor = lsr_newtensor(L);
    lsr_check(L, sr_tensor_new(tensor, lsr_device(L), SR_I32, layers > 0 ? 2 : 1,
                               layers > 0 ? shape : shape + 1));
    lsr_check(L, sr_tensor_write(*tensor, *rows, SR_I32));
    return 2;
}

/* @class seqrun.Layout
 * Which rows of a token buffer belong to which sequence, and the keys of their random decisions. */

/* layout:shorten(rows: integer[]|{ fraction: number, layer?: integer, layers?: integer, first?:
 *     boolean, last?: boolean, rows?: integer[], unit?: integer }) -> Layout, integer[]|Tensor
 *     rows
 * The layout of some rows: the same sequences and keys, fewer rows, contiguous.  The rows are
 * given, or sampled: max(forced, round(fraction * length)) positions of each sequence, keyed by
 * its uid and epoch, the seed and the layer, so that packing does not change them.  Sampled rows
 * are returned as a tensor for ops.on_rows.
 *   rows  rows from 0, in any order; first, last: keep these tokens of every sequence; rows: keep
 *         these rows too; layers: draw for this number of layers, which share the layout; unit:
 *         the layout has a multiple of this number of rows
 *   rows  in the order of the new layout; with layers: (layers, M) */
static int layout_shorten(lua_State *L) {
    sr_layout *whole = lsr_checklayout(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    uint8_t *keep = lsr_scratch(L, whole->rows, 1);
    bool drawn = lua_getfield(L, 2, "fraction") != LUA_TNIL;
    lua_pop(L, 1);
    if (drawn) return draw_rows(L, whole, keep);
    mark_rows(L, 2, keep, whole);
    int32_t **rows = lsr_newbytes(L);
    sr_layout **box = new_layout(L);
    lsr_check(L, sr_layout_shorten(box, rows, whole, keep));
    LSR_PUSH_LIST(L, (*box)->rows, i, lua_pushinteger(L, (*rows)[i]));
    return 2;
}

LSR_RELEASE(layout_release, LSR_LAYOUT, sr_layout, sr_layout_release)

/* layout:rows() -> integer
 * T, slack included. */
static int layout_rows(lua_State *L) {
    return lsr_give_integer(L, lsr_checklayout(L, 1)->rows);
}

/* layout:sequences() -> integer
 * N. */
static int layout_sequences(lua_State *L) {
    return lsr_give_integer(L, lsr_checklayout(L, 1)->sequences);
}

/* layout:tokens() -> integer
 * Sum of the lengths. */
static int layout_tokens(lua_State *L) {
    return lsr_give_integer(L, lsr_checklayout(L, 1)->tokens);
}

/* layout:squares() -> integer
 * Sum of the squared lengths, the cost of attention at any distance. */
static int layout_squares(lua_State *L) {
    return lsr_give_integer(L, lsr_checklayout(L, 1)->squares);
}

/* layout:scores(window?: integer, causal?: boolean) -> integer
 * Pairs of a query and a key of one sequence that attention keeps: the cost of attention with
 * these options.
 *   window  only |i - j| <= window
 *   causal  only j <= i */
static int layout_scores(lua_State *L) {
    int64_t window = lsr_optrange(L, 2, -1, 0, INT64_MAX);
    return lsr_give_integer(L,
                            sr_layout_scores(lsr_checklayout(L, 1), window, lua_toboolean(L, 3)));
}

/* layout:seed() -> integer
 * Seed of the random decisions about these rows. */
static int layout_seed(lua_State *L) {
    return lsr_give_integer(L, (lua_Integer)lsr_checklayout(L, 1)->seed);
}

#define LAYOUT_LIST(name, field, size)                                                             \
    static int layout_##name(lua_State *L) {                                                       \
        const sr_layout *l = lsr_checklayout(L, 1);                                                \
        LSR_PUSH_LIST(L, l->size, i, lua_pushinteger(L, l->field[i]));                             \
        return 1;                                                                                  \
    }

/* layout:lengths() -> integer[]
 * Length of each sequence. */
LAYOUT_LIST(lengths, len, sequences)

/* layout:starts() -> integer[]
 * First row of each sequence, from 0: a value inside tensors. */
LAYOUT_LIST(starts, start, sequences)

/* layout:uids() -> integer[]
 * Example number of each sequence. */
LAYOUT_LIST(uids, uid, sequences)

/* layout:epochs() -> integer[]
 * Epoch of each sequence. */
LAYOUT_LIST(epochs, epoch, sequences)

/* layout:positions() -> integer[]
 * Position of every row in its sequence, from 0; 0 for slack. */
LAYOUT_LIST(positions, position, rows)

/* layout:owners() -> integer[]
 * Sequence of every row, from 0; -1 for slack. */
LAYOUT_LIST(owners, owner, rows)

static int layout_tostring(lua_State *L) {
    const sr_layout *l = lsr_checklayout(L, 1);
    lua_pushfstring(L, "layout: %d sequences, %I tokens in %I rows, longest %d", l->sequences,
                    (lua_Integer)l->tokens, (lua_Integer)l->rows, l->longest);
    return 1;
}

/* layout:release()
 * Releases the layout at once. */
static const luaL_Reg methods[] = {
    {"rows", layout_rows},           {"sequences", layout_sequences},
    {"tokens", layout_tokens},       {"scores", layout_scores},
    {"squares", layout_squares},     {"seed", layout_seed},
    {"lengths", layout_lengths},     {"starts", layout_starts},
    {"uids", layout_uids},           {"epochs", layout_epochs},
    {"positions", layout_positions}, {"owners", layout_owners},
    {"shorten", layout_shorten},     {"release", layout_release},
    {"__tostring", layout_tostring}, {NULL, NULL},
};

void lsr_open_layout(lua_State *L) {
    lsr_class(L, LSR_LAYOUT, methods, layout_release);
    luaL_getmetatable(L, LSR_LAYOUT);
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -3, "layout_methods");
    lua_pop(L, 1);
    lua_pushcfunction(L, layout_new);
    lua_setfield(L, -2, "layout");
}
