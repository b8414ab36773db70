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
#include "lua/bind/lseqrun.h"

#define VOCAB "seqrun.vocab"
#define TOKENIZER "seqrun.tokenizer"
#define SENTENCES "seqrun.sentences"
#define SOURCE "seqrun.source"
#define THREADS "seqrun.text.threads"

/* ---- options --------------------------------------------------------------------------------- */

static bool opt_boolean(lua_State *L, int arg, const char *name) {
    bool value = lua_getfield(L, arg, name) != LUA_TNIL && lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

static int64_t opt_range(lua_State *L, int arg, const char *name, int64_t least, int64_t most,
                         int64_t otherwise) {
    int64_t value = otherwise;
    if (lua_getfield(L, arg, name) != LUA_TNIL) {
        int whole;
        value = lua_tointegerx(L, -1, &whole);
        if (!whole || value < least || value > most)
            luaL_error(L, "option '%s' is not a whole number in %I..%I", name, (lua_Integer)least,
                       (lua_Integer)most);
    }
    lua_pop(L, 1);
    return value;
}

const char *const *lsr_checkpaths(lua_State *L, int arg, size_t *count) {
    bool one = lua_type(L, arg) == LUA_TSTRING;
    if (!one) luaL_checktype(L, arg, LUA_TTABLE);
    *count = one ? 1 : (size_t)lua_rawlen(L, arg);
    const char **paths = lua_newuserdatauv(L, (*count + 1) * sizeof *paths, 0);
    if (one) paths[0] = lua_tostring(L, arg);
    for (size_t i = 0; i < *count && !one; i++) {
        if (lua_rawgeti(L, arg, (lua_Integer)i + 1) != LUA_TSTRING)
            luaL_argerror(L, arg, "a path or a list of paths is wanted");
        paths[i] = lua_tostring(L, -1); /* held by the table */
        lua_pop(L, 1);
    }
    return paths;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static void *new_box(lua_State *L, size_t size, const char *class) {
    void *box = lua_newuserdatauv(L, size, 0);
    memset(box, 0, size);
    luaL_setmetatable(L, class);
    return box;
}

static int source_close(lua_State *L) {
    sr_source **box = luaL_checkudata(L, 1, SOURCE);
    sr_source_close(*box);
    *box = NULL;
    return 0;
}

static int pool_free(lua_State *L) {
    sr_threads **box = luaL_checkudata(L, 1, THREADS);
    sr_threads_free(*box);
    *box = NULL;
    return 0;
}

sr_source **lsr_newsource(lua_State *L) {
    return new_box(L, sizeof(sr_source *), SOURCE);
}

/* Pushes threads for option `threads`; they are joined when the box is closed. */
static sr_threads **new_threads(lua_State *L) {
    return new_box(L, sizeof(sr_threads *), THREADS);
}

/* ---- vocabulary ------------------------------------------------------------------------------ */

sr_vocab *lsr_checkvocab(lua_State *L, int arg) {
    sr_vocab **box = luaL_checkudata(L, arg, VOCAB);
    luaL_argcheck(L, *box != NULL, arg, "the vocabulary is closed");
    return *box;
}

static int vocab_release(lua_State *L) {
    sr_vocab **box = luaL_checkudata(L, 1, VOCAB);
    sr_vocab_release(*box);
    *box = NULL;
    return 0;
}

/* vocab(path) -> Vocab | nil, message, code */
static int text_vocab(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_vocab **box = new_box(L, sizeof(sr_vocab *), VOCAB);
    sr_status st = sr_vocab_load(box, path);
    return st == SR_OK ? 1 : lsr_result(L, st);
}

/* parse_vocab(text[, name]) -> Vocab | nil, message, code */
static int text_parse_vocab(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "vocabulary");
    sr_vocab **box = new_box(L, sizeof(sr_vocab *), VOCAB);
    sr_status st = sr_vocab_parse(box, text, size, name);
    return st == SR_OK ? 1 : lsr_result(L, st);
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
    if (st != SR_OK) return lsr_result(L, st);
    lua_pushboolean(L, 1);
    return 1;
}

/* vocab:fingerprint() -> 16 hex digits */
static int vocab_fingerprint(lua_State *L) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, sr_vocab_fingerprint(lsr_checkvocab(L, 1)));
    lua_pushstring(L, text);
    return 1;
}

static int vocab_tostring(lua_State *L) {
    sr_vocab **box = luaL_checkudata(L, 1, VOCAB);
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
    tokenizer_box *box = luaL_checkudata(L, arg, TOKENIZER);
    luaL_argcheck(L, box->t != NULL, arg, "the tokenizer is closed");
    return box;
}

sr_tokenizer *lsr_checktokenizer(lua_State *L, int arg) {
    return check_box(L, arg)->t;
}

static int tokenizer_release(lua_State *L) {
    tokenizer_box *box = luaL_checkudata(L, 1, TOKENIZER);
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
        opts.lowercase = opt_boolean(L, 2, "lowercase");
        opts.keep_accents = opt_boolean(L, 2, "keep_accents");
        opts.specials = opt_boolean(L, 2, "specials");
    }
    tokenizer_box *box = new_box(L, sizeof *box, TOKENIZER);
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
            return luaL_error(L, "decode: number %I of the ids is not in 0..%d", i,
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
    sr_vocab **box = new_box(L, sizeof(sr_vocab *), VOCAB);
    *box = sr_vocab_retain(sr_tokenizer_vocab(t));
    return 1;
}

/* tokenizer:counts() -> { unknown=, invalid= } of all calls of ids() so far */
static int tokenizer_counts(lua_State *L) {
    const tokenizer_box *box = check_box(L, 1);
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, (lua_Integer)box->ids.unknown + (lua_Integer)box->spans.unknown);
    lua_setfield(L, -2, "unknown");
    lua_pushinteger(L, (lua_Integer)box->ids.invalid + (lua_Integer)box->spans.invalid);
    lua_setfield(L, -2, "invalid");
    return 1;
}

/* ---- sentences ------------------------------------------------------------------------------- */

typedef struct sentences_box {
    sr_source *source;
    sr_sentences *s;
} sentences_box;

static int sentences_close(lua_State *L) {
    sentences_box *box = luaL_checkudata(L, 1, SENTENCES);
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
    sr_source_opts source = {(size_t)opt_range(L, 2, "line_limit", 16, 1 << 30, SR_SOURCE_LINE),
                             opt_boolean(L, 2, "any_bytes")};
    sr_sentences_opts opts = {.limit =
                                  (size_t)opt_range(L, 2, "limit", 16, 1 << 30, SR_SENTENCE_LIMIT)};
    lua_getfield(L, 2, "format");
    opts.format = (sr_text_format)luaL_checkoption(L, -1, "prose", formats);
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sentences_box *box = new_box(L, sizeof *box, SENTENCES);
    sr_status st = sr_source_open(&box->source, paths, count, &source);
    if (st == SR_OK) st = sr_sentences_new(&box->s, box->source, &opts);
    return st == SR_OK ? 1 : lsr_result(L, st);
}

/* sentences:next() -> sentence, number of its document from 1 | nil | nil, message, code */
static int sentences_next(lua_State *L) {
    sentences_box *box = luaL_checkudata(L, 1, SENTENCES);
    luaL_argcheck(L, box->s != NULL, 1, "the sentences are closed");
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

static void count_field(lua_State *L, const char *name, uint64_t value) {
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

/* sentences:counts() -> { documents=, sentences=, bytes=, invalid=, long_cut= } so far */
static int sentences_counts(lua_State *L) {
    const sentences_box *box = luaL_checkudata(L, 1, SENTENCES);
    luaL_argcheck(L, box->s != NULL, 1, "the sentences are closed");
    sr_sentences_counts c = sr_sentences_count(box->s);
    sr_source_counts source = sr_source_count(box->source);
    lua_createtable(L, 0, 5);
    count_field(L, "documents", c.documents);
    count_field(L, "sentences", c.sentences);
    count_field(L, "long_cut", c.long_cut);
    count_field(L, "bytes", source.bytes);
    count_field(L, "invalid", source.invalid);
    return 1;
}

/* ---- training -------------------------------------------------------------------------------- */

static void push_train_counts(lua_State *L, const sr_vocab_train_counts *c,
                              const sr_source *source) {
    sr_source_counts s = sr_source_count(source);
    lua_createtable(L, 0, 8);
    count_field(L, "words", c->words);
    count_field(L, "distinct", c->distinct);
    count_field(L, "forgotten", c->forgotten);
    count_field(L, "merges", c->merges);
    count_field(L, "too_long", c->too_long);
    count_field(L, "out_of_reach", c->out_of_reach);
    count_field(L, "bytes", s.bytes);
    count_field(L, "invalid", s.invalid);
}

/* train(paths, { size=, min_frequency=, limit_alphabet=, lowercase=, keep_accents=, word_limit=,
 * threads= }) -> Vocab, counts | nil, message, code */
static int text_train(lua_State *L) {
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_vocab_train_opts opts = {
        .size = (int32_t)opt_range(L, 2, "size", SR_TOKEN_SPECIALS + 1, SR_VOCAB_LIMIT, 30522),
        .min_frequency = opt_range(L, 2, "min_frequency", 1, INT32_MAX, 2),
        .alphabet = (int32_t)opt_range(L, 2, "limit_alphabet", 1, SR_VOCAB_LIMIT, 1000),
        .lowercase = opt_boolean(L, 2, "lowercase"),
        .keep_accents = opt_boolean(L, 2, "keep_accents"),
        .word_limit = opt_range(L, 2, "word_limit", 16, INT32_MAX, 1 << 23),
    };
    int threads = (int)opt_range(L, 2, "threads", 0, 1024, 0);
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sr_source **source = lsr_newsource(L);
    sr_threads **team = new_threads(L);
    sr_vocab **box = new_box(L, sizeof(sr_vocab *), VOCAB);
    sr_vocab_train_counts counts = {0};
    sr_status st = sr_source_open(source, paths, count, NULL);
    if (st == SR_OK) st = sr_threads_new(team, threads);
    if (st == SR_OK) st = sr_vocab_train(box, *source, &opts, *team, &counts);
    if (st != SR_OK) return lsr_result(L, st);
    push_train_counts(L, &counts, *source);
    return 2;
}

/* ---- lines in, lines out --------------------------------------------------------------------- */

/* Where the output goes; `closed` when nobody reads it any more, which is no failure. */
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
    count_field(L, "lines", c->lines);
    count_field(L, "bytes", c->bytes);
    count_field(L, "tokens", c->tokens);
    count_field(L, "unknown", c->unknown);
    count_field(L, "invalid", c->invalid);
    count_field(L, "long_cut", c->long_cut);
}

/* encode(tokenizer, paths, { ids=, offsets=, frame=, json=, count_only=, threads=, fd= })
 * -> counts | nil, message, code */
static int text_encode(lua_State *L) {
    sr_tokenizer *t = lsr_checktokenizer(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    sr_encode_opts opts = {
        .ids = opt_boolean(L, 3, "ids"),
        .offsets = opt_boolean(L, 3, "offsets"),
        .frame = opt_boolean(L, 3, "frame"),
        .json = opt_boolean(L, 3, "json"),
        .count_only = opt_boolean(L, 3, "count_only"),
    };
    outlet out = {.fd = (int)opt_range(L, 3, "fd", 0, INT32_MAX, 1)};
    int threads = (int)opt_range(L, 3, "threads", 0, 1024, 0);
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

/* A class: its methods, and how an object of it is released (safe to call twice). */
static void new_class(lua_State *L, const char *name, const luaL_Reg *methods,
                      lua_CFunction release) {
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, release);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, release);
    lua_setfield(L, -2, "__close");
    lua_newtable(L);
    if (methods != NULL) luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

int luaopen_seqrun_core_text(lua_State *L) {
    new_class(L, SOURCE, NULL, source_close);
    new_class(L, THREADS, NULL, pool_free);
    new_class(L, TOKENIZER, tokenizer_methods, tokenizer_release);
    new_class(L, SENTENCES, sentences_methods, sentences_close);
    new_class(L, VOCAB, vocab_methods, vocab_release);
    luaL_getmetatable(L, VOCAB);
    lua_pushcfunction(L, vocab_len);
    lua_setfield(L, -2, "__len");
    lua_pushcfunction(L, vocab_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    return 1;
}
