/* lconcepts.c - concepts, which loaders mask as a whole (core/batch/concepts.h); part of
 * seqrun.core.batch. */
#include "lua/bind/lconcepts.h"

#include "lua/bind/lcheck.h"
#include "lua/bind/ldata.h"

#define CONCEPTS "seqrun.core.Concepts"

static sr_concepts *check_concepts(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, CONCEPTS, "the concepts are closed");
}

LSR_RELEASE(concepts_free, CONCEPTS, sr_concepts, sr_concepts_free)

/* concepts(dataset: Dataset, ids: integer[], lengths: integer[], stages: integer[]) -> Concepts
 *     concepts | nil, message, code
 * A table of concepts: forms, which are sequences of tokens of the data set's tokenizer, with the
 * stage of each, from 1.
 *   ids      of all forms, one after the other
 *   lengths  tokens of each form
 *   stages   of each form */
static int batch_concepts(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    int64_t tokens, forms, stages, sum = 0;
    const int32_t *ids = lsr_checklist(L, 2, &tokens, "ids", 0, INT32_MAX, 4);
    const int32_t *len = lsr_checklist(L, 3, &forms, "lengths", 0, INT32_MAX, 4);
    const int32_t *stage = lsr_checklist(L, 4, &stages, "stages", 0, INT32_MAX, 4);
    for (int64_t i = 0; i < forms; i++) sum += len[i];
    if (forms != stages || sum != tokens)
        lsr_error(L, "concepts: %I lengths of %I tokens in all, with %I ids and %I stages",
                  (lua_Integer)forms, (lua_Integer)sum, (lua_Integer)tokens, (lua_Integer)stages);
    sr_concepts **box = lsr_newbox(L, sizeof *box, CONCEPTS);
    return lsr_give(L, sr_concepts_new(box, ids, len, stage, forms, d->tokenizer, 0));
}

/* @class seqrun.core.batch.concepts
 * Words and phrases that loaders mask as a whole. */

/* concepts:counts(dataset: Dataset, part?: "train"|"held") -> integer[] counts | nil, message,
 *     code
 * How often each form is found in a part of a data set: the longest one at each word. */
static int concepts_counts(lua_State *L) {
    const sr_concepts *c = check_concepts(L, 1);
    const sr_dataset *d = lsr_checkdataset(L, 2);
    int part = luaL_checkoption(L, 3, "train", lsr_part_names);
    if (sr_tokenizer_size(d->tokenizer) != c->vocabulary)
        lsr_error(L, "concepts:counts: the concepts are of another vocabulary");
    int64_t *times = lsr_scratch(L, c->count, sizeof *times);
    LSR_TRY(L, sr_concepts_count(times, c, d, (sr_data_part)part));
    LSR_PUSH_LIST(L, c->count, i, lua_pushinteger(L, times[i]));
    return 1;
}

static void read_from(lua_State *L, int at, sr_concept_masks *m) {
    if (lua_getfield(L, at, "from") != LUA_TTABLE)
        lsr_error(L, "mask: concepts: from must be the list of updates with which stages begin");
    int64_t stages;
    m->from = lsr_checklist(L, -1, &stages, "from", 0, INT64_MAX, sizeof *m->from);
    m->stages = (int32_t)stages;
}

void lsr_readconcepts(lua_State *L, int options, sr_concept_masks *m) {
    int at = 0;
    if (lua_getfield(L, options, "mask") == LUA_TTABLE &&
        lua_getfield(L, -1, "concepts") == LUA_TTABLE)
        at = lua_gettop(L);
    if (at == 0) {
        lua_pushnil(L);
        return;
    }
    m->share = lsr_field_number(L, at, "share", 1.0);
    read_from(L, at, m);
    lua_getfield(L, at, "table");
    m->table = check_concepts(L, lua_gettop(L));
}

static const luaL_Reg concepts_methods[] = {{"counts", concepts_counts}, {NULL, NULL}};

static const luaL_Reg functions[] = {{"concepts", batch_concepts}, {NULL, NULL}};

void lsr_open_concepts(lua_State *L) {
    lsr_class(L, CONCEPTS, concepts_methods, concepts_free);
    luaL_setfuncs(L, functions, 0);
}
