/* ltext.c - seqrun.core.text: vocabularies. */
#include "lua/bind/ltext.h"

#include <utf8proc.h>

#include "core/text/answer.h"
#include "core/unicode/chars.h"
#include "core/unicode/utf8.h"
#include "lua/bind/lcheck.h"

/* ---- vocabulary ------------------------------------------------------------------------------ */

sr_vocab *lsr_checkvocab(lua_State *L, int arg) {
    return lsr_checkobject(L, arg, LSR_VOCAB, "the vocabulary is closed");
}

LSR_RELEASE(vocab_release, LSR_VOCAB, sr_vocab, sr_vocab_release)

/* vocab(path: string) -> Vocab vocab | nil, message, code
 * Reads a vocabulary file: one token per line. */
static int text_vocab(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
    return lsr_give(L, sr_vocab_load(box, path));
}

/* parse_vocab(lines: string, name?: string) -> Vocab vocab | nil, message, code
 * Reads a vocabulary from a string; `name` replaces the path in messages. */
static int text_parse_vocab(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "vocabulary");
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
    return lsr_give(L, sr_vocab_parse(box, text, size, name));
}

static int vocab_len(lua_State *L) {
    return lsr_give_integer(L, sr_vocab_size(lsr_checkvocab(L, 1)));
}

/* @class seqrun.core.text.vocab
 * A vocabulary; `#vocab` is its size.
 * @operator len: integer */

/* vocab:id(token: string) -> integer?
 * The id of a token, nil when it is not in the vocabulary. */
static int vocab_id(lua_State *L) {
    size_t size;
    const char *token = luaL_checklstring(L, 2, &size);
    int32_t id = sr_vocab_id(lsr_checkvocab(L, 1), token, size);
    if (id < 0) return 0;
    return lsr_give_integer(L, id);
}

/* vocab:token(id: integer) -> string?
 * The token of an id, nil if the id is out of range. */
static int vocab_token(lua_State *L) {
    const sr_vocab *v = lsr_checkvocab(L, 1);
    lua_Integer id = luaL_checkinteger(L, 2);
    if (id < 0 || id >= sr_vocab_size(v)) return 0;
    size_t size;
    const char *token = sr_vocab_token(v, (int32_t)id, &size);
    return lsr_give_bytes(L, token, size);
}

const char *const lsr_special_names[] = {"pad", "unk", "cls", "sep", "mask", NULL};

/* vocab:special(name: "pad"|"unk"|"cls"|"sep"|"mask") -> integer
 * The id of a special token. */
static int vocab_special(lua_State *L) {
    const sr_vocab *v = lsr_checkvocab(L, 1);
    int which = luaL_checkoption(L, 2, NULL, lsr_special_names);
    return lsr_give_integer(L, sr_vocab_special(v, (sr_special)which));
}

/* vocab:save(path: string) -> true done | nil, message, code
 * Writes a vocabulary file, replacing an existing one. */
static int vocab_save(lua_State *L) {
    return lsr_done(L, sr_vocab_save(lsr_checkvocab(L, 1), luaL_checkstring(L, 2)));
}

/* vocab:fingerprint() -> string
 * A fingerprint of the contents: 16 hex digits. */
static int vocab_fingerprint(lua_State *L) {
    return lsr_give_hex(L, sr_vocab_fingerprint(lsr_checkvocab(L, 1)));
}

static int vocab_tostring(lua_State *L) {
    sr_vocab **box = lsr_checkbox(L, 1, LSR_VOCAB);
    if (*box == NULL)
        lua_pushliteral(L, "vocabulary (closed)");
    else
        lua_pushfstring(L, "vocabulary of %d tokens", (int)sr_vocab_size(*box));
    return 1;
}

/* answer(s: string) -> string
 * A text as SQuAD compares answers: lower case, without ASCII punctuation and articles, words
 * separated by one space. */
static int text_answer(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    luaL_Buffer b;
    char *out = luaL_buffinitsize(L, &b, 2 * size + 1);
    luaL_pushresultsize(&b, sr_text_answer((uint8_t *)out, (const uint8_t *)bytes, size));
    return 1;
}

/* fold(s: string) -> string
 * A text as it is compared where looks decide: NFKC, case folded, without code points that have no width. */
static int text_fold(lua_State *L) {
    static const utf8proc_option_t how =
        UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE;
    size_t size;
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)luaL_checklstring(L, 1, &size);
    utf8proc_ssize_t count = utf8proc_decompose(bytes, (utf8proc_ssize_t)size, NULL, 0, how);
    if (count < 0) return lua_settop(L, 1), 1; /* not UTF-8 */
    utf8proc_int32_t *points = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *points, 0);
    count = utf8proc_decompose(bytes, (utf8proc_ssize_t)size, points, count, how);
    count = utf8proc_reencode(points, count, how);
    return lsr_give_bytes(L, (const char *)points, count > 0 ? (size_t)count : 0);
}

/* Appends a word, and its places in code points and in bytes, to the lists at 3 to 6. */
static void push_word(lua_State *L, const char *text, const size_t bytes[2],
                      const int64_t points[2]) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, 3) + 1;
    lua_pushlstring(L, text + bytes[0], bytes[1] - bytes[0]);
    lua_rawseti(L, 3, n);
    lua_pushinteger(L, points[0]);
    lua_rawseti(L, 4, n);
    lua_pushinteger(L, points[1]);
    lua_rawseti(L, 5, n);
    lua_pushinteger(L, (lua_Integer)bytes[0]);
    lua_rawseti(L, 6, n);
}

/* split(s: string, white?: boolean) -> string[] words, integer[] starts, integer[] ends,
 *     integer[] bytes
 * The words of a text by BERT's rule: white space separates them, a punctuation mark or a CJK
 * ideograph is one; or with `white` by white space alone.  Where they start, from 0, and end,
 * exclusive, in code points; and where they start in bytes. */
static int text_split(lua_State *L) {
    size_t size, bytes[2] = {0};
    const char *text = luaL_checklstring(L, 1, &size);
    bool white = lua_toboolean(L, 2);
    int64_t points[2] = {0};
    lua_settop(L, 2);
    for (int i = 0; i < 4; i++) lua_newtable(L);
    while (bytes[1] < size) {
        int32_t cp;
        int length = sr_utf8_decode(&cp, (const uint8_t *)text + bytes[1], size - bytes[1]);
        sr_char_kind kind = cp < 0 ? SR_CHAR_LETTER : sr_char_kind_of(cp);
        bool alone = !white && cp >= 0 && (kind == SR_CHAR_PUNCT || sr_char_is_cjk(cp));
        bool ends = alone || kind == SR_CHAR_SPACE;
        if (ends && bytes[1] > bytes[0]) push_word(L, text, bytes, points);
        if (alone) bytes[0] = bytes[1], points[0] = points[1];
        bytes[1] += (size_t)length;
        points[1]++;
        if (alone) push_word(L, text, bytes, points);
        if (ends) bytes[0] = bytes[1], points[0] = points[1];
    }
    if (bytes[1] > bytes[0]) push_word(L, text, bytes, points);
    return 4;
}

/* ---- the module ------------------------------------------------------------------------------ */

static const luaL_Reg vocab_methods[] = {
    {"id", vocab_id},
    {"token", vocab_token},
    {"special", vocab_special},
    {"save", vocab_save},
    {"fingerprint", vocab_fingerprint},
    {"__len", vocab_len},
    {"__tostring", vocab_tostring},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"answer", text_answer}, {"fold", text_fold},   {"parse_vocab", text_parse_vocab},
    {"split", text_split},   {"vocab", text_vocab}, {NULL, NULL},
};

/* @class seqrun.core.text
 * Vocabularies, tokenizers, sentences and vocabulary training. */
void lsr_open_text(lua_State *L) {
    lsr_class(L, LSR_VOCAB, vocab_methods, vocab_release);
    luaL_setfuncs(L, functions, 0);
}
