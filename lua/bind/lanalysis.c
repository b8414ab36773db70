/* lanalysis.c - computing metrics; part of seqrun.core.metric. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/data/measure.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ldata.h"
#include "lua/bind/lmetric.h"

#define ANALYSIS "seqrun.core.Analysis"

typedef struct analysis {
    const sr_dataset *d; /* kept alive by the user value */
    sr_stream stream;
    sr_threads *threads;
    sr_measure measure;
    sr_progress *progress;
    sr_stream_part window;
} analysis;

static analysis *check_analysis(lua_State *L) {
    analysis *a = lsr_checkbox(L, 1, ANALYSIS);
    if (a->d == NULL) lsr_argerror(L, 1, "the analysis was closed");
    return a;
}

static sr_progress *check_progress(lua_State *L) {
    analysis *a = check_analysis(L);
    if (a->progress == NULL) lsr_argerror(L, 1, "no metric has begun; call begin() first");
    return a->progress;
}

/* @class seqrun.core.metric.analysis
 * Metrics being computed, over the examples of one epoch. */

/* analysis:close()
 * Closes it; progress is kept. */
static int analysis_close(lua_State *L) {
    analysis *a = lsr_checkbox(L, 1, ANALYSIS);
    sr_stream_close(&a->stream);
    sr_threads_free(a->threads);
    sr_measure_free(&a->measure);
    sr_progress_close(a->progress);
    sr_stream_part_close(&a->window);
    *a = (analysis){0};
    return 0;
}

/* analysis(dataset: Dataset, options: table, threads?: integer) -> Analysis analysis | nil,
 *     message, code
 * Metrics over the examples that a loader with these options draws.
 *   options  part, max_len, nsp, short_seq_prob, short_seq_by, seed, epoch, too_long
 *   threads  0: all processors */
static int metric_analysis(lua_State *L) {
    const sr_dataset *d = lsr_checkdataset(L, 1);
    sr_examples_opts opts = {0};
    luaL_checktype(L, 2, LUA_TTABLE);
    lsr_readexamples(L, 2, &opts);
    int threads = (int)lsr_optrange(L, 3, 0, 0, 1024);
    analysis *a = lsr_newbox_with(L, sizeof *a, ANALYSIS, 1);
    lsr_keep(L, 1, 1);
    LSR_TRY(L, sr_stream_open(&a->stream, d, &opts));
    LSR_TRY(L, sr_threads_new(&a->threads, threads));
    a->d = d;
    return 1;
}

/* analysis:parts() -> integer
 * How many parts the examples have; parts are the unit of progress. */
static int analysis_parts(lua_State *L) {
    return lsr_give_integer(L, check_analysis(L)->stream.parts);
}

/* analysis:subject() -> string
 * What the examples are, in one line. */
static int analysis_subject(lua_State *L) {
    const analysis *a = check_analysis(L);
    char subject[SR_METRIC_SUBJECT];
    sr_metric_subject(subject, a->d, &a->stream.opts);
    return lsr_give_string(L, subject);
}

/* analysis:counts() -> integer[]? counts, integer|string sequences, integer|string tokens
 * Occurrences of each token by id + 1, [CLS] and [SEP] included, and the numbers of sequences and
 * tokens.
 *   sequences  the message on failure */
static int analysis_counts(lua_State *L) {
    const analysis *a = check_analysis(L);
    int32_t size = sr_tokenizer_size(a->d->tokenizer);
    uint64_t *count = lsr_scratch(L, size, sizeof *count);
    int64_t sequences, tokens;
    LSR_TRY(L, sr_stream_counts(count, &sequences, &tokens, &a->stream, a->threads));
    LSR_PUSH_LIST(L, size, i, lua_pushinteger(L, (lua_Integer)count[i]));
    lua_pushinteger(L, sequences);
    lua_pushinteger(L, tokens);
    return 3;
}

/* ---- sequences for Lua ---- */

static void append_ids(lua_State *L, const int32_t *ids, int32_t count) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (int32_t i = 0; i < count; i++) {
        lua_pushinteger(L, ids[i]);
        lua_rawseti(L, -2, n + i + 1);
    }
}

static void push_ids(lua_State *L, const sr_stream *s, const sr_segments *t) {
    const sr_frame *f = sr_dataset_frame(s->d, t->b_count);
    lua_createtable(L, t->a_count + t->b_count + sr_frame_size(f), 0);
    append_ids(L, f->lead.ids, f->lead.count);
    append_ids(L, t->a, t->a_count);
    append_ids(L, f->middle.ids, f->middle.count);
    append_ids(L, t->b, t->b_count);
    append_ids(L, f->tail.ids, f->tail.count);
}

/* analysis:read(part: integer) -> { ids: integer[], length: integer, a_tokens: integer, b_tokens:
 *     integer }[] sequences | nil, message, code
 * The examples of a part: ids with [CLS] and [SEP], length, a_tokens, b_tokens.
 *   part  from 0 */
static int analysis_read(lua_State *L) {
    analysis *a = check_analysis(L);
    int64_t part = lsr_checkrange(L, 2, 0, a->stream.parts - 1);
    sr_status st = sr_stream_read(&a->window, &a->stream, part);
    if (st != SR_OK) return lsr_result(L, st);
    lua_createtable(L, (int)a->window.drawn.count, 0);
    for (size_t i = 0; i < a->window.drawn.count; i++) {
        sr_segments t;
        st = sr_stream_tokens(&t, &a->window, &a->stream, i);
        if (st != SR_OK) return lsr_result(L, st);
        lua_createtable(L, 0, 6);
        push_ids(L, &a->stream, &t);
        int64_t length = (int64_t)lua_rawlen(L, -1);
        lua_setfield(L, -2, "ids");
        lsr_set_integer(L, "length", length);
        lsr_set_integer(L, "a_tokens", t.a_count);
        lsr_set_integer(L, "b_tokens", t.b_count);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ---- what is computed ---- */

static int measure_kind(lua_State *L, int arg) {
    return lsr_checkoption(L, arg, "metric", NULL, sr_measure_names);
}

static sr_status make_rarity(lua_State *L, analysis *a, sr_measure_kind kind) {
    int32_t size = sr_tokenizer_size(a->d->tokenizer);
    uint64_t *count = lsr_scratch(L, size, sizeof *count);
    lua_getfield(L, 3, "counts");
    luaL_checktype(L, -1, LUA_TTABLE);
    int list = lua_gettop(L);
    for (int32_t i = 0; i < size; i++)
        count[i] = (uint64_t)lsr_checkelement(L, list, i + 1, "counts", 0, INT64_MAX);
    int64_t slots = lsr_field_range(L, 3, "slots", size + 1, size, INT32_MAX);
    int64_t most = lsr_field_range(L, 3, "most", a->stream.opts.max_len, 1, INT32_MAX);
    return sr_measure_rarity(&a->measure, kind, a->d, count, slots, most);
}

static sr_status make_measure(lua_State *L, analysis *a, sr_measure_kind kind) {
    switch (kind) {
    case SR_MEASURE_LENGTH:
    case SR_MEASURE_COMPRESSIBILITY:
        return sr_measure_plain(&a->measure, kind, a->d);
    case SR_MEASURE_TFIDF:
        lua_getfield(L, 3, "corpus");
        return sr_measure_tfidf(&a->measure, a->d, lsr_checkdataset(L, lua_gettop(L)),
                                (sr_data_part)lsr_field_choice(L, 3, "part", lsr_part_names));
    default:
        return make_rarity(L, a, kind);
    }
}

/* analysis:measure(name:
 *     "length"|"rarity"|"rarity_integer"|"length_rarity"|"tfidf"|"compressibility", options?: {
 *     counts?: integer[], slots?: integer, most?: integer, corpus?: Dataset, part?: string }) -> {
 *     denominator: number, coefficient: number } facts | nil, message, code
 * Chooses what step() computes. */
static int analysis_measure(lua_State *L) {
    analysis *a = check_analysis(L);
    sr_measure_kind kind = (sr_measure_kind)measure_kind(L, 2);
    lua_settop(L, 3);
    if (lua_isnil(L, 3)) {
        lua_newtable(L);
        lua_replace(L, 3);
    }
    sr_measure_free(&a->measure);
    sr_status st = make_measure(L, a, kind);
    if (st != SR_OK) {
        sr_measure_free(&a->measure);
        return lsr_result(L, st);
    }
    lua_newtable(L);
    lsr_set_number(L, "denominator", a->measure.denominator);
    lsr_set_number(L, "coefficient", a->measure.coefficient);
    return 1;
}

/* ---- progress ---- */

/* analysis:begin(path: string, identity: string) -> integer? count, integer|string next, string?
 *     code
 * Opens the file of progress; values that an earlier call of the same identity has computed are
 * kept.
 *   count  values so far
 *   next   what append() stored, or parts so far */
static int analysis_begin(lua_State *L) {
    analysis *a = check_analysis(L);
    sr_progress_close(a->progress);
    a->progress = NULL;
    LSR_TRY(L, sr_progress_open(&a->progress, luaL_checkstring(L, 2), luaL_checkstring(L, 3)));
    lua_pushinteger(L, a->progress->count);
    lua_pushinteger(L, a->progress->next);
    return 2;
}

/* analysis:step() -> boolean? done, integer|string count, integer|string parts
 * Computes the values of some more parts, on all threads.
 *   count  values so far
 *   parts  so far */
static int analysis_step(lua_State *L) {
    analysis *a = check_analysis(L);
    sr_progress *p = check_progress(L);
    bool done;
    if (a->measure.data == NULL) lsr_error(L, "step: call measure() first");
    LSR_TRY(L, sr_measure_step(&done, &a->measure, &a->stream, p, a->threads));
    lua_pushboolean(L, done);
    lua_pushinteger(L, p->count);
    lua_pushinteger(L, p->next);
    return 3;
}

/* analysis:append(values: number[], next: integer) -> true done | nil, message, code
 * Appends values of the next sequences, and a number to continue from. */
static int analysis_append(lua_State *L) {
    sr_progress *p = check_progress(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    int64_t n = (int64_t)lua_rawlen(L, 2), next = luaL_checkinteger(L, 3);
    double *value = lsr_scratch(L, n, sizeof *value);
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, i + 1);
        value[i] = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : NAN;
        lua_pop(L, 1);
    }
    return lsr_done(L, sr_progress_append(p, value, n, next));
}

/* analysis:drop()
 * Removes the progress of the metric that was begun. */
static int analysis_drop(lua_State *L) {
    analysis *a = check_analysis(L);
    sr_progress_remove(a->progress);
    a->progress = NULL;
    return 0;
}

/* ---- writing ---- */

static sr_status take(void *writer, const double *values, int64_t count) {
    return sr_metric_append(writer, values, count);
}

/* The narrowest type that has all values. */
static sr_column_type type_of(double least, double most, bool whole) {
    double size = fmax(fabs(least), fabs(most));
    if (!whole || size > 9007199254740992.0) return SR_COLUMN_F64;
    return size <= INT32_MAX ? SR_COLUMN_I32 : SR_COLUMN_I64;
}

static sr_metric_about about_of(lua_State *L, const analysis *a) {
    return (sr_metric_about){.name = luaL_checkstring(L, 3),
                             .d = a->d,
                             .examples = &a->stream.opts,
                             .options = luaL_checkstring(L, 4)};
}

/* analysis:finish(path: string, name: string, options: string) -> true done | nil, message, code
 * Writes the metric that was begun, and removes its progress. */
static int analysis_finish(lua_State *L) {
    analysis *a = check_analysis(L);
    sr_progress *p = check_progress(L);
    sr_metric_about about = about_of(L, a);
    about.type = type_of(p->least, p->most, p->whole);
    sr_metric_writer *w;
    sr_status st = sr_metric_create(&w, luaL_checkstring(L, 2), &about);
    if (st != SR_OK) return lsr_result(L, st);
    st = sr_progress_replay(p, take, w);
    if (st == SR_OK)
        st = sr_metric_commit(w);
    else
        sr_metric_abort(w);
    if (st == SR_OK) {
        sr_progress_remove(p);
        a->progress = NULL;
    }
    return lsr_done(L, st);
}

/* analysis:totals(path: string, name: string, options: string, totals: number[]) -> true done |
 *     nil, message, code
 * Writes an accumulated metric. */
static int analysis_totals(lua_State *L) {
    analysis *a = check_analysis(L);
    sr_metric_about about = about_of(L, a);
    luaL_checktype(L, 5, LUA_TTABLE);
    int64_t n = (int64_t)lua_rawlen(L, 5);
    double *value = lsr_scratch(L, n, sizeof *value);
    bool whole = true;
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, 5, i + 1);
        value[i] = lua_tonumber(L, -1);
        whole = whole && value[i] == floor(value[i]) && fabs(value[i]) <= 9007199254740992.0;
        lua_pop(L, 1);
    }
    about.accumulated = true;
    about.type = whole ? SR_COLUMN_I64 : SR_COLUMN_F64;
    sr_metric_writer *w;
    sr_status st = sr_metric_create(&w, luaL_checkstring(L, 2), &about);
    if (st != SR_OK) return lsr_result(L, st);
    st = sr_metric_append(w, value, n);
    if (st == SR_OK)
        st = sr_metric_commit(w);
    else
        sr_metric_abort(w);
    return lsr_done(L, st);
}

/* rarity(counts: integer[], slots?: integer) -> number[] weights, number denominator, number
 *     largest
 * The weights of rarity, -ln p of each of `slots` tokens: unseen tokens count once, before counts
 * are normalised.
 *   counts   by id + 1
 *   slots    at least #counts; the others are unseen
 *   largest  weight */
static int metric_rarity(lua_State *L) {
    int64_t n;
    lua_settop(L, 2);
    uint64_t *count = lsr_checklist(L, 1, &n, "counts", 0, INT64_MAX, sizeof *count);
    int64_t slots = lsr_optrange(L, 2, n, n, INT32_MAX);
    double *weight = lsr_scratch(L, slots, sizeof *weight), denominator, largest;
    sr_rarity_weights(weight, &denominator, &largest, count, n, slots);
    LSR_PUSH_LIST(L, slots, i, lua_pushnumber(L, weight[i]));
    lua_pushnumber(L, denominator);
    lua_pushnumber(L, largest);
    return 3;
}

/* rarity_coefficient(largest: number, most: integer) -> number
 * The factor of the length in length_rarity, for sequences of at most `most` tokens.
 *   largest  weight of a token */
static int metric_coefficient(lua_State *L) {
    return lsr_give_number(L,
                           sr_rarity_coefficient(luaL_checknumber(L, 1), luaL_checkinteger(L, 2)));
}

static const luaL_Reg methods[] = {
    {"parts", analysis_parts},
    {"subject", analysis_subject},
    {"counts", analysis_counts},
    {"read", analysis_read},
    {"measure", analysis_measure},
    {"begin", analysis_begin},
    {"step", analysis_step},
    {"append", analysis_append},
    {"drop", analysis_drop},
    {"finish", analysis_finish},
    {"totals", analysis_totals},
    {"close", analysis_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"analysis", metric_analysis},
    {"rarity", metric_rarity},
    {"rarity_coefficient", metric_coefficient},
    {NULL, NULL},
};

void lsr_open_analysis(lua_State *L) {
    lsr_class(L, ANALYSIS, methods, analysis_close);
    luaL_setfuncs(L, functions, 0);
}
