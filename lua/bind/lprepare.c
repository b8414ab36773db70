/* lprepare.c - the writing half of seqrun.core.data: text to .sqr files, a step at a time, so that
 * Lua can print progress. */
#include <string.h>

#include "core/base/mem.h"
#include "core/data/ingest.h"
#include "lua/bind/ldata.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

#define INGEST "seqrun.core.Ingest"

typedef struct ingest {
    sr_ingest *in;
    sr_source *source;
    sr_threads *threads;
} ingest;

static void close_ingest(ingest *i) {
    sr_ingest_abort(i->in);
    sr_source_close(i->source);
    sr_threads_free(i->threads);
    *i = (ingest){0};
}

/* @class seqrun.core.data.ingest
 * A .sqr file of text being written. */

/* ingest:close()
 * Aborts and leaves no file; harmless after commit(). */
static int ingest_close(lua_State *L) {
    close_ingest(lsr_checkbox(L, 1, INGEST));
    return 0;
}

static ingest *check_ingest(lua_State *L) {
    ingest *i = lsr_checkbox(L, 1, INGEST);
    if (i->in == NULL) lsr_argerror(L, 1, "the data set was already committed or closed");
    return i;
}

static sr_status start(ingest *i, const char *path, const char *const *paths, size_t count,
                       const sr_records *records, const sr_ingest_opts *opts, int threads) {
    SR_TRY(sr_source_open(&i->source, paths, count, &(sr_source_opts){.records = *records}));
    SR_TRY(sr_threads_new(&i->threads, threads));
    return sr_ingest_open(&i->in, path, i->source, opts, i->threads);
}

/* ingest(path: string, inputs: string|string[], tokenizer: Tokenizer, options: { format?:
 *     "prose"|"lines"|"documents", document_start?: string, source?: string, threads?: integer, records?: {
 *     field?: string, where?: seqrun.Condition, all?: boolean } }) -> Ingest ingest | nil,
 *     message, code
 * Begins a data set of text; step() until it is done, then commit().
 *   options  records: how JSONL is read */
static int data_ingest(lua_State *L) {
    static const char *const formats[] = {"prose", "lines", "documents", NULL};
    const char *path = luaL_checkstring(L, 1);
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 2, &count);
    luaL_checktype(L, 4, LUA_TTABLE);
    sr_ingest_opts opts = {.tokenizer = lsr_checktokenizer(L, 3),
                           .format = (sr_text_format)lsr_field_choice(L, 4, "format", formats),
                           .document_start = lsr_field_string(L, 4, "document_start", NULL),
                           .source = lsr_field_string(L, 4, "source", NULL)};
    int threads = (int)lsr_field_range(L, 4, "threads", 0, 0, 1024);
    ingest *i = lsr_newbox_with(L, sizeof *i, INGEST, 1);
    sr_records records = lsr_pushrecords(L, 4);
    lua_setiuservalue(L, -2, 1);
    return lsr_give(L, start(i, path, paths, count, &records, &opts, threads));
}

/* ingest:step() -> boolean done | nil, message, code
 * Works on the next megabyte of text; true at the end. */
static int ingest_step(lua_State *L) {
    bool done;
    LSR_TRY(L, sr_ingest_step(check_ingest(L)->in, &done));
    return lsr_give_bool(L, done);
}

/* ingest:counts() -> table<string, integer>
 * What was read, stored and dropped so far. */
static int ingest_counts(lua_State *L) {
    sr_ingest_counts c = sr_ingest_count(check_ingest(L)->in);
    lua_newtable(L);
    lsr_set_integer(L, "sentences", (int64_t)c.sentences);
    lsr_set_integer(L, "stored", (int64_t)c.stored);
    lsr_set_integer(L, "empty", (int64_t)c.empty);
    lsr_set_integer(L, "pieces", (int64_t)c.pieces);
    lsr_set_integer(L, "documents", (int64_t)c.documents);
    lsr_set_integer(L, "documents_empty", (int64_t)c.documents_empty);
    lsr_set_integer(L, "tokens", (int64_t)c.tokens);
    lsr_set_integer(L, "words", (int64_t)c.words);
    lsr_set_integer(L, "records", (int64_t)c.records);
    lsr_set_integer(L, "left_out", (int64_t)c.left_out);
    lsr_set_integer(L, "unknown", (int64_t)c.unknown);
    lsr_set_integer(L, "bytes", (int64_t)c.bytes);
    lsr_set_integer(L, "invalid", (int64_t)c.invalid);
    lsr_set_integer(L, "bytes_read", (int64_t)c.bytes_read);
    lsr_set_integer(L, "total", (int64_t)c.total);
    lsr_set_integer(L, "files", (int64_t)c.files);
    lsr_set_integer(L, "long_cut", (int64_t)c.long_cut);
    return 1;
}

/* ingest:digest() -> string digest | nil, message, code
 * Completes the file, after the last step: the digest that the data set will have. */
static int ingest_digest(lua_State *L) {
    uint64_t digest;
    LSR_TRY(L, sr_ingest_finish(&digest, check_ingest(L)->in));
    return lsr_give_hex(L, digest);
}

/* ingest:commit() -> true done | nil, message, code
 * Renames the file into place. */
static int ingest_commit(lua_State *L) {
    ingest *i = check_ingest(L);
    sr_status st = sr_ingest_commit(i->in);
    i->in = NULL;
    close_ingest(i);
    return lsr_done(L, st);
}

/* ---- classes ---- */

static const luaL_Reg ingest_methods[] = {{"step", ingest_step},     {"counts", ingest_counts},
                                          {"digest", ingest_digest}, {"commit", ingest_commit},
                                          {"close", ingest_close},   {NULL, NULL}};

static const luaL_Reg functions[] = {{"ingest", data_ingest}, {NULL, NULL}};

void lsr_open_prepare(lua_State *L) {
    lsr_class(L, INGEST, ingest_methods, ingest_close);
    luaL_setfuncs(L, functions, 0);
}
