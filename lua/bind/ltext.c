/* ltext.c - seqrun.core.text: vocabularies, tokenizers, sentences, vocabulary training. */
#include "lua/bind/ltext.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "core/text/encode.h"
#include "core/text/sentence.h"
#include "core/text/train.h"
#include "lua/bind/lcheck.h"

#define VOCAB "seqrun.core.Vocab"
#define TOKENIZER "seqrun.core.Tokenizer"
#define SENTENCES "seqrun.core.Sentences"
#define SOURCE "seqrun.core.Source"
#define THREADS "seqrun.core.Threads"

/* ---- options --------------------------------------------------------------------------------- */

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

LSR_RELEASE(pool_free, THREADS, sr_threads, sr_threads_free)

sr_source **lsr_newsource(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_source *), SOURCE);
}

/* Pushes threads for option `threads`; they are joined when the box is closed. */
static sr_threads **new_threads(lua_State *L) {
    return lsr_newbox(L, sizeof(sr_threads *), THREADS);
}

/* ---- vocabulary ------------------------------------------------------------------------------ */

sr_vocab *lsr_checkvocab(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, VOCAB, "the vocabulary is closed");
}

LSR_RELEASE(vocab_release, VOCAB, sr_vocab, sr_vocab_release)

/* vocab(path) -> Vocab | nil, message, code */
static int text_vocab(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), VOCAB);
    sr_status st = sr_vocab_load(box, path);
    return lsr_give(L, st);
}

/* parse_vocab(text[, name]) -> Vocab | nil, message, code */
static int text_parse_vocab(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "vocabulary");
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), VOCAB);
    sr_status st = sr_vocab_parse(box, text, size, name);
    return lsr_give(L, st);
}

static int vocab_len(lua_State *L) {
    lua_pushinteger(L, sr_vocab_size(lsr_checkvocab(L, 1)));
    return 1;
}

/* vocab:id(token) -> integer | nil */
static int vocab_id(lua_State *L) {
    size_t size;
    const char *token = luaL_checklstring(L, 2, &size);
    int32_t id = sr_vocab_id(lsr_checkvocab(L, 1), token, size);
    if (id < 0) return 0;
    lua_pushinteger(L, id);
    return 1;
}

/* vocab:token(id) -> string | nil */
static int vocab_token(lua_State *L) {
    const sr_vocab *v = lsr_checkvocab(L, 1);
    lua_Integer id = luaL_checkinteger(L, 2);
    if (id < 0 || id >= sr_vocab_size(v)) return 0;
    size_t size;
    const char *token = sr_vocab_token(v, (int32_t)id, &size);
    lua_pushlstring(L, token, size);
    return 1;
}

static const char *const special_names[] = {"pad", "unk", "cls", "sep", "mask", NULL};

/* vocab:special(name) -> id */
static int vocab_special(lua_State *L) {
    const sr_vocab *v = lsr_checkvocab(L, 1);
    int which = luaL_checkoption(L, 2, NULL, special_names);
    lua_pushinteger(L, sr_vocab_special(v, (sr_special)which));
    return 1;
}

/* vocab:save(path) -> true | nil, message, code */
static int vocab_save(lua_State *L) {
    sr_status st = sr_vocab_save(lsr_checkvocab(L, 1), luaL_checkstring(L, 2));
    return lsr_done(L, st);
}

/* vocab:fingerprint() -> 16 hex digits */
static int vocab_fingerprint(lua_State *L) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, sr_vocab_fingerprint(lsr_checkvocab(L, 1)));
    lua_pushstring(L, text);
    return 1;
}

static int vocab_tostring(lua_State *L) {
    sr_vocab **box = lsr_checkbox(L, 1, VOCAB);
    if (*box == NULL)
        lua_pushliteral(L, "vocabulary (closed)");
    else
        lua_pushfstring(L, "vocabulary of %d tokens", (int)sr_vocab_size(*box));
    return 1;
}

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* One for the prompt and for specs: the scratch space is in the box, so one thread at a time. */
typedef struct tokenizer_box {
    sr_tokenizer *t;
    sr_tokens ids, spans; /* without and with offsets */
} tokenizer_box;

static tokenizer_box *check_box(lua_State *L, int arg) {
    tokenizer_box *box = lsr_checkbox(L, arg, TOKENIZER);
    if (box->t == NULL) lsr_argerror(L, arg, "the tokenizer is closed");
    return box;
}

sr_tokenizer *lsr_checktokenizer(lua_State *L, int arg) {
    return check_box(L, arg)->t;
}

static int tokenizer_release(lua_State *L) {
    tokenizer_box *box = lsr_checkbox(L, 1, TOKENIZER);
    sr_tokens_free(&box->ids);
    sr_tokens_free(&box->spans);
    sr_tokenizer_release(box->t);
    box->t = NULL;
    return 0;
}

/* tokenizer(vocab[, { lowercase=, keep_accents=, specials= }]) -> Tokenizer */
static int text_tokenizer(lua_State *L) {
    sr_vocab *vocab = lsr_checkvocab(L, 1);
    sr_tokenizer_opts opts = {.lowercase = true, .specials = true};
    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        opts.lowercase = lsr_field_bool(L, 2, "lowercase", false);
        opts.keep_accents = lsr_field_bool(L, 2, "keep_accents", false);
        opts.specials = lsr_field_bool(L, 2, "specials", false);
    }
    tokenizer_box *box = lsr_newbox(L, sizeof *box, TOKENIZER);
    lsr_check(L, sr_tokenizer_new(&box->t, vocab, &opts));
    return 1;
}

static void push_ids(lua_State *L, const sr_tokens *k) {
    lua_createtable(L, (int)k->count, 0);
    for (size_t i = 0; i < k->count; i++) {
        lua_pushinteger(L, k->ids[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* Pushes { { first, last }, ... } in code points. */
static void push_spans(lua_State *L, const sr_tokens *k) {
    lua_createtable(L, (int)k->count, 0);
    for (size_t i = 0; i < k->count; i++) {
        lua_createtable(L, 2, 0);
        lua_pushinteger(L, k->spans[i].char_first);
        lua_rawseti(L, -2, 1);
        lua_pushinteger(L, k->spans[i].char_last);
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* tokenizer:ids(text[, offsets]) -> ids[, offsets] */
static int tokenizer_ids(lua_State *L) {
    tokenizer_box *box = check_box(L, 1);
    size_t size;
    const char *text = luaL_checklstring(L, 2, &size);
    bool offsets = lua_toboolean(L, 3);
    sr_tokens *k = offsets ? &box->spans : &box->ids;
    k->want_spans = offsets;
    k->count = 0;
    lsr_check(L, sr_tokenize(k, box->t, text, size));
    push_ids(L, k);
    if (offsets) push_spans(L, k);
    return 1 + offsets;
}

/* A token in running text: no space before ## and before . , ! ? */
static void add_decoded(luaL_Buffer *b, const char *token, size_t size, bool first) {
    bool continues = size > 2 && memcmp(token, "##", 2) == 0;
    bool mark = size == 1 && strchr(".,!?", token[0]) != NULL;
    if (!first && !continues && !mark) luaL_addchar(b, ' ');
    if (!first && continues) token += 2, size -= 2;
    luaL_addlstring(b, token, size);
}

static bool is_special(const sr_vocab *v, lua_Integer id) {
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        if (sr_vocab_special(v, (sr_special)i) == id) return true;
    return false;
}

/* vocab:decode(ids[, specials]) -> string: the text that gives these ids, as far as it is known */
static int vocab_decode(lua_State *L) {
    const sr_vocab *v = lsr_checkvocab(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    bool specials = lua_toboolean(L, 3), first = true;
    lua_Integer count = (lua_Integer)lua_rawlen(L, 2);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 1; i <= count; i++) {
        int whole;
        lua_rawgeti(L, 2, i);
        lua_Integer id = lua_tointegerx(L, -1, &whole);
        lua_pop(L, 1);
        if (!whole || id < 0 || id >= sr_vocab_size(v))
            return luaL_error(L, "decode: ids[%I] is out of range 0..%d", i,
                              (int)sr_vocab_size(v) - 1);
        if (!specials && is_special(v, id)) continue;
        size_t size;
        const char *token = sr_vocab_token(v, (int32_t)id, &size);
        add_decoded(&b, token, size, first);
        first = false;
    }
    luaL_pushresult(&b);
    return 1;
}

/* tokenizer:vocab() -> Vocab */
static int tokenizer_vocab(lua_State *L) {
    sr_tokenizer *t = lsr_checktokenizer(L, 1);
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), VOCAB);
    *box = sr_vocab_retain(sr_tokenizer_vocab(t));
    return 1;
}

/* tokenizer:counts() -> { unknown=, invalid= } of all calls of ids() so far */
static int tokenizer_counts(lua_State *L) {
    const tokenizer_box *box = check_box(L, 1);
    lua_createtable(L, 0, 2);
    lsr_set_integer(L, "unknown", box->ids.unknown + (lua_Integer)box->spans.unknown);
    lsr_set_integer(L, "invalid", box->ids.invalid + (lua_Integer)box->spans.invalid);
    return 1;
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

/* sentences(paths[, { format=, limit=, line_limit=, any_bytes= }])
 * -> Sentences | nil, message, code */
static int text_sentences(lua_State *L) {
    static const char *const formats[] = {"prose", "lines", NULL};
    size_t count;
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) lua_newtable(L), lua_replace(L, 2);
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_source_opts source = {
        (size_t)lsr_field_range(L, 2, "line_limit", SR_SOURCE_LINE, 16, 1 << 30),
        lsr_field_bool(L, 2, "any_bytes", false)};
    sr_sentences_opts opts = {
        .limit = (size_t)lsr_field_range(L, 2, "limit", SR_SENTENCE_LIMIT, 16, 1 << 30)};
    lua_getfield(L, 2, "format");
    opts.format = (sr_text_format)luaL_checkoption(L, -1, "prose", formats);
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sentences_box *box = lsr_newbox(L, sizeof *box, SENTENCES);
    sr_status st = sr_source_open(&box->source, paths, count, &source);
    if (st == SR_OK) st = sr_sentences_new(&box->s, box->source, &opts);
    return lsr_give(L, st);
}

/* sentences:next() -> sentence, number of its document from 1 | nil | nil, message, code */
static int sentences_next(lua_State *L) {
    sentences_box *box = lsr_checkbox(L, 1, SENTENCES);
    if (box->s == NULL) lsr_argerror(L, 1, "the sentences are closed");
    sr_sentence s;
    do {
        sr_status st = sr_sentences_next(box->s, &s);
        if (st != SR_OK) return lsr_result(L, st);
    } while (s.event == SR_TEXT_DOCUMENT);
    if (s.event == SR_TEXT_END) return 0;
    lua_pushlstring(L, (const char *)s.bytes, s.size);
    lua_pushinteger(L, (lua_Integer)sr_sentences_count(box->s).documents + 1);
    return 2;
}

/* sentences:counts() -> { documents=, sentences=, bytes=, invalid=, long_cut= } so far */
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

/* train(paths, { size=, min_frequency=, limit_alphabet=, lowercase=, keep_accents=, word_limit=,
 * threads= }) -> Vocab, counts | nil, message, code */
static int text_train(lua_State *L) {
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_vocab_train_opts opts = {
        .size =
            (int32_t)lsr_field_range(L, 2, "size", 30522, SR_TOKEN_SPECIALS + 1, SR_VOCAB_LIMIT),
        .min_frequency = lsr_field_range(L, 2, "min_frequency", 2, 1, INT32_MAX),
        .alphabet = (int32_t)lsr_field_range(L, 2, "limit_alphabet", 1000, 1, SR_VOCAB_LIMIT),
        .lowercase = lsr_field_bool(L, 2, "lowercase", false),
        .keep_accents = lsr_field_bool(L, 2, "keep_accents", false),
        .word_limit = lsr_field_range(L, 2, "word_limit", 1 << 23, 16, INT32_MAX),
    };
    int threads = (int)lsr_field_range(L, 2, "threads", 0, 0, 1024);
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sr_source **source = lsr_newsource(L);
    sr_threads **team = new_threads(L);
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), VOCAB);
    sr_vocab_train_counts counts = {0};
    sr_status st = sr_source_open(source, paths, count, NULL);
    if (st == SR_OK) st = sr_threads_new(team, threads);
    if (st == SR_OK) st = sr_vocab_train(box, *source, &opts, *team, &counts);
    if (st != SR_OK) return lsr_result(L, st);
    push_train_counts(L, &counts, *source);
    return 2;
}

/* ---- lines in, lines out --------------------------------------------------------------------- */

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

/* encode(tokenizer, paths, { ids=, offsets=, frame=, json=, count_only=, threads=, fd= })
 * -> counts | nil, message, code */
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
    sr_source **source = lsr_newsource(L);
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

/* ---- the module ------------------------------------------------------------------------------ */

static const luaL_Reg vocab_methods[] = {
    {"id", vocab_id},
    {"token", vocab_token},
    {"special", vocab_special},
    {"save", vocab_save},
    {"fingerprint", vocab_fingerprint},
    {"decode", vocab_decode},
    {"__len", vocab_len},
    {"__tostring", vocab_tostring},
    {NULL, NULL},
};

static const luaL_Reg tokenizer_methods[] = {
    {"ids", tokenizer_ids},
    {"vocab", tokenizer_vocab},
    {"counts", tokenizer_counts},
    {NULL, NULL},
};

static const luaL_Reg sentences_methods[] = {
    {"next", sentences_next},
    {"counts", sentences_counts},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"vocab", text_vocab},
    {"parse_vocab", text_parse_vocab},
    {"tokenizer", text_tokenizer},
    {"sentences", text_sentences},
    {"train", text_train},
    {"encode", text_encode},
    {NULL, NULL},
};

int luaopen_seqrun_core_text(lua_State *L) {
    lsr_class(L, SOURCE, NULL, source_close);
    lsr_class(L, THREADS, NULL, pool_free);
    lsr_class(L, TOKENIZER, tokenizer_methods, tokenizer_release);
    lsr_class(L, SENTENCES, sentences_methods, sentences_close);
    lsr_class(L, VOCAB, vocab_methods, vocab_release);
    luaL_newlib(L, functions);
    return 1;
}
