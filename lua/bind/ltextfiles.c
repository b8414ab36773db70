/* ltextfiles.c - files of text: their sentences, vocabulary training, encoding; part of
 * seqrun.core.text. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/thread.h"
#include "core/tokenizer/bpe_train.h"
#include "core/tokenizer/encode.h"
#include "core/text/sentence.h"
#include "core/tokenizer/train.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

#define SENTENCES "seqrun.core.Sentences"
#define SOURCE "seqrun.core.Source"
#define THREADS "seqrun.core.Threads"

/* ---- paths ----------------------------------------------------------------------------------- */

const char *const *lsr_checkpaths(lua_State *L, int arg, size_t *count) {
    bool one = lua_type(L, arg) == LUA_TSTRING;
    if (!one) luaL_checktype(L, arg, LUA_TTABLE);
    *count = one ? 1 : (size_t)lua_rawlen(L, arg);
    const char **paths = lua_newuserdatauv(L, (*count + 1) * sizeof *paths, 0);
    if (one) paths[0] = lua_tostring(L, arg);
    for (size_t i = 0; i < *count && !one; i++) {
        if (lua_rawgeti(L, arg, (lua_Integer)i + 1) != LUA_TSTRING)
            lsr_argerror(L, arg, "expected a path or a list of paths");
        paths[i] = lua_tostring(L, -1); /* held by the table */
        lua_pop(L, 1);
    }
    return paths;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

LSR_RELEASE(source_close, SOURCE, sr_source, sr_source_close)

LSR_RELEASE(threads_free, THREADS, sr_threads, sr_threads_free)

/* Pushes a userdata that closes its source when it is collected; the caller fills *box. */
static sr_source **new_source(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_source *), SOURCE);
}

/* Pushes threads for option `threads`; they are joined when the box is closed. */
static sr_threads **new_threads(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_threads *), THREADS);
}

/* ---- sentences ------------------------------------------------------------------------------- */

typedef struct sentences_box {
    sr_source *source;
    sr_sentences *s;
} sentences_box;

static int sentences_close(lua_State *L) {
    sentences_box *box = lsr_checkbox(L, 1, SENTENCES);
    sr_sentences_free(box->s);
    sr_source_close(box->source);
    *box = (sentences_box){0};
    return 0;
}

/* sentences(paths: string|string[], options?: { format?: "prose"|"lines"|"documents", limit?: integer,
 *     line_limit?: integer, any_bytes?: boolean }) -> Sentences sentences | nil, message, code
 * Opens files, directories, patterns or "-", compressed or not, as a stream of sentences. */
static int text_sentences(lua_State *L) {
    static const char *const formats[] = {"prose", "lines", "documents", NULL};
    size_t count;
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) lua_newtable(L), lua_replace(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_source_opts source = {
        .line_limit = (size_t)lsr_field_range(L, 2, "line_limit", SR_SOURCE_LINE, 16, 1 << 30),
        .any_bytes = lsr_field_bool(L, 2, "any_bytes", false)};
    sr_sentences_opts opts = {
        .limit = (size_t)lsr_field_range(L, 2, "limit", SR_SENTENCE_LIMIT, 16, 1 << 30)};
    lua_getfield(L, 2, "format");
    opts.format = (sr_text_format)luaL_checkoption(L, -1, "prose", formats);
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sentences_box *box = lsr_newbox(L, sizeof *box, SENTENCES);
    LSR_TRY(L, sr_source_open(&box->source, paths, count, &source));
    return lsr_give(L, sr_sentences_new(&box->s, box->source, &opts));
}

/* @class seqrun.core.text.sentences
 * A stream of sentences. */

/* sentences:next() -> string? sentence, integer|string|nil document, string? code
 * The next sentence and the number of its document; nil at the end.
 *   document  the message on failure */
static int sentences_next(lua_State *L) {
    sentences_box *box = lsr_checkbox(L, 1, SENTENCES);
    if (box->s == NULL) lsr_argerror(L, 1, "the sentences are closed");
    sr_sentence s;
    do {
        LSR_TRY(L, sr_sentences_next(box->s, &s));
    } while (s.event == SR_TEXT_DOCUMENT);
    if (s.event == SR_TEXT_END) return 0;
    lua_pushlstring(L, (const char *)s.bytes, s.size);
    lua_pushinteger(L, (lua_Integer)sr_sentences_count(box->s).documents + 1);
    return 2;
}

/* sentences:counts() -> { documents: integer, sentences: integer, long_cut: integer, bytes:
 *     integer, invalid: integer }
 * What has been read so far. */
static int sentences_counts(lua_State *L) {
    const sentences_box *box = lsr_checkbox(L, 1, SENTENCES);
    if (box->s == NULL) lsr_argerror(L, 1, "the sentences are closed");
    sr_sentences_counts c = sr_sentences_count(box->s);
    sr_source_counts source = sr_source_count(box->source);
    lua_createtable(L, 0, 5);
    lsr_set_integer(L, "documents", (int64_t)c.documents);
    lsr_set_integer(L, "sentences", (int64_t)c.sentences);
    lsr_set_integer(L, "long_cut", (int64_t)c.long_cut);
    lsr_set_integer(L, "bytes", (int64_t)source.bytes);
    lsr_set_integer(L, "invalid", (int64_t)source.invalid);
    return 1;
}

/* ---- training -------------------------------------------------------------------------------- */

static void push_train_counts(lua_State *L, const sr_vocab_train_counts *c,
                              const sr_source *source) {
    sr_source_counts s = sr_source_count(source);
    lua_createtable(L, 0, 8);
    lsr_set_integer(L, "words", (int64_t)c->words);
    lsr_set_integer(L, "distinct", (int64_t)c->distinct);
    lsr_set_integer(L, "forgotten", (int64_t)c->forgotten);
    lsr_set_integer(L, "merges", (int64_t)c->merges);
    lsr_set_integer(L, "too_long", (int64_t)c->too_long);
    lsr_set_integer(L, "out_of_reach", (int64_t)c->out_of_reach);
    lsr_set_integer(L, "bytes", (int64_t)s.bytes);
    lsr_set_integer(L, "invalid", (int64_t)s.invalid);
}

static sr_vocab_train_opts train_opts(lua_State *L) {
    luaL_checktype(L, 2, LUA_TTABLE);
    return (sr_vocab_train_opts){
        .size =
            (int32_t)lsr_field_range(L, 2, "size", 30522, SR_TOKEN_SPECIALS + 1, SR_VOCAB_LIMIT),
        .min_frequency = lsr_field_range(L, 2, "min_frequency", 2, 1, INT32_MAX),
        .alphabet = (int32_t)lsr_field_range(L, 2, "limit_alphabet", 1000, 1, SR_VOCAB_LIMIT),
        .lowercase = lsr_field_bool(L, 2, "lowercase", false),
        .keep_accents = lsr_field_bool(L, 2, "keep_accents", false),
        .word_limit = lsr_field_range(L, 2, "word_limit", 1 << 23, 16, INT32_MAX),
    };
}

/* train_bpe(paths: string|string[], options: { size?: integer, min_frequency?: integer,
 *     word_limit?: integer, threads?: integer, records?: table }) -> string? made, table<string,
 *     integer>|string counts, string? code
 * Trains byte-level BPE on text: the text of a tokenizer.json; `counts` as train() has them.
 *   options  records: as for train()
 *   counts   the message on failure */
static int text_train_bpe(lua_State *L) {
    sr_vocab_train_opts opts = train_opts(L);
    int threads = (int)lsr_field_range(L, 2, "threads", 0, 0, 1024);
    size_t count, size = 0;
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sr_source **source = new_source(L);
    sr_threads **team = new_threads(L);
    sr_source_opts how = {.records = lsr_pushrecords(L, 2)};
    char **text = lsr_newbytes(L);
    sr_vocab_train_counts counts = {0};
    LSR_TRY(L, sr_source_open(source, paths, count, &how));
    LSR_TRY(L, sr_threads_new(team, threads));
    LSR_TRY(L, sr_bpe_train(text, &size, *source, &opts, *team, &counts));
    lua_pushlstring(L, *text, size);
    push_train_counts(L, &counts, *source);
    return 2;
}

/* train(paths: string|string[], options: { size?: integer, min_frequency?: integer,
 *     limit_alphabet?: integer, lowercase?: boolean, keep_accents?: boolean, word_limit?: integer,
 *     threads?: integer, records?: { field?: string, where?: seqrun.Condition, all?: boolean } })
 *     -> Vocab? vocab, table<string, integer>|string|nil counts, string? code
 * Makes a vocabulary from text; `counts` has words, distinct, forgotten, merges, too_long,
 * out_of_reach, bytes, invalid.
 *   options  records: how JSONL is read */
static int text_train(lua_State *L) {
    sr_vocab_train_opts opts = train_opts(L);
    int threads = (int)lsr_field_range(L, 2, "threads", 0, 0, 1024);
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sr_source **source = new_source(L);
    sr_threads **team = new_threads(L);
    sr_source_opts how = {.records = lsr_pushrecords(L, 2)};
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
    sr_vocab_train_counts counts = {0};
    LSR_TRY(L, sr_source_open(source, paths, count, &how));
    LSR_TRY(L, sr_threads_new(team, threads));
    LSR_TRY(L, sr_vocab_train(box, *source, &opts, *team, &counts));
    push_train_counts(L, &counts, *source);
    return 2;
}

/* files(paths: string|string[]) -> string[] files | nil, message, code
 * The files that paths mean, directories and patterns taken apart, in the order in which they are
 * read. */
static int text_files(lua_State *L) {
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sr_source **source = new_source(L);
    LSR_TRY(L, sr_source_open(source, paths, count, NULL));
    LSR_PUSH_LIST(L, sr_source_files(*source), i, lua_pushstring(L, sr_source_file(*source, i)));
    return 1;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Where the output goes; `closed` when the reader has closed the pipe, which is not a failure. */
typedef struct outlet {
    int fd;
    bool closed;
} outlet;

static sr_status write_out(void *context, const void *bytes, size_t size) {
    outlet *o = context;
    const char *from = bytes;
    while (size > 0) {
        ssize_t n = sr_io_now.write(o->fd, from, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            o->closed = errno == EPIPE;
            return sr_fail(o->closed ? SR_ESTOP : SR_EIO, "tokenize: cannot write: %s",
                           strerror(errno));
        }
        from += n;
        size -= (size_t)n;
    }
    return SR_OK;
}

static void push_encode_counts(lua_State *L, const sr_encode_counts *c) {
    lua_createtable(L, 0, 7);
    lsr_set_integer(L, "lines", (int64_t)c->lines);
    lsr_set_integer(L, "bytes", (int64_t)c->bytes);
    lsr_set_integer(L, "tokens", (int64_t)c->tokens);
    lsr_set_integer(L, "unknown", (int64_t)c->unknown);
    lsr_set_integer(L, "invalid", (int64_t)c->invalid);
    lsr_set_integer(L, "long_cut", (int64_t)c->long_cut);
}

/* encode(t: Tokenizer, paths: string|string[], options: { ids?: boolean, offsets?: boolean,
 *     frame?: boolean, json?: boolean, count_only?: boolean, threads?: integer, fd?: integer }) ->
 *     { lines: integer, bytes: integer, tokens: integer, unknown: integer, invalid: integer,
 *     long_cut: integer } counts | nil, message, code
 * Writes a line of ids (or offsets, or tokens) for each line of text to a file descriptor, 1 by
 * default. A closed pipe is not a failure.  With `count_only` nothing is written. */
static int text_encode(lua_State *L) {
    sr_tokenizer *t = lsr_checktokenizer(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    sr_encode_opts opts = {
        .ids = lsr_field_bool(L, 3, "ids", false),
        .offsets = lsr_field_bool(L, 3, "offsets", false),
        .frame = lsr_field_bool(L, 3, "frame", false),
        .json = lsr_field_bool(L, 3, "json", false),
        .count_only = lsr_field_bool(L, 3, "count_only", false),
    };
    outlet out = {.fd = (int)lsr_field_range(L, 3, "fd", 1, 0, INT32_MAX)};
    int threads = (int)lsr_field_range(L, 3, "threads", 0, 0, 1024);
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 2, &count);
    sr_source **source = new_source(L);
    sr_threads **team = new_threads(L);
    sr_encode_counts counts = {0};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sr_status st = sr_source_open(source, paths, count, &(sr_source_opts){.any_bytes = true});
    if (st == SR_OK) st = sr_threads_new(team, threads);
    sigaction(SIGPIPE, &ignore, &before);
    if (st == SR_OK) st = sr_encode(*source, t, &opts, *team, write_out, &out, &counts);
    sigaction(SIGPIPE, &before, NULL);
    if (st != SR_OK && !out.closed) return lsr_result(L, st);
    push_encode_counts(L, &counts);
    return 1;
}

static const luaL_Reg sentences_methods[] = {
    {"next", sentences_next},
    {"counts", sentences_counts},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"sentences", text_sentences}, {"train", text_train}, {"train_bpe", text_train_bpe},
    {"encode", text_encode},       {"files", text_files}, {NULL, NULL},
};

void lsr_open_textfiles(lua_State *L) {
    lsr_class(L, SOURCE, NULL, source_close);
    lsr_class(L, THREADS, NULL, threads_free);
    lsr_class(L, SENTENCES, sentences_methods, sentences_close);
    luaL_setfuncs(L, functions, 0);
}
