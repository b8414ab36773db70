/* ltokenizer.c - seqrun.core.text: tokenizers. */
#include <string.h>

#include "core/base/mem.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

#define TOKENIZER "seqrun.core.Tokenizer"

/* One for the prompt and for specs: the scratch space is in the box, so one thread at a time. */
typedef struct tokenizer_box {
    sr_tokenizer *t;
    sr_tokens ids, spans, starts; /* plain, with offsets, with starts of words */
} tokenizer_box;

static tokenizer_box *check_box(lua_State *L, int arg) {
    tokenizer_box *box = lsr_checkbox(L, arg, TOKENIZER);
    if (box->t == NULL) lsr_argerror(L, arg, "the tokenizer is closed");
    return box;
}

sr_tokenizer *lsr_checktokenizer(lua_State *L, int arg) {
    return check_box(L, arg)->t;
}

void lsr_pushtokenizer(lua_State *L, sr_tokenizer *t) {
    tokenizer_box *box = lsr_newbox(L, sizeof *box, TOKENIZER);
    box->t = sr_tokenizer_retain(t);
}

static int tokenizer_release(lua_State *L) {
    tokenizer_box *box = lsr_checkbox(L, 1, TOKENIZER);
    sr_tokens_free(&box->ids);
    sr_tokens_free(&box->spans);
    sr_tokens_free(&box->starts);
    sr_tokenizer_release(box->t);
    box->t = NULL;
    return 0;
}

/* ---- making one ------------------------------------------------------------------------------ */

/* { lowercase=, keep_accents=, specials=, config= }; without a table as BertWordPieceTokenizer. */
static sr_tokenizer_opts check_opts(lua_State *L, int arg) {
    sr_tokenizer_opts opts = {.lowercase = true, .specials = true};
    if (lua_isnoneornil(L, arg)) return opts;
    luaL_checktype(L, arg, LUA_TTABLE);
    opts.lowercase = lsr_field_bool(L, arg, "lowercase", false);
    opts.keep_accents = lsr_field_bool(L, arg, "keep_accents", false);
    opts.specials = lsr_field_bool(L, arg, "specials", false);
    opts.config = lsr_field_string(L, arg, "config", NULL);
    if (opts.config != NULL) opts.config_size = strlen(opts.config);
    return opts;
}

/* tokenizer(v: Vocab, options?: { lowercase?: boolean, keep_accents?: boolean, specials?: boolean
 *     }) -> Tokenizer
 * Makes a tokenizer; without options it lower-cases, strips accents and recognises special tokens
 * in the text. */
static int text_tokenizer(lua_State *L) {
    sr_vocab *vocab = lsr_checkvocab(L, 1);
    sr_tokenizer_opts opts = check_opts(L, 2);
    tokenizer_box *box = lsr_newbox(L, sizeof *box, TOKENIZER);
    return lsr_made(L, sr_tokenizer_new(&box->t, vocab, &opts));
}

/* parse_tokenizer(content: string, name?: string, options?: { lowercase?: boolean, keep_accents?:
 *     boolean, specials?: boolean, config?: string }) -> Tokenizer tokenizer | nil, message, code
 * Reads a tokenizer from the text of a tokenizer.json or vocab.txt; `name` replaces the path in
 * messages. */
static int text_parse_tokenizer(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size), *name = luaL_optstring(L, 2, "tokenizer");
    sr_tokenizer_opts opts = check_opts(L, 3);
    tokenizer_box *box = lsr_newbox(L, sizeof *box, TOKENIZER);
    return lsr_give(L, sr_tokenizer_parse(&box->t, text, size, name, &opts));
}

/* ---- what it consists of --------------------------------------------------------------------- */

static int tokenizer_len(lua_State *L) {
    return lsr_give_integer(L, sr_tokenizer_size(lsr_checktokenizer(L, 1)));
}

static int tokenizer_tostring(lua_State *L) {
    tokenizer_box *box = lsr_checkbox(L, 1, TOKENIZER);
    if (box->t == NULL)
        lua_pushliteral(L, "tokenizer (closed)");
    else
        lua_pushfstring(L, "%s tokenizer of %d tokens", sr_tokenizer_kind_name(box->t),
                        (int)sr_tokenizer_size(box->t));
    return 1;
}

/* @class seqrun.core.text.tokenizer
 * A tokenizer; one thread at a time.  `#tokenizer` is its largest id plus one.
 * @operator len: integer */

/* tokenizer:kind() -> "WordPiece"|"BPE"|"Unigram"
 * The model. */
static int tokenizer_kind(lua_State *L) {
    return lsr_give_string(L, sr_tokenizer_kind_name(lsr_checktokenizer(L, 1)));
}

/* tokenizer:lowercase() -> boolean
 * Whether texts are lower-cased as BERT's uncased vocabularies need it. */
static int tokenizer_lowercase(lua_State *L) {
    return lsr_give_bool(L, sr_tokenizer_lowercase(lsr_checktokenizer(L, 1)));
}

/* tokenizer:id(token: string) -> integer?
 * The id of a token, nil when there is none. */
static int tokenizer_id(lua_State *L) {
    size_t size;
    const char *token = luaL_checklstring(L, 2, &size);
    int32_t id = sr_tokenizer_id(lsr_checktokenizer(L, 1), token, size);
    if (id < 0) return 0;
    return lsr_give_integer(L, id);
}

/* tokenizer:token(id: integer) -> string?
 * The token of an id, nil when there is none. */
static int tokenizer_token(lua_State *L) {
    lua_Integer id = luaL_checkinteger(L, 2);
    const sr_tokenizer *t = lsr_checktokenizer(L, 1);
    size_t size;
    if (id < 0 || id >= sr_tokenizer_size(t)) return 0;
    const char *token = sr_tokenizer_token(t, (int32_t)id, &size);
    if (token == NULL) return 0;
    return lsr_give_bytes(L, token, size);
}

/* tokenizer:special(role: "pad"|"unk"|"cls"|"sep"|"mask") -> integer?
 * The id with a role, nil when no token has it; "cls" begins a sequence, "sep" ends it. */
static int tokenizer_special(lua_State *L) {
    int role = luaL_checkoption(L, 2, NULL, lsr_special_names);
    int32_t id = sr_tokenizer_special(lsr_checktokenizer(L, 1), (sr_special)role);
    if (id < 0) return 0;
    return lsr_give_integer(L, id);
}

static void push_list(lua_State *L, const int32_t *list, size_t count) {
    LSR_PUSH_LIST(L, count, i, lua_pushinteger(L, list[i]));
}

/* tokenizer:specials() -> integer[]
 * All special ids, ascending. */
static int tokenizer_specials(lua_State *L) {
    size_t count;
    const int32_t *ids = sr_tokenizer_specials(lsr_checktokenizer(L, 1), &count);
    push_list(L, ids, count);
    return 1;
}

/* Sets `name` of the table on top: { ids = { .. }, types = { .. } }. */
static void set_frame_part(lua_State *L, const char *name, const sr_frame_part *p) {
    lua_createtable(L, 0, 2);
    push_list(L, p->ids, (size_t)p->count);
    lua_setfield(L, -2, "ids");
    LSR_PUSH_LIST(L, p->count, i, lua_pushinteger(L, p->types[i]));
    lua_setfield(L, -2, "types");
    lua_setfield(L, -2, name);
}

/* tokenizer:frame(pair?: boolean) -> { lead: { ids: integer[], types: integer[] }, middle: { ids:
 *     integer[], types: integer[] }, tail: { ids: integer[], types: integer[] }, types: integer[]
 *     }
 * The special tokens around a text, or around a pair, with their token types; `types` are those of
 * the texts. */
static int tokenizer_frame(lua_State *L) {
    const sr_frame *f = sr_tokenizer_frame(lsr_checktokenizer(L, 1), lua_toboolean(L, 2));
    lua_createtable(L, 0, 4);
    set_frame_part(L, "lead", &f->lead);
    set_frame_part(L, "middle", &f->middle);
    set_frame_part(L, "tail", &f->tail);
    LSR_PUSH_LIST(L, 2, i, lua_pushinteger(L, f->types[i]));
    lua_setfield(L, -2, "types");
    return 1;
}

/* tokenizer:fingerprint() -> string
 * A fingerprint of all that changes ids: 16 hex digits. */
static int tokenizer_fingerprint(lua_State *L) {
    return lsr_give_hex(L, sr_tokenizer_fingerprint(lsr_checktokenizer(L, 1)));
}

/* tokenizer:text() -> string content, boolean json, string config
 * The text to store: a tokenizer.json or a vocab.txt; whether it is the former; the roles of
 * special tokens as JSON, for the option `config` of text.parse_tokenizer(). */
static int tokenizer_text(lua_State *L) {
    const sr_tokenizer *t = lsr_checktokenizer(L, 1);
    size_t size;
    bool json;
    const char *text = sr_tokenizer_text(t, &size, &json);
    lua_pushlstring(L, text, size);
    lua_pushboolean(L, json);
    text = sr_tokenizer_config(t, &size);
    lua_pushlstring(L, text, size);
    return 3;
}

/* tokenizer:plain() -> string? vocab, boolean? lowercase, boolean? keep_accents
 * The text of a vocab.txt, where that and two options say everything: BERT's WordPiece; nil for
 * all others. */
static int tokenizer_plain(lua_State *L) {
    const sr_tokenizer *t = lsr_checktokenizer(L, 1);
    sr_tokenizer_opts opts;
    bool plain;
    size_t size;
    lsr_check(L, sr_tokenizer_plain(&plain, &opts, t));
    if (!plain) return 0;
    const char *text = sr_vocab_text(sr_tokenizer_vocab(t), &size);
    lua_pushlstring(L, text, size);
    lua_pushboolean(L, opts.lowercase);
    lua_pushboolean(L, opts.keep_accents);
    return 3;
}

/* tokenizer:vocab() -> Vocab?
 * The vocabulary of BERT's WordPiece, nil for all others. */
static int tokenizer_vocab(lua_State *L) {
    sr_vocab *vocab = sr_tokenizer_vocab(lsr_checktokenizer(L, 1));
    if (vocab == NULL) return 0;
    sr_vocab **box = lsr_newbox(L, sizeof(sr_vocab *), LSR_VOCAB);
    *box = sr_vocab_retain(vocab);
    return 1;
}

/* ---- text to ids ----------------------------------------------------------------------------- */

static void push_ids(lua_State *L, const sr_tokens *k) {
    push_list(L, k->ids, k->count);
}

static void push_span(lua_State *L, const sr_text_span *s) {
    LSR_PUSH_LIST(L, 2, i, lua_pushinteger(L, i == 0 ? s->char_first : s->char_last));
}

/* Pushes { { first, last }, ... } in code points. */
static void push_spans(lua_State *L, const sr_tokens *k) {
    LSR_PUSH_LIST(L, k->count, i, push_span(L, &k->spans[i]));
}

/* Pushes { first, last, first, last, ... } in bytes. */
static void push_bytes(lua_State *L, const sr_tokens *k) {
    const sr_text_span *s = k->spans;
    LSR_PUSH_LIST(L, 2 * k->count, i,
                  lua_pushinteger(L, i % 2 == 0 ? s[i / 2].byte_first : s[i / 2].byte_last));
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

/* tokenizer:ids(line: string, offsets?: boolean) -> integer[] ids, integer[][]? offsets
 * The ids of a text and, on request, { first, last } of each token in code points. */
static int tokenizer_ids(lua_State *L) {
    bool offsets = lua_toboolean(L, 3);
    const sr_tokens *k = encode(L, offsets);
    push_ids(L, k);
    if (offsets) push_spans(L, k);
    return 1 + offsets;
}

/* tokenizer:packed(line: string) -> string ids, integer count
 * The ids of a text as a string, as the column `ids` of a data set holds them: u16, or u32 for
 * more than 65,536 tokens. */
static int tokenizer_packed(lua_State *L) {
    const sr_tokens *k = encode(L, false);
    lua_pushinteger(L, (lua_Integer)k->count);
    if (sr_tokenizer_size(check_box(L, 1)->t) > UINT16_MAX + 1) {
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

/* tokenizer:places(line: string) -> integer[] ids, integer[] places
 * The ids of a text, and where each token is in it: first byte, from 0, and the byte after its
 * last, one list for all. */
static int tokenizer_places(lua_State *L) {
    const sr_tokens *k = encode(L, true);
    push_ids(L, k);
    push_bytes(L, k);
    return 2;
}

/* tokenizer:starts(line: string) -> integer[] ids, boolean[] starts
 * The ids of a text, and whether each begins a word. */
static int tokenizer_starts(lua_State *L) {
    tokenizer_box *box = check_box(L, 1);
    size_t size;
    const char *text = luaL_checklstring(L, 2, &size);
    sr_tokens *k = &box->starts;
    k->want_starts = true;
    k->count = 0;
    lsr_check(L, sr_tokenize(k, box->t, text, size));
    push_ids(L, k);
    LSR_PUSH_LIST(L, k->count, i, lua_pushboolean(L, k->starts[i]));
    return 2;
}

/* tokenizer:words(list: string[]) -> integer[] ids, integer[] numbers, integer[][] offsets
 * The ids of a text given as a list of words, each of which keeps the space before it; the number
 * of each token's word; { first, last } of each token in code points of its word. */
static int tokenizer_words(lua_State *L) {
    tokenizer_box *box = check_box(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Integer words = (lua_Integer)lua_rawlen(L, 2);
    sr_tokens *k = &box->spans;
    k->want_spans = true;
    k->count = 0;
    lua_newtable(L);
    int numbers = lua_gettop(L);
    for (lua_Integer i = 1; i <= words; i++) {
        size_t size, before = k->count;
        lua_rawgeti(L, 2, i);
        if (lua_type(L, -1) != LUA_TSTRING)
            return lsr_error(L, "words: list[%I] is a %s; expected a string", i,
                             luaL_typename(L, -1));
        const char *word = lua_tolstring(L, -1, &size);
        lsr_check(L, sr_tokenize_word(k, box->t, word, size));
        lua_pop(L, 1);
        for (; before < k->count; before++) {
            lua_pushinteger(L, i);
            lua_rawseti(L, numbers, (lua_Integer)before + 1);
        }
    }
    push_ids(L, k);
    lua_insert(L, numbers);
    push_spans(L, k);
    return 3;
}

/* tokenizer:counts() -> { unknown: integer, invalid: integer }
 * How many unknown words and how many invalid UTF-8 sequences it has seen so far. */
static int tokenizer_counts(lua_State *L) {
    const tokenizer_box *box = check_box(L, 1);
    const sr_tokens *all[] = {&box->ids, &box->spans, &box->starts};
    uint64_t unknown = 0, invalid = 0;
    for (int i = 0; i < 3; i++) unknown += all[i]->unknown, invalid += all[i]->invalid;
    lua_createtable(L, 0, 2);
    lsr_set_integer(L, "unknown", (int64_t)unknown);
    lsr_set_integer(L, "invalid", (int64_t)invalid);
    return 1;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

/* tokenizer:decode(ids: integer[], specials?: boolean) -> string
 * Text from ids; special tokens only on request. */
static int tokenizer_decode(lua_State *L) {
    const sr_tokenizer *t = lsr_checktokenizer(L, 1);
    bool specials = lua_toboolean(L, 3);
    int64_t count;
    const int32_t *ids =
        lsr_checklist(L, 2, &count, "decode: ids", 0, sr_tokenizer_size(t) - 1, sizeof *ids);
    char **text = lsr_newbytes(L);
    size_t size;
    lsr_check(L, sr_detokenize(text, &size, t, ids, (size_t)count, specials));
    return lsr_give_bytes(L, *text, size);
}

static const luaL_Reg methods[] = {
    {"kind", tokenizer_kind},
    {"lowercase", tokenizer_lowercase},
    {"id", tokenizer_id},
    {"token", tokenizer_token},
    {"special", tokenizer_special},
    {"specials", tokenizer_specials},
    {"frame", tokenizer_frame},
    {"fingerprint", tokenizer_fingerprint},
    {"text", tokenizer_text},
    {"plain", tokenizer_plain},
    {"vocab", tokenizer_vocab},
    {"ids", tokenizer_ids},
    {"places", tokenizer_places},
    {"packed", tokenizer_packed},
    {"starts", tokenizer_starts},
    {"words", tokenizer_words},
    {"counts", tokenizer_counts},
    {"decode", tokenizer_decode},
    {"__len", tokenizer_len},
    {"__tostring", tokenizer_tostring},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"tokenizer", text_tokenizer},
    {"parse_tokenizer", text_parse_tokenizer},
    {NULL, NULL},
};

void lsr_open_tokenizer(lua_State *L) {
    lsr_class(L, TOKENIZER, methods, tokenizer_release);
    luaL_setfuncs(L, functions, 0);
}
