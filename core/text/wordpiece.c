#include "core/text/wordpiece.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/utf8.h"

/* A chunk is a run of bytes without ASCII white space or punctuation.  Its ids depend on nothing
 * outside it, so those of short chunks are cached under their raw bytes. */
enum { KEY = 24, KEPT = 7, CACHE_BITS = 13, CACHE = 1 << CACHE_BITS };

typedef struct entry {
    uint64_t key[KEY / 8]; /* the bytes, padded with zeros */
    int32_t ids[KEPT];
    uint8_t ends[KEPT]; /* of each token, in bytes from the start; only with spans */
    uint8_t size;       /* of the key; 0: empty */
    uint8_t count, unknown;
} entry;

struct sr_word_cache {
    uint64_t serial; /* of the tokenizer that these ids belong to */
    entry entries[CACHE];
};

struct sr_tokenizer {
    _Atomic int64_t holders;
    sr_vocab *vocab;
    sr_words_opts words;
    bool specials;
    int32_t unknown;
    int32_t punct[128]; /* the id of each ASCII punctuation mark */
    uint64_t serial;    /* unique in the process */
};

enum { SPACE = 1, PUNCT = 2, LETTER = 4, CONTROL = 8, WIDE = 16 };

#define S SPACE
#define P PUNCT
#define L LETTER
#define C CONTROL
/* clang-format off */
static const uint8_t classes[256] = {
    C, C, C, C, C, C, C, C, C, S, S, C, C, S, C, C, /* 00 */
    C, C, C, C, C, C, C, C, C, C, C, C, C, C, C, C, /* 10 */
    S, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, /* 20 */
    L, L, L, L, L, L, L, L, L, L, P, P, P, P, P, P, /* 30 */
    P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* 40 */
    L, L, L, L, L, L, L, L, L, L, L, P, P, P, P, P, /* 50 */
    P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* 60 */
    L, L, L, L, L, L, L, L, L, L, L, P, P, P, P, C, /* 70 */
    [128 ... 255] = WIDE,
};
/* clang-format on */
#undef S
#undef P
#undef L
#undef C

sr_status sr_tokenizer_new(sr_tokenizer **out, sr_vocab *vocab, const sr_tokenizer_opts *opts) {
    static _Atomic uint64_t serials = 1;
    *out = NULL;
    sr_tokenizer *t = NULL;
    SR_TRY(sr_new(&t, 1));
    atomic_init(&t->holders, 1);
    t->vocab = sr_vocab_retain(vocab);
    t->words.lowercase = opts->lowercase;
    t->words.strip_accents = opts->lowercase && !opts->keep_accents;
    t->specials = opts->specials;
    t->unknown = sr_vocab_special(vocab, SR_TOKEN_UNK);
    t->serial = atomic_fetch_add(&serials, 1);
    for (int c = 0; c < 128; c++) {
        char mark = (char)c;
        int32_t id = classes[c] == PUNCT ? sr_vocab_id(vocab, &mark, 1) : -1;
        t->punct[c] = id >= 0 ? id : t->unknown;
    }
    *out = t;
    return SR_OK;
}

sr_tokenizer *sr_tokenizer_retain(sr_tokenizer *t) {
    atomic_fetch_add_explicit(&t->holders, 1, memory_order_relaxed);
    return t;
}

void sr_tokenizer_release(sr_tokenizer *t) {
    if (t == NULL || atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) != 1) return;
    sr_vocab_release(t->vocab);
    sr_free(t);
}

sr_vocab *sr_tokenizer_vocab(const sr_tokenizer *t) {
    return t->vocab;
}

/* ---- the output ---- */

/* Reserves `more` tokens. */
static sr_status reserve(sr_tokens *tokens, size_t more) {
    if (tokens->room - tokens->count >= more) return SR_OK;
    size_t room = tokens->room > 0 ? tokens->room : 256;
    while (room - tokens->count < more) SR_TRY(sr_mul_size(&room, room, 2));
    SR_TRY(sr_grow(&tokens->ids, room));
    if (tokens->want_spans) SR_TRY(sr_grow(&tokens->spans, room));
    tokens->room = room;
    return SR_OK;
}

void sr_tokens_free(sr_tokens *tokens) {
    sr_free(tokens->ids);
    sr_free(tokens->spans);
    sr_free_aligned(tokens->cache);
    *tokens = (sr_tokens){0};
}

static sr_status prepare_cache(sr_tokens *tokens, const sr_tokenizer *t) {
    if (tokens->cache == NULL) {
        SR_TRY(sr_alloc_aligned((void **)&tokens->cache, sizeof *tokens->cache));
        tokens->cache->serial = 0;
    }
    if (tokens->cache->serial == t->serial) return SR_OK;
    memset(tokens->cache, 0, sizeof *tokens->cache);
    tokens->cache->serial = t->serial;
    return SR_OK;
}

/* ---- a word to pieces ---- */

typedef struct job {
    sr_tokens *tokens;
    const sr_tokenizer *t;
} job;

/* The longest token at the start of `size` bytes: its id, -1 if there is none, and its length. */
static int32_t longest(size_t *length, const sr_vocab *v, int prefix, const uint8_t *bytes,
                       size_t size) {
    uint64_t hashes[SR_WORD_CHARS * 4 + 1];
    uint64_t wanted = sr_vocab_lengths(v, prefix, bytes[0], size > 1 ? bytes[1] : 0);
    size_t top = wanted >> 63 != 0 ? size : 63 - (size_t)__builtin_clzll(wanted);
    if (top > size) top = size;
    hashes[0] = sr_vocab_hash(v, prefix);
    for (size_t n = 0; n < top; n++) hashes[n + 1] = sr_vocab_mix(hashes[n], bytes[n]);
    for (size_t n = top; n > 0; n--) {
        if ((wanted >> (n < 63 ? n : 63) & 1) == 0) continue;
        if (n < size && (bytes[n] & 0xC0) == 0x80) continue; /* within a code point */
        int32_t id = sr_vocab_find(v, hashes[n], prefix, bytes, n);
        if (id < 0) continue;
        *length = n;
        return id;
    }
    return -1;
}

static void add_unknown(sr_tokens *tokens, const sr_tokenizer *t, const sr_text_span *whole) {
    tokens->ids[tokens->count] = t->unknown;
    if (tokens->want_spans) tokens->spans[tokens->count] = *whole;
    tokens->count++;
    tokens->unknown++;
}

/* The sink of sr_words(): appends the pieces of a word, or one [UNK]. */
static sr_status add_word(void *context, const sr_word *word) {
    sr_tokens *tokens = ((job *)context)->tokens;
    const sr_tokenizer *t = ((job *)context)->t;
    SR_TRY(reserve(tokens, SR_WORD_CHARS));
    if (word->chars > SR_WORD_CHARS) {
        add_unknown(tokens, t, &word->whole);
        return SR_OK;
    }
    size_t count = tokens->count, from = 0;
    for (size_t at = 0; at < word->size; count++) {
        size_t length = 0;
        int32_t id = longest(&length, t->vocab, at > 0 ? 2 : 0, word->bytes + at, word->size - at);
        if (id < 0) {
            add_unknown(tokens, t, &word->whole);
            return SR_OK;
        }
        tokens->ids[count] = id;
        at += length;
        if (!tokens->want_spans) continue;
        size_t to = from;
        while (word->at[to] < at) to++;
        sr_text_span first = word->spans[from], last = word->spans[to - 1];
        tokens->spans[count] =
            (sr_text_span){first.byte_first, last.byte_last, first.char_first, last.char_last};
        from = to;
    }
    tokens->count = count;
    return SR_OK;
}

/* Equivalent to sr_words() with add_word() for at most SR_WORD_CHARS ASCII letters and digits. */
static sr_status add_plain(job *j, const sr_words_at *where, const uint8_t *bytes, size_t size) {
    sr_tokens *tokens = j->tokens;
    const sr_tokenizer *t = j->t;
    uint8_t word[SR_WORD_CHARS];
    uint8_t lower = t->words.lowercase ? 0x20 : 0;
    for (size_t i = 0; i < size; i++)
        word[i] = bytes[i] | (bytes[i] >= 'A' && bytes[i] <= 'Z' ? lower : 0);
    SR_TRY(reserve(tokens, SR_WORD_CHARS));
    size_t count = tokens->count;
    uint32_t byte = where->byte, chars = where->chars, end = (uint32_t)size;
    for (size_t at = 0, length = 0; at < size; at += length, count++) {
        int32_t id = longest(&length, t->vocab, at > 0 ? 2 : 0, word + at, size - at);
        if (id < 0) {
            add_unknown(tokens, t, &(sr_text_span){byte, byte + end, chars, chars + end});
            return SR_OK;
        }
        tokens->ids[count] = id;
        if (!tokens->want_spans) continue;
        uint32_t first = (uint32_t)at, last = (uint32_t)(at + length);
        tokens->spans[count] =
            (sr_text_span){byte + first, byte + last, chars + first, chars + last};
    }
    tokens->count = count;
    return SR_OK;
}

/* ---- a chunk through the cache ---- */

static void load_key(uint64_t key[KEY / 8], const uint8_t *bytes, size_t size, const uint8_t *end) {
    if (end - bytes < KEY) { /* near the end of the text: do not read beyond it */
        key[0] = key[1] = key[2] = 0;
        memcpy(key, bytes, size);
        return;
    }
    static const uint8_t ones[2 * KEY] = {[0 ... KEY - 1] = 0xFF};
    uint64_t keep[KEY / 8];
    memcpy(keep, ones + KEY - size, KEY);
    memcpy(key, bytes, KEY);
    for (int i = 0; i < KEY / 8; i++) key[i] &= keep[i];
}

static entry *entry_of(sr_word_cache *cache, const uint64_t key[KEY / 8]) {
    uint64_t h =
        key[0] * 0x9E3779B97F4A7C15u ^ key[1] * 0xC2B2AE3D27D4EB4Fu ^ key[2] * 0x165667B19E3779F9u;
    return &cache->entries[(h ^ h >> 29) * 0xD6E8FEB86659FD93u >> (64 - CACHE_BITS)];
}

static bool holds(const entry *e, const uint64_t key[KEY / 8], size_t size) {
    return e->key[0] == key[0] && e->key[1] == key[1] && e->key[2] == key[2] && e->size == size;
}

/* Appends the tokens of an entry; there is room for KEPT of them. */
static void add_entry(sr_tokens *tokens, const entry *e, const sr_words_at *at) {
    memcpy(tokens->ids + tokens->count, e->ids, sizeof e->ids);
    if (tokens->want_spans) {
        uint32_t from = 0;
        for (int i = 0; i < e->count; i++) {
            uint32_t to = e->ends[i];
            tokens->spans[tokens->count + (size_t)i] =
                (sr_text_span){at->byte + from, at->byte + to, at->chars + from, at->chars + to};
            from = to;
        }
    }
    tokens->count += e->count;
    tokens->unknown += e->unknown;
}

/* Caches the tokens from index `first`, which are those of the chunk. */
static void fill_entry(entry *e, const uint64_t key[KEY / 8], size_t size, const sr_tokens *tokens,
                       size_t first, uint64_t unknown, uint32_t byte) {
    size_t count = tokens->count - first;
    if (count > KEPT) return;
    memcpy(e->key, key, KEY);
    e->size = (uint8_t)size;
    e->count = (uint8_t)count;
    e->unknown = (uint8_t)(tokens->unknown - unknown);
    for (size_t i = 0; i < count; i++) {
        e->ids[i] = tokens->ids[first + i];
        if (tokens->want_spans) e->ends[i] = (uint8_t)(tokens->spans[first + i].byte_last - byte);
    }
}

/* Appends the tokens of a chunk; `seen` is the union of the classes of its bytes. */
static sr_status add_chunk(job *j, sr_words_at *at, const uint8_t *bytes, size_t size, int seen,
                           const uint8_t *end) {
    sr_tokens *tokens = j->tokens;
    bool plain = seen == LETTER; /* offsets follow from the lengths of the pieces */
    bool cached = size <= KEY && (plain || !tokens->want_spans);
    if (!cached) return sr_words(at, bytes, size, &j->t->words, add_word, j);
    uint64_t key[KEY / 8];
    load_key(key, bytes, size, end);
    entry *e = entry_of(tokens->cache, key);
    if (holds(e, key, size)) {
        SR_TRY(reserve(tokens, KEPT));
        add_entry(tokens, e, at);
        at->byte += (uint32_t)size;
        at->chars += (uint32_t)size; /* only used with spans, and then the chunk is ASCII */
        return SR_OK;
    }
    size_t first = tokens->count;
    uint64_t unknown = tokens->unknown, invalid = at->invalid;
    uint32_t byte = at->byte;
    if (plain) {
        SR_TRY(add_plain(j, at, bytes, size));
        at->byte += (uint32_t)size, at->chars += (uint32_t)size;
    } else {
        SR_TRY(sr_words(at, bytes, size, &j->t->words, add_word, j));
    }
    if (at->invalid == invalid) fill_entry(e, key, size, tokens, first, unknown, byte);
    return SR_OK;
}

/* ---- a span ---- */

/* The special token at `bytes`: its id, -1 if there is none, and its length. */
static int32_t special_at(size_t *length, const sr_tokenizer *t, const uint8_t *bytes,
                          size_t size) {
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++) {
        *length = strlen(sr_special_names[i]);
        if (*length <= size && memcmp(bytes, sr_special_names[i], *length) == 0)
            return sr_vocab_special(t->vocab, (sr_special)i);
    }
    return -1;
}

/* Appends the token that begins with the punctuation mark at `bytes` and moves past it. */
static sr_status add_punct(job *j, sr_words_at *at, const uint8_t **bytes, const uint8_t *end) {
    sr_tokens *tokens = j->tokens;
    SR_TRY(reserve(tokens, 1));
    size_t length = 1;
    int32_t id = j->t->punct[**bytes];
    int32_t special = -1;
    if (**bytes == '[' && j->t->specials)
        special = special_at(&length, j->t, *bytes, (size_t)(end - *bytes));
    if (special >= 0)
        id = special;
    else
        length = 1, tokens->unknown += id == j->t->unknown;
    uint32_t step = (uint32_t)length;
    tokens->ids[tokens->count] = id;
    if (tokens->want_spans)
        tokens->spans[tokens->count] =
            (sr_text_span){at->byte, at->byte + step, at->chars, at->chars + step};
    tokens->count++;
    at->byte += step, at->chars += step;
    *bytes += length;
    return SR_OK;
}

static sr_status add_span(job *j, sr_words_at *at, const uint8_t *bytes, const uint8_t *end) {
    while (bytes < end) {
        int class = classes[*bytes];
        if (class == SPACE) {
            bytes++, at->byte++, at->chars++;
        } else if (class == PUNCT) {
            SR_TRY(add_punct(j, at, &bytes, end));
        } else {
            const uint8_t *last = bytes + 1;
            int seen = class;
            while (last < end && ((class = classes[*last]) & (SPACE | PUNCT)) == 0)
                seen |= class, last++;
            SR_TRY(add_chunk(j, at, bytes, (size_t)(last - bytes), seen, end));
            bytes = last;
        }
    }
    return SR_OK;
}

sr_status sr_tokenize(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size) {
    if (tokens->want_spans && size >= (size_t)1 << 31)
        return sr_fail(SR_EINVAL,
                       "tokenize: a span of %zu bytes with offsets; the maximum is 2^31 - 1", size);
    SR_TRY(prepare_cache(tokens, t));
    size_t count = tokens->count;
    sr_words_at at = {0};
    job j = {tokens, t};
    const uint8_t *first = bytes;
    sr_status st = size > 0 ? add_span(&j, &at, first, first + size) : SR_OK;
    tokens->invalid += at.invalid;
    if (st != SR_OK) tokens->count = count;
    return st;
}
