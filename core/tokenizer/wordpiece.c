#include "core/tokenizer/wordpiece.h"

#include <string.h>

#include "core/unicode/utf8.h"
#include "core/tokenizer/word_cache.h"

/* A chunk is a run of bytes without ASCII white space or punctuation.  Its ids depend on nothing
 * outside it, so those of short chunks are cached under their raw bytes. */

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

void sr_wordpiece_init(sr_wordpiece *t, sr_vocab *vocab, const sr_tokenizer_opts *opts,
                       uint64_t serial) {
    t->vocab = sr_vocab_retain(vocab);
    t->words.lowercase = opts->lowercase;
    t->words.strip_accents = opts->lowercase && !opts->keep_accents;
    t->specials = opts->specials;
    t->unknown = sr_vocab_special(vocab, SR_TOKEN_UNK);
    t->serial = serial;
    for (int c = 0; c < 128; c++) {
        char mark = (char)c;
        int32_t id = classes[c] == PUNCT ? sr_vocab_id(vocab, &mark, 1) : -1;
        t->punct[c] = id >= 0 ? id : t->unknown;
    }
}

/* ---- a word to pieces ---- */

typedef struct job {
    sr_tokens *tokens;
    const sr_wordpiece *t;
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

static void add_unknown(sr_tokens *tokens, const sr_wordpiece *t, const sr_text_span *whole) {
    tokens->ids[tokens->count] = t->unknown;
    if (tokens->want_spans) tokens->spans[tokens->count] = *whole;
    tokens->count++;
    tokens->unknown++;
}

/* The sink of sr_words(): appends the pieces of a word, or one [UNK]. */
static sr_status add_word(void *context, const sr_word *word) {
    sr_tokens *tokens = ((job *)context)->tokens;
    const sr_wordpiece *t = ((job *)context)->t;
    SR_TRY(sr_tokens_reserve(tokens, SR_WORD_CHARS));
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
    const sr_wordpiece *t = j->t;
    uint8_t word[SR_WORD_CHARS];
    uint8_t lower = t->words.lowercase ? 0x20 : 0;
    for (size_t i = 0; i < size; i++)
        word[i] = bytes[i] | (bytes[i] >= 'A' && bytes[i] <= 'Z' ? lower : 0);
    SR_TRY(sr_tokens_reserve(tokens, SR_WORD_CHARS));
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

/* Appends the tokens of an entry; there is room for SR_CACHE_IDS of them. */
static void add_entry(sr_tokens *tokens, const sr_cached *e, const sr_words_at *at) {
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
static void add_to_cache(const uint64_t key[SR_CACHE_KEY / 8], size_t size, const sr_tokens *tokens,
                         size_t first, uint64_t unknown, uint32_t byte) {
    size_t count = tokens->count - first;
    if (count > SR_CACHE_IDS) return;
    sr_cached *e = sr_cache_add(tokens->cache, key, size);
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
    bool cached = size <= SR_CACHE_KEY && (plain || !tokens->want_spans);
    if (!cached) return sr_words(at, bytes, size, &j->t->words, add_word, j);
    uint64_t key[SR_CACHE_KEY / 8];
    sr_cache_key(key, bytes, size, end);
    const sr_cached *e = sr_cache_find(tokens->cache, key, size);
    if (e != NULL) {
        SR_TRY(sr_tokens_reserve(tokens, SR_CACHE_IDS));
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
    if (at->invalid != invalid) return SR_OK;
    add_to_cache(key, size, tokens, first, unknown, byte);
    return SR_OK;
}

/* ---- a span ---- */

/* The special token at `bytes`: its id, -1 if there is none, and its length. */
static int32_t special_at(size_t *length, const sr_wordpiece *t, const uint8_t *bytes,
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
    SR_TRY(sr_tokens_reserve(tokens, 1));
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

/* A token begins a word unless it has ##. */
static void mark_starts(sr_tokens *tokens, const sr_wordpiece *t, size_t first) {
    for (size_t i = first; i < tokens->count; i++) {
        size_t size;
        const char *token = sr_vocab_token(t->vocab, tokens->ids[i], &size);
        tokens->starts[i] = size <= 2 || memcmp(token, "##", 2) != 0;
    }
}

sr_status sr_wordpiece_tokenize(sr_tokens *tokens, const sr_wordpiece *t, const void *bytes,
                                size_t size) {
    if (tokens->want_spans && size >= (size_t)1 << 31)
        return sr_fail(SR_EINVAL,
                       "tokenize: a span of %zu bytes with offsets; the maximum is 2^31 - 1", size);
    SR_TRY(sr_tokens_prepare_cache(tokens, t->serial, size));
    size_t count = tokens->count;
    sr_words_at at = {0};
    job j = {tokens, t};
    const uint8_t *first = bytes;
    sr_status st = size > 0 ? add_span(&j, &at, first, first + size) : SR_OK;
    tokens->invalid += at.invalid;
    if (st != SR_OK)
        tokens->count = count;
    else if (tokens->want_starts)
        mark_starts(tokens, t, count);
    return st;
}
