/* ltext.c - seqrun.core.text: vocabularies and tokenizers. */
#include "lua/bind/ltext.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/answer.h"
#include "lua/bind/lcheck.h"

#define TOKENIZER "seqrun.core.Tokenizer"

/* ---- vocabulary ------------------------------------------------------------------------------ */

sr_vocab *lsr_checkvocab(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_VOCAB, "the vocabulary is closed");
}

LSR_RELEASE(vocab_release, LSR_VOCAB, sr_vocab, sr_vocab_release)

/* vocab(path) -> Vocab | nil, message, code */
static int text_vocab(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
    sr_status st = sr_vocab_load(box, path);
    return lsr_give(L, st);
}

/* parse_vocab(text[, name]) -> Vocab | nil, message, code */
static int text_parse_vocab(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "vocabulary");
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
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
    sr_vocab **box = lsr_checkbox(L, 1, LSR_VOCAB);
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

/* Pushes { first, last, first, last, ... } in bytes. */
static void push_bytes(lua_State *L, const sr_tokens *k) {
    lua_createtable(L, (int)k->count * 2, 0);
    for (size_t i = 0; i < k->count; i++) {
        lua_pushinteger(L, k->spans[i].byte_first);
        lua_rawseti(L, -2, (lua_Integer)i * 2 + 1);
        lua_pushinteger(L, k->spans[i].byte_last);
        lua_rawseti(L, -2, (lua_Integer)i * 2 + 2);
    }
}

/* Tokenizes argument 2. */
static const sr_tokens *encode(lua_State *L, bool offsets) {
    tokenizer_box *box = check_box(L, 1);
    size_t size;
    const char *text = luaL_checklstring(L, 2, &size);
    sr_tokens *k = offsets ? &box->spans : &box->ids;
    k->want_spans = offsets;
    k->count = 0;
    lsr_check(L, sr_tokenize(k, box->t, text, size));
    return k;
}

/* tokenizer:ids(text[, offsets]) -> ids[, offsets] */
static int tokenizer_ids(lua_State *L) {
    bool offsets = lua_toboolean(L, 3);
    const sr_tokens *k = encode(L, offsets);
    push_ids(L, k);
    if (offsets) push_spans(L, k);
    return 1 + offsets;
}

/* tokenizer:packed(text) -> ids as a string of u16 or u32, as data sets of its vocabulary have
 * them; their number */
static int tokenizer_packed(lua_State *L) {
    const sr_tokens *k = encode(L, false);
    lua_pushinteger(L, (lua_Integer)k->count);
    if (sr_vocab_size(sr_tokenizer_vocab(check_box(L, 1)->t)) > UINT16_MAX + 1) {
        lua_pushlstring(L, (const char *)k->ids, k->count * sizeof *k->ids);
    } else {
        luaL_Buffer b;
        char *to = luaL_buffinitsize(L, &b, k->count * 2 + 1);
        for (size_t i = 0; i < k->count; i++) {
            uint16_t id = (uint16_t)k->ids[i];
            memcpy(to + 2 * i, &id, 2);
        }
        luaL_pushresultsize(&b, k->count * 2);
    }
    lua_insert(L, -2);
    return 2;
}

/* tokenizer:places(text) -> ids, { first, last, first, last, ... } in bytes */
static int tokenizer_places(lua_State *L) {
    const sr_tokens *k = encode(L, true);
    push_ids(L, k);
    push_bytes(L, k);
    return 2;
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
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
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

/* answer(text) -> text as SQuAD compares answers */
static int text_answer(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    luaL_Buffer b;
    char *out = luaL_buffinitsize(L, &b, 2 * size + 1);
    luaL_pushresultsize(&b, sr_text_answer((uint8_t *)out, (const uint8_t *)bytes, size));
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
    {"ids", tokenizer_ids},     {"places", tokenizer_places}, {"packed", tokenizer_packed},
    {"vocab", tokenizer_vocab}, {"counts", tokenizer_counts}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"answer", text_answer},       {"vocab", text_vocab}, {"parse_vocab", text_parse_vocab},
    {"tokenizer", text_tokenizer}, {NULL, NULL},
};

int luaopen_seqrun_core_text(lua_State *L) {
    lsr_class(L, TOKENIZER, tokenizer_methods, tokenizer_release);
    lsr_class(L, LSR_VOCAB, vocab_methods, vocab_release);
    luaL_newlib(L, functions);
    lsr_open_textfiles(L);
    lsr_open_rows(L);
    return 1;
}
