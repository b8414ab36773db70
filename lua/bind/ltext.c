/* ltext.c - seqrun.core.text: vocabularies. */
#include "lua/bind/ltext.h"

#include <utf8proc.h>

#include "core/text/answer.h"
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
    {"answer", text_answer},           {"fold", text_fold}, {"vocab", text_vocab},
    {"parse_vocab", text_parse_vocab}, {NULL, NULL},
};

/* @class seqrun.core.text
 * Vocabularies, tokenizers, sentences and vocabulary training. */
void lsr_open_text(lua_State *L) {
    lsr_class(L, LSR_VOCAB, vocab_methods, vocab_release);
    luaL_setfuncs(L, functions, 0);
}
